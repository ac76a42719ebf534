# What a cross build of the rooms up to cpu needs, from this machine's packages: fmt and tl::expected as headers,
# GoogleTest from its sources. No library of the other architecture is installed.
set(tamis_headers ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${tamis_headers})
foreach(library fmt tl)  # linked one by one: the rest of /usr/include belongs to this machine's architecture
  if(NOT EXISTS /usr/include/${library})
    message(FATAL_ERROR "/usr/include/${library}: not there; scripts/setup arm64 installs it")
  endif()
  file(CREATE_LINK /usr/include/${library} ${tamis_headers}/${library} SYMBOLIC)
endforeach()
add_library(tamis_fmt_headers INTERFACE)
target_include_directories(tamis_fmt_headers SYSTEM INTERFACE ${tamis_headers})
target_compile_definitions(tamis_fmt_headers INTERFACE FMT_HEADER_ONLY)
add_library(fmt::fmt ALIAS tamis_fmt_headers)

if(TAMIS_TESTS)
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
endif()

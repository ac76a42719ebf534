# The web page inside the program.
file(GLOB page_files CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/web ${CMAKE_SOURCE_DIR}/web/*)
list(TRANSFORM page_files PREPEND ${CMAKE_SOURCE_DIR}/web/ OUTPUT_VARIABLE page_paths)
add_custom_command(
  OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp
  COMMAND ${CMAKE_COMMAND} -DOUT=${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp -DDIR=${CMAKE_SOURCE_DIR}/web "-DFILES=${page_files}"
          -P ${CMAKE_SOURCE_DIR}/cmake/embed_page.cmake
  DEPENDS ${page_paths} ${CMAKE_SOURCE_DIR}/cmake/embed_page.cmake
  VERBATIM)
target_sources(tamis_server PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp)

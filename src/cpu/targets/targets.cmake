# The target files of src/cpu, each compiled with its own instruction set; dispatch.cpp learns which exist, best first.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(tamis_cpu_targets avx512 avx2 baseline)
else()
  set(tamis_cpu_targets baseline)
endif()
set(tamis_cpu_flags_avx512 -fno-trapping-math -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND tamis_cpu_flags_avx512 -Wno-maybe-uninitialized)  # a false alarm inside GCC 12's own avx512fintrin.h
endif()
set(tamis_cpu_flags_avx2 -fno-trapping-math -mavx2 -mf16c)
set(tamis_cpu_flags_baseline -fno-trapping-math)

set(tamis_cpu_list "")
foreach(target ${tamis_cpu_targets})
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/cpu/targets/${target}.cpp)
  target_sources(tamis_cpu PRIVATE ${source})
  if(TAMIS_SANITIZE)  # instrumented, these unrolled loops take minutes to compile; tests compare them bit for bit instead
    list(APPEND tamis_cpu_flags_${target} -fno-sanitize=all)
  endif()
  set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${tamis_cpu_flags_${target}}")
  string(APPEND tamis_cpu_list " X(${target})")
endforeach()
set_source_files_properties(${CMAKE_CURRENT_SOURCE_DIR}/cpu/dispatch.cpp PROPERTIES
                            COMPILE_DEFINITIONS "TAMIS_CPU_TARGETS=${tamis_cpu_list}")

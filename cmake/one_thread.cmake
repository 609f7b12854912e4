# Engines, and the tool that compares them in virtual time, have one thread. The thread sanitizer can find nothing
# there, and leaves out what tests only them. Whoever brings a thread there takes it from this list, and the condition
# from its tests.
file(GLOB_RECURSE sources
  include/timing_wheel/engine/*.hpp src/engine/*.[ch]pp test/engine/*.cpp benchmarks/compare/*.[ch]pp
  test/examples/compare_test.cpp)
foreach(source IN LISTS sources)
  file(STRINGS ${source} lines REGEX "std::(jthread|thread[^:a-z_]|async|mutex|shared_mutex)|pthread_create|short_lock")
  if(lines)
    message(FATAL_ERROR "${source} has threads, and cmake/one_thread.cmake says that it has none: ${lines}")
  endif()
endforeach()
set(leave_out_one_thread OFF)
if(CMAKE_CXX_FLAGS MATCHES "sanitize=thread")
  set(leave_out_one_thread ON)
endif()

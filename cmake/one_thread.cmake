# Engines, the tool that compares them in virtual time, the recipes, and most tests in virtual time, of a service or of
# durable checks, have one thread. The thread sanitizer can find nothing there, and leaves out what tests only them.
# Whoever brings a thread there takes it from a list: this one, or that of `timing_wheel_one_thread_tests`.
set(leave_out_one_thread OFF)
if(CMAKE_CXX_FLAGS MATCHES "sanitize=thread")
  set(leave_out_one_thread ON)
endif()

# Fails if one of the sources has a thread, a lock, or a service or a scheduler with a thread of its own.
function(timing_wheel_expect_one_thread)
  set(threads "std::(jthread|thread[^:a-z_]|async|mutex|shared_mutex)|pthread_create|short_lock|boost::asio|loop_timer")
  set(of_library "timing_wheel::timer [a-z_]+[({;]|<timing_wheel::timer>")
  set(pollers "(^|[^_a-z.:>&])timer [a-z_]+[({;]|(make_unique|make_shared|optional)<timer>|${of_library}")
  set(schedulers "scheduler [a-z_]+[({][a-z_]+([)}]|, {)")
  foreach(source IN LISTS ARGN)
    file(STRINGS ${source} lines REGEX "${threads}|${pollers}|${schedulers}")
    list(FILTER lines EXCLUDE REGEX "^ *//")
    if(lines)
      message(FATAL_ERROR "${source} has threads, and is listed as one that has none: ${lines}")
    endif()
  endforeach()
endfunction()

file(GLOB_RECURSE sources
  include/timing_wheel/engine/*.hpp src/engine/*.[ch]pp test/engine/*.cpp tools/compare/*.[ch]pp
  examples/recipes/*.[ch]pp examples/wheel_trace/*.cpp test/examples/compare_test.cpp)
timing_wheel_expect_one_thread(${sources})

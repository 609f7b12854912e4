# Without a build type there is no optimisation, and the library is about twelve times slower. Whoever gives an -O
# knows.
get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
get_directory_property(compile_options COMPILE_OPTIONS)
if(NOT multi_config AND NOT CMAKE_BUILD_TYPE AND NOT " ${CMAKE_CXX_FLAGS} ${compile_options}" MATCHES "[ ;]-O")
  if(PROJECT_IS_TOP_LEVEL)
    message(STATUS "timing_wheel: no build type was given; it is Release")
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
  elseif(NOT TIMING_WHEEL_WARNED_OF_BUILD_TYPE)
    message(WARNING "timing_wheel is compiled without optimisation, which makes it about twelve times slower: "
      "CMAKE_BUILD_TYPE is empty. Give one, for instance -DCMAKE_BUILD_TYPE=Release.")
    set(TIMING_WHEEL_WARNED_OF_BUILD_TYPE TRUE CACHE INTERNAL "Said once")
  endif()
endif()

# Shared libraries offer what public headers need, and nothing else: include/timing_wheel/detail/export.hpp marks it,
# and a linker script keeps back what templates of `std` leave.
if(TIMING_WHEEL_BUILD_TESTS OR TIMING_WHEEL_BUILD_BENCHMARKS OR TIMING_WHEEL_BUILD_FUZZERS)
  message(FATAL_ERROR "timing_wheel: tests, benchmarks and fuzz targets reach for what shared libraries hide. "
    "Build them with -DBUILD_SHARED_LIBS=OFF, or leave them out: -DTIMING_WHEEL_BUILD_TESTS=OFF "
    "-DTIMING_WHEEL_BUILD_BENCHMARKS=OFF -DTIMING_WHEEL_BUILD_FUZZERS=OFF.")
endif()
include(CheckLinkerFlag)
set(exported_names ${CMAKE_CURRENT_LIST_DIR}/exported_names.map)
check_linker_flag(CXX -Wl,--version-script=${exported_names} TIMING_WHEEL_LINKER_HAS_SCRIPTS)

function(timing_wheel_is_shared target)
  # Before 1.0, each minor version may change what users have compiled in.
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_compile_definitions(${target} PUBLIC TIMING_WHEEL_SHARED)
  # Nobody replaces a function of the library by another one of its name, so it may call its own directly.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU,Clang>:-fno-semantic-interposition>)
  if(TIMING_WHEEL_LINKER_HAS_SCRIPTS)
    target_link_options(${target} PRIVATE -Wl,--version-script=${exported_names})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exported_names})
  endif()
endfunction()

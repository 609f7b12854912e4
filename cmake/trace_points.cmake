# Off unless they are asked for: a trace point is a `nop`, but its arguments must be somewhere when it is passed, and
# the table of instructions is exact.
include(CheckIncludeFileCXX)
check_include_file_cxx(sys/sdt.h TIMING_WHEEL_HAS_SDT)
if(NOT TIMING_WHEEL_HAS_SDT)
  unset(TIMING_WHEEL_HAS_SDT CACHE)  # so that it is looked for again
  message(FATAL_ERROR "TIMING_WHEEL_TRACE_POINTS needs <sys/sdt.h>, which Debian and Ubuntu have in systemtap-sdt-dev.")
endif()
# For the whole directory: tests compile templates of the library, too.
add_compile_definitions(TIMING_WHEEL_TRACE_POINTS)

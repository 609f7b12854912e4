# Linked privately by the targets of this project, and never installed.
add_library(timing_wheel_warnings INTERFACE)

target_compile_options(timing_wheel_warnings INTERFACE
  $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:
    -Wall
    -Wextra
    -Wpedantic
    -Wshadow
    -Wconversion
    -Wsign-conversion
    -Wdouble-promotion
    -Wold-style-cast
    -Wcast-align
    -Wcast-qual
    -Wnon-virtual-dtor
    -Woverloaded-virtual
    -Wextra-semi
    -Wformat=2
    -Wimplicit-fallthrough>
  $<$<CXX_COMPILER_ID:GNU>:
    -Wduplicated-cond
    -Wlogical-op
    -Wsuggest-override>
  # GCC 12 warns of its own std::string (GCC bug 105651).
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
  $<$<CXX_COMPILER_ID:MSVC>:/W4 /permissive->)

# For sources that are compiled together, linked after the warnings that it takes back. A name of one source may hide
# that of another. And GCC takes an included source for a header, where a member must not have a type that only this
# source knows.
add_library(timing_wheel_unity_warnings INTERFACE)
target_compile_options(timing_wheel_unity_warnings INTERFACE
  $<$<CXX_COMPILER_ID:GNU,Clang,AppleClang>:-Wno-shadow>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)

# What the tests for Windows need of other projects, taken from where Debian has it. Its headers of Boost and Asio lie
# among those of its C library, so they are seen through links; GoogleTest is built from its source.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
foreach(name IN ITEMS boost asio asio.hpp)
  file(CREATE_LINK /usr/include/${name} ${CMAKE_BINARY_DIR}/headers/${name} SYMBOLIC)
endforeach()
set(Boost_INCLUDE_DIR ${CMAKE_BINARY_DIR}/headers)
set(TIMING_WHEEL_ASIO_DIRECTORY ${CMAKE_BINARY_DIR}/headers)

include(FetchContent)
FetchContent_Declare(GTest SOURCE_DIR /usr/src/googletest OVERRIDE_FIND_PACKAGE)

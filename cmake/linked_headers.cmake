# For the toolchains. The headers of Boost and Asio are the same for each processor and each C library; those that lie
# beside them are not. So these are seen through links.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
foreach(name IN ITEMS boost asio asio.hpp)
  file(CREATE_LINK /usr/include/${name} ${CMAKE_BINARY_DIR}/headers/${name} SYMBOLIC)
endforeach()
set(Boost_INCLUDE_DIR ${CMAKE_BINARY_DIR}/headers)
set(TIMING_WHEEL_ASIO_DIRECTORY ${CMAKE_BINARY_DIR}/headers)

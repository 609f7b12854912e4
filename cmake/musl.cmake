# A toolchain for Debian's g++-12 with what tools/musl/make has made. Its programs are static, and run as others do.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER gcc-12)
set(CMAKE_CXX_COMPILER g++-12)
set(musl ${CMAKE_CURRENT_LIST_DIR}/../build/musl.toolchain)
set(CMAKE_C_FLAGS_INIT -specs=${musl}/specs)
set(CMAKE_CXX_FLAGS_INIT -specs=${musl}/specs)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(CMAKE_FIND_ROOT_PATH ${musl})
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# Boost is headers alone, which are the same for each C library; those beside them are not.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/include)
file(CREATE_LINK /usr/include/boost ${CMAKE_BINARY_DIR}/include/boost SYMBOLIC)
set(Boost_INCLUDE_DIR ${CMAKE_BINARY_DIR}/include)

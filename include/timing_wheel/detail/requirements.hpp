#pragma once

// Every public header includes this one first; CMake compiles it alone. The first line of an error says what is
// missing.

#if !defined(__SIZEOF_INT128__) || !defined(__SIZEOF_POINTER__) || __SIZEOF_POINTER__ < 8
#error "timing_wheel needs a 64-bit target, and a compiler with __int128, such as GCC or Clang."
#elif __cplusplus <= 201703L
#error "timing_wheel needs C++20."
#else
#include <version>
#ifndef __cpp_lib_jthread
#error "timing_wheel needs <stop_token>: libstdc++, or libc++ 18 or newer with -fexperimental-library."
#endif
#endif

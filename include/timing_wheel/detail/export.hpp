#pragma once

// What a shared library offers. Its target and its .pc file define TIMING_WHEEL_SHARED, for the users too: so what is
// defined in headers (an exception, a static member) is one in the process, also in programs of -fvisibility=hidden.
// A static library needs none of it, and the program that contains it offers nothing.

#if defined(TIMING_WHEEL_SHARED)
#define TIMING_WHEEL_EXPORT __attribute__((visibility("default")))
#define TIMING_WHEEL_LOCAL __attribute__((visibility("hidden")))
#else
#define TIMING_WHEEL_EXPORT
#define TIMING_WHEEL_LOCAL
#endif

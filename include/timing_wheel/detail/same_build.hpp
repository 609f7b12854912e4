#pragma once

#include "timing_wheel/detail/export.hpp"

// -D_GLIBCXX_DEBUG gives the standard containers another layout, and -D_GLIBCXX_USE_POSIX_SEMAPHORE, which programs for
// Windows need, the stop tokens. Where only the library or only its user has it, the linker finds no symbol of this
// name, which is defined in src/system/same_build.cpp. Every public header with such a type includes this one.

#if defined(_WIN32) && defined(_GLIBCXX_USE_POSIX_SEMAPHORE) && defined(_GLIBCXX_DEBUG)
#define TIMING_WHEEL_SAME_BUILD GLIBCXX_USE_POSIX_SEMAPHORE_and_GLIBCXX_DEBUG_are_set_here_but_not_in_the_library
#elif defined(_WIN32) && defined(_GLIBCXX_USE_POSIX_SEMAPHORE)
#define TIMING_WHEEL_SAME_BUILD GLIBCXX_USE_POSIX_SEMAPHORE_alone_is_set_here_but_not_in_the_library
#elif defined(_GLIBCXX_DEBUG)
#define TIMING_WHEEL_SAME_BUILD GLIBCXX_DEBUG_is_set_here_but_not_in_the_library
#else
#define TIMING_WHEEL_SAME_BUILD GLIBCXX_DEBUG_is_set_in_the_library_but_not_here
#endif

// Kept by the compiler, and where that can be asked for by a linker with --gc-sections. Windows hides all that is not
// exported.
#if defined(_WIN32)
#define TIMING_WHEEL_KEPT [[gnu::used]]
#elif __has_cpp_attribute(gnu::retain)
#define TIMING_WHEEL_KEPT [[gnu::used, gnu::retain, gnu::visibility("hidden")]]
#else
#define TIMING_WHEEL_KEPT [[gnu::used, gnu::visibility("hidden")]]
#endif

namespace timing_wheel::detail {

extern TIMING_WHEEL_EXPORT const char TIMING_WHEEL_SAME_BUILD;

// One pointer in each executable and shared library, which nothing reads.
namespace needs {
TIMING_WHEEL_KEPT inline const char* const TIMING_WHEEL_SAME_BUILD = &detail::TIMING_WHEEL_SAME_BUILD;
}  // namespace needs

}  // namespace timing_wheel::detail

#undef TIMING_WHEEL_KEPT

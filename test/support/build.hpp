#pragma once

#include "system/on_linux.hpp"

namespace timing_wheel::test {

#if defined(__has_feature)
#define TIMING_WHEEL_TEST_HAS(feature) __has_feature(feature)
#else
#define TIMING_WHEEL_TEST_HAS(feature) 0
#endif

/// Whether the thread sanitizer watches.
#if defined(__SANITIZE_THREAD__) || TIMING_WHEEL_TEST_HAS(thread_sanitizer)
inline constexpr bool under_thread_sanitizer = true;
#else
inline constexpr bool under_thread_sanitizer = false;
#endif

/// Whether the address sanitizer watches, and with it the leak checker at the end of each process.
#if defined(__SANITIZE_ADDRESS__) || TIMING_WHEEL_TEST_HAS(address_sanitizer)
inline constexpr bool under_address_sanitizer = true;
#else
inline constexpr bool under_address_sanitizer = false;
#endif

/// Whether this build is many times slower than a release: not optimised, or watched by a sanitizer.
#if !defined(__OPTIMIZE__) || TIMING_WHEEL_TEST_HAS(memory_sanitizer)
inline constexpr bool slow_build = true;
#else
inline constexpr bool slow_build = under_thread_sanitizer || under_address_sanitizer;
#endif

#undef TIMING_WHEEL_TEST_HAS

/// Whether the library maps memory, and so can give it back and notice a `fork`, or has `operator new` alone.
#if defined(TIMING_WHEEL_HAS_MAPPINGS) || defined(TIMING_WHEEL_HAS_WINDOWS)
inline constexpr bool can_map = true;
#else
inline constexpr bool can_map = false;
#endif

/// Whether its threads bear names.
#if defined(TIMING_WHEEL_HAS_THREAD_NAMES)
inline constexpr bool names_threads = true;
#else
inline constexpr bool names_threads = false;
#endif

}  // namespace timing_wheel::test

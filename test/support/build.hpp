#pragma once

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

}  // namespace timing_wheel::test

#pragma once

#include <cstdint>
#include <cstdlib>

namespace timing_wheel::test {

// clang says by __has_feature what gcc says by a macro.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIMING_WHEEL_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TIMING_WHEEL_TEST_SANITIZED 1
#endif

/// Whether every memory access costs many times what it does for users.
#if defined(TIMING_WHEEL_TEST_SANITIZED)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// `full`, or a tenth of it under a sanitizer.
[[nodiscard]] constexpr std::uint64_t scaled(std::uint64_t full) noexcept { return sanitized ? full / 10 : full; }

/// `scaled(full)`, times the environment variable TIMING_WHEEL_STRESS if it holds a positive number.
[[nodiscard]] inline std::uint64_t stress_rounds(std::uint64_t full) noexcept {
  const char* wanted = std::getenv("TIMING_WHEEL_STRESS");
  const long factor = wanted == nullptr ? 1 : std::strtol(wanted, nullptr, 10);
  return scaled(full) * static_cast<std::uint64_t>(factor > 0 ? factor : 1);
}

}  // namespace timing_wheel::test

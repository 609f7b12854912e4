#pragma once

#include <cstdint>
#include <cstdlib>

#include "build.hpp"

namespace timing_wheel::test {

/// `full`, or a tenth of it in a slow build.
[[nodiscard]] constexpr std::uint64_t scaled(std::uint64_t full) noexcept { return slow_build ? full / 10 : full; }

/// `scaled(full)`, times the environment variable TIMING_WHEEL_STRESS if it holds a positive number.
[[nodiscard]] inline std::uint64_t stress_rounds(std::uint64_t full) noexcept {
  const char* wanted = std::getenv("TIMING_WHEEL_STRESS");
  const long factor = wanted == nullptr ? 1 : std::strtol(wanted, nullptr, 10);
  return scaled(full) * static_cast<std::uint64_t>(factor > 0 ? factor : 1);
}

}  // namespace timing_wheel::test

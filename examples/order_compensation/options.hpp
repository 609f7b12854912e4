#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/program.hpp"
#include "durable_options.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace order_compensation {

using common::usage_error;

/// More orders than this are refused: they are numbered with 32 bits.
inline constexpr std::uint64_t max_orders = 1'000'000'000;

struct options {
  std::string help;                   ///< Not empty: print it and do nothing else.
  std::optional<std::string> orders;  ///< The file to replay; none: live.
  std::optional<std::string> json;
  std::chrono::nanoseconds delay{};  ///< From an order to its check; not negative.
  std::uint64_t repeat = 1;          ///< At least 1.
  std::uint64_t checks = 1'000'000;
  std::uint64_t seed = 1;
  bool quiet = false;
  timing_wheel::timer_options timer;
  durable_options durable;
};

/// \throws usage_error.
[[nodiscard]] options parse_options(int argc, const char* const* argv);

}  // namespace order_compensation

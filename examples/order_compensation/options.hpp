#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "timing_wheel/timing_wheel.hpp"

namespace order_compensation {

/// An argument, or a file named by one, that cannot be used: the program ends with status 2 and this one line.
class usage_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

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
};

/// \throws usage_error.
[[nodiscard]] options parse_options(int argc, const char* const* argv);

/// A whole number and a unit without a space: ns, us, ms, s, min, h. None if it is anything else, or longer than 292
/// years.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

}  // namespace order_compensation

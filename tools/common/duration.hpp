#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>

namespace common {

/// A text that is no duration; `what` says why, in the form of "the unit is missing".
class duration_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

inline constexpr const char* duration_forms =
    "a number and a unit, such as 250us, 1500ms, 2.5s, 30min, 2h, 1d or 1h30m";

/// Reads numbers with units, without spaces, the longest unit first: d, h, min or m, s, ms, us, ns. Numbers may have a
/// fraction. The sum is rounded to a nanosecond. 1h30m is 5400 s.
/// \throws duration_error if it is anything else, negative, or longer than `longest`.
[[nodiscard]] std::chrono::nanoseconds read_duration(
    std::string_view text, std::chrono::nanoseconds longest = std::chrono::nanoseconds::max());

/// In one unit, the largest of which a thousandth divides it, so that `read_duration` reads it back: 1800 s are 30min.
[[nodiscard]] std::string format_duration(std::chrono::nanoseconds duration);

}  // namespace common

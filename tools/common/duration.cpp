#include "common/duration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

namespace common {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct unit {
  std::string_view name;
  nanoseconds length;
};

constexpr std::array<unit, 8> units{
    {{"d", 24h}, {"h", 1h}, {"min", 1min}, {"m", 1min}, {"s", 1s}, {"ms", 1ms}, {"us", 1us}, {"ns", 1ns}}};

constexpr std::string_view digits_and_point = "0123456789.";

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

nanoseconds length_of(std::string_view name, std::string_view number) {
  if (number.find_first_not_of('.') == std::string_view::npos) {
    throw duration_error("the number is missing");
  }
  if (number.find('.') != number.rfind('.')) {
    throw duration_error(in_quotes(number) + " is no number");
  }
  if (name.empty()) {
    throw duration_error("the unit is missing");
  }
  const auto* const found = std::find_if(units.begin(), units.end(), [&](const unit& u) { return u.name == name; });
  if (found == units.end()) {
    throw duration_error(in_quotes(name) + " is no unit");
  }
  return found->length;
}

/// The largest, if it does not fit.
std::uint64_t whole_of(std::string_view number) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
  return error == std::errc::result_out_of_range ? std::numeric_limits<std::uint64_t>::max() : count;
}

// A double is exact to a hundredth of a nanosecond here, because a fraction of a day is below 2^47 ns.
std::uint64_t nanoseconds_of(std::string_view point_and_digits, nanoseconds length) {
  const std::string number = "0" + std::string(point_and_digits);
  double fraction = 0;
  std::from_chars(number.data(), number.data() + number.size(), fraction, std::chars_format::fixed);
  return static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(length.count())));
}

}  // namespace

nanoseconds read_duration(std::string_view text, nanoseconds longest) {
  if (text.empty() || text.front() == '-') {
    throw duration_error(text.empty() ? "it is empty" : "it is negative");
  }
  const auto take = [&](std::size_t count) {
    const std::string_view part = text.substr(0, count);
    text.remove_prefix(part.size());
    return part;
  };
  nanoseconds sum{};
  const auto add = [&](std::uint64_t count, nanoseconds length) {
    if (count > static_cast<std::uint64_t>((longest - sum) / length)) {
      throw duration_error("it is longer than " + std::to_string(longest / (365 * 24h)) + " years");
    }
    sum += static_cast<std::int64_t>(count) * length;
  };
  for (nanoseconds shortest = nanoseconds::max(); !text.empty();) {
    const std::string_view number = take(text.find_first_not_of(digits_and_point));
    const nanoseconds length = length_of(take(text.find_first_of(digits_and_point)), number);
    if (length >= shortest) {
      throw duration_error("a longer unit comes first, and each comes once");
    }
    shortest = length;
    const std::size_t point = std::min(number.find('.'), number.size());
    add(whole_of(number.substr(0, point)), length);
    if (point != number.size() && !text.empty()) {
      throw duration_error("only the last number may have a fraction");
    }
    add(nanoseconds_of(number.substr(point), length), 1ns);
  }
  return sum;
}

std::string format_duration(nanoseconds duration) {
  for (const auto& [name, length] : units) {
    const nanoseconds thousandth = std::max<nanoseconds>(length / 1000, 1ns);
    if (duration >= length && duration % thousandth == 0ns) {
      std::string decimals = std::to_string(duration % length / thousandth + 1000).substr(1);
      decimals.erase(decimals.find_last_not_of('0') + 1);
      return std::to_string(duration / length) + (decimals.empty() ? "" : "." + decimals) + std::string(name);
    }
  }
  return std::to_string(duration.count()) + "ns";
}

}  // namespace common

#include "common/duration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

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

nanoseconds length_of(std::string_view name) {
  if (name.empty()) {
    throw duration_error("the unit is missing");
  }
  const auto* const found = std::find_if(units.begin(), units.end(), [&](const unit& u) { return u.name == name; });
  if (found == units.end()) {
    throw duration_error(in_quotes(name) + " is no unit");
  }
  return found->length;
}

/// A long double has all digits of a number of nanoseconds. One that is too large for it is longer than all.
long double number_of(std::string_view digits) {
  if (digits.find_first_not_of('.') == std::string_view::npos) {
    throw duration_error("the number is missing");
  }
  long double number = HUGE_VALL;
  const char* const end = digits.data() + digits.size();
  if (std::from_chars(digits.data(), end, number, std::chars_format::fixed).ptr != end) {
    throw duration_error(in_quotes(digits) + " is no number");
  }
  return number;
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
  long double sum = 0;
  for (nanoseconds shortest = nanoseconds::max(); !text.empty();) {
    const long double number = number_of(take(text.find_first_not_of(digits_and_point)));
    const nanoseconds length = length_of(take(text.find_first_of(digits_and_point)));
    if (length >= shortest) {
      throw duration_error("a longer unit comes first, and each comes once");
    }
    shortest = length;
    sum += number * static_cast<long double>(length.count());
  }
  if (sum > static_cast<long double>(longest.count())) {
    throw duration_error("it is longer than " + std::to_string(longest / (365 * 24h)) + " years");
  }
  return nanoseconds(std::llround(sum));
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

#include "common/duration.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

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

constexpr std::string_view decimal_digits = "0123456789";
constexpr std::string_view digits_and_point = "0123456789.";

std::string in_quotes(std::string_view text) { return "'" + std::string(text) + "'"; }

class duration_reader {
 public:
  duration_reader(std::string_view text, nanoseconds longest) : rest_(text), longest_(longest) {}

  nanoseconds read() {
    if (rest_.empty()) {
      throw duration_error("it is empty");
    }
    if (rest_.front() == '-') {
      throw duration_error("it is negative");
    }
    while (!rest_.empty()) {
      add_part();
    }
    return sum_;
  }

 private:
  void add_part() {
    const std::string_view number = take(rest_.find_first_not_of(digits_and_point));
    const nanoseconds length = length_of(take(rest_.find_first_of(digits_and_point)), number);
    if (length >= shortest_) {
      throw duration_error("a longer unit comes first, and each comes once");
    }
    shortest_ = length;
    const std::size_t point = number.find('.');
    add_whole(number.substr(0, point), length);
    if (point != std::string_view::npos) {
      add_fraction(number.substr(point), length);
    }
  }

  std::string_view take(std::size_t count) {
    const std::string_view part = rest_.substr(0, count);
    rest_.remove_prefix(part.size());
    return part;
  }

  static nanoseconds length_of(std::string_view name, std::string_view number) {
    if (number.find_first_of(decimal_digits) == std::string_view::npos) {
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

  void add_whole(std::string_view number, nanoseconds length) {
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    if (error == std::errc::result_out_of_range || count > static_cast<std::uint64_t>(longest_ / length)) {
      refuse_as_too_long();
    }
    add(static_cast<std::int64_t>(count) * length);
  }

  // A double is exact to a hundredth of a nanosecond here, because a fraction of a day is below 2^47 ns.
  void add_fraction(std::string_view point_and_digits, nanoseconds length) {
    if (!rest_.empty()) {
      throw duration_error("only the last number may have a fraction");
    }
    const std::string number = "0" + std::string(point_and_digits);
    double fraction = 0;
    std::from_chars(number.data(), number.data() + number.size(), fraction, std::chars_format::fixed);
    add(nanoseconds(std::llround(fraction * static_cast<double>(length.count()))));
  }

  void add(nanoseconds part) {
    if (part > longest_ - sum_) {
      refuse_as_too_long();
    }
    sum_ += part;
  }

  [[noreturn]] void refuse_as_too_long() const {
    throw duration_error("it is longer than " + std::to_string(longest_ / (365 * 24h)) + " years");
  }

  std::string_view rest_;
  nanoseconds longest_;
  nanoseconds shortest_ = nanoseconds::max();
  nanoseconds sum_{};
};

}  // namespace

nanoseconds read_duration(std::string_view text, nanoseconds longest) { return duration_reader(text, longest).read(); }

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

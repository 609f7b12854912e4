#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace order_compensation {

[[nodiscard]] double microseconds(std::chrono::nanoseconds duration);
[[nodiscard]] double seconds(std::chrono::nanoseconds duration);
[[nodiscard]] double mebibytes(std::uint64_t bytes);
[[nodiscard]] std::string with_decimals(double number, int decimals);
/// 0 if no time has passed.
[[nodiscard]] std::uint64_t per_second(std::uint64_t count, std::chrono::nanoseconds duration);

/// Writes a report: lines of a label, a number and a unit, and verdicts.
class table {
 public:
  explicit table(std::ostream& out) : out_(out) {}

  void line(std::string_view label, const std::string& number, std::string_view unit = "");
  void line(std::string_view label, std::uint64_t number, std::string_view unit = "");
  void verdict(std::string_view subject, const std::string& sentence, bool good);

 private:
  std::ostream& out_;
};

}  // namespace order_compensation

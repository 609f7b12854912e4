#include "report_table.hpp"

#include <iomanip>
#include <ostream>
#include <sstream>

#include "common/program.hpp"

namespace order_compensation {

double microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

double seconds(std::chrono::nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

double mebibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

std::string with_decimals(double number, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << number;
  const std::string digits = text.str();
  const std::size_t point = digits.find('.');
  return common::grouped(std::stoull(digits.substr(0, point))) +
         (point == std::string::npos ? "" : digits.substr(point));
}

std::uint64_t per_second(std::uint64_t count, std::chrono::nanoseconds duration) {
  return duration.count() <= 0 ? 0 : static_cast<std::uint64_t>(static_cast<double>(count) / seconds(duration));
}

void table::line(std::string_view label, const std::string& number, std::string_view unit) {
  out_ << "  " << std::left << std::setw(22) << label << std::right << std::setw(16) << number;
  out_ << (unit.empty() ? "" : " ") << unit << '\n';
}

void table::line(std::string_view label, std::uint64_t number, std::string_view unit) {
  line(label, common::grouped(number), unit);
}

void table::verdict(std::string_view subject, const std::string& sentence, bool good) {
  out_ << subject << ": " << sentence << (good ? "  ✓" : "  ✗") << '\n';
}

}  // namespace order_compensation

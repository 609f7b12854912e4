#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "common/program.hpp"
#include "ledger.hpp"

namespace order_compensation {

using common::grouped;
using common::with_decimals;

[[nodiscard]] double seconds(std::chrono::nanoseconds duration);
/// 0 if no time has passed.
[[nodiscard]] std::uint64_t per_second(std::uint64_t count, std::chrono::nanoseconds duration);

/// What a run did, for people as lines of a label, a number and a unit, and as JSON. Its time begins with it.
class report {
 public:
  /// \param mode as JSON names it: "live", "replay", "durable".
  explicit report(const std::string& mode) : title("order compensation, " + mode) { figures["mode"] = mode; }

  std::string title;
  nlohmann::ordered_json figures;     ///< Every figure.
  std::vector<std::string> problems;  ///< What must not be; empty if all is well.
  std::uint64_t malformed = 0;        ///< Rows of the file that were left out.
  bool interrupted = false;

  [[nodiscard]] std::chrono::nanoseconds elapsed() const { return std::chrono::steady_clock::now() - begin_; }

  void line(std::string_view label, const std::string& number, std::string_view unit = "");
  /// A line, and a figure.
  void count(std::string_view label, const char* key, std::uint64_t number, std::string_view unit = "");
  void verdict(std::string_view subject, const std::string& sentence, bool good);
  /// How late checks ran: the quantiles 0.5 and 0.99, and the most, in microseconds. \param unit "us" or "ms".
  void lateness(const std::string& label, const char* key, const std::vector<double>& microseconds, const char* unit);
  void stock(const stock_figures& all);
  /// A problem, if there are any. \param what "orders lost"
  void expect_none(std::uint64_t count, const std::string& what);

  void print(std::ostream& out) const;
  /// One object, indented. What is not UTF-8 in a name becomes U+FFFD.
  void write_json(std::ostream& out) const;
  /// Adds what is known at the end only. Called once. \param interrupted_by the name of the signal, if one did it.
  void close(const std::string& interrupted_by);

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::ostringstream lines_;
  std::ostringstream verdicts_;
};

}  // namespace order_compensation

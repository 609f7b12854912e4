#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/csv.hpp"

namespace common {

inline constexpr const char* order_columns = "order_id, order_purchase_timestamp and order_approved_at";

/// One good row. Times are UTC.
struct order_row {
  std::chrono::sys_seconds purchased;
  std::optional<std::chrono::sys_seconds> approved;  ///< Not before `purchased`; none: never.
};

/// Reads CSV with a header that names, among others, the `order_columns`.
class orders_table {
 public:
  /// Reads the header. \throws file_error if it lacks a column or is no text, or there is none.
  explicit orders_table(std::istream& in);

  /// \returns none at the end.
  /// \throws row_error, after which the next row can be read: too few or too many columns, a NUL byte, more than 16
  /// MiB, an empty id, a bad time, one before 1678 or after 2261 (nanoseconds in 64 bits reach no further), an approval
  /// before the purchase, or the id of an earlier good row.
  [[nodiscard]] std::optional<order_row> next();

  /// That of the row read last; the header is line 1.
  [[nodiscard]] std::uint64_t line() const { return csv_.line(); }

 private:
  void read_header();

  csv_table<3> csv_;
  std::unordered_map<std::string, std::uint64_t> lines_;  // of the good rows, by id
  const char* id_ = nullptr;
  const char* purchased_ = nullptr;
  const char* approved_ = nullptr;
};

/// `YYYY-MM-DD HH:MM:SS` and nothing else, UTC; none if there is no such time.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_time(std::string_view text);

/// \throws usage_error if the file cannot be opened, or is a directory.
[[nodiscard]] std::ifstream open_input(const std::string& path);

}  // namespace common

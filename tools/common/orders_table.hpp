#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "common/csv.hpp"

namespace common {

inline constexpr const char* order_columns = "order_id, order_status, order_purchase_timestamp and order_approved_at";

/// One good row. Times are UTC.
struct order_row {
  std::string_view id;  ///< Until the next row is read. Not empty.
  std::chrono::sys_seconds purchased;
  std::optional<std::chrono::sys_seconds> approved;  ///< Not before `purchased`; none: never.
};

/// A row that cannot be used; `what` says why.
class row_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads CSV with a header that names, among others, the `order_columns`. Fields may be quoted, lines may end with
/// CR LF, a byte order mark is skipped, and so are blank lines. A quoted field cannot contain a line break.
class orders_table {
 public:
  /// Reads the header. \throws file_error if it lacks a column, or there is none.
  explicit orders_table(std::istream& in);

  /// \returns none at the end.
  /// \throws row_error, after which the next row can be read: too few or too many columns, an empty id, a bad time, one
  /// before 1678 or after 2261 (nanoseconds in 64 bits reach no further), or an approval before the purchase.
  /// \throws file_error if the rest cannot be read.
  [[nodiscard]] std::optional<order_row> next();

  /// That of the row read last; the header is line 1.
  [[nodiscard]] std::uint64_t line() const;

 private:
  void read_header();
  bool read_fields();

  csv_reader<4> csv_;
  const char* id_ = nullptr;
  const char* status_ = nullptr;
  const char* purchased_ = nullptr;
  const char* approved_ = nullptr;
};

/// `YYYY-MM-DD HH:MM:SS` and nothing else, UTC; none if there is no such time.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_time(std::string_view text);

/// \throws usage_error if the file cannot be opened, or is a directory.
[[nodiscard]] std::ifstream open_input(const std::string& path);

}  // namespace common

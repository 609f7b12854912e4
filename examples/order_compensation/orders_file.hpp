#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "progress.hpp"

namespace order_compensation {

/// One good row. Times are UTC.
struct order {
  std::uint64_t id_hash = 0;
  std::chrono::sys_seconds purchased;
  std::optional<std::chrono::sys_seconds> approved;  ///< Not before `purchased`; none: never.
};

/// Why a row was left out.
struct malformed_row {
  std::uint64_t line = 0;  ///< The header is line 1.
  std::string reason;
};

inline constexpr std::size_t max_reported_rows = 20;

struct orders_file {
  std::vector<order> orders;            ///< In the order of the file.
  std::uint64_t malformed = 0;          ///< Rows left out; a header without the columns counts as one.
  std::vector<malformed_row> reported;  ///< The first `max_reported_rows` of them.
};

/// `YYYY-MM-DD HH:MM:SS` and nothing else, UTC; none if there is no such time.
[[nodiscard]] std::optional<std::chrono::sys_seconds> parse_time(std::string_view text);

/// Reads CSV with a header that names, among others, the columns `order_id`, `order_status`, `order_purchase_timestamp`
/// and `order_approved_at`. Fields may be quoted, lines may end with CR LF, a byte order mark is skipped, and so are
/// blank lines. A quoted field cannot contain a line break. Of two rows with one id, the first counts.
///
/// Rows are left out, reported and counted, if they have too few or too many columns, an empty or repeated id, a bad
/// time, one before 1678 or after 2261 (nanoseconds in 64 bits reach no further), or an approval before the purchase.
/// \throws usage_error with `name` if the stream breaks.
[[nodiscard]] orders_file read_orders(std::istream& in, const std::string& name, progress& shown);

/// \throws usage_error if the file cannot be opened, or is a directory.
[[nodiscard]] std::ifstream open_orders(const std::string& path);

}  // namespace order_compensation

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "common/orders_table.hpp"
#include "common/progress.hpp"

namespace order_compensation {

using common::parse_time;
using common::progress;

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

/// Reads a table of orders. A row that common::orders_table cannot use, or whose id an earlier one has, is left out,
/// reported and counted; so is what makes the rest of the file unreadable. A file that is not text has no order.
/// \throws usage_error with `name` if the stream breaks.
[[nodiscard]] orders_file read_orders(std::istream& in, const std::string& name, progress& shown);

}  // namespace order_compensation

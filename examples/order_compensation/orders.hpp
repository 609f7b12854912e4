#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "common/orders_table.hpp"
#include "common/progress.hpp"
#include "ledger.hpp"

// Orders: of a file, or made; and when each is placed and approved.

namespace order_compensation {

using order = common::order_row;

struct orders_file {
  std::vector<order> orders;          ///< In the order of the file.
  std::uint64_t malformed = 0;        ///< Rows left out; a header that cannot be used counts as one.
  std::vector<std::string> reported;  ///< "LINE: what is wrong", of the first 20 of them; the header is line 1.
};

/// A row that common::orders_table cannot use, or whose id an earlier one has, is left out, reported and counted. If it
/// cannot use the header, there is no order.
/// \throws usage_error with `name` if the stream breaks.
[[nodiscard]] orders_file read_orders(std::istream& in, const std::string& name, common::progress& shown);

struct planned_order {
  std::chrono::nanoseconds at{};
  std::optional<std::chrono::nanoseconds> approved{};  ///< It may be too late for the check.
};

/// \returns the next order, in the order of `at`; none at the end.
using order_plan = std::function<std::optional<planned_order>()>;

/// So many orders a second, for `length`, from 0 on. Of them 95 % are approved, each after a random part of at most
/// 90 % of `delay`. The same `seed` plans the same orders.
[[nodiscard]] order_plan steady_plan(double per_second, std::chrono::nanoseconds length, std::chrono::nanoseconds delay,
                                     std::uint64_t seed);

/// The orders of a file, and copies of them, each 1 s after the one before, at their times since the epoch of
/// `std::chrono::system_clock`.
[[nodiscard]] order_plan recorded_plan(std::vector<order> orders, std::uint64_t repeat);

/// The same in less time, from 0 on; the last order is placed at `length`.
///
/// Such a file spans years, a run seconds, and an approval takes minutes. So there are two scales: one from order to
/// order, another for the life of each, in which 30 min become the delay of a check. An order of day 200 in a file of
/// 400 days that was approved after 15 min is placed in the middle of the run, and approved after half of the delay.
struct scaled_plan {
  double speed = 1;       ///< From order to order, how many times as fast as in the file.
  double life_speed = 1;  ///< The same of an order's life.
  order_plan next;
};

/// \param orders not empty. \param repeat at least 1. \param delay positive.
[[nodiscard]] scaled_plan plan_of_file(const std::vector<order>& orders, std::uint64_t repeat,
                                       std::chrono::nanoseconds delay, std::chrono::nanoseconds length);

}  // namespace order_compensation

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ledger.hpp"
#include "orders_file.hpp"

namespace order_compensation {

/// An order that is to be placed. Times count from the beginning of the run.
struct planned_order {
  std::chrono::nanoseconds at{};
  goods what;
  std::optional<std::chrono::nanoseconds> approved{};  ///< None: never, or not before its check.
  bool too_late = false;                               ///< It is approved after its check.
};

/// \returns the next order, in the order of `at`; none at the end.
using order_plan = std::function<std::optional<planned_order>()>;

/// So many orders a second, for `length`. Of them 95 % are approved, each after a random part of at most 90 % of
/// `delay`. The same `seed` plans the same orders.
[[nodiscard]] order_plan steady_plan(double per_second, std::chrono::nanoseconds length, std::chrono::nanoseconds delay,
                                     std::uint64_t seed);

/// What becomes the delay of a check, in the life of an order of a file.
inline constexpr std::chrono::minutes delay_in_file{30};

/// The orders of a file, and copies of them, each 1 s after the one before, in less time than they took.
///
/// Such a file spans years, a run seconds, and an approval takes minutes. So there are two scales: one from order to
/// order, another for the life of each. An order of day 200 in a file of 400 days that was approved after 15 min is
/// placed in the middle of the run, and approved after half of the delay.
struct scaled_plan {
  double speed = 1;       ///< From order to order, how many times as fast as in the file.
  double life_speed = 1;  ///< The same of an order's life.
  order_plan next;
};

/// The last order is placed at `length`. An approval after more than `delay_in_file` is too late, as in `replay`.
/// \param orders not empty; must outlive the plan. \param repeat at least 1. \param delay positive.
[[nodiscard]] scaled_plan plan_of_file(const std::vector<order>& orders, std::uint64_t repeat,
                                       std::chrono::nanoseconds delay, std::chrono::nanoseconds length);

}  // namespace order_compensation

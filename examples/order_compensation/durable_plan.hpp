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

/// The orders of a file, and copies of them, each 1 s after the one before, in less time than they took.
struct scaled_plan {
  double speed = 1;                  ///< How many times as fast as in the file.
  std::chrono::nanoseconds delay{};  ///< From an order to its check, at that speed.
  std::uint64_t orders = 0;
  order_plan next;
};

/// The last order is placed at `length`. An approval later than purchase + delay is too late, as in `replay`.
/// \param orders not empty; must outlive the plan. \param repeat at least 1.
[[nodiscard]] scaled_plan plan_of_file(const std::vector<order>& orders, std::uint64_t repeat,
                                       std::chrono::nanoseconds delay, std::chrono::nanoseconds length);

}  // namespace order_compensation

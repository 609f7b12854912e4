#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "common/progress.hpp"
#include "orders_file.hpp"
#include "report.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace order_compensation {

struct replay_options {
  std::chrono::nanoseconds delay = std::chrono::minutes(30);  ///< From a purchase to its check; not negative.
  std::uint64_t repeat = 1;  ///< Copies of the orders, each 1 s after the one before, all replayed together.
  timing_wheel::timer_options timer;
};

/// Lives through the orders in virtual time, from the first purchase until nothing is pending or `interrupted` is set.
///
/// An approval at or before purchase + delay cancels the check; one that comes later finds the stock given back. The
/// outcome does not depend on the tick: with one that does not divide the delay, checks fire late, and the lateness is
/// reported.
/// \throws usage_error if there are more than `max_orders`; timer_error for a bad option of the timer; std::bad_alloc.
[[nodiscard]] figures replay(const std::vector<order>& orders, const replay_options& options, progress& shown,
                             const std::atomic<bool>& interrupted);

}  // namespace order_compensation

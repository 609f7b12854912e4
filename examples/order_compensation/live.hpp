#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/progress.hpp"
#include "report.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace order_compensation {

using common::progress;

struct live_options {
  std::uint64_t checks = 1'000'000;                          ///< At most `max_orders`.
  std::chrono::nanoseconds delay = std::chrono::seconds(5);  ///< From an order to its check; not negative.
  std::uint64_t seed = 1;  ///< Decides which orders are approved, and after what part of the delay.
  timing_wheel::timer_options timer;
};

/// Creates the orders as fast as one thread can, lets another approve 95 % of them, each after a random time of at most
/// 90 % of the delay, and waits until nothing is pending or `interrupted` is set.
///
/// An approval that a slow machine delays until the check has begun comes too late: the stock is given back.
/// \throws timer_error for a bad option of the timer; std::bad_alloc; std::system_error if no thread can be had.
[[nodiscard]] figures run_live(const live_options& options, progress& shown, const std::atomic<bool>& interrupted);

}  // namespace order_compensation

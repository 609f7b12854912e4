#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstdint>

#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel {

/// A timer that `timer::stop` took out, or one for `timer::schedule_many`. Once a stop has taken a timer out,
/// the service does not run the timer any more: it belongs to the caller.
///
///     std::vector<pending_task> left = timer.stop();
///     next.schedule_many(left);  // another service goes on
///
/// A timer leaves its `schedule_options::stop` behind: in the other service no stop token cancels it. A periodic timer
/// leaves its rule behind: in the other service it runs once.
///
/// The caller may also call the callback, keep it or destroy it. A call of a periodic timer's callback is one run.
/// Objects that a callback captured by reference must live as long as the callback does. Thread safety: as a plain
/// object.
struct pending_task {
  time_point deadline;    ///< When it should have run, not rounded to a tick.
  std::uint64_t tag = 0;  ///< Its `schedule_options::tag`.
  task callback;          ///< What it would have run.
  /// Its `schedule_options::window`. After a stop the value may be shorter than the option was: it is at least 4/5 of
  /// the window's whole ticks.
  std::chrono::nanoseconds window = {};
};

/// A timer as `timer::for_each_pending` found it. The timer may have fired since, or another thread may have cancelled
/// or rescheduled it. The handle shows its present state. Thread safety: as a plain object.
struct pending_timer {
  timer_handle handle;    ///< Cancels the timer, for instance.
  time_point deadline;    ///< When it should run, not rounded to a tick.
  std::uint64_t tag = 0;  ///< Its `schedule_options::tag`.
};

}  // namespace timing_wheel

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstdint>

#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel {

/// A timer that `stop` took out: it will not run by itself any more, and belongs to the caller. Of a periodic one, the
/// callback is one run.
///
/// The callback can be called, kept, or moved into another service, whose `schedule_at` takes it like any callable.
/// Destroying it destroys what it captured. What it captured by reference must live as long. Thread safety: as a plain
/// object.
struct pending_task {
  time_point deadline;    ///< When it should have run: as it was asked for, not rounded to a tick.
  std::uint64_t tag = 0;  ///< The number given when it was scheduled.
  task callback;          ///< What it would have run.
};

/// A timer that `for_each_pending` shows, as it was when its shard was looked at. It may have fired since, or have been
/// cancelled or moved; its handle tells. Thread safety: as a plain object.
struct pending_timer {
  timer_handle handle;    ///< To cancel it, for instance.
  time_point deadline;    ///< When it should run: as it was asked for, not rounded to a tick.
  std::uint64_t tag = 0;  ///< The number given when it was scheduled.
};

}  // namespace timing_wheel

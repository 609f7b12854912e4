#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstdint>

#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel {

/// A timer that `stop` took out: it will not run by itself any more, and belongs to the caller. Of a periodic one, the
/// callback is one run.
struct pending_task {
  time_point deadline;    ///< When it should have run.
  std::uint64_t tag = 0;  ///< The number given when it was scheduled.
  task callback;          ///< What it would have run.
};

/// A timer that `for_each_pending` shows.
struct pending_timer {
  timer_handle handle;    ///< To cancel it, for instance.
  time_point deadline;    ///< When it should run.
  std::uint64_t tag = 0;  ///< The number given when it was scheduled.
};

}  // namespace timing_wheel

#pragma once

#include <cstdint>

#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

/// What a handle shows of its timer.
struct timer_view {
  timer_status status = timer_status::finished;
  time_point deadline;
  std::uint64_t tag = 0;
};

}  // namespace timing_wheel::detail

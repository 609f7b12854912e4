#pragma once

#include <chrono>

#include "system/on_linux.hpp"

#if defined(TIMING_WHEEL_HAS_TIMER_SLACK)
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace timing_wheel::detail {

/// Lets the system wake the calling thread at most a sixteenth of `tick` late, if it may be later now (50 µs, unless
/// somebody has changed it). Linux gathers wake-ups within that time; with ticks below a millisecond it would be a good
/// part of one. Elsewhere it does nothing.
inline void limit_timer_slack([[maybe_unused]] std::chrono::nanoseconds tick) noexcept {
#if defined(TIMING_WHEEL_HAS_TIMER_SLACK)
  const long most = std::chrono::nanoseconds(tick / 16).count();
  const long present = syscall(SYS_prctl, PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);  // of which prctl gives an int only
  if (present > most) {
    // Zero would mean the default. A refusal leaves it as it was.
    static_cast<void>(prctl(PR_SET_TIMERSLACK, most > 0 ? most : 1L, 0UL, 0UL, 0UL));
  }
#endif
}

}  // namespace timing_wheel::detail

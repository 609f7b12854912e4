#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/stats.hpp"
#include "timing_wheel/histogram.hpp"

namespace timing_wheel {

/// The largest number of timers that is handled under one hold of a lock, in cascade, in expiry, in `stop` and in
/// `for_each_pending`.
inline constexpr std::size_t max_timers_per_lock = 256;

/// What has happened to the timers of a service since it was made. At every instant of each shard,
/// `scheduled == fired + cancelled + returned + pending`.
///
/// Example: a periodic timer that has run twice and waits for its third run is 3 scheduled, of which 2 rearmed, 2 fired
/// and 1 pending.
struct timer_counts {
  std::uint64_t scheduled = 0;  ///< Accepted by a `schedule` call, and armed again by a period.
  std::uint64_t fired = 0;      ///< Callbacks begun.
  /// Ended by `cancel`, a `scoped_timer` or a stop token, before their callbacks had begun.
  std::uint64_t cancelled = 0;
  std::uint64_t returned = 0;  ///< Given back by `stop`.
  std::uint64_t pending = 0;   ///< Neither of these yet.
  std::uint64_t rearmed = 0;   ///< Among `scheduled`: by a period.
  std::uint64_t due = 0;       ///< Among `pending`: handed to the executor or the driver, and not begun. Its backlog.
  std::uint64_t running = 0;   ///< Callbacks that run now.
  std::uint64_t rejected = 0;  ///< Refused, because stopped or above `max_pending`; not among `scheduled`.
  std::uint64_t refused = 0;   ///< Times that the executor refused a timer; it is given again.
  std::uint64_t early = 0;     ///< Callbacks begun before their deadline, but for `stop(run_now)`. It is always 0.
  std::uint64_t failed = 0;    ///< Callbacks, and rules for a next deadline, that threw.
  std::uint64_t largest_hold = 0;  ///< Most timers handled under one hold of a lock; at most `max_timers_per_lock`.

  /// Adds those of another part of the service.
  TIMING_WHEEL_EXPORT timer_counts& operator+=(const timer_counts& other) noexcept;
};

/// What a service has done since it was made.
///
/// Each shard is counted in its turn, and consistent in itself. With several shards, and while others schedule and
/// cancel, the sum is not that of one instant: `pending` may then show more than there ever were at once, also more
/// than `max_pending`, which itself is exact.
struct timer_stats : timer_counts {
  /// Times that a poller thread woke, or that `run_due` of a `loop_timer` was called.
  std::uint64_t wakeups = 0;
  /// Among them: at the end of a sleep, or in `run_due`, with nothing to move and nothing to run.
  std::uint64_t empty_wakeups = 0;
  /// Among them: before that end, for a timer earlier than what it slept for, or for a `stop`.
  std::uint64_t earlier_wakeups = 0;
  std::uint64_t moves = 0;          ///< Timers moved to a lower wheel.
  std::uint64_t looks = 0;          ///< Timers that a `hashed_wheel` has looked at as it visited their slot.
  std::size_t bytes = 0;            ///< Memory held for timers and wheels, in use or kept for reuse.
  std::vector<level_stats> levels;  ///< Per wheel, lowest first, summed over the shards; clocks are those of the first.
  histogram lateness;               ///< From the deadline to the start of the callback.
};
/// Another name for it.
using stats = timer_stats;

/// A screen for people: what became of the timers, what is wrong, lateness, wake-ups, memory, and a line for each
/// wheel. The text may change from version to version; programs use `write_prometheus`.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, const timer_stats& of);

}  // namespace timing_wheel

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

/// A service handles at most this many timers under one hold of a lock: in a cascade, in an expiry, in a stop and in
/// `for_each_pending`.
inline constexpr std::size_t max_timers_per_lock = 256;

/// What has happened to the timers of a service since it was made. In each shard, at every instant:
///
/// `scheduled == fired + cancelled + returned + pending`
///
/// Example: a periodic timer has run twice, and waits for its third run. It counts as 3 scheduled (2 of them rearmed),
/// 2 fired and 1 pending.
struct timer_counts {
  std::uint64_t scheduled = 0;  ///< Timers that a `schedule` call accepted, and runs that a period armed again.
  std::uint64_t fired = 0;      ///< Callbacks begun.
  /// Timers that `cancel`, a `scoped_timer` or a stop token ended before their callbacks had begun.
  std::uint64_t cancelled = 0;
  std::uint64_t returned = 0;  ///< Timers that a stop gave back or destroyed.
  std::uint64_t pending = 0;   ///< Scheduled timers and runs that have not fired, been cancelled or been returned.
  std::uint64_t rearmed = 0;   ///< Among `scheduled`: runs that a period armed again.
  std::uint64_t due = 0;       ///< Among `pending`: timers that wait in the executor, or for the driver. The backlog.
  std::uint64_t running = 0;   ///< Callbacks that are running.
  std::uint64_t rejected = 0;  ///< Timers that a stopped or full service refused. Not among `scheduled`.
  std::uint64_t refused = 0;   ///< Times that the executor refused a timer. The service gives it anew.
  /// Callbacks begun before their deadline. It is always 0; `stop_run_now` does not count.
  std::uint64_t early = 0;
  std::uint64_t failed = 0;        ///< Callbacks, and rules for a next deadline, that threw.
  std::uint64_t largest_hold = 0;  ///< Most timers under one hold of a lock. At most `max_timers_per_lock`.

  /// Adds the counts of another part of the service.
  TIMING_WHEEL_EXPORT timer_counts& operator+=(const timer_counts& other) noexcept;
};

/// What a service has done since it was made.
///
/// The shards are counted one after the other, and the counts of each shard belong to one instant. If other threads use
/// the service meanwhile, the sum over several shards belongs to no single instant: `pending` may show more timers than
/// ever were pending at once, and more than `max_pending`. The limit itself is exact.
struct timer_stats : timer_counts {
  /// Times that a poller woke, or that the loop called `loop_timer::run_due`.
  std::uint64_t wakeups = 0;
  /// Among `wakeups`: a sleep was over, or `run_due` was called, and there was no timer to move or to run.
  std::uint64_t empty_wakeups = 0;
  /// Among `wakeups`: a sleep was cut short, by an earlier timer or by a stop.
  std::uint64_t earlier_wakeups = 0;
  std::uint64_t moves = 0;  ///< Timers moved to a lower wheel.
  std::uint64_t looks = 0;  ///< Timers that a `hashed_wheel` looked at when it visited their slots.
  /// Moves that windows spare. When the service arms a timer with a window, it adds the moves that the timer would need
  /// to its own deadline, less the moves to the chosen tick; 0 if that is negative. It adds them at once, so timers
  /// that are cancelled before they move count too. Only a `hierarchical_wheel` has moves to spare.
  std::uint64_t moves_saved = 0;
  /// Times that the service armed a timer with a window in a slot that held another timer already, and from which the
  /// timer fires without a move: the slot's wake-up serves both. A timer that moves before it fires does not count,
  /// although it may share a wake-up later. Only a `hierarchical_wheel` counts.
  std::uint64_t wakeups_shared = 0;
  std::size_t bytes = 0;  ///< Memory for timers and wheels, in use or kept.
  /// Each wheel, lowest first: sums over the shards, and the clock of the first shard.
  std::vector<level_stats> levels;
  histogram lateness;  ///< From the deadline to the start of the callback.
};

/// Writes a screen for people: what became of the timers, what is wrong, lateness, wake-ups, memory, and a line for
/// each wheel. The text may change with each version; a program should use `write_prometheus`.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, const timer_stats& of);

}  // namespace timing_wheel

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// One wheel of a hierarchy, in ticks of the engine, and what has happened on it. Counts begin with the engine, and
/// never go back.
///
/// Example: the wheels have 20 slots, and at 0 a timer is inserted that is due at 234. After `advance(220)`:
///
/// | level | `tick_length` | `interval` | `current_time` | `flushes` | `moves` |
/// |---|---|---|---|---|---|
/// | 0 | 1 | 20 | 220 | 0 | 0 |
/// | 1 | 20 | 400 | 220 | 1, of one timer | 1 |
struct level_stats {
  tick tick_length = 0;              ///< Ticks of the lowest wheel in one of this wheel.
  std::uint32_t wheel_size = 0;      ///< Slots.
  tick interval = 0;                 ///< `tick_length × wheel_size`, or `never` if that is past the end of time.
  tick current_time = 0;             ///< The clock, rounded down to `tick_length`.
  std::uint64_t moves = 0;           ///< Timers moved from this wheel to a lower one.
  std::uint64_t flushes = 0;         ///< Buckets flushed.
  std::uint64_t largest_flush = 0;   ///< Timers in the largest of them.
  std::uint64_t buckets_queued = 0;  ///< Times that a bucket of this wheel entered the delay queue.
};

/// What has happened in an engine since it was made. The engine's own `size()` and `now()` tell how many timers are
/// linked, and what the clock shows. Thread safety: as a plain object.
struct engine_stats {
  std::vector<level_stats> levels;    ///< Lowest first; as many as wheels were made.
  std::uint64_t heap_operations = 0;  ///< Pushes, removals and changes of key in the heap.
  std::uint64_t looks = 0;            ///< Timers looked at in visits of their slot, on a wheel that counts rounds.
  std::uint64_t moves_saved = 0;      ///< See `timer_stats::moves_saved`. 0 where there are no levels.
  std::uint64_t wakeups_shared = 0;   ///< See `timer_stats::wakeups_shared`. 0 where there are no levels.
  std::size_t bytes = 0;              ///< Memory held, in use or kept for reuse.

  /// Timers moved to a lower wheel, over all levels. Complexity: O(levels).
  [[nodiscard]] std::uint64_t moves() const noexcept {
    std::uint64_t sum = 0;
    for (const level_stats& level : levels) {
      sum += level.moves;
    }
    return sum;
  }
};

}  // namespace timing_wheel

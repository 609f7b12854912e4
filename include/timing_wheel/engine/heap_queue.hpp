#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "timing_wheel/detail/engine/delay_queue.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// A heap of timers, ordered by deadline, in which each timer knows its place: what `java.util.Timer`, `DelayQueue` and
/// Go's runtime keep. The baseline for the wheels.
///
/// Example: timers are due at 60, 2 and 1000. The front is 2; when the clock is there, it leaves, and 60 is the front.
/// The clock stops at 2, 60 and 1000, at nothing between, and no timer is looked at before it is due.
///
/// Options: only `start` counts. Wheel sizes are checked and change nothing, so `stats()` shows no level.
///
/// - `insert`, `erase`, each timer fired: O(log n): one heap operation; 10 levels for a million timers, with up to 4
///   comparisons each.
/// - an insertion later than most, as with delays of one length: O(1).
/// - `next_expiration`, `catch_up`: O(1).
/// - a timer number larger than all before: all may be copied: amortised O(1), at worst O(n).
/// - memory: 20 bytes per timer number, up to 40 after growing; nothing is allocated unless a larger number comes.
///
/// Order: timers of one tick come in no particular order.
/// Thread safety: none of its own. Const members may run at the same time.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. The heap is ordered, and each timer in it knows its place.
/// 2. No deadline lies before the clock; one at the clock is due, and was left by a budget.
class heap_queue {
 public:
  /// The wheel sizes change nothing, but are checked as those of the other engines are.
  /// \throws std::invalid_argument naming the value and the range if a wheel size is out of it, or `start` is `never`.
  TIMING_WHEEL_EXPORT explicit heap_queue(const engine_options& options = {});
  heap_queue(const heap_queue&) = delete;
  heap_queue& operator=(const heap_queue&) = delete;

  /// Links `n` to be due at `deadline`. \returns false if `deadline` is not after the clock: then it was not linked.
  /// \pre `n` is not linked. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT bool insert(timer_number n, tick deadline);

  /// Makes room for timer `n`, so that inserting it does not throw. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT void reserve(timer_number n, tick deadline);

  /// Unlinks `n`. \returns false if it was not linked.
  TIMING_WHEEL_EXPORT bool erase(timer_number n) noexcept;

  /// Moves the clock to `now`, or to the tick before the first deadline if that comes first. Complexity: O(1).
  void catch_up(tick now) noexcept {
    const tick last_quiet = queue_.empty() ? never - 1 : queue_.front().expiration - 1;
    clock_ = std::max(clock_, std::min(now, last_quiet));
  }

  /// Moves the clock to `now`; unlinks at most `budget` timers, in the order of their deadlines. See `timer_engine`. If
  /// it finds no memory for the list of those that are due, it ends as if the budget had; if nothing was due until
  /// then, it throws std::bad_alloc. Nothing is lost, and the call can be repeated.
  TIMING_WHEEL_EXPORT advance_result advance(tick now, std::size_t budget = no_limit);

  /// Gives back memory that no linked timer needs, if 256 at most are linked, and none whose number is in the upper
  /// half of those that there is room for. \returns false: there is never more to do. Complexity: as of the growth
  /// before.
  TIMING_WHEEL_EXPORT bool shrink_some() noexcept;

  /// Whether `n` is linked, for any number. Complexity: O(1).
  [[nodiscard]] bool contains(timer_number n) const noexcept { return n < queue_.members() && queue_.contains(n); }

  /// The earliest deadline; none if empty. Complexity: O(1).
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept {
    return queue_.empty() ? std::nullopt : std::optional(queue_.front().expiration);
  }

  /// The clock: where `advance` and `catch_up` have moved it. It never goes back. Complexity: O(1).
  [[nodiscard]] tick now() const noexcept { return clock_; }
  /// How many timers are linked. Complexity: O(1).
  [[nodiscard]] std::size_t size() const noexcept { return queue_.size(); }

  /// Copies the counts since the engine was made. Allocates nothing if `counted.levels` has memory for the levels: 64
  /// at most.
  TIMING_WHEEL_EXPORT void read(engine_stats& counted) const;
  /// The same, as a copy.
  [[nodiscard]] engine_stats stats() const {
    engine_stats counted;
    read(counted);
    return counted;
  }

  /// \returns whether the numbered invariants hold. Complexity: O(timer numbers).
  [[nodiscard]] TIMING_WHEEL_EXPORT bool invariants_hold() const;

 private:
  using delay_queue = detail::delay_queue;
  void fire_front();

  delay_queue queue_;
  tick clock_;
  std::vector<timer_number> due_;
};

static_assert(timer_engine<heap_queue>);

}  // namespace timing_wheel

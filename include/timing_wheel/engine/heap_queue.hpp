#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "timing_wheel/detail/engine/delay_queue.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// A heap of timers, ordered by deadline, in which each timer knows its place. `java.util.Timer`, `DelayQueue` and Go's
/// runtime keep timers in a heap, too. The benchmarks compare the wheels with it.
///
/// Example: timers are due at 60, 2 and 1000. The front is 2. When the clock reaches 2, that timer leaves, and 60 is
/// the front. The clock stops only at 2, 60 and 1000, and the heap looks at no timer before it is due.
///
/// Options: only `start` has an effect. The heap checks the wheel sizes and does not use them, so `stats()` shows no
/// level.
///
/// - `insert`, `erase`, each timer fired: O(log n), one heap operation. Each node has four children, so a million
///   timers make 10 levels below the front, with up to 4 comparisons each.
/// - an insertion later than most, as with delays of one length: O(1).
/// - `next_expiration`, `catch_up`: O(1).
/// - a timer number larger than all before: amortised O(1), at worst O(n), because the heap may copy all timers.
/// - memory: 20 bytes per timer number, up to 40 after growing. The heap allocates only if a larger number comes;
///   besides, the list of due timers allocates when it grows.
///
/// Order: timers of one tick come out in no particular order.
///
/// Thread safety: none of its own. Const members may run at the same time.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. The heap is ordered, and each timer in it knows its place.
/// 2. No deadline lies before the clock. A deadline at the clock is due, and `advance` has left it because its budget
///    ended.
class heap_queue {
 public:
  /// The wheel sizes change nothing, but the constructor checks them as the other engines do.
  /// \throws std::invalid_argument if a wheel size is out of range, or if `start` is `never`. The message has the value
  /// and the range.
  TIMING_WHEEL_EXPORT explicit heap_queue(const engine_options& options = {});
  heap_queue(const heap_queue&) = delete;
  heap_queue& operator=(const heap_queue&) = delete;

  /// Links `n` to be due at `deadline`. \returns false if `deadline` is not after the clock; then `n` is not linked.
  /// \pre `n` is not linked. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT bool insert(timer_number n, tick deadline);

  /// The same as `insert(n, coalesce(deadline, window))`. It counts nothing: a heap makes no moves that a window could
  /// save, and cannot tell cheaply whether another timer has the same tick.
  bool insert(timer_number n, tick deadline, tick window) { return insert(n, coalesce(deadline, window)); }

  /// Makes room for timer `n`, so that inserting it does not throw. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT void reserve(timer_number n, tick deadline);

  /// The tick in [deadline, deadline + window] that is a multiple of the largest power of two, so that timers share it:
  /// the heap stops there once. If `window` is 0, or `deadline` is `never`, the call returns `deadline`. Complexity:
  /// O(1).
  [[nodiscard]] TIMING_WHEEL_EXPORT tick coalesce(tick deadline, tick window) const noexcept;

  /// A hint that these timers are about to be erased. A heap makes nothing of it.
  static void prefetch(std::span<const timer_number> /*some*/) noexcept {}

  /// Unlinks `n`. \returns false if it was not linked.
  TIMING_WHEEL_EXPORT bool erase(timer_number n) noexcept;

  /// Moves the clock to `now`, or to the tick before the first deadline if that tick comes first. Complexity: O(1).
  void catch_up(tick now) noexcept {
    const tick last_quiet = queue_.empty() ? never - 1 : queue_.front().expiration - 1;
    clock_ = std::max(clock_, std::min(now, last_quiet));
  }

  /// Moves the clock to `now`; unlinks at most `budget` timers, in the order of their deadlines. See `timer_engine`. If
  /// the list of due timers gets no memory, `advance` returns as if the budget had run out. If that happens before
  /// `advance` has unlinked a timer, `advance` throws `std::bad_alloc`. No timer is lost, and you can repeat the call.
  TIMING_WHEEL_EXPORT advance_result advance(tick now, std::size_t budget = no_limit);

  /// Gives back memory that no linked timer needs. It does so only if at most 256 timers are linked, and each of their
  /// numbers is in the lower half of the numbers that have room. \returns false, because one call does all. Complexity:
  /// that of the growth that took the memory.
  TIMING_WHEEL_EXPORT bool shrink_some() noexcept;

  /// Whether `n` is linked, for any number. Complexity: O(1).
  [[nodiscard]] bool contains(timer_number n) const noexcept { return n < queue_.members() && queue_.contains(n); }

  /// The earliest deadline; none if empty. Complexity: O(1).
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept {
    return queue_.empty() ? std::nullopt : std::optional(queue_.front().expiration);
  }

  /// The clock, as `advance` and `catch_up` have moved it. It never goes back. Complexity: O(1).
  [[nodiscard]] tick now() const noexcept { return clock_; }
  /// How many timers are linked. Complexity: O(1).
  [[nodiscard]] std::size_t size() const noexcept { return queue_.size(); }

  /// Copies the counts since the engine was made. It allocates nothing, because a heap has no levels to count.
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

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "timing_wheel/detail/engine/bucket.hpp"
#include "timing_wheel/detail/engine/delay_queue.hpp"
#include "timing_wheel/detail/engine/wheel_parts.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// A hierarchical timing wheel as in Kafka (after Varghese and Lauck, "Hashed and Hierarchical Timing Wheels", 1987,
/// scheme 7).
///
/// Level k has `size_k` buckets of `tick_k` each, so `interval_k = size_k × tick_k`; a level's tick is the interval of
/// the level below. The wheel creates a level when a timer first needs it. A level holds the deadlines before
/// `current_k + interval_k`, where `current_k` is the clock rounded down to `tick_k`. The non-empty buckets lie in a
/// min-heap keyed by expiration, the tick at which a bucket begins. When the clock reaches a bucket, the wheel moves
/// its timers to lower levels, or returns them if they are due.
///
///     hierarchical_wheel wheel({.wheel_sizes = {60, 60, 24}});  // seconds, minutes, hours
///     wheel.insert(7, 1500);                                    // timer 7 is due at tick 1500
///     while (const std::optional<tick> next = wheel.next_expiration()) {
///       sleep_until_tick(*next);
///       for (const timer_number n : wheel.advance(*next).due) expire(n);
///     }
///
/// Example: the size is 20, the clock shows 0, and a timer is due at 234.
///
/// | tick | the wheel |
/// |---|---|
/// | 0 | puts 234 into bucket 11 of the second level, [220, 240): it does not fit 20 buckets of one tick |
/// | 220 | flushes that bucket, and puts 234, which is 14 ticks away, into the lowest level |
/// | 234 | returns the timer, which is due |
///
/// The timer moved once. The clock stopped only at 220 and 234.
///
/// - `insert`: O(levels) and at most one heap operation.
/// - `erase`: O(1) and at most one heap operation.
/// - `advance`: O(timers handled + buckets flushed), whatever the distance in ticks.
/// - moves of a timer: write the deadline in base `size`; the timer moves once per non-zero digit below the top one.
/// - memory: 13 bytes per timer in full chunks, up to 27 where many were erased; at least 120 bytes per non-empty
///   bucket; 32 bytes per bucket; plus up to 0.6 bytes per timer reserved ahead. A chunk is a part of a bucket's list,
///   with room for 64 timers, or for 12. On Linux and Windows, and with `huge_pages`, the buckets of a wheel of 512 or
///   more slots are mapped, so that pages of buckets that no timer has entered take no memory.
/// - To avoid all moves, use one level. With 1 800 000 slots it takes 84 MB, and of a million random timers, most then
///   need a small chunk each.
///
/// After warm-up the wheel allocates nothing.
///
/// Order: timers of one tick come out in the order in which they entered their bucket, except where an insert reused an
/// erased place.
///
/// Thread safety: none of its own. Const members may run at the same time.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. `tick_0` = 1, `tick_(k+1)` = `interval_k` = `tick_k × size_k`.
/// 2. A bucket's expiration is a multiple of its level's tick, and every deadline in it lies within that tick.
/// 3. Every non-empty bucket expires at or after the clock, and before `current_k + interval_k`.
/// 4. A bucket's mark is set exactly if the bucket is not empty. A word of marks with any mark set is in the queue,
///    keyed by its earliest bucket.
/// 5. The sizes of the buckets add up to `size()`.
class hierarchical_wheel {
 public:
  /// An empty wheel whose clock shows `options.start`.
  /// \throws std::invalid_argument if a wheel size is out of range, or if `start` is `never`. The message has the value
  /// and the range.
  TIMING_WHEEL_EXPORT explicit hierarchical_wheel(const engine_options& options = {});
  TIMING_WHEEL_EXPORT ~hierarchical_wheel();
  hierarchical_wheel(const hierarchical_wheel&) = delete;
  hierarchical_wheel& operator=(const hierarchical_wheel&) = delete;

  /// Links `n` to be due at `deadline`. \returns false if `deadline` is not after the clock; then `n` is not linked.
  /// \pre `n` is not linked. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT bool insert(timer_number n, tick deadline);

  /// The same as `insert(n, coalesce(deadline, window))`, and counts what that saves: `engine_stats::moves_saved` and
  /// `wakeups_shared`. Complexity: O(levels).
  /// \pre `n` is not linked. \throws std::bad_alloc; then no timer has changed, and nothing is counted.
  TIMING_WHEEL_EXPORT bool insert(timer_number n, tick deadline, tick window);

  /// Allocates what `insert(n, deadline)` needs. After it, `insert(n, deadline)` does not throw, if only erasures
  /// happened between. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT void reserve(timer_number n, tick deadline);

  /// The tick in [deadline, deadline + window] at which this wheel fires a timer most cheaply. The call takes the
  /// longest level tick that has a multiple in this range. Of its multiples there, the call returns the one whose
  /// factor is divisible by the largest power of two. So timers share the returned tick, and a timer that lies in the
  /// level whose tick the call took, or in a lower level, fires without a move.
  ///
  /// Example: the sizes are the default. `coalesce(1'800'000, 1'100)` is 1 800 192, which is 1024 × 1758.
  ///
  /// If `window` is 0, or `deadline` is `never`, the call returns `deadline`. Complexity: O(levels).
  [[nodiscard]] TIMING_WHEEL_EXPORT tick coalesce(tick deadline, tick window) const noexcept;

  /// A hint that these timers are about to be erased: their memory is fetched side by side. Others than linked ones do
  /// no harm. Complexity: O(some).
  void prefetch(std::span<const timer_number> some) const noexcept { store_.prefetch(some); }

  /// Unlinks `n`. \returns false if it was not linked.
  TIMING_WHEEL_EXPORT bool erase(timer_number n) noexcept;

  /// Moves the clock to `now`, or to the tick before the first expiration if that tick comes first. Complexity: O(1).
  void catch_up(tick now) noexcept { clock_ = std::max(clock_, std::min(now, queue_.front().expiration - 1)); }

  /// Moves the clock to `now`; flushes at most `budget` timers. See `timer_engine`. If a cascade (a move of timers to a
  /// lower level) gets no memory, `advance` returns as if the budget had run out. If nothing was due yet, it throws
  /// `std::bad_alloc`. No timer is lost, and you can repeat the call.
  advance_result advance(tick now, std::size_t budget = no_limit) {
    const tick next = queue_.front().expiration;
    // Written as branches, so that the processor need not wait for the previous `clock_`.
    if (now < next && next - now > ticks_ahead && now > clock_) [[likely]] {
      clock_ = now;  // which is not `never`, for `next` comes after it
      return {};
    }
    const tick target = std::max(clock_, std::min(now, never - 1));
    if (next <= target) {
      return flush_until(target, budget);
    }
    clock_ = target;
    return {{}, false, 0, look_ahead()};
  }

  /// Does one small step of returning memory that no linked timer needs: examines 256 chunks or 64 KiB of an array, or
  /// frees a page of 64 chunks. The caller may insert, erase and advance between two steps. Not freed: the slots, the
  /// stored high halves of deadlines at least 2^32 ticks away, and pages that hold a timer.
  /// \returns whether there may be more to free.
  TIMING_WHEEL_EXPORT bool shrink_some() noexcept;

  /// Whether `n` is linked, for any number. Complexity: O(1).
  [[nodiscard]] bool contains(timer_number n) const noexcept { return store_.linked(n); }

  /// The tick of the earliest bucket; none if the wheel is empty. If the last `advance` ran out of budget, the answer
  /// is at most its `now`. Complexity: O(1).
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept {
    return queue_.empty() ? std::nullopt : std::optional(queue_.front().expiration);
  }

  /// The clock, as `advance` and `catch_up` have moved it. It never goes back. Complexity: O(1).
  [[nodiscard]] tick now() const noexcept { return clock_; }
  /// How many timers are linked. Complexity: O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Copies the counts since the engine was made. It allocates nothing if `counted.levels` has memory for the levels,
  /// at most 64.
  TIMING_WHEEL_EXPORT void read(engine_stats& counted) const;
  /// The same, as a copy.
  [[nodiscard]] engine_stats stats() const {
    engine_stats counted;
    read(counted);
    return counted;
  }

  /// \returns whether the numbered invariants hold. Complexity: O(size() + buckets).
  [[nodiscard]] TIMING_WHEEL_EXPORT bool invariants_hold() const;

 private:
  using bucket = detail::bucket;
  using bucket_store = detail::bucket_store;
  using delay_queue = detail::delay_queue;
  using entry = detail::entry;
  struct level;

  [[nodiscard]] std::uint32_t size_of_level(std::size_t index) const noexcept;
  void add_level();
  [[gnu::noinline]] bool insert_anew(timer_number n, tick deadline);
  [[nodiscard]] inline level& level_for(tick deadline);
  [[nodiscard]] std::uint64_t moves_to(tick deadline) const noexcept;
  [[nodiscard]] inline level& level_below(level& origin, tick deadline) noexcept;
  [[gnu::noinline]] level& new_level_for(tick deadline);
  void cover_far(const level& wheel, timer_number n);
  [[gnu::noinline]] void keep_far_deadline(timer_number n, tick deadline);
  inline void link(level& wheel, tick deadline, entry e);
  inline void enqueue(level& wheel, const bucket& b) noexcept;
  inline void dequeue(level& wheel, const bucket& b) noexcept;
  [[gnu::noinline]] bool close_gaps(detail::entry_place p) noexcept;
  [[nodiscard]] level& level_of(const bucket& b) noexcept;
  [[nodiscard]] inline level& level_of(delay_queue::member m) noexcept;
  TIMING_WHEEL_EXPORT advance_result flush_until(tick target, std::size_t budget);
  // Returns timers due in 8 ticks, so that the caller can prefetch their data; some may be erased.
  static constexpr tick ticks_ahead = 8;
  [[nodiscard]] std::span<const entry> look_ahead() const noexcept {
    constexpr std::size_t most = 16;
    const bucket& b = lowest_[(clock_ + ticks_ahead) & lowest_mask_];
    if (b.empty()) {
      return {};
    }
    const std::span<const entry> run = b.written_at_front();
    const std::span<const entry> some = run.first(std::min(run.size(), most));
    for (const entry e : some) {
      store_.prefetch(e.which);
    }
    return some;
  }
  inline void flush(level& wheel, bucket& b, std::size_t& budget);
  inline void expire(bucket& b, std::size_t& budget);
  inline void add_or_run(level& origin, const bucket& b, entry e);
  void cascade(level& origin, bucket& b, std::size_t& budget);
  [[nodiscard]] inline tick deadline_of(const level& wheel, const bucket& b, entry e) const noexcept;
  [[nodiscard]] bool level_holds(const level& wheel, std::size_t& timers, std::size_t& words) const;

  std::vector<std::uint32_t> sizes_;
  bool all_binary_;  // each size is a power of two
  std::vector<level> levels_;
  const bucket* lowest_ = nullptr;  // the ring of the lowest level
  tick lowest_mask_ = 0;
  bucket_store store_;
  delay_queue queue_;
  detail::far_deadlines far_deadlines_{store_.memory()};  // high halves of deadlines, of levels with a tick above 2^32
  tick clock_;
  std::size_t size_ = 0;
  const bucket* flushing_ = nullptr;  // the bucket whose flush has begun, until it is empty
  std::uint64_t flushed_ = 0;         // how many timers of `flushing_` were handled
  std::vector<timer_number> due_;
  std::uint64_t moves_saved_ = 0;
  std::uint64_t wakeups_shared_ = 0;
};

static_assert(timer_engine<hierarchical_wheel>);

}  // namespace timing_wheel

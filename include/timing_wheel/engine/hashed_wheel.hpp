#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "timing_wheel/detail/engine/bucket.hpp"
#include "timing_wheel/detail/engine/wheel_parts.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// A wheel that counts rounds, as in Netty and Dubbo (scheme 6 of Varghese and Lauck, 1987).
///
/// There is one wheel. A timer lies in slot `deadline mod slots`, however far away it is. Each tick the wheel visits
/// one slot and looks at every timer in it. If the rounds of a timer are over, the timer is due; otherwise it stays for
/// another round. The wheel computes the remaining rounds from the deadline and the tick of the visit, so a look writes
/// nothing. Only if a timer has fired earlier in the same visit, the later timers move up by one place, in order.
///
/// Example: for 60 slots the wheel takes 64, the next power of two, and the clock shows 0. Deadline 130 goes into slot
/// 2 = 130 − 2 × 64.
///
/// | tick | the wheel |
/// |---|---|
/// | 2 | looks at the timer: two rounds to go |
/// | 66 | looks at the timer: one round to go |
/// | 130 | looks at the timer: due |
///
/// The wheel looked 3 times at the timer. The clock stopped at each of the 130 ticks.
///
/// Options: the number of slots is `wheel_size`, or the first of `wheel_sizes`, rounded up to a power of two.
/// `stats().levels[0].wheel_size` shows it.
///
/// - `insert`, `erase`: O(1).
/// - a timer of delay d: the wheel looks at it ⌊(d − 1) / slots⌋ + 1 times.
/// - a tick: `size()` / slots looks, and a wake-up while a timer is pending.
/// - `advance` over any distance: O(slots / 64 + looks). If it passes a slot several times, it visits the slot once,
///   for all those rounds. `looks` counts each round, modulo 2^64; `handled`, `flushes` and the budget count one.
/// - memory: 13 bytes per timer in full chunks, up to 27 where many were erased; at least 120 bytes per non-empty
///   bucket; 64 bytes per slot; plus up to 0.6 bytes per timer reserved ahead. A chunk is a part of a bucket's list,
///   with room for 64 timers, or for 12.
/// - a timer that is 2^32 ticks or more away when it is inserted: 4 bytes for each of the 4096 timer numbers of its
///   page.
///
/// After warm-up the wheel allocates nothing.
///
/// Order: timers of one deadline come out in the order in which they were inserted, except where an insert reused an
/// erased place, and except timers inserted while visits were under way. If `advance` jumps at most one revolution,
/// timers come out by deadline; if it jumps further, slot by slot.
///
/// Thread safety: none of its own. Const members may run at the same time.
///
/// `advance` moves the clock to `now` at once. If its budget ends first, some visits are still to be made; they are
/// *under way*. So each slot has two buckets. One waits for the visit that is under way. In the other one, the timers
/// that this visit has looked at, and those inserted meanwhile, wait for the next visit. So a visit can stop anywhere.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. A bucket's expiration is the tick of its next visit. Each deadline in it lies at that tick, or a multiple of the
///    slots after it.
/// 2. The next visit of a bucket is one of those that are under way, [`next_visit_`, `last_visit_`], or lies at most
///    one revolution after the clock. No two buckets of a slot wait for the same visit.
/// 3. The visits under way lie at or before the clock. If none are under way, `next_visit_` is the tick after the
///    clock.
/// 4. A slot is marked exactly if one of its buckets is not empty.
/// 5. The sizes of the buckets add up to `size()`. `far_timers_` of these timers have a stored high half of the
///    deadline.
class hashed_wheel {
 public:
  /// An empty wheel whose clock shows `options.start`.
  /// \throws std::invalid_argument if a wheel size is out of range, or if `start` is `never`. The message has the value
  /// and the range.
  TIMING_WHEEL_EXPORT explicit hashed_wheel(const engine_options& options = {});
  hashed_wheel(const hashed_wheel&) = delete;
  hashed_wheel& operator=(const hashed_wheel&) = delete;

  /// Links `n` to be due at `deadline`. \returns false if `deadline` is not after the clock; then `n` is not linked.
  /// \pre `n` is not linked. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT bool insert(timer_number n, tick deadline);

  /// The same as `insert(n, coalesce(deadline, window))`. It counts no savings, because this wheel moves no timer, and
  /// stops at each tick.
  bool insert(timer_number n, tick deadline, tick window) { return insert(n, coalesce(deadline, window)); }

  /// Allocates what `insert(n, deadline)` needs. After it, `insert(n, deadline)` does not throw, if only erasures
  /// happened between. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT void reserve(timer_number n, tick deadline);

  /// Returns `deadline`, whatever the window: this wheel stops at each tick, so timers that share one would save it
  /// nothing. Complexity: O(1).
  [[nodiscard]] static tick coalesce(tick deadline, tick /*window*/) noexcept { return deadline; }

  /// A hint that these timers are about to be erased: their memory is fetched side by side. Others than linked ones do
  /// no harm. Complexity: O(some).
  void prefetch(std::span<const timer_number> some) const noexcept { store_.prefetch(some); }

  /// Unlinks `n`. \returns false if it was not linked.
  TIMING_WHEEL_EXPORT bool erase(timer_number n) noexcept;

  /// Moves the clock of an empty wheel to `now`. While a timer is pending, it does nothing, because the wheel has to
  /// visit the next tick.
  TIMING_WHEEL_EXPORT void catch_up(tick now) noexcept;

  /// Moves the clock to `now` and visits the slots up to that tick. It looks at no more than `budget` timers. See
  /// `timer_engine`. If a visit gets no memory, `advance` returns as if the budget had run out. If nothing was due yet,
  /// it throws `std::bad_alloc`. No timer is lost, and you can repeat the call.
  TIMING_WHEEL_EXPORT advance_result advance(tick now, std::size_t budget = no_limit);

  /// Does one small step of returning memory that no linked timer needs: examines 256 chunks or 64 KiB of an array, or
  /// frees a page of 64 chunks. The caller may insert, erase and advance between two steps. Not freed: the slots, the
  /// stored high halves of deadlines at least 2^32 ticks away, and pages that hold a timer.
  /// \returns whether there may be more to free.
  TIMING_WHEEL_EXPORT bool shrink_some() noexcept;

  /// Whether `n` is linked, for any number. Complexity: O(1).
  [[nodiscard]] bool contains(timer_number n) const noexcept { return store_.linked(n); }

  /// The tick after the clock; none if the wheel is empty. If the last `advance` ran out of budget, the answer is at
  /// most the clock. Complexity: O(1).
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept {
    return size_ == 0 ? std::nullopt : std::optional(next_visit_);
  }

  /// The clock, as `advance` and `catch_up` have moved it. It never goes back. Complexity: O(1).
  [[nodiscard]] tick now() const noexcept { return clock_; }
  /// How many timers are linked. Complexity: O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Copies the counts since the engine was made. There is one level, the wheel. Its `flushes` are the visits that
  /// found a timer; it never moves a timer. The call allocates nothing if `counted.levels` has memory for one level.
  TIMING_WHEEL_EXPORT void read(engine_stats& counted) const;
  /// The same, as a copy.
  [[nodiscard]] engine_stats stats() const {
    engine_stats counted;
    read(counted);
    return counted;
  }

  /// \returns whether the numbered invariants hold. Complexity: O(size() + slots).
  [[nodiscard]] TIMING_WHEEL_EXPORT bool invariants_hold() const;

 private:
  using bucket = detail::bucket;
  using bucket_store = detail::bucket_store;
  using entry = detail::entry;
  using bucket_pair = std::array<bucket, 2>;

  [[nodiscard]] std::uint32_t slots() const noexcept { return static_cast<std::uint32_t>(mask_ + 1); }
  [[nodiscard]] tick visit_after_clock(tick deadline) const noexcept;
  [[nodiscard]] std::uint32_t index_of(tick visit) const noexcept { return static_cast<std::uint32_t>(visit & mask_); }
  [[nodiscard]] bucket_pair& pair_of(tick visit) noexcept { return wheel_[index_of(visit)]; }
  [[nodiscard]] bucket* waiting_for(tick visit) noexcept;
  [[nodiscard]] bucket& bucket_for(tick visit) noexcept;
  void unmark_if_empty(std::uint32_t index) noexcept;
  [[nodiscard]] tick next_marked(tick from, tick last) const noexcept;

  void rest_at(tick now) noexcept;
  void begin_visits(tick target) noexcept;
  [[nodiscard]] bool under_way() const noexcept { return next_visit_ <= last_visit_; }
  [[nodiscard]] bucket* next_to_visit() noexcept;
  void make_visits(std::size_t& budget);
  void visit(bucket& b, std::size_t& budget);
  void look_at_front(bucket& b, bucket& next, std::size_t& budget);
  [[nodiscard]] bool nothing_due_in(const bucket& b, std::span<const entry> run) const noexcept;
  void look_at(const bucket& b, bucket& next, entry e);

  void cover_far(timer_number n, tick deadline, tick visit);
  void set_far(timer_number n, tick deadline, tick visit) noexcept;
  void forget_far(timer_number n) noexcept;
  [[nodiscard]] bool is_far(timer_number n) const noexcept { return far_timers_ != 0 && far_deadlines_.has(n); }
  [[nodiscard]] tick deadline_of(const bucket& b, entry e) const noexcept;

  [[nodiscard]] bool visit_in_range(tick visit) const noexcept;
  [[nodiscard]] bool bucket_holds(const bucket& b, std::uint32_t index, std::size_t& far) const;

  tick mask_;       // slots − 1
  unsigned shift_;  // from a tick to the number of its revolution
  bucket_store store_;
  std::unique_ptr<bucket_pair[]> wheel_;
  detail::bucket_marks marks_;                            // set for a slot if one of its buckets is not empty
  detail::far_deadlines far_deadlines_{store_.memory()};  // of timers 2^32 ticks or more after their first visit
  std::size_t far_timers_ = 0;                            // how many have one there
  tick clock_;
  tick next_visit_;
  tick last_visit_;
  std::size_t size_ = 0;
  const bucket* visiting_ = nullptr;  // the bucket whose visit has begun, until it is empty
  std::uint64_t visited_ = 0;         // how many timers of `visiting_` were looked at
  std::uint64_t looks_ = 0;
  std::uint64_t visits_ = 0;
  std::uint64_t largest_visit_ = 0;
  std::vector<timer_number> due_;
};

static_assert(timer_engine<hashed_wheel>);

}  // namespace timing_wheel

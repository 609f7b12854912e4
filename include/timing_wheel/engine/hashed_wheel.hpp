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
/// one slot and looks at every timer in it. If the rounds of a timer are over, it is due; else it stays for another
/// round. The rounds that are left follow from the deadline and the tick of the visit, so a look writes nothing. Only
/// if a timer has fired earlier in the same visit, the rest moves up by one, in order.
///
/// Example, 60 slots, clock 0: 60 becomes the power of two 64. Deadline 130 goes into slot 2 = 130 − 2 × 64.
///
/// | tick | the wheel |
/// |---|---|
/// | 2 | looks at it: two rounds to go |
/// | 66 | looks at it: one round to go |
/// | 130 | looks at it: due |
///
/// That was 3 looks, and the clock stopped at each of the 130 ticks.
///
/// Options: the number of slots is `wheel_size`, or the first of `wheel_sizes`, rounded up to a power of two;
/// `stats().levels[0].wheel_size` tells it.
///
/// - `insert`, `erase`: O(1).
/// - a timer of delay d: ⌊(d − 1) / slots⌋ + 1 looks.
/// - a tick: `size()` / slots looks, and a wake-up while a timer is pending.
/// - `advance` over any distance: O(slots / 64 + looks): it visits a slot that it passes several times once, for all
///   those rounds. `looks` counts each round, modulo 2^64; `handled`, `flushes` and the budget count one.
/// - memory: 13 bytes per timer in full chunks, up to 27 where many were erased; at least 120 bytes per non-empty
///   bucket; 80 bytes per slot; an eighth of 4.5 bytes per timer ahead of need.
/// - a timer 2^32 ticks or more away when it comes: 4 bytes for each timer number of its page of 4096.
///
/// After warm-up nothing is allocated.
///
/// Order: timers of one deadline come in the order in which they came, unless one has filled the gap of another, or
/// they came while visits were under way. Jumps of up to a revolution give timers by deadline, longer ones slot by
/// slot.
///
/// Thread safety: none of its own. A const member may run beside another const member.
///
/// `advance` moves the clock to `now` at once; the visits may be behind it. So each slot has two buckets: timers that a
/// visit has looked at, and timers that come meanwhile, wait in the other one for the next visit. So a visit can stop
/// anywhere.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. A bucket's expiration is when it is visited next; its deadlines lie a multiple of the slots after it.
/// 2. That visit is one of those that are under way, [`next_visit_`, `last_visit_`], or lies at most one revolution
///    after the clock; no two buckets of a slot wait for the same one.
/// 3. The visits under way lie at or before the clock. With none under way, `next_visit_` is the tick after the clock.
/// 4. A slot is marked exactly if one of its buckets is not empty.
/// 5. The sizes of the buckets add up to `size()`, and an upper half is kept for `far_timers_` of them.
class hashed_wheel {
 public:
  /// An empty wheel whose clock shows `options.start`.
  /// \throws std::invalid_argument naming the value and the range if a wheel size is out of it, or `start` is `never`.
  TIMING_WHEEL_EXPORT explicit hashed_wheel(const engine_options& options = {});
  hashed_wheel(const hashed_wheel&) = delete;
  hashed_wheel& operator=(const hashed_wheel&) = delete;

  /// Links `n` to be due at `deadline`. \returns false if `deadline` is not after the clock: then it was not linked.
  /// \pre `n` is not linked. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT bool insert(timer_number n, tick deadline);

  /// Allocates what an insertion of `n` at `deadline` needs, so that the next one does not throw, if nothing but
  /// erasures come between. \throws std::bad_alloc; then no timer has changed.
  TIMING_WHEEL_EXPORT void reserve(timer_number n, tick deadline);

  /// Unlinks `n`. \returns false if it was not linked.
  TIMING_WHEEL_EXPORT bool erase(timer_number n) noexcept;

  /// Moves the clock of an empty wheel to `now`. While a timer is pending it does nothing, because the wheel has to
  /// visit the next tick.
  TIMING_WHEEL_EXPORT void catch_up(tick now) noexcept;

  /// Moves the clock to `now` and visits the slots up to there, looking at no more than `budget` timers. See
  /// `timer_engine`. If it finds no memory, it ends as if the budget had; if nothing was due until then, it
  /// throws std::bad_alloc. Nothing is lost, and the call can be repeated.
  TIMING_WHEEL_EXPORT advance_result advance(tick now, std::size_t budget = no_limit);

  /// A step of giving back memory that no linked timer needs: it looks at 256 chunks, or at 64 KiB of an array, or
  /// gives a page of 64 chunks back. Insertions and the like may come between two steps. What stays: the slots, upper
  /// halves of deadlines 2^32 ticks or more away, and each page of 64 chunks with a timer. \returns whether there may
  /// be more.
  TIMING_WHEEL_EXPORT bool shrink_some() noexcept;

  /// Whether `n` is linked, for any number. Complexity: O(1).
  [[nodiscard]] bool contains(timer_number n) const noexcept { return store_.linked(n); }

  /// The tick after the clock; at most the clock while visits are under way; none if empty. Complexity: O(1).
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept {
    return size_ == 0 ? std::nullopt : std::optional(next_visit_);
  }

  /// The clock: where `advance` and `catch_up` have moved it. It never goes back. Complexity: O(1).
  [[nodiscard]] tick now() const noexcept { return clock_; }
  /// How many timers are linked. Complexity: O(1).
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Copies the counts since the engine was made: one level, the wheel. Its `flushes` are the visits that found a
  /// timer; it never moves a timer. Allocates nothing if `counted.levels` has memory for one level.
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
  unsigned shift_;  // of a tick to its revolution
  bucket_store store_;
  std::unique_ptr<bucket_pair[]> wheel_;
  detail::bucket_marks marks_;                            // of a slot: one of its buckets is not empty
  detail::far_deadlines far_deadlines_{store_.memory()};  // those that were 2^32 ticks or more after their first visit
  std::size_t far_timers_ = 0;                            // for how many one is kept
  tick clock_;
  tick next_visit_;
  tick last_visit_;
  std::size_t size_ = 0;
  const bucket* visiting_ = nullptr;  // begun, and not yet empty
  std::uint64_t visited_ = 0;         // of its timers
  std::uint64_t looks_ = 0;
  std::uint64_t visits_ = 0;
  std::uint64_t largest_visit_ = 0;
  std::vector<timer_number> due_;
};

static_assert(timer_engine<hashed_wheel>);

}  // namespace timing_wheel

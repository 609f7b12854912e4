#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/run.hpp"
#include "compare/workload.hpp"

/// \file
/// What each engine must count, worked out from the workload alone. Ticks are those of the engine; a timer is added
/// when the clock is at `added`, is due at `due`, and is cancelled, if it is, when the clock is at `cancelled`, in
/// [added, due).
///
/// **The digit rule.** Let n be the size of the wheels, so that level k (from 0) has the tick n^k, and write `due` in
/// base n. A timer is put on the lowest level k with ⌊due / n^k⌋ − ⌊added / n^k⌋ < n. *It then moves once for each
/// non-zero digit of `due` below digit k, from the highest to the lowest.* Proof. On level k it lies in the bucket that
/// begins at s = ⌊due / n^k⌋ · n^k, and s > added if k > 0: level k − 1 did not hold it, so ⌊due / n^(k−1)⌋ − ⌊added /
/// n^(k−1)⌋ ≥ n, and of two integers that are n apart, the quotients by n differ. At s the bucket is flushed. Let r =
/// due − s be what the digits below k say. If r = 0, the timer is due. Otherwise it is put on the lowest level j with
/// ⌊due / n^j⌋ − ⌊s / n^j⌋ < n; for j ≤ k, s is a multiple of n^j, so the left side is ⌊r / n^j⌋, and that is below n
/// exactly if r < n^(j+1): j is the highest non-zero digit of r, which lies below k. That was one move, to level j, and
/// the same holds there for the digits below j. ∎
///
/// With `added` = 0, k is the highest non-zero digit of `due`, which gives the rule as it is usually told: the non-zero
/// digits below the top one. With wheels of several sizes, n^k is the product of the sizes below level k, a digit has
/// the base of its level, and the proof is the same. With another clock, k is the highest digit p of due − added, or
/// p + 1, because ⌊due / n^k⌋ − ⌊added / n^k⌋ is ⌊(due − added) / n^k⌋ or one more; digits of `due` above k play no
/// part. A timer that is cancelled makes the moves whose bucket begins at `cancelled` or before: the poller has been
/// there.
///
/// **The looks rule.** A wheel of S slots (rounded up to a power of two) visits a timer's slot at the ticks after
/// `added` that are congruent to `due` modulo S: (D − 1) / S + 1 times up to `due`, with D = due − added, rounded down.
/// A cancellation leaves out those after `cancelled`: (due − cancelled − 1) / S + 1 of them.
///
/// **Wake-ups.** A hierarchy wakes at each tick at which a bucket with a timer in it begins: the moves' ticks and
/// `due`, for the timers that are still there. A heap wakes at each `due`; a hashed wheel, a sorted one and the buckets
/// of sessions at each tick that begins with something pending. Of the threads that poll a hierarchy, that of level k
/// wakes at each multiple of n^k among these ticks: in a span of s ticks, s / n^k times, up to rounding.
///
/// **The flush rule.** A wake-up of a hierarchy handles the timers that move or fire at its tick: of those, a bucket of
/// level k has the ones that leave level k then. So it is never empty. A wake-up of a hashed wheel handles all timers in
/// the slot of its tick, by the looks rule; one of a sorted wheel, of the buckets of sessions or of a heap those that
/// fire; one of a polling thread those that leave its level. Such a wake-up is empty if there is none.
///
/// **The lateness rule.** On a noncascading wheel of size n, a timer with the delay D goes to the lowest level k with
/// D < (n − 1) · 8^k, and fires at `due` rounded up to a multiple of g = 8^k: at most g − 1 ticks late. If k > 0,
/// D ≥ (n − 1) · g / 8, so that is less than 8 / (n − 1) of the delay. The wheel wakes at each tick at which a timer
/// fires. Every other engine fires at `due`. The exact due time comes less than a tick before `due`; against it a timer
/// is late by less than g ticks, or less than one. No timer moves on a noncascading wheel, on a sorted one, or in the
/// buckets of sessions, and none is looked at in vain.
///
/// **The window rule.** With a window of w ticks, a hierarchy puts a timer off to the multiple, in [due, due + w], of
/// the longest level tick that has one there, and among those to a multiple of that tick times the largest power of
/// two. A heap does so with the tick 1. The digit rule then holds with that tick in place of `due`: if it is a multiple
/// of the tick of level k, no digit below k moves the timer.

namespace timing_wheel::compare {

struct timer_in_ticks {
  tick added = 0;
  tick due = 0;
  std::optional<tick> cancelled = {};
};

/// One step down in a hierarchy.
struct move_step {
  tick when = 0;
  std::size_t from = 0;
  std::size_t to = 0;
  bool operator==(const move_step&) const = default;
};

[[nodiscard]] timer_in_ticks in_ticks(const planned_timer& timer, nanoseconds tick_length);

/// Slots of each wheel of a hierarchy, at least 2.
class wheel_sizes {
 public:
  wheel_sizes(std::uint32_t all) : sizes_{all} {}  // NOLINT(google-explicit-constructor): most have one size
  /// Lowest first; the wheels above the last have its size. \pre Not empty.
  explicit wheel_sizes(std::vector<std::uint32_t> sizes) : sizes_(std::move(sizes)) {}

  std::uint32_t operator[](std::size_t level) const { return sizes_[std::min(level, sizes_.size() - 1)]; }
  [[nodiscard]] const std::vector<std::uint32_t>& listed() const { return sizes_; }

 private:
  std::vector<std::uint32_t> sizes_;
};

/// What an engine is made of for a workload.
struct engine_shape {
  std::uint32_t slots = 0;   ///< Of each wheel, or of the lowest; 0: no wheel.
  std::uint32_t levels = 1;  ///< Of those whose number is fixed.
  wheel_sizes sizes{0};      ///< Of a hierarchy.
};

/// \throws usage_error if a flat or noncascading wheel cannot hold the longest delay.
[[nodiscard]] engine_shape shape_of(const workload& plan, const engine_spec& spec);

/// The moves of one timer, in order.
[[nodiscard]] std::vector<move_step> moves_of(const timer_in_ticks& timer, const wheel_sizes& sizes);

[[nodiscard]] std::uint64_t looks_of(const timer_in_ticks& timer, std::uint64_t slots);

/// The tick of the level that has a timer, in ticks of the engine: 1 unless the engine is a noncascading wheel.
[[nodiscard]] tick level_tick(const engine_spec& spec, const timer_in_ticks& timer);

/// When a timer fires that is not cancelled, by the lateness rule or the window rule.
[[nodiscard]] tick fires_at(const engine_spec& spec, const wheel_sizes& sizes, const timer_in_ticks& timer);

/// The shortest delay, in ticks, that a noncascading wheel does not hold.
[[nodiscard]] tick reach_of(const engine_spec& spec);

/// Slots of the flat wheel that the workload needs with such ticks. \throws usage_error if there cannot be so many.
[[nodiscard]] std::uint32_t flat_slots(const workload& plan, const engine_spec& spec);

/// Compares what was counted with the rules. \returns a sentence with the numbers for each difference.
[[nodiscard]] std::vector<std::string> check(const workload& plan, const engine_spec& spec,
                                             const engine_result& counted);

/// Compares what the engines fired. \returns a sentence with the numbers for each difference.
[[nodiscard]] std::vector<std::string> check_agreement(const std::vector<engine_result>& results);

}  // namespace timing_wheel::compare

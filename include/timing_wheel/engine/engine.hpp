#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/stats.hpp"
#include "timing_wheel/engine/tick.hpp"

namespace timing_wheel {

/// How an engine is made. One tick of an engine is 1; how long that lasts is the business of whoever drives it.
struct engine_options {
  /// Slots of each wheel, at least 2 and at most 2^24. None: 1024 of the lowest wheel and 2048 of each above, or 512 of
  /// a hashed one. What an engine makes of it, its `stats()` tell.
  std::optional<std::uint32_t> wheel_size = {};
  /// Slots level by level, lowest first, for instance {60, 60, 24}; levels beyond take the last. Empty: `wheel_size`
  /// for all.
  std::vector<std::uint32_t> wheel_sizes = {};
  /// Where there is enough of it, memory is mapped, and asked for in huge pages of 2 MiB: less of them are touched when
  /// timers are far apart. False, and on systems without: all of it is of `operator new`.
  bool huge_pages = true;
  /// What the clock shows at first.
  tick start = 0;
};

/// What an engine knows of a timer. The upper half of the deadline follows from where the entry lies.
struct wheel_entry {
  std::uint32_t deadline_low;  ///< The lower 32 bits of its deadline, in ticks.
  timer_number which;          ///< Its number.
};

namespace detail {
using entry = wheel_entry;
}  // namespace detail

/// What `advance` did.
struct advance_result {
  /// The timers that are due, no longer linked; none was run. Valid until the next call of `advance`.
  std::span<const timer_number> due;
  /// The budget ended first: call again, with the same `now` or a later one.
  bool more = false;
  /// Timers looked at: those that are due, and those that were moved or stay for another round.
  std::size_t handled = 0;
  /// A hint: some of the timers that are due a few ticks on, or none. Whoever prefetches what they stand for does not
  /// wait for memory when they are due. Valid until the engine changes.
  std::span<const wheel_entry> soon = {};
};

/// A structure that keeps (deadline, number) pairs and gives back those that are due. It owns no timer, reads no clock,
/// starts no thread and takes no lock; whoever uses it from several threads guards it.
///
/// - `insert(timer, deadline)`: false if it is due already: then it is not linked, and the caller runs it (Kafka's
///   `add`). The timer must not be linked. May throw `std::bad_alloc`; then no timer has changed.
/// - `reserve(timer, deadline)`: allocates what an insertion needs, so that the next one, with these arguments and at
///   this clock, does not throw, also if an erase comes between. May throw `std::bad_alloc`; then no timer has changed.
/// - `erase(timer)`: false if it was not linked.
/// - `catch_up(now)`: moves the clock as near to `now` as it can without flushing or visiting anything. O(1).
/// - `advance(now, budget)`: moves the clock to `now` and unlinks what is due, handling at most `budget` timers; it
///   stops and resumes anywhere, in the middle of a bucket too. A `now` before the clock counts as the clock.
/// - `read(counted)`: puts its counts into `counted`, and allocates nothing if that has room for the levels; `stats()`
///   gives a copy.
/// - `shrink_some()`: a short step of giving back memory that no timer is linked in; whether there may be more.
/// - `next_expiration()`: when there is something to do next, never later than the earliest deadline; none if empty.
// clang-format off
template <class E>
concept timer_engine = std::constructible_from<E, const engine_options&> &&
                       requires(E engine, const E& view, timer_number n, tick t, std::size_t budget,
                                engine_stats& counted) {
                         { engine.insert(n, t) } -> std::same_as<bool>;
                         { engine.reserve(n, t) };
                         { engine.erase(n) } noexcept -> std::same_as<bool>;
                         { engine.catch_up(t) } noexcept;
                         { engine.shrink_some() } noexcept -> std::same_as<bool>;
                         { engine.advance(t, budget) } -> std::same_as<advance_result>;
                         { view.contains(n) } noexcept -> std::same_as<bool>;
                         { view.next_expiration() } noexcept -> std::same_as<std::optional<tick>>;
                         { view.now() } noexcept -> std::same_as<tick>;
                         { view.size() } noexcept -> std::same_as<std::size_t>;
                         { view.stats() } -> std::same_as<engine_stats>;
                         { view.read(counted) };
                         { view.invariants_hold() } -> std::same_as<bool>;
                       };
// clang-format on

}  // namespace timing_wheel

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
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// How an engine is made. An engine counts ticks; its caller decides how long a tick lasts.
struct engine_options {
  /// Slots of each wheel, from 2 to 2^24. None: 1024 in the lowest wheel and 2048 in each above it; 512 in a hashed
  /// wheel. `stats()` tells what the engine has made of it.
  std::optional<std::uint32_t> wheel_size = {};
  /// Slots level by level, lowest first, for instance {60, 60, 24}. Levels beyond the last one given have its size.
  /// Empty: every level has `wheel_size` slots.
  std::vector<std::uint32_t> wheel_sizes = {};
  /// Above some 16 MiB the engine maps its memory, and asks the system for huge pages of 2 MiB, so that timers that lie
  /// far apart touch fewer pages. False, or a system without them: all memory comes from `operator new`.
  bool huge_pages = true;
  /// The tick that the clock shows at first.
  tick start = 0;
};

/// What an engine keeps of a timer. The upper half of the deadline follows from the bucket in which the entry lies.
struct engine_entry {
  std::uint32_t deadline_low;  ///< The lower 32 bits of the deadline, in ticks.
  timer_number which;          ///< The number of the timer.
};

namespace detail {
using entry = engine_entry;
}  // namespace detail

/// What `advance` did.
struct advance_result {
  /// The timers that are due. The engine has unlinked them and run none. Valid until the next call of `advance`.
  std::span<const timer_number> due;
  /// True if the budget ended first: call again, with the same `now` or a later one.
  bool more = false;
  /// How many timers the call looked at: those that are due, those that it moved, and those that stay for another
  /// round.
  std::size_t handled = 0;
  /// A hint: some of the timers that become due a few ticks later, or none. A caller that prefetches the data of these
  /// timers does not wait for memory when they are due. Valid until the engine changes.
  std::span<const engine_entry> soon = {};
};

/// A structure that keeps (deadline, number) pairs and gives back those that are due. It owns no timer, reads no clock,
/// starts no thread and takes no lock. A caller that uses it from several threads needs a lock.
///
/// - `insert(n, deadline)`: links timer `n`, which must not be linked; returns false if it is due already: then it is
///   not linked, and the caller runs it (Kafka's `add`). May throw `std::bad_alloc`; then no timer has changed.
/// - `reserve(n, deadline)`: allocates what a later `insert` with these arguments needs, if the clock has not moved
///   until then; erases in between do no harm. May throw `std::bad_alloc`; then no timer has changed.
/// - `coalesce(deadline, window)`: returns the tick in [deadline, deadline + window] at which this engine fires a timer
///   most cheaply, to be given to `insert`. A window of 0 returns `deadline`.
/// - `insert(n, deadline, window)`: the same as `insert(n, coalesce(deadline, window))`, and counts what that saves.
/// - `prefetch(some)`: a hint that these timers, those of them that are linked, are about to be erased.
/// - `erase(n)`: unlinks it; returns false if it was not linked.
/// - `catch_up(now)`: moves the clock toward `now`, and stops before the first tick at which `advance` has work; O(1).
/// - `advance(now, budget)`: moves the clock to `now`, unlinks what is due, and handles at most `budget` timers; it
///   stops and resumes anywhere, also in the middle of a bucket. A `now` before the clock counts as the clock; returns
///   an `advance_result`. May throw `std::bad_alloc`, but only while it has unlinked no due timer; no timer is lost.
/// - `next_expiration()`: returns when there is work next, never later than the earliest deadline; none if empty.
/// - `shrink_some()`: gives back a little memory that no linked timer needs; returns whether there may be more.
/// - `read(counted)`: copies the counts; allocates nothing if `counted` has memory for the levels. May throw
///   `std::bad_alloc`.
/// - `stats()`: returns the same as a copy. May throw `std::bad_alloc`.
// clang-format off
template <class E>
concept timer_engine = std::constructible_from<E, const engine_options&> &&
                       requires(E engine, const E& view, timer_number n, tick t, std::size_t budget,
                                engine_stats& counted, std::span<const timer_number> some) {
                         { engine.insert(n, t) } -> std::same_as<bool>;
                         { engine.insert(n, t, t) } -> std::same_as<bool>;
                         { engine.reserve(n, t) };
                         { engine.erase(n) } noexcept -> std::same_as<bool>;
                         { engine.catch_up(t) } noexcept;
                         { engine.shrink_some() } noexcept -> std::same_as<bool>;
                         { engine.advance(t, budget) } -> std::same_as<advance_result>;
                         { view.prefetch(some) } noexcept;
                         { view.coalesce(t, t) } noexcept -> std::same_as<tick>;
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

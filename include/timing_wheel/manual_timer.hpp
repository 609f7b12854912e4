#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <optional>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel {

/// A service in virtual time, without a thread: the clock stands still until `advance_to` moves it. The engine, the
/// rules and the code are those of `timer`. Hand it to code that takes a `timer&`, to test that code in no time:
///
///     timing_wheel::manual_timer timer;
///     reservation held(timer, order);          // it schedules a check in half an hour
///     timer.advance_by(30min);
///     assert(held.given_back());
///
/// The order in which callbacks run is always the same, if one thread schedules: by ticks, and within one tick as the
/// engine says. The wall clock shows the same time since its epoch as this clock does: a `std::chrono::system_clock`
/// deadline is reached then.
///
/// In a process made by `fork` it goes on like any object, if no other thread was using it at the fork.
///
/// Thread safety: as `timer`; `advance_to` and `advance_by` by one thread at a time.
class TIMING_WHEEL_EXPORT manual_timer : public timer {
 public:
  /// \throws as `timer`, but needs no thread. `start` is what the clock shows at first.
  explicit manual_timer(const timer_options& options = {}, time_point start = time_point());

  /// Moves the clock to `when`, stopping at each expiration on the way and running what is due there, so that a
  /// callback sees the clock at its own tick, and what it schedules before `when` runs too. With a `when` before the
  /// clock, the clock stays and what is due by now runs. A callback that goes on scheduling with no delay keeps this
  /// call from returning.
  ///
  /// Complexity: O(timers + buckets), whatever the distance; with `engine_kind::hashed` a step for each tick while
  /// anything is pending. \returns how many callbacks ran. With an executor, it counts what was handed over; one that
  /// refuses is asked again at every millisecond on the way.
  /// \throws timer_error (`nested_advance`) if another call is running, on another thread or around the callback that
  /// calls; std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated.
  std::size_t advance_to(time_point when);

  /// `advance_to(now() + delay)`.
  template <class Rep, class Period>
  std::size_t advance_by(std::chrono::duration<Rep, Period> delay) {
    return advance_to(saturating_add(now(), saturating_nanoseconds(delay)));
  }

  /// When there is something to do next: a callback to run, or timers to move to a lower wheel. Never later than the
  /// earliest deadline's tick, or the present, if that tick is over. None if nothing is pending. Complexity: O(shards).
  [[nodiscard]] std::optional<time_point> next_event() const noexcept;
};

}  // namespace timing_wheel

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <optional>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel {

/// A timer service in virtual time, without a thread. Its clock stands still until `advance_to` moves it. All else is
/// as in a `timer`. So a test can pass a `manual_timer` to code that takes a `timer&`, and need not wait:
///
///     timing_wheel::manual_timer timer;
///     reservation held(timer, order);  // schedules a check in half an hour
///     timer.advance_by(30min);
///     assert(held.given_back());
///
/// If one thread schedules, the callbacks always run in the same order: by ticks, and within a tick as the engine says.
/// The wall clock is virtual too. It shows the same time since its epoch as the service's clock. After a `fork`, the
/// service goes on in both processes, if no other thread was using it.
///
/// Thread safety: as `timer`, but only one thread at a time may call `advance_to` and `advance_by`.
class TIMING_WHEEL_EXPORT manual_timer : public timer {
 public:
  /// The clock shows `start` at first. \throws timer_error, std::bad_alloc as `timer`.
  explicit manual_timer(const timer_options& options = {}, time_point start = time_point());

  /// Moves the clock to `when`. On the way, the clock stops at each tick at which a timer is due, and the call runs the
  /// callbacks of that tick. A callback sees its own tick on the clock. If it schedules a timer that is due before
  /// `when`, that timer runs too.
  ///
  ///     timer.schedule_after(10ms, [&] { timer.schedule_after(10ms, f); });
  ///     timer.advance_by(30ms);  // runs both: at 10 ms, and at 20 ms
  ///
  /// If `when` has passed, the clock stays, and the timers that are due by now run. The call does not return while a
  /// callback goes on scheduling without delay. After `advance_to(time_point::max())` a timer that is scheduled by a
  /// delay never runs: its deadline is the end of time, and such a deadline means never.
  ///
  /// \returns how many callbacks ran, or were given to the executor. If the executor refuses, the call asks it again at
  /// each millisecond on the way.
  /// \throws timer_error (`nested_advance`) if another thread is driving the service, or if a callback that this thread
  /// runs for the service makes the call; std::bad_alloc if a cascade (a move of timers to a lower wheel) gets no
  /// memory. Then no timer is lost, and you can repeat the call.
  ///
  /// Complexity: O(timers + buckets), whatever the distance; with `engine_kind::hashed` one step for each tick while a
  /// timer is pending.
  std::size_t advance_to(time_point when);

  /// `advance_to(now() + delay)`.
  template <class Rep, class Period>
  std::size_t advance_by(std::chrono::duration<Rep, Period> delay) {
    return advance_to(saturating_add(now(), saturating_nanoseconds(delay)));
  }

  /// When the service has to run a callback next, or to move timers to a lower wheel; none if no pending timer ever
  /// becomes due. The answer is not later than the tick at which the timer with the earliest deadline runs; the timer's
  /// `schedule_options::window` may put that tick later. If that tick is over, the answer is not later than `now()`.
  /// Complexity: O(shards).
  [[nodiscard]] std::optional<time_point> next_event() const noexcept;
};

}  // namespace timing_wheel

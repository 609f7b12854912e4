#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <functional>
#include <optional>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel {

/// A service in a loop of your own, on the monotonic clock, without a thread: callbacks run in `run_due`, on the loop's
/// thread.
///
///     timing_wheel::loop_timer timer({}, [&] { wake_the_loop(); });    // for instance, write to an eventfd
///     for (;;) {
///       sleep_until_or_woken(timer.next_event());                      // for instance, epoll_wait with a timerfd
///       timer.run_due();
///     }
///
/// Other threads may schedule and cancel all the while. `on_earlier` is called when the next event has become earlier
/// than the one that `next_event` has told last: on the thread that scheduled, rescheduled or gave a task back, outside
/// every lock. It has to make the loop call `next_event` again, and is not called any more until then. So no wake-up is
/// lost: a timer that comes before `next_event` looks is seen by it, and one that comes after is seen to be earlier
/// than what it told. Before the first `next_event` nothing has been told, and `on_earlier` is not called: a loop that
/// may sleep before it has a timer asks once first. A loop whose timers are scheduled on its own thread only needs no
/// `on_earlier`, if it asks `next_event` each time before it sleeps. The destructor waits for an `on_earlier` that is
/// running.
///
/// A loop that sleeps to the millisecond should round the time up, as examples/loops/poll.cpp shows; else it asks in
/// vain once.
///
/// Thread safety: as `timer`; `next_event` and `run_due` are for the loop's thread.
class TIMING_WHEEL_EXPORT loop_timer : public timer {
 public:
  /// `on_earlier` may be empty, and may destroy the service. What it throws is reported as what an executor throws
  /// is.
  /// \throws timer_error as `timer`; it needs no thread.
  explicit loop_timer(const timer_options& options = {}, std::function<void()> on_earlier = {});

  /// When `run_due` has something to do next; none if nothing is pending. It is the same until that changes, and no
  /// reading of the clock: what is overdue, or was left by a budget, has a time in the past, of the tick in which the
  /// earliest was due, or of the start of the service. Complexity: O(shards + timers that are due and that a budget has
  /// left, 256 for each shard at most). Arms `on_earlier` for what comes before.
  [[nodiscard]] std::optional<time_point> next_event() noexcept;

  /// Runs the callbacks that are due, at most `budget` of them, and moves timers to lower wheels as they come near.
  /// With a budget, or when a cascade is long, it may leave work: then `next_event` has come already. Complexity:
  /// O(shards + timers run or moved).
  /// \returns how many callbacks ran, or were handed to the executor.
  /// \throws timer_error (`nested_advance`) if another call is running, on another thread or around the callback that
  /// calls; std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated.
  std::size_t run_due(std::size_t budget = no_limit);

  /// In a child of `fork`: goes on here, with all timers and handles as they were at the fork, for instance in a daemon
  /// whose parent ends. What the parent still does with its own copy is not seen here. It needs no thread of the
  /// parent's, but a lock that was held at the fork would be held for ever, so: \pre no other thread was in a call of
  /// this service, or of a handle of it, when the parent forked, and none is now; no callback of it was running. In any
  /// other process it does nothing. Complexity: O(shards); with an executor, O(timers).
  ///
  /// Calls of this process before that were refused, and stay so. So call it first: a `scoped_timer` that was destroyed
  /// before has cancelled nothing.
  ///
  /// What the executor had been given, and had not begun, is handed over anew at the next tick, because its threads are
  /// not here; it counts as `refused`. A task from before the fork may be kept, called or destroyed here, before or
  /// after this call, and no timer is lost or runs twice; but until its timer is handed over anew, it does nothing.
  void continue_after_fork() noexcept;
};

}  // namespace timing_wheel

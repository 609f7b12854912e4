#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <functional>
#include <optional>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel {

/// A timer service in an event loop of your own, on the monotonic clock, without a thread of its own. The loop's thread
/// calls `run_due`, which runs the callbacks.
///
///     timing_wheel::loop_timer timer({}, [&] { wake_the_loop(); });  // for instance, write to an eventfd
///     for (;;) {
///       sleep_until_or_woken(timer.next_event());                    // for instance, epoll_wait with a timerfd
///       timer.run_due();
///     }
///
/// Other threads may schedule and cancel meanwhile. **The wake-up**, `on_earlier`:
///
/// | Question | Answer |
/// |---|---|
/// | When does the service call it? | A timer is due earlier than the last `next_event` has told. |
/// | On which thread? | One that (re)schedules a timer or drops an executor's unused task; the service holds no lock. |
/// | What must it do? | Make the loop call `next_event`. Until then, the service does not call `on_earlier` again. |
/// | Which loop needs none? | One that schedules all timers on its thread, and calls `next_event` before each sleep. |
///
/// No wake-up is lost. `next_event` sees the timers that were scheduled before that call. If a timer is scheduled after
/// the call, the service compares its deadline with the answer of `next_event`. Before the first `next_event` the
/// service does not call `on_earlier`. So a loop that may sleep before it has a timer calls `next_event` once first.
/// The destructor waits for an `on_earlier` that another thread is running.
///
/// A loop that sleeps in whole milliseconds should round the time up, as examples/loops/poll.cpp does. Otherwise it
/// wakes too early, and spins until the timer is due, because the rest of the time rounds down to zero.
///
/// Thread safety: as `timer`, but only the loop's thread calls `next_event` and `run_due`.
class TIMING_WHEEL_EXPORT loop_timer : public timer {
 public:
  /// `on_earlier` may be empty, and may destroy the service. If the service calls `on_earlier` because a thread other
  /// than the loop's begins a coroutine's sleep, or requests that this sleep end, `on_earlier` must not stop or destroy
  /// the service: `stop` or the destructor would wait for the loop. `timer_options::on_error` gets what `on_earlier`
  /// throws.
  /// \throws timer_error, std::bad_alloc as `timer`.
  explicit loop_timer(const timer_options& options = {}, std::function<void()> on_earlier = {});

  /// When `run_due` has work next; none if no timer is pending, or if all that are pending never become due or are with
  /// the executor already. From now on, the service calls `on_earlier` for an earlier timer.
  ///
  /// The call does not read the clock. If timers are overdue, or if a budget left some, the answer is in the past.
  /// Complexity: O(shards + timers that a budget left, at most 256 for each shard).
  [[nodiscard]] std::optional<time_point> next_event() noexcept;

  /// Runs the callbacks that are due, at most `budget` of them. If the deadline of a timer comes near, the call moves
  /// the timer to a lower wheel. If a budget or a long cascade leaves work, `next_event` is in the past. Complexity:
  /// O(shards + timers run or moved).
  /// \returns how many callbacks ran, or were given to the executor.
  /// \throws timer_error (`nested_advance`) if another thread is driving the service, or if a callback that this thread
  /// runs for the service makes the call; std::bad_alloc if a cascade (a move of timers to a lower wheel) gets no
  /// memory. Then no timer is lost, and you can repeat the call.
  std::size_t run_due(std::size_t budget = no_limit);

  /// In a child of `fork`, makes the service go on with all timers and handles as they were at the fork; for instance
  /// in a daemon whose parent ends. The parent's copy of the service is independent of the child's. In the process that
  /// made the service, the call does nothing.
  ///
  ///     if (fork() == 0) {
  ///       timer.continue_after_fork();  // first: until then every call is refused, and a scoped_timer cancels nothing
  ///       serve();
  ///     }
  ///
  /// \pre when the parent forked, no callback was running, and no other thread was in a call of this service or of one
  /// of its handles (a lock that a thread held then would stay locked). And no other thread is in such a call now.
  ///
  /// The threads of an executor are not in the child. So the service counts the tasks that had not begun as `refused`,
  /// and gives them to the executor anew, at the next tick. The child may keep, call or destroy a task from before the
  /// fork. Such a task does nothing until its timer is given anew. From then on, whichever of the two tasks is called
  /// first runs the callback, and the other does nothing. No timer is lost. Complexity: O(shards); with an executor,
  /// O(timers).
  void continue_after_fork() noexcept;
};

}  // namespace timing_wheel

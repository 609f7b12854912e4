#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/pending.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"
#include "timing_wheel/timer_stats.hpp"

namespace timing_wheel {

namespace detail {
class service;
using first_deadline = std::function<std::optional<time_point>(time_point)>;
}  // namespace detail

class sleep_operation;

/// A rule for `schedule_with`: it is given a deadline, and returns the next one, or none.
template <class Next>
concept deadline_rule = requires(std::decay_t<Next>& next, time_point previous) {
  { next(previous) } -> std::convertible_to<std::optional<time_point>>;
};

/// Runs callbacks after a delay, and never early. It holds any number of timers; scheduling and cancelling are O(1).
///
///     timing_wheel::timer timer{{.tick = 1ms, .wheel_size = 512}};
///     auto check = timer.schedule_after(30min, [&, id] { verify(id); });
///     timer.schedule_every(5s, send_heartbeat, {.policy = timing_wheel::fixed_rate_skip, .tag = 7});
///     check.cancel();                                                 // now the callback does not run
///     for (auto& left : timer.stop()) save(left.tag, left.deadline);  // timers that have not run
///
/// | Call | When the callback runs |
/// |---|---|
/// | `schedule_after(delay, f)` | once, `delay` from now |
/// | `schedule_at(deadline, f)` | once, at `deadline` |
/// | `schedule_every(period, f)` | again and again, the first time one `period` from now |
/// | `schedule_with(next, f)` | at each deadline that `next` returns |
///
/// Each of these calls takes options after the callback, in braces. **Its two forms** differ in what they do if the
/// service refuses: one throws, the other takes a `std::error_code&` after the options.
///
///     timer.schedule_after(1s, std::move(f), {}, error);
///     if (error) f();  // the call has not moved from a callable that it refused
///
/// | What happens | Without an `error` | With an `error` |
/// |---|---|---|
/// | the timer is scheduled | returns its handle | returns its handle, and clears `error` |
/// | the service refuses | throws `timer_error` | returns an empty handle; `error` is the `timer_errc` |
/// | memory is short | throws `std::bad_alloc` | returns an empty handle; `error` is `not_enough_memory` |
/// | copying or moving the callable throws | throws the same | throws the same |
///
/// The callback may begin before the call returns. Complexity: O(levels), with one lock of a shard. After warm-up, a
/// call without a stop token allocates nothing if the captures need up to 24 bytes (8 in a periodic timer; a rule of
/// `schedule_with` shares the 24).
///
/// **Callbacks** run on the poller thread, one after the other: a callback that blocks delays the others of its poller.
/// With `timer_options::executor`, the threads of that executor run them. The service holds no lock meanwhile. A
/// callback may schedule, cancel, reschedule, drop its handle, throw (see `timer_options::on_error`), stop the service,
/// destroy it, and call `std::exit`. It must not end its thread, for instance by `pthread_exit`, and neither may an
/// executor or a hook: the service then writes to standard error and aborts the program.
///
/// **The poller** is a thread named "timing_wheel". It sleeps until the earliest bucket expires. A new timer wakes it
/// only if that timer is due earlier. A cancel does not wake it, so the poller may wake once for an empty bucket. The
/// poller blocks all signals except those that a fault in a callback raises; threads and processes that a callback
/// starts there inherit this. `timer_options::pollers` starts several pollers, each for some of the shards. A function
/// that uses timers should take a `timer&`: then a test can pass a `manual_timer`, and an event loop a `loop_timer`.
///
/// **fork.** A service belongs to the process that made it. In a child process `schedule_after` and its like refuse
/// (`forked`), every timer is finished, `stop` returns nothing, and the destructor frees nothing. No call blocks there.
/// A child can make a service of its own.
///
/// Thread safety: every member may be called from any thread.
class TIMING_WHEEL_EXPORT timer {
 public:
  /// Starts the poller threads: one, unless the options ask for more.
  /// \throws timer_error (`invalid_option`, with the value and the range); std::bad_alloc; std::system_error if the
  /// system gives no thread.
  explicit timer(const timer_options& options = {});

  /// Destroys the pending callables, and waits for the callbacks that run. So do not destroy the service under a lock
  /// that a callback takes.
  ///
  /// A callback, a rule, a visitor and the destructor of a capture may destroy the service that calls them. Then the
  /// destructor does not wait, and the outer call frees the rest of the service when it ends.
  virtual ~timer();

  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  /// Runs `callback` once, `delay` from now. A zero or negative delay means as soon as possible.
  /// \throws timer_error (`stopped`, `too_many_pending`, `empty_callback`, `forked`); std::bad_alloc.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback,
                              const schedule_options& options = {}) {
    detail::given source(std::forward<F>(callback));
    return start_after(saturating_nanoseconds(delay), source, options, nullptr);
  }
  /// The form with an `error`.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback, const schedule_options& options,
                              std::error_code& error) {
    detail::given source(std::forward<F>(callback));
    return start_after(saturating_nanoseconds(delay), source, options, &error);
  }

  /// Runs `callback` once, at `deadline`; as soon as possible if that has passed. Errors as `schedule_after`.
  ///
  /// The deadline is a time point of `std::chrono::steady_clock` or `system_clock`; `std::chrono::clock_cast` converts
  /// those of other clocks. This call converts a wall-clock deadline to the monotonic clock, once. The callback does
  /// not run before the wall clock has shown the deadline, unless that clock is set after this call:
  ///
  /// | The wall clock is | When the callback runs, the wall clock shows |
  /// |---|---|
  /// | set forward by an hour | the deadline plus an hour |
  /// | set back by an hour | the deadline less an hour |
  ///
  /// To follow the wall clock, schedule anew whenever it is set.
  template <deadline_clock Clock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<Clock, Duration> deadline, F&& callback,
                           const schedule_options& options = {}) {
    detail::given source(std::forward<F>(callback));
    return start_at(detail::nanoseconds_of(deadline), source, options, nullptr);
  }
  /// The form with an `error`.
  template <deadline_clock Clock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<Clock, Duration> deadline, F&& callback,
                           const schedule_options& options, std::error_code& error) {
    detail::given source(std::forward<F>(callback));
    return start_at(detail::nanoseconds_of(deadline), source, options, &error);
  }

  /// Runs `callback` again and again, the first time one `period` from now, until its handle cancels it. The callback
  /// itself may cancel it. By default one `period` lies between the end of a run and the next one.
  ///
  /// Runs of one timer never overlap. The service reports a run that throws, and the timer goes on. Each run counts as
  /// scheduled and fired once.
  /// \throws as `schedule_after`, and timer_error (`invalid_period`) unless the period is positive.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback,
                              const periodic_options& options = {}) {
    return every({saturating_nanoseconds(period), options.policy}, std::forward<F>(callback), options, nullptr);
  }
  /// The form with an `error`.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback, const periodic_options& options,
                              std::error_code& error) {
    return every({saturating_nanoseconds(period), options.policy}, std::forward<F>(callback), options, &error);
  }

  /// Runs `callback` at each deadline that `next(previous deadline)` returns. That is a `std::optional<time_point>`; an
  /// empty one ends the timer.
  ///
  ///     timer.schedule_with([](time_point previous) { return std::optional(previous + backoff()); }, retry);
  ///
  /// | The service calls `next` | none | an exception |
  /// |---|---|---|
  /// | in this call, with the present | nothing is scheduled; the handle is empty | leaves this call |
  /// | after each run, on its thread, with the last deadline | the timer ends | goes to `on_error`; the timer ends |
  ///
  /// The service holds no lock meanwhile, and calls `next` even after a run that cancelled the timer. If `next` ends
  /// the service or destroys it, this call refuses (`stopped`), or the timer ends. Errors as `schedule_after`.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, const schedule_options& options = {}) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), options, nullptr);
  }
  /// The form with an `error`.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, const schedule_options& options, std::error_code& error) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), options, &error);
  }

  /// In a coroutine, `co_await timer.sleep_for(30min)` goes on after 30 minutes. Include `timing_wheel/coroutine.hpp`;
  /// `sleep_operation` tells the rest. With an `error`, the `co_await` does not throw.
  template <class Rep, class Period>
  sleep_operation sleep_for(std::chrono::duration<Rep, Period> delay, const sleep_arguments& options = {});
  /// The form with an `error`, which must live until the coroutine goes on.
  template <class Rep, class Period>
  sleep_operation sleep_for(std::chrono::duration<Rep, Period> delay, const sleep_arguments& options,
                            std::error_code& error);

  /// In a coroutine, `co_await timer.sleep_until(deadline)` goes on at `deadline`, a time point as for `schedule_at`.
  template <deadline_clock Clock, class Duration>
  sleep_operation sleep_until(std::chrono::time_point<Clock, Duration> deadline, const sleep_arguments& options = {});
  /// The form with an `error`, which must live until the coroutine goes on.
  template <deadline_clock Clock, class Duration>
  sleep_operation sleep_until(std::chrono::time_point<Clock, Duration> deadline, const sleep_arguments& options,
                              std::error_code& error);

  /// As `timer_handle::cancel`, for the timer that has this `timer_handle::key()`. The answer is `finished` if that
  /// timer has ended, and for a key of no timer or of another service. Complexity: as that.
  cancel_result cancel(std::uint64_t key) noexcept;
  /// The same as `timer_handle::cancel_and_wait`: if the callback is running, it waits until that has ended.
  cancel_result cancel_and_wait(std::uint64_t key) noexcept;

  /// Stops the service: from now on it refuses new timers, and no callback begins after the call.
  ///
  /// | Call | Each pending timer | The call returns |
  /// |---|---|---|
  /// | `stop()` | is taken out | the timers |
  /// | `stop_discard()` | is destroyed, on this thread | how many |
  /// | `stop_run_now()` | runs once, on this thread, in any order, whatever its deadline | how many |
  /// | `stop_drain(until)` | runs when it is due; what is not due before `until` is taken out | the timers taken out |
  ///
  /// Each pending timer is counted or returned once; a second stop finds none. If another thread schedules meanwhile,
  /// its timer is part of this, or is refused. A periodic timer that runs is not armed again.
  ///
  /// The call waits for callbacks that run, unless a callback makes it. So do not call it under a lock that a callback
  /// takes. If two callbacks stop each other's service, both wait for ever. The service holds no lock while it runs or
  /// destroys a callable. Complexity: O(timers that were ever pending at once).
  /// \throws std::bad_alloc; then the service refuses new timers, no timer is lost, and you can stop it again.
  std::vector<pending_task> stop();

  /// As `stop`, and destroys the callables. It needs memory for only `max_timers_per_lock` timers at a time.
  std::size_t stop_discard();

  /// As `stop`, and runs the callbacks now. A timer can be cancelled until its callback begins. A call from one of
  /// these callbacks does nothing.
  std::size_t stop_run_now();

  /// As `stop`, after the timers that are due before `until` have run. It returns earlier if no timer is pending or
  /// running any more.
  ///
  /// | Called | Who runs the callbacks |
  /// |---|---|
  /// | on a `timer` | the pollers, or the executor; this call waits |
  /// | on a `manual_timer` | this call: it advances to `until`, and takes out what an executor has not begun |
  /// | on a `loop_timer` | this call: it sleeps, and runs what is due |
  /// | in a callback on a poller | this call, and the other pollers |
  /// | in a callback on an executor | its other threads; this call waits, in vain if there are none |
  /// | in a callback that another stop runs on this thread | that other stop |
  std::vector<pending_task> stop_drain(time_point until);

  /// Calls `visit(const pending_timer&)` for each pending timer. The service holds no lock meanwhile. A timer that is
  /// pending all the while is visited once; a timer that comes or goes is visited at most once. `visit` may use the
  /// service and the handles, and may end or destroy the service: then it sees only timers that were found before.
  /// Complexity: O(timers that were ever pending at once). \throws std::bad_alloc, and what `visit` throws.
  template <class Visit>
  requires std::invocable<Visit&, const pending_timer&>
  void for_each_pending(Visit visit) const { visit_pending(std::ref(visit)); }

  /// Whether a stop has taken the pending timers out. Complexity: O(1), no lock.
  [[nodiscard]] bool stopped() const noexcept;

  /// How many timers are pending. The count is exact while no other thread schedules, cancels or fires a timer; the
  /// shards are counted one after the other (see `timer_stats`). Complexity: O(shards).
  [[nodiscard]] std::size_t pending() const noexcept;

  /// What the service has done. Complexity: O(shards). \throws std::bad_alloc.
  [[nodiscard]] timer_stats stats() const;

  /// Gives memory back that the pending timers do not need; handles and keys stay valid. Call it after a peak: without
  /// it, a service keeps what the peak took, and after it, the service allocates again what it needs.
  ///
  /// | Memory of | goes back in blocks of | when | and leaves of a peak |
  /// |---|---|---|---|
  /// | the timers | 1024 places, taken one after the other | no place has a timer | 12 bytes per block |
  /// | the wheels | 64 chunks, of 64 or 12 timers | no chunk has a timer | 5 to 6.3 bytes per timer (`huge_pages`: 0) |
  /// | the heap | all | few timers are pending | 0; else 20 bytes per timer |
  ///
  /// Up to 16 MiB per shard and purpose go to `operator delete`, which may keep them; the rest goes to the system.
  /// `stats().bytes` tells what is left. The call locks a shard for 128 timers, or some tens of microseconds, at a
  /// time. A callback may call it. In a child process it does nothing. Complexity: O(timers that were ever pending at
  /// once).
  void shrink_to_fit() noexcept;

  /// The time on the clock of the service: the monotonic clock, or the virtual time of a `manual_timer`. Complexity:
  /// O(1), no lock.
  [[nodiscard]] time_point now() const noexcept;

  /// \cond
 protected:
  /// For services that are driven otherwise.
  explicit timer(std::shared_ptr<detail::service> driven_otherwise) noexcept;

  /// What is behind it, for the other fronts of the library.
  [[nodiscard]] const std::shared_ptr<detail::service>& service() const noexcept { return service_; }

 private:
  // They throw only without an `error`: `timer_error`, `std::bad_alloc`, and in any case what the move of the callable
  // throws.
  timer_handle start_after(std::chrono::nanoseconds delay, detail::task_source& callback,
                           const schedule_options& options, std::error_code* error);
  timer_handle start_at(time_point deadline, detail::task_source& callback, const schedule_options& options,
                        std::error_code* error);
  timer_handle start_at(detail::wall_time deadline, detail::task_source& callback, const schedule_options& options,
                        std::error_code* error);
  timer_handle start_every(const detail::periodic_rule& rule, detail::task_source& callback,
                           const periodic_options& options, std::error_code* error);
  // `next` gives the first deadline; without one, nothing is scheduled.
  timer_handle start_with(const detail::first_deadline& next, detail::task_source& callback,
                          const schedule_options& options, std::error_code* error);
  timer_handle refuse_empty(std::error_code* error) const;
  void visit_pending(const std::function<void(const pending_timer&)>& visit) const;

  template <class F>
  timer_handle every(detail::periodic_rule rule, F&& callback, const periodic_options& options,
                     std::error_code* error) {
    detail::given_with_rule<detail::periodic_rule, detail::periodic_rule, F> source(rule, std::forward<F>(callback));
    return start_every(rule, source, options, error);
  }
  template <class Next, class F>
  timer_handle by_rule(Next&& next, F&& callback, const schedule_options& options, std::error_code* error) {
    using rule_type = std::decay_t<Next>;
    const bool nothing = detail::is_null<rule_type>(next);
    detail::held rule(std::forward<Next>(next));
    detail::given_with_rule<detail::next_deadline<rule_type>, rule_type, F> source(rule.get(),
                                                                                   std::forward<F>(callback));
    if (nothing || source.where() == detail::task_source::kept::nowhere) {
      return refuse_empty(error);
    }
    return start_with(std::ref(rule.get()), source, options, error);
  }

  std::shared_ptr<detail::service> service_;
  /// \endcond
};

}  // namespace timing_wheel

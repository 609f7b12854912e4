#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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

/// A rule for `schedule_with`. The service gives it a deadline, and the rule returns the next one, or none.
template <class Next>
concept deadline_rule = requires(std::decay_t<Next>& next, time_point previous) {
  { next(previous) } -> std::convertible_to<std::optional<time_point>>;
};

/// A timer service: it runs callbacks after a delay, and never early. It holds any number of timers; scheduling and
/// cancelling are O(1).
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
/// Each of these calls takes options after the callback, in braces. **Each call has two forms.** If the service
/// refuses, one form throws, and the other sets a `std::error_code&`, which you pass after the options.
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
/// The callback may begin before the call returns. Complexity: O(levels of the wheel), however many timers there are.
/// By default, two levels are enough for delays up to half an hour, and six for any delay; small wheels may need more.
/// The call locks one shard (a service keeps its timers in shards, each with a lock and a wheel of its own). After
/// warm-up, a call allocates nothing if its options have no stop token and the captures fit in 24 bytes. For
/// `schedule_every` they must fit in 8 bytes; for `schedule_with`, the rule and the captures together in 24.
///
/// **Callbacks** run on the poller thread, one after the other. If a callback blocks, the other callbacks of its poller
/// are late. With `timer_options::executor`, the threads of that executor run the callbacks. While a callback runs, the
/// service holds no lock. A callback may schedule, cancel, reschedule, drop its handle, throw (see
/// `timer_options::on_error`), stop the service, destroy it, and call `std::exit`. A callback, an executor or a hook
/// (`on_error`, `on_thread_start`, `on_earlier`) must not end its thread, for instance by `pthread_exit`. If one does,
/// the service writes a line to standard error and aborts the program.
///
/// **The poller** is a thread named "timing_wheel". It sleeps until timers are due, or have to move to a lower level of
/// the wheel. A new timer wakes the poller only if that timer is due before all others. A cancel does not wake the
/// poller, so the poller may wake once and find nothing to do. The poller blocks all signals except those that a fault
/// in a callback raises. Threads and processes started by a callback inherit the poller's blocked signals.
/// `timer_options::pollers` starts several pollers, each for some of the shards.
///
/// A function that uses timers should take a `timer&`. Then a test can pass a `manual_timer`, and an event loop a
/// `loop_timer`.
///
/// **fork.** A service belongs to the process that made it. After `fork`, in the child: scheduling calls refuse with
/// `forked`, every handle says `finished`, `stop` returns nothing, the destructor frees nothing, and no call blocks. A
/// child can make a service of its own.
///
/// Thread safety: every member may be called from any thread.
class TIMING_WHEEL_EXPORT timer {
 public:
  /// Starts the poller threads: one, unless the options ask for more.
  /// \throws timer_error (`invalid_option`, with the value and the range); std::bad_alloc; std::system_error if the
  /// system gives no thread.
  explicit timer(const timer_options& options = {});

  /// Destroys the pending callables, and waits for the callbacks that are running. So do not destroy the service while
  /// you hold a lock that a callback takes.
  ///
  /// A callback, a rule, a visitor and the destructor of a capture may destroy the service that called them. On a
  /// thread that is running a callback of the service, the service's destructor waits for no callback. What the service
  /// still needs is freed after that callback, rule, visitor or destructor has returned.
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

  /// Runs `callback` once, at `deadline`. If the deadline has passed, the callback runs as soon as possible. Errors as
  /// `schedule_after`.
  ///
  /// The deadline is a time point of `std::chrono::steady_clock` or `system_clock`; `std::chrono::clock_cast` converts
  /// those of other clocks. This call converts a wall-clock deadline to the monotonic clock, once. The callback runs
  /// when the wall clock shows the deadline or a later time, unless somebody sets the wall clock after this call:
  ///
  /// | After this call, the wall clock is | When the callback runs, the wall clock shows |
  /// |---|---|
  /// | set forward by an hour | the deadline plus an hour |
  /// | set back by an hour | the deadline less an hour |
  ///
  /// If a timer has to follow the wall clock, schedule it anew whenever that clock is set.
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
  /// itself may cancel it. By default the next run begins one `period` after the last one ended.
  ///
  /// Runs of one timer never overlap. If a run throws, the service reports the exception, and the timer goes on. In
  /// `stats()`, each run counts as one scheduled and one fired timer.
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

  /// Runs `callback` at each deadline that `next(previous deadline)` returns. `next` returns a
  /// `std::optional<time_point>`; an empty one ends the timer.
  ///
  ///     timer.schedule_with([](time_point previous) { return std::optional(previous + backoff()); }, retry);
  ///
  /// | When the service calls `next` | if it returns none | if it throws |
  /// |---|---|---|
  /// | during this call, with the current time | no timer; the handle is empty | this call throws the same |
  /// | after each run, on its thread, with that run's deadline | the timer ends | it ends; `on_error` gets the error |
  ///
  /// While `next` runs, the service holds no lock. It calls `next` even after a run that cancelled the timer. If `next`
  /// stops or destroys the service during this call, this call refuses (`stopped`). If `next` does so after a run, the
  /// timer ends. Errors as `schedule_after`.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, const schedule_options& options = {}) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), options, nullptr);
  }
  /// The form with an `error`.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, const schedule_options& options, std::error_code& error) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), options, &error);
  }

  /// Schedules each of these timers as `schedule_at` does with the members of that `pending_task`. The call looks at
  /// the clock once, and takes one lock for up to 32 timers. It takes a quarter fewer instructions than a call for
  /// each.
  ///
  ///     std::vector<pending_task> checks;
  ///     for (const std::uint64_t id : orders) {
  ///       checks.push_back({timer.now() + 30min, id, timing_wheel::task([&, id] { verify(id); })});
  ///     }
  ///     std::vector<timer_handle> handles(checks.size());
  ///     timer.schedule_many(checks, handles);
  ///     auto left = timer.stop();  // another service goes on with all of them
  ///     next.schedule_many(left);  // a periodic timer runs once there
  ///
  /// The call takes the timers in their order, and ends at the first one that the service refuses, or for which memory
  /// is short. The timers before that one are scheduled, and their callbacks are empty afterwards. The other timers are
  /// unchanged, so you can call again with them.
  ///
  /// Handle i is that of timer i; there may be fewer handles than timers, or none. A timer that is due may run before
  /// the call returns, and before its handle is written. The call moves the callbacks under a lock; `task` says what
  /// this asks of them.
  /// \returns how many it has scheduled. Complexity: as that many calls.
  /// \throws as `schedule_after`; the timers before the refused one are scheduled then, and have empty callbacks.
  std::size_t schedule_many(std::span<pending_task> timers, std::span<timer_handle> handles = {}) {
    return start_many(timers, handles, nullptr);
  }
  /// The form with an `error`, which tells why it has not scheduled all.
  std::size_t schedule_many(std::span<pending_task> timers, std::span<timer_handle> handles, std::error_code& error) {
    return start_many(timers, handles, &error);
  }

  /// In a coroutine, `co_await timer.sleep_for(30min)` goes on after 30 minutes. Include `timing_wheel/coroutine.hpp`;
  /// `sleep_operation` there describes results, errors and threads. With an `error`, the `co_await` does not throw.
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

  /// Cancels the timer with this `timer_handle::key()`, as its handle would. The answer is `finished` if that timer has
  /// ended, or if the key is that of no timer. For a key of another service see `timer_handle::key`. Complexity: as
  /// `timer_handle::cancel`.
  cancel_result cancel(std::uint64_t key) noexcept;
  /// The same as `timer_handle::cancel_and_wait`. If the callback is running, this call waits for it to end.
  cancel_result cancel_and_wait(std::uint64_t key) noexcept;

  /// Stops the service: from now on it refuses new timers, and no callback begins after the call.
  ///
  /// | Call | Each pending timer | The call returns |
  /// |---|---|---|
  /// | `stop()` | is taken out | the timers |
  /// | `stop_discard()` | is destroyed, on this thread | how many |
  /// | `stop_run_now()` | runs once, on this thread, in any order, whatever its deadline | how many |
  /// | `stop_drain(until)` | runs when it is due; if not due before `until`, it is taken out | the timers taken out |
  ///
  /// Each pending timer is counted or returned once; a second stop finds none. A timer scheduled by another thread
  /// meanwhile is either stopped as well or refused. A periodic timer whose callback is running is not armed again. So
  /// `stop_drain` ends a timer of `schedule_every` or `schedule_with` after at most one more run, and returns the timer
  /// only if it has not run meanwhile.
  ///
  /// A stop waits for all running callbacks, so do not call it while you hold a lock that a callback takes. A stop that
  /// is called in a callback of this service waits for no running callback. If callbacks of two services stop each
  /// other's service, both wait for ever. The service holds no lock while it runs or destroys a callable. Complexity:
  /// O(the most timers that were ever pending at one time).
  /// \throws std::bad_alloc. Then the service refuses new timers, no timer is lost, and you can stop it again.
  std::vector<pending_task> stop();

  /// As `stop`, and destroys the callables. It needs memory for at most `max_timers_per_lock` timers at a time.
  std::size_t stop_discard();

  /// As `stop`, and runs the callbacks now. A timer can be cancelled until its callback begins. In a callback that
  /// `stop_run_now` runs, a second `stop_run_now` does nothing.
  std::size_t stop_run_now();

  /// Refuses new timers at once, waits until the timers that are due before `until` have run, and then does as `stop`.
  /// The call returns earlier if no timer is pending or running any more.
  ///
  /// | Called | Who runs the callbacks |
  /// |---|---|
  /// | on a `timer` | the pollers, or the executor; this call waits |
  /// | on a `manual_timer` | this call: it advances to `until` |
  /// | on a `manual_timer` that has an executor | the executor; timers whose callbacks it has not begun are taken out |
  /// | on a `loop_timer` | this call: it sleeps, and runs what is due |
  /// | in a callback on a poller | this call, and the other pollers |
  /// | in a callback on an executor | the executor's other threads |
  /// | in a callback on an executor that has one thread | nobody; this call waits until `until` |
  /// | in a callback that an earlier stop runs on this thread | the earlier stop; this call returns at once, empty |
  std::vector<pending_task> stop_drain(time_point until);

  /// Calls `visit(const pending_timer&)` for each pending timer. The call collects up to `max_timers_per_lock` timers,
  /// visits them, and collects the next ones. While `visit` runs, the service holds no lock. A timer that is pending
  /// during the whole call is visited once; a timer that comes or goes is visited at most once. `visit` may use the
  /// service and the handles, and may stop or destroy the service; then only those already collected are still visited.
  /// Complexity: as `stop`.
  /// \throws std::bad_alloc, and what `visit` throws.
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

  /// Gives memory back that the pending timers do not need; handles and keys stay valid. Call it after a peak,
  /// otherwise the service keeps the peak's memory. Later timers allocate again.
  ///
  /// A timer has a *place*, a numbered entry of its shard's table. A *chunk* is a part of a wheel's bucket: a chunk
  /// holds 64 timers, a small one 12. The *heap* is the priority queue that a shard of `engine_kind::heap` has in place
  /// of a wheel.
  ///
  /// | Memory of | goes back in blocks of | when | what stays of a peak |
  /// |---|---|---|---|
  /// | the timers | 1024 places with consecutive numbers | no place of the block has a timer | 12 bytes per block |
  /// | the wheels | 64 chunks of one size | no chunk of the block has a timer | nothing (see below) |
  /// | the heap | the whole heap | at most 256 timers are left, in the first half of the heap's array | nothing |
  /// | the heap | nothing | otherwise | 20 to 40 bytes per timer of the peak |
  ///
  /// For each shard, the call passes up to 16 MiB of the timers' memory, up to 16 MiB of the wheel's memory, and all
  /// memory of the heap to `operator delete`. The allocator may keep that memory. All other memory goes back to the
  /// system. If the option `huge_pages` is off, all memory that goes back goes to `operator delete`, and the wheels
  /// keep 5 to 6.3 bytes per timer of the peak. `stats().bytes` shows what is left. The call works in short steps, each
  /// with the lock of one shard: some steps look at 128 places, the others take some tens of microseconds. A callback
  /// may call it. In a child process it does nothing. Complexity: as `stop`.
  void shrink_to_fit() noexcept;

  /// The time on the clock of the service: the monotonic clock, or the virtual time of a `manual_timer`. Complexity:
  /// O(1), no lock.
  [[nodiscard]] time_point now() const noexcept;

  /// \cond
 protected:
  /// For `manual_timer` and `loop_timer`, which have no poller.
  explicit timer(std::shared_ptr<detail::service> driven_otherwise) noexcept;

  /// The implementation, for the library's other timer classes.
  [[nodiscard]] const std::shared_ptr<detail::service>& service() const noexcept { return service_; }

 private:
  // The `start_…` functions throw `timer_error` and `std::bad_alloc` only if `error` is null; exceptions from moving
  // the callable always pass through.
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
  std::size_t start_many(std::span<pending_task> timers, std::span<timer_handle> handles, std::error_code* error);
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
    detail::forwarded rule(std::forward<Next>(next));
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

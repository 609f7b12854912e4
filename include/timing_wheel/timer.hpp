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
#include "timing_wheel/detail/periodic_rule.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/pending.hpp"
#include "timing_wheel/periodic.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"
#include "timing_wheel/timer_stats.hpp"

namespace timing_wheel {

namespace detail {
class service;
struct sleep_options_in_braces;
using first_deadline = std::function<std::optional<time_point>(time_point)>;
}  // namespace detail

class sleep_operation;

/// For `stop`: run what is pending now, whatever its deadline.
struct run_now_t {};
inline constexpr run_now_t run_now{};  ///< The argument for it.

/// For `stop`: drop what is pending.
struct discard_t {};
inline constexpr discard_t discard{};  ///< The argument for it.

/// For `stop`: go on running what becomes due until a time.
struct drain_t {};
inline constexpr drain_t drain{};  ///< The argument for it.

/// Gives the deadline after the one that it is given, or none.
template <class Next>
concept deadline_rule = requires(std::decay_t<Next>& next, time_point previous) {
  { next(previous) } -> std::convertible_to<std::optional<time_point>>;
};

/// Runs callbacks after a delay, never early, each as often as it is asked to. Any number of timers; schedule and
/// cancel are O(1).
///
///     timing_wheel::timer timer{{.tick = 1ms, .wheel_size = 512}};
///     auto check = timer.schedule_after(30min, [&, id] { verify(id); });
///     check.cancel();
///     timer.schedule_every(5s, send_heartbeat, timing_wheel::fixed_delay, {.tag = 7});
///     for (auto& left : timer.stop()) save(left.tag, left.deadline);
///
/// **Who drives it.** One poller thread sleeps until the earliest bucket expires and is woken only by an earlier one; a
/// cancel does not wake it, so that it may wake once for a bucket that has become empty meanwhile. It bears the name
/// "timing_wheel", and runs none of the program's signal handlers: it blocks all signals but those that a callback's
/// own fault raises. `timer_options::pollers` asks for several, each with some of the shards. Code that uses timers
/// should take a `timer&`: a test then hands it a `manual_timer`, an event loop a `loop_timer`.
///
/// **Callbacks** run on the poller, one after the other, so that one that blocks delays the others of that poller; or
/// are given to `timer_options::executor`, whose threads are the user's in everything. They run outside every lock. A
/// callback may schedule, cancel, reschedule, stop the service, drop its handle and throw (see
/// `timer_options::on_error`), call `std::exit`, and destroy the service. It must not end its thread (`pthread_exit`),
/// nor may an executor or a hook: that is reported on standard error, and the program aborted. Threads and processes
/// that it starts on the poller inherit the blocked signals.
///
/// **The four verbs** are `schedule_after`, `schedule_at`, `schedule_every` and `schedule_with`. Each takes
/// `schedule_options` last, which may be left out. Followed by a `std::error_code&`, nothing is thrown but what copying
/// or moving the callable throws: `error` becomes a `timer_errc` or `std::errc::not_enough_memory`, or is cleared, and
/// an empty handle is returned for a refusal. Without it, a refusal throws `timer_error`, and a lack of memory
/// `std::bad_alloc`. Whatever the reason, a callable that is refused was not moved from. The callback may begin before
/// the call returns. Complexity: O(levels), one lock of a shard; no allocation after warm-up, if the captures fit and
/// no token is given: 24 bytes of them do, 8 beside a period, and beside a rule of the caller's what that leaves.
///
/// **fork.** A service stays in the process that made it. In the child, `schedule` refuses (`forked`), every timer is
/// finished, `stop` returns nothing and the destructor frees nothing; none of them blocks. A service made in the child
/// works.
///
/// Thread safety: every member may be called from any thread.
class TIMING_WHEEL_EXPORT timer {
 public:
  /// Starts the poller threads: one, unless the options ask for more.
  /// \throws timer_error (`invalid_option`) naming the value and the range; std::bad_alloc; std::system_error if no
  /// thread can be had.
  explicit timer(const timer_options& options = {});

  /// Drops what is pending: the callables are destroyed. Waits for the callbacks that run; so it must not be called
  /// under a lock that one of them takes. From a callback of this service it does not wait. Within any call that the
  /// service makes, or another call of its own (from a callback, a rule, a visitor, the destructor of what was
  /// captured), what that still needs of the service goes when it has ended.
  virtual ~timer();

  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  /// Runs `callback` once, `delay` from now; zero and negative delays run as soon as possible. The clock is read once.
  /// \throws timer_error (`stopped`, `too_many_pending`, `empty_callback`, `forked`); std::bad_alloc; see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback,
                              const schedule_options& options = {}) {
    detail::given source(std::forward<F>(callback));
    return start_after(saturating_nanoseconds(delay), source, options, nullptr);
  }
  /// The same, without a `timer_error`: see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback, const schedule_options& options,
                              std::error_code& error) {
    detail::given source(std::forward<F>(callback));
    return start_after(saturating_nanoseconds(delay), source, options, &error);
  }
  /// The same, without a `timer_error`: see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback, std::error_code& error) {
    detail::given source(std::forward<F>(callback));
    return start_after(saturating_nanoseconds(delay), source, {}, &error);
  }

  /// Runs `callback` once, at `deadline`, or as soon as possible after it.
  ///
  /// A deadline is a time point of `std::chrono::steady_clock` or `system_clock`. One of the wall clock is converted to
  /// the monotonic clock once, now. The callback does not run before the wall clock has shown the deadline, unless that
  /// clock is set after this call: then the timer keeps the instant that it was given. Set forward by an hour, the wall
  /// clock shows the deadline plus an hour when it runs; set back, the deadline less an hour. To follow the wall clock,
  /// schedule anew when it is set.
  /// \throws timer_error, std::bad_alloc as `schedule_after`.
  template <detail::deadline_clock Clock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<Clock, Duration> deadline, F&& callback,
                           const schedule_options& options = {}) {
    detail::given source(std::forward<F>(callback));
    return start_at(detail::nanoseconds_of(deadline), source, options, nullptr);
  }
  /// The same, without a `timer_error`: see above.
  template <detail::deadline_clock Clock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<Clock, Duration> deadline, F&& callback,
                           const schedule_options& options, std::error_code& error) {
    detail::given source(std::forward<F>(callback));
    return start_at(detail::nanoseconds_of(deadline), source, options, &error);
  }
  /// The same, without a `timer_error`: see above.
  template <detail::deadline_clock Clock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<Clock, Duration> deadline, F&& callback, std::error_code& error) {
    detail::given source(std::forward<F>(callback));
    return start_at(detail::nanoseconds_of(deadline), source, {}, &error);
  }
  /// Another clock: convert its time points with `std::chrono::clock_cast`, or schedule after a delay.
  template <class Clock, class Duration, class... Rest>
  requires(!detail::deadline_clock<Clock>) timer_handle
      schedule_at(std::chrono::time_point<Clock, Duration> another_clock, Rest&&... rest)
  = delete;
  /// The same, with options in braces.
  template <class Clock, class Duration, class F, class... Error>
  requires(!detail::deadline_clock<Clock>) timer_handle
      schedule_at(std::chrono::time_point<Clock, Duration> another_clock, F&& callback, const schedule_options& options,
                  Error&&... error)
  = delete;

  /// Runs `callback` again and again, the first time one `period` from now, until its handle cancels it, from the
  /// callback too. Without a policy, one `period` lies between the end of a run and the next.
  ///
  /// Runs never overlap; one that throws is reported, and the timer goes on. Each run counts as scheduled and fired
  /// once.
  /// \throws timer_error, std::bad_alloc as `schedule_after`, and timer_error (`invalid_period`) unless the period is
  /// positive.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback,
                              period_policy policy = fixed_delay, const schedule_options& options = {}) {
    return every({saturating_nanoseconds(period), policy}, std::forward<F>(callback), options, nullptr);
  }
  /// The same with `fixed_delay`.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback,
                              const schedule_options& options) {
    return every({saturating_nanoseconds(period), fixed_delay}, std::forward<F>(callback), options, nullptr);
  }
  /// The same, without a `timer_error`: see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback, period_policy policy,
                              const schedule_options& options, std::error_code& error) {
    return every({saturating_nanoseconds(period), policy}, std::forward<F>(callback), options, &error);
  }
  /// The same, without a `timer_error`: see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback, period_policy policy,
                              std::error_code& error) {
    return every({saturating_nanoseconds(period), policy}, std::forward<F>(callback), {}, &error);
  }
  /// The same, without a `timer_error`: see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback, const schedule_options& options,
                              std::error_code& error) {
    return every({saturating_nanoseconds(period), fixed_delay}, std::forward<F>(callback), options, &error);
  }
  /// The same, without a `timer_error`: see above.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback, std::error_code& error) {
    return every({saturating_nanoseconds(period), fixed_delay}, std::forward<F>(callback), {}, &error);
  }

  /// Runs `callback` at the deadlines that `next(previous deadline)` gives, a `std::optional<time_point>`, until it
  /// gives none.
  ///
  /// `next` is called now, with the present as the previous deadline (none: nothing is scheduled, and an empty handle
  /// returned), and then at the end of each run, on its thread and outside every lock, even if the timer was cancelled
  /// in that run. What it throws now gets out of this call; what it throws later is reported, and the timer ends. It
  /// may end the service, or destroy it: then this call refuses (`stopped`), and later the timer ends.
  /// \throws timer_error, std::bad_alloc as `schedule_after`.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, const schedule_options& options = {}) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), options, nullptr);
  }
  /// The same, without a `timer_error`: see above.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, const schedule_options& options, std::error_code& error) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), options, &error);
  }
  /// The same, without a `timer_error`: see above.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, std::error_code& error) {
    return by_rule(std::forward<Next>(next), std::forward<F>(callback), {}, &error);
  }

  /// In a coroutine, `co_await timer.sleep_for(30min)` goes on after 30 minutes. Include `timing_wheel/coroutine.hpp`,
  /// which has the rest of what can be said of a `sleep_operation`.
  template <class Rep, class Period>
  sleep_operation sleep_for(std::chrono::duration<Rep, Period> delay);
  /// The same, with options: in braces, `{.stop = token}`, or a `sleep_options`.
  template <class Rep, class Period>
  sleep_operation sleep_for(std::chrono::duration<Rep, Period> delay, const detail::sleep_options_in_braces& options);
  /// The same, and awaiting it throws nothing.
  template <class Rep, class Period>
  sleep_operation sleep_for(std::chrono::duration<Rep, Period> delay, std::error_code& error);
  /// The same, and awaiting it throws nothing.
  template <class Rep, class Period>
  sleep_operation sleep_for(std::chrono::duration<Rep, Period> delay, const detail::sleep_options_in_braces& options,
                            std::error_code& error);

  /// In a coroutine, `co_await timer.sleep_until(deadline)` goes on at `deadline`, of the same clocks as `schedule_at`.
  /// Else as `sleep_for`.
  template <detail::deadline_clock Clock, class Duration>
  sleep_operation sleep_until(std::chrono::time_point<Clock, Duration> deadline);
  /// The same, with options.
  template <detail::deadline_clock Clock, class Duration>
  sleep_operation sleep_until(std::chrono::time_point<Clock, Duration> deadline,
                              const detail::sleep_options_in_braces& options);
  /// The same, and awaiting it throws nothing.
  template <detail::deadline_clock Clock, class Duration>
  sleep_operation sleep_until(std::chrono::time_point<Clock, Duration> deadline, std::error_code& error);
  /// The same, and awaiting it throws nothing.
  template <detail::deadline_clock Clock, class Duration>
  sleep_operation sleep_until(std::chrono::time_point<Clock, Duration> deadline,
                              const detail::sleep_options_in_braces& options, std::error_code& error);
  /// Another clock, as with `schedule_at`.
  template <class Clock, class Duration, class... Error>
  requires(!detail::deadline_clock<Clock>) sleep_operation
      sleep_until(std::chrono::time_point<Clock, Duration> another_clock, Error&&... error)
  = delete;
  /// The same, with options.
  template <class Clock, class Duration, class... Error>
  requires(!detail::deadline_clock<Clock>) sleep_operation
      sleep_until(std::chrono::time_point<Clock, Duration> another_clock,
                  const detail::sleep_options_in_braces& options, Error&&... error)
  = delete;

  /// Cancels the timer whose `timer_handle::key()` it is. A key of no timer, of one that has ended, or of another
  /// service: `finished`. Complexity: O(1), one lock of a shard (O(log n) on `engine_kind::heap`).
  cancel_result cancel(std::uint64_t key) noexcept;

  /// Takes every pending timer out and refuses new ones from then on. No callback begins after it has returned; unless
  /// called from a callback, it waits for those that are running, so it must not be called under a lock that a callback
  /// takes. Two services whose callbacks stop each other at the same time wait for each other for ever: let a thread of
  /// neither stop both. A `schedule` that races with it is either returned or refused; a periodic timer that is running
  /// is not armed again.
  /// Complexity: of each `stop`, O(timers that were ever pending at once).
  /// \returns each pending timer once, in no particular order; nothing when called again.
  /// \throws std::bad_alloc; then it has refused new timers and taken none: call it again.
  std::vector<pending_task> stop();

  /// As `stop()`, but destroys the pending callables, on this thread and outside every lock. It takes no memory for
  /// them all: for at most `max_timers_per_lock` at a time. They count as returned.
  /// \returns how many. \throws std::bad_alloc; then it can be called again.
  std::size_t stop(discard_t how);

  /// Refuses new timers, runs the callback of every pending one once, on this thread, whatever its deadline, in no
  /// particular order, and stops. Until its callback begins, a timer can be cancelled. From a callback that such a call
  /// runs, it does nothing.
  /// \returns how many ran here. \throws std::bad_alloc; then it can be called again.
  std::size_t stop(run_now_t how);

  /// Refuses new timers, lets what becomes due before `until` run, and stops then, or as soon as nothing is pending or
  /// running. Periodic timers are not armed again. Without a poller thread it drives the service itself: a
  /// `manual_timer` advances to `until`, and what an executor has not begun by then is returned; a `loop_timer` sleeps
  /// and runs what is due. From a callback it drives the service itself, and waits for the other pollers if there are
  /// any; or on an executor it waits for the other threads: the only thread of a pool would wait in vain. From a
  /// callback that another `stop` runs on this thread, it leaves the rest to that one.
  /// \returns what could not run, as `stop()`. \throws std::bad_alloc, as `stop()`.
  std::vector<pending_task> stop(drain_t how, time_point until);

  /// Calls `visit(const pending_timer&)` for each pending timer, outside every lock. One that is pending all the while
  /// is visited once; one that comes or goes meanwhile, at most once. `visit` may use the service, and the handles;
  /// it may also end the service or destroy it, and then sees at most those that had been found.
  /// Complexity: O(timers that were ever pending at once). \throws std::bad_alloc, and what `visit` throws.
  template <class Visit>
  requires std::invocable<Visit&, const pending_timer&>
  void for_each_pending(Visit visit) const { visit_pending(std::ref(visit)); }

  /// Whether `stop` has taken the pending timers out. Complexity: O(1), no lock.
  [[nodiscard]] bool stopped() const noexcept;

  /// How many timers are pending. Exact when nobody else schedules, cancels or fires; each shard is counted in its
  /// turn, see `timer_stats`. Complexity: O(shards).
  [[nodiscard]] std::size_t pending() const noexcept;

  /// What the service has done. Complexity: O(shards). \throws std::bad_alloc.
  [[nodiscard]] timer_stats stats() const;

  /// Gives memory back that no pending timer needs, after a peak; without it, a service keeps what the peak has taken.
  /// A request: what goes back depends on where the pending timers lie. Handles and keys of old stay valid.
  ///
  /// Of the timers themselves, 1024 places that were taken one after the other go back together, once none of them has
  /// a timer; so a few timers that are spread over all of them keep all. The wheels give back 64 chunks, of 64 timers
  /// or of 12, at a time, and the end of what they know of each timer. What stays for a peak that has gone: 12 bytes
  /// per 1024 timers; with `engine_kind::heap` 20 bytes per timer unless few are pending; with a wheel and without
  /// `huge_pages` 5 to 6.3 bytes per timer. Up to 16 MiB per shard and purpose go back to `operator delete`, which may
  /// keep them; the rest to the system. `stats().bytes` tells what is left.
  ///
  /// What was given back is allocated again when it is needed: so call this after a peak, not after each timer. It
  /// locks a shard many times, for 128 timers or some tens of microseconds, and leaves it open between; other calls do
  /// not wait for the whole. From a callback, too. In a child process it does nothing. Complexity: O(timers that were
  /// ever pending at once).
  void shrink_to_fit() noexcept;

  /// What the service's clock shows: the monotonic one, or the virtual time of a `manual_timer`. Complexity: O(1), no
  /// lock.
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
                           const schedule_options& options, std::error_code* error);
  // `next` gives the first deadline; without one, nothing is scheduled.
  timer_handle start_with(const detail::first_deadline& next, detail::task_source& callback,
                          const schedule_options& options, std::error_code* error);
  timer_handle refuse_empty(std::error_code* error) const;
  void visit_pending(const std::function<void(const pending_timer&)>& visit) const;

  template <class F>
  timer_handle every(detail::periodic_rule rule, F&& callback, const schedule_options& options,
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

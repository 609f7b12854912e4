#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/detail/memory.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/hashed_wheel.hpp"
#include "timing_wheel/heap_queue.hpp"
#include "timing_wheel/hierarchical_wheel.hpp"
#include "timing_wheel/manual_clock.hpp"
#include "timing_wheel/periodic.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/tick.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"
#include "timing_wheel/timer_stats.hpp"

namespace timing_wheel {

/// A timer that `stop` took out: it will not run by itself any more, and belongs to the caller. Of a periodic one, the
/// callback is one run.
struct pending_task {
  time_point deadline;
  std::uint64_t tag = 0;
  task callback;
};

/// A timer that `for_each_pending` shows.
struct pending_timer {
  timer_handle handle;
  time_point deadline;
  std::uint64_t tag = 0;
};

/// For `stop`: run what is pending now, whatever its deadline.
struct run_now_t {};
inline constexpr run_now_t run_now{};

/// For `stop`: go on running what becomes due until a time.
struct drain_t {};
inline constexpr drain_t drain{};

/// Gives the deadline after the one that it is given, or none.
template <class Next>
concept deadline_rule = requires(std::decay_t<Next>& next, time_point previous) {
  { next(previous) } -> std::convertible_to<std::optional<time_point>>;
};

/// Whether a clock is moved by its user, who then drives the service; otherwise a thread of the service does.
template <class Clock>
concept manually_driven = std::same_as<Clock, manual_clock>;

/// Runs callbacks after a delay, never early, each as often as it is asked to. Any number of timers; schedule and cancel are
/// O(1).
///
///     timing_wheel::timer timer{{.tick = 1ms, .wheel_size = 512}};
///     auto check = timer.schedule_after(30min, [&, id] { verify(id); });
///     check.cancel();
///     timer.schedule_every(5s, send_heartbeat, timing_wheel::fixed_delay);
///     for (auto& left : timer.stop()) save(left.tag, left.deadline);
///
/// One poller thread sleeps until the earliest bucket expires and is woken only by an earlier one; a cancel does not wake it, so
/// that it may wake once for a bucket that has become empty meanwhile. It runs the callbacks, one after the other, so that one
/// that blocks delays the others; or gives them to `timer_options::executor`. They run outside every lock. A callback may
/// schedule, cancel, reschedule, stop the service, drop its handle and throw (see `timer_options::on_error`), its own timer
/// included. It must not destroy the service: that is reported on standard error, and the program aborted.
///
/// With a `manual_clock` there is no thread: `advance_to` runs what is due, in the order of the ticks.
///
/// Thread safety: every member may be called from any thread, `advance_to` from one at a time.
/// Compiled in the library for the engines and clocks declared below.
template <timer_engine Engine, class Clock>
class basic_timer {
 public:
  using engine_type = Engine;
  using clock_type = Clock;

  /// Starts the poller thread; or copies a manual clock, and only `advance_to` moves the copy from then on.
  /// \throws timer_error (`invalid_option`) naming the value and the range. \throws std::system_error if no thread can be had.
  explicit basic_timer(const timer_options& options = {}, const Clock& clock = Clock());

  /// Drops what is pending: the callables are destroyed. Waits for the callbacks that run. Not from a callback.
  ~basic_timer();

  basic_timer(const basic_timer&) = delete;
  basic_timer& operator=(const basic_timer&) = delete;

  /// Runs `callback` once, `delay` from now; zero and negative delays run as soon as possible. The clock is read once.
  /// `tag` is a number of the caller's, which the handle and `stop` give back. The callback may begin before this returns.
  ///
  /// Complexity: O(levels), one lock of a shard. No allocation after warm-up, if the captures fit into a `task`.
  /// \throws timer_error (`stopped`, `too_many_pending`, `empty_callback`); std::bad_alloc; what moving the callable throws.
  /// Then nothing was scheduled, and the callable is destroyed or was never moved from.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback, std::uint64_t tag = 0) {
    return or_throw(start_after(saturating_nanoseconds(delay), task(std::forward<F>(callback)), tag));
  }

  /// The same; a refusal, or `std::errc::not_enough_memory`, is put into `error`, and an empty handle returned. Only what the
  /// construction of the callable throws gets out.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback, std::uint64_t tag,
                              std::error_code& error) {
    return reporting(error,
                     [&] { return start_after(saturating_nanoseconds(delay), task(std::forward<F>(callback)), tag); });
  }
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, F&& callback, std::error_code& error) {
    return schedule_after(delay, std::forward<F>(callback), 0, error);
  }

  /// Runs `callback` once, at `deadline`, or as soon as possible after it.
  ///
  /// A `std::chrono::system_clock` deadline is converted to the monotonic clock once, now: setting the wall clock later
  /// changes nothing.
  template <class WhichClock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<WhichClock, Duration> deadline, F&& callback,
                           std::uint64_t tag = 0) {
    return or_throw(start_at(nanoseconds_of(deadline), task(std::forward<F>(callback)), tag));
  }
  template <class WhichClock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<WhichClock, Duration> deadline, F&& callback, std::uint64_t tag,
                           std::error_code& error) {
    return reporting(error, [&] { return start_at(nanoseconds_of(deadline), task(std::forward<F>(callback)), tag); });
  }
  template <class WhichClock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<WhichClock, Duration> deadline, F&& callback,
                           std::error_code& error) {
    return schedule_at(deadline, std::forward<F>(callback), 0, error);
  }

  /// The same, and `token` cancels the timer when a stop is requested, at once if it was before.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_after(std::chrono::duration<Rep, Period> delay, std::stop_token token, F&& callback,
                              std::uint64_t tag = 0) {
    return detail::schedule_stoppable(std::move(token), std::forward<F>(callback),
                                      [&](auto linked) { return schedule_after(delay, std::move(linked), tag); });
  }
  template <class WhichClock, class Duration, timer_callback F>
  timer_handle schedule_at(std::chrono::time_point<WhichClock, Duration> deadline, std::stop_token token, F&& callback,
                           std::uint64_t tag = 0) {
    return detail::schedule_stoppable(std::move(token), std::forward<F>(callback),
                                      [&](auto linked) { return schedule_at(deadline, std::move(linked), tag); });
  }

  /// Runs `callback` again and again, the first time one `period` from now, until its handle cancels it, from the callback too.
  ///
  /// Runs never overlap; one that throws is reported, and the timer goes on. Each run counts as scheduled and fired once.
  /// \throws as `schedule_after`, and timer_error (`invalid_period`) unless the period is positive.
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback,
                              period_policy policy = fixed_delay, std::uint64_t tag = 0) {
    return or_throw(start_every(saturating_nanoseconds(period), policy, std::forward<F>(callback), tag));
  }
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, F&& callback, period_policy policy,
                              std::uint64_t tag, std::error_code& error) {
    return reporting(
        error, [&] { return start_every(saturating_nanoseconds(period), policy, std::forward<F>(callback), tag); });
  }
  template <class Rep, class Period, timer_callback F>
  timer_handle schedule_every(std::chrono::duration<Rep, Period> period, std::stop_token token, F&& callback,
                              period_policy policy = fixed_delay, std::uint64_t tag = 0) {
    return detail::schedule_stoppable(std::move(token), std::forward<F>(callback), [&](auto linked) {
      return schedule_every(period, std::move(linked), policy, tag);
    });
  }

  /// Runs `callback` at the deadlines that `next(previous deadline)` gives, a `std::optional<time_point>`, until it gives none.
  ///
  /// `next` is called now, with the present as the previous deadline (none: nothing is scheduled, and an empty handle returned),
  /// and then at the end of each run, on its thread and outside every lock, even if the timer was cancelled in that run. What it
  /// throws now gets out of this call; what it throws later is reported, and the timer ends.
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, std::uint64_t tag = 0) {
    return or_throw(start_recurring(user_rule(std::forward<Next>(next)), std::forward<F>(callback), tag));
  }
  template <deadline_rule Next, timer_callback F>
  timer_handle schedule_with(Next&& next, F&& callback, std::uint64_t tag, std::error_code& error) {
    return reporting(
        error, [&] { return start_recurring(user_rule(std::forward<Next>(next)), std::forward<F>(callback), tag); });
  }

  /// Takes every pending timer out and refuses new ones from then on. No callback begins after it has returned; unless called
  /// from a callback, it waits for those that are running, so it must not be called under a lock that a callback takes.
  /// A `schedule` that races with it is either returned or refused; a periodic timer that is running is not armed again.
  /// \returns each pending timer once, in no particular order; nothing when called again.
  /// \throws std::bad_alloc; then it has refused new timers and taken none: call it again.
  std::vector<pending_task> stop();

  /// Refuses new timers, runs the callback of every pending one once, on this thread, whatever its deadline, in no particular
  /// order, and stops. Until its callback begins, a timer can be cancelled. From a callback that such a call runs, it does
  /// nothing.
  /// \returns how many ran here. \throws std::bad_alloc; then it can be called again.
  std::size_t stop(run_now_t);

  /// Refuses new timers, lets what becomes due before `until` run, and stops then, or as soon as nothing is pending or
  /// running. Periodic timers are not armed again. With a `manual_clock` it advances to `until`, and what an executor has not
  /// begun by then is returned. From a callback it drives the service itself, or on an executor waits for the other threads:
  /// the only thread of a pool would wait in vain. From a callback that another `stop` runs on this thread, it leaves the
  /// rest to that one.
  /// \returns and \throws as `stop()`.
  std::vector<pending_task> stop(drain_t, time_point until);

  /// Calls `visit(const pending_timer&)` for each pending timer, outside every lock. One that is pending all the while is
  /// visited once; one that comes or goes meanwhile, at most once. `visit` may use the service, and the handles.
  /// Complexity: O(timers that were ever pending at once). \throws std::bad_alloc, and what `visit` throws.
  template <class Visit>
  requires std::invocable<Visit&, const pending_timer&>
  void for_each_pending(Visit visit) const {
    std::vector<pending_timer> some;
    for (position from; list_pending(from, some);) {
      for (const pending_timer& one : some) {
        visit(one);
      }
    }
  }

  /// Whether `stop` has taken the pending timers out.
  [[nodiscard]] bool stopped() const noexcept;

  /// How many timers are pending. Exact when nobody else schedules, cancels or fires; each shard is counted in its turn.
  [[nodiscard]] std::size_t pending() const noexcept;

  [[nodiscard]] timer_stats stats() const;

  /// What the service's clock shows.
  [[nodiscard]] time_point now() const noexcept;

  /// Moves the clock to `when`, stopping at each expiration on the way and running what is due there, so that a callback sees
  /// the clock at its own tick, and what it schedules before `when` runs too. With a `when` before the clock, the clock stays
  /// and what is due by now runs. A callback that goes on scheduling with no delay keeps this call from returning.
  /// Complexity: O(timers + buckets), whatever the distance; on a `hashed_wheel` a step for each tick while anything is
  /// pending. \returns how many callbacks ran.
  /// \throws timer_error (`nested_advance`) if another call is running, on another thread or around the callback that calls;
  /// std::bad_alloc if a cascade finds no memory; then nothing is lost, and the call can be repeated. With an executor, it
  /// counts what was handed over; one that refuses is asked again at every millisecond on the way.
  std::size_t advance_to(time_point when) requires manually_driven<Clock>;

  /// `advance_to(now() + delay)`.
  template <class Rep, class Period>
  std::size_t advance_by(std::chrono::duration<Rep, Period> delay) requires manually_driven<Clock> {
    return advance_to(saturating_add(now(), saturating_nanoseconds(delay)));
  }

 private:
  struct state;
  struct started {
    timer_handle handle;
    timer_errc refusal = {};               // none if it was accepted, or if there was nothing to schedule
    std::chrono::nanoseconds period = {};  // that was refused
  };
  struct position {
    std::size_t shard = 0;
    slot next = 0;
  };
  using wall_time = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

  template <class Duration>
  static time_point nanoseconds_of(std::chrono::time_point<std::chrono::steady_clock, Duration> when) {
    return time_point(saturating_nanoseconds(when.time_since_epoch()));
  }
  template <class Duration>
  static wall_time nanoseconds_of(std::chrono::time_point<std::chrono::system_clock, Duration> when) {
    return wall_time(saturating_nanoseconds(when.time_since_epoch()));
  }

  template <class Next>
  static auto user_rule(Next&& next) {
    return detail::next_deadline<std::decay_t<Next>>{std::forward<Next>(next)};
  }
  template <class Rule, class F>
  started start_recurring(Rule&& rule, F&& callback, std::uint64_t tag) {
    using callable = detail::recurring<std::decay_t<F>, std::decay_t<Rule>>;
    return start_recurring(task(callable{std::forward<F>(callback), std::forward<Rule>(rule)}), tag);
  }
  template <class F>
  started start_every(std::chrono::nanoseconds period, period_policy policy, F&& callback, std::uint64_t tag) {
    if (period <= period.zero()) {
      return {{}, timer_errc::invalid_period, period};
    }
    return start_recurring(detail::periodic_rule{period, policy}, std::forward<F>(callback), tag);
  }

  started start(time_point now, time_point deadline, task&& callback, std::uint64_t tag, bool recurring = false);
  started start_after(std::chrono::nanoseconds delay, task&& callback, std::uint64_t tag);
  started start_at(time_point deadline, task&& callback, std::uint64_t tag);
  started start_at(wall_time deadline, task&& callback, std::uint64_t tag);
  started start_recurring(task&& callback, std::uint64_t tag);
  bool list_pending(position& from, std::vector<pending_timer>& found) const;
  [[noreturn]] void refuse(const started& result) const;

  timer_handle or_throw(started&& result) const {
    if (result.refusal != timer_errc{}) {
      refuse(result);
    }
    return std::move(result.handle);
  }
  template <class Start>
  static timer_handle reporting(std::error_code& error, Start start) {
    started result;
    if (!detail::within_memory([&] { result = start(); })) {
      error = std::make_error_code(std::errc::not_enough_memory);
      return {};
    }
    error = result.refusal == timer_errc{} ? std::error_code() : make_error_code(result.refusal);
    return std::move(result.handle);
  }

  std::unique_ptr<state> state_;
};

extern template class basic_timer<hierarchical_wheel, std::chrono::steady_clock>;
extern template class basic_timer<hierarchical_wheel, manual_clock>;
extern template class basic_timer<hashed_wheel, std::chrono::steady_clock>;
extern template class basic_timer<hashed_wheel, manual_clock>;
extern template class basic_timer<heap_queue, std::chrono::steady_clock>;
extern template class basic_timer<heap_queue, manual_clock>;

/// The service: hierarchical wheels, the monotonic clock, a thread of its own.
using timer = basic_timer<hierarchical_wheel, std::chrono::steady_clock>;

/// The same service driven by hand. This is what to test your own code with.
using manual_timer = basic_timer<hierarchical_wheel, manual_clock>;

}  // namespace timing_wheel

#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "timing_wheel/engine.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/hierarchical_wheel.hpp"
#include "timing_wheel/histogram.hpp"
#include "timing_wheel/manual_clock.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/tick.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel {

/// How a service is made. Every field has a default that suits most.
struct timer_options {
  /// The grain of time: a timer fires less than one tick, plus the scheduling latency of the machine, after its deadline.
  /// At least 1 ns. Wake-ups and cascades become fewer with a longer tick.
  std::chrono::nanoseconds tick = std::chrono::milliseconds(1);
  /// Slots of each wheel, in [2, 2^24].
  std::uint32_t wheel_size = 512;
  /// Slots level by level, lowest first, for instance {60, 60, 24}; levels beyond take the last. Empty: `wheel_size` for all.
  std::vector<std::uint32_t> wheel_sizes = {};
  /// Parts with a lock, a wheel and memory of their own; a thread stays with one. At most 1024. 0: as many as the machine has
  /// cores, and one for a service driven by a `manual_clock`.
  unsigned shards = 0;
  /// `schedule` refuses when as many timers are pending.
  std::size_t max_pending = no_limit;
};

/// The largest number of timers that is handled under one hold of a lock, in cascade, in expiry and in `stop`.
inline constexpr std::size_t max_timers_per_lock = 256;

/// What a service has done since it was made. At every instant, `scheduled == fired + cancelled + returned + pending`.
struct timer_stats {
  std::uint64_t scheduled = 0;  ///< Accepted by `schedule_after` and `schedule_at`.
  std::uint64_t fired = 0;      ///< Callbacks begun.
  std::uint64_t cancelled = 0;
  std::uint64_t returned = 0;  ///< Given back by `stop`.
  std::uint64_t pending = 0;
  std::uint64_t rejected = 0;       ///< Refused, because stopped or above `max_pending`; not among `scheduled`.
  std::uint64_t early = 0;          ///< Callbacks begun before their deadline. It is always 0.
  std::uint64_t failed = 0;         ///< Callbacks that threw.
  std::uint64_t wakeups = 0;        ///< Times that the poller thread woke.
  std::uint64_t empty_wakeups = 0;  ///< Those at the end of a sleep, with nothing to move and nothing to run.
  std::uint64_t moves = 0;          ///< Timers moved to a lower wheel.
  std::uint64_t largest_hold = 0;   ///< Most timers handled under one hold of a lock; at most `max_timers_per_lock`.
  std::size_t bytes = 0;            ///< Memory held for timers and wheels, in use or kept for reuse.
  std::vector<level_stats> levels;  ///< Per wheel, lowest first, summed over the shards; clocks are those of the first.
  histogram lateness;               ///< From the deadline to the start of the callback.
};
using stats = timer_stats;

/// A timer that `stop` took out: it will not run by itself any more, and belongs to the caller.
struct pending_task {
  time_point deadline;
  std::uint64_t tag = 0;
  task callback;
};

/// Whether a clock is moved by its user, who then drives the service; otherwise a thread of the service does.
template <class Clock>
concept manually_driven = std::same_as<Clock, manual_clock>;

/// Runs callbacks after a delay, each once, never early. Any number of timers; schedule and cancel are O(1).
///
///     timing_wheel::timer timer{{.tick = 1ms, .wheel_size = 512}};
///     auto check = timer.schedule_after(30min, [&, id] { verify(id); });
///     check.cancel();
///
/// One poller thread sleeps until the earliest bucket expires and is woken only by an earlier one; a cancel does not wake it, so
/// that it may wake once for a bucket that has become empty meanwhile. It runs the callbacks, one
/// after the other, outside every lock: one that blocks delays the others. A callback may schedule, cancel, reschedule, stop
/// the service and throw. An exception is counted and written to standard error, each kind (what it says) at most once a second
/// of the service's clock. A callback must not destroy the service.
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

  /// Drops what is pending: the callables are destroyed. Waits for a running callback. Not from a callback.
  ~basic_timer();

  basic_timer(const basic_timer&) = delete;
  basic_timer& operator=(const basic_timer&) = delete;

  /// Runs `callback` once, `delay` from now; zero and negative delays run as soon as possible. The clock is read once.
  /// `tag` is a number of the caller's, which the handle and `stop` give back. The callback may begin before this returns.
  ///
  /// Complexity: O(levels), one lock of a shard. No allocation after warm-up, if the captures fit into a `task`.
  /// \throws timer_error (`stopped`, `too_many_pending`, `empty_callback`); std::bad_alloc; what moving the callable throws.
  /// Then nothing was scheduled, and the callable that was handed over is destroyed.
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

  /// Takes every pending timer out and refuses new ones from then on. No callback begins after it has returned; unless called
  /// from a callback, it waits for one that is running, so it must not be called under a lock that a callback takes.
  /// A `schedule` that races with it is either returned or refused. \returns each pending timer once, in no particular
  /// order; nothing when called again. \throws std::bad_alloc; then it has refused new timers and taken none: call it again.
  std::vector<pending_task> stop();

  /// Whether `stop` has taken the pending timers out.
  [[nodiscard]] bool stopped() const noexcept;

  /// How many timers are pending. Exact when nobody else schedules, cancels or fires; each shard is counted in its turn.
  [[nodiscard]] std::size_t pending() const noexcept;

  [[nodiscard]] timer_stats stats() const;

  /// What the service's clock shows.
  [[nodiscard]] time_point now() const noexcept;

  /// Moves the clock to `when`, stopping at each expiration on the way and running what is due there, so that a callback sees
  /// the clock at its own tick, and what it schedules before `when` runs too. With a `when` before the clock, the clock stays and
  /// what is due by now runs. A callback that goes on scheduling with no delay keeps this call from returning.
  /// Complexity: O(timers + buckets), whatever the distance. \returns how many callbacks ran.
  /// \throws timer_error (`nested_advance`) if called from a callback or from two threads at once; std::bad_alloc if a cascade
  /// finds no memory; then nothing is lost, and the call can be repeated.
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
    timer_errc refusal = {};  // none if the handle refers to a timer
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

  started start(time_point now, time_point deadline, task&& callback, std::uint64_t tag);
  started start_after(std::chrono::nanoseconds delay, task&& callback, std::uint64_t tag);
  started start_at(time_point deadline, task&& callback, std::uint64_t tag);
  started start_at(wall_time deadline, task&& callback, std::uint64_t tag);
  [[noreturn]] void refuse(timer_errc refusal) const;

  timer_handle or_throw(started&& result) const {
    if (!result.handle) {
      refuse(result.refusal);
    }
    return std::move(result.handle);
  }
  template <class Start>
  static timer_handle reporting(std::error_code& error, Start start) {
    try {
      started result = start();
      error = result.handle ? std::error_code() : make_error_code(result.refusal);
      return std::move(result.handle);
    } catch (const std::bad_alloc&) {
      error = std::make_error_code(std::errc::not_enough_memory);
      return {};
    }
  }

  std::unique_ptr<state> state_;
};

extern template class basic_timer<hierarchical_wheel, std::chrono::steady_clock>;
extern template class basic_timer<hierarchical_wheel, manual_clock>;

/// The service: hierarchical wheels, the monotonic clock, a thread of its own.
using timer = basic_timer<hierarchical_wheel, std::chrono::steady_clock>;

/// The same service driven by hand. This is what to test your own code with.
using manual_timer = basic_timer<hierarchical_wheel, manual_clock>;

}  // namespace timing_wheel

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/executor.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel {

enum class sleep_result : std::uint8_t;

namespace detail {

/// What the time of a sleep means.
enum class time_kind : std::uint8_t { delay, steady, wall };
template <class Clock>
inline constexpr time_kind kind_of =
    std::same_as<Clock, std::chrono::steady_clock> ? time_kind::steady : time_kind::wall;

/// What to sleep.
struct sleep_time {
  timer* by;
  time_kind kind;
  std::chrono::nanoseconds time;  // a delay, or since the epoch
  std::uint64_t tag;
  std::chrono::nanoseconds window{};
};

/// What a coroutine sleeps, and how.
struct sleep_request : sleep_time {
  sleep_request(timer* of, time_kind how, std::chrono::nanoseconds until, const sleep_arguments& options,
                std::error_code* told) noexcept
      : sleep_time{of, how, until, options.tag, options.window},
        stop(options.stop.token()),
        on(options.on),
        error(told) {}

  std::stop_token stop;
  executor_ref on;
  std::error_code* error;  // null: to throw
};

/// Writes `code` to `error`, or throws it as a `timer_error` if there is none.
TIMING_WHEEL_EXPORT void report_to(std::error_code* error, std::error_code code);

class sleeping;

/// Wakes what sleeps, once: when it is called, or else when it is destroyed. It is what a sleep's timer calls, and what
/// an executor calls then.
///
/// What sleeps may go first. So the sleep knows where its alarm is, wherever that is moved, and turns it off. An alarm
/// that was never moved does nothing when it is destroyed: the service has refused it.
class alarm {
 public:
  explicit alarm(sleeping& of) noexcept : sleep_(&of) {}
  alarm(alarm&& other) noexcept;
  alarm& operator=(alarm&&) = delete;
  ~alarm();

  void operator()();

  void turn_off() noexcept { sleep_ = nullptr; }

 private:
  sleeping* sleep_;
};

/// A sleep: what a coroutine's and a sender's have in common. It lies where they have it, with everything that it
/// needs, and allocates nothing.
///
/// The callback of its timer may wake it, or the destructor of that callback; for a coroutine, then a task of an
/// executor. One `alarm` does all of it, and ends with it, so there is no second time. docs/coroutines.md has the
/// races.
///
/// 1. `begin` does not touch this object after it has set `armed`, which is when others may begin to wake it. Before
///    that they wait.
/// 2. The thread that resumes a coroutine sets `taken`, and so does the thread that destroys it. The first one goes on.
///    Nobody destroys the operation of a sender before it has completed, so it needs no `taken`.
class sleeping {
 public:
  sleeping(const sleeping&) = delete;
  sleeping& operator=(const sleeping&) = delete;

  /// What a stop callback calls. This object may have gone when it returns.
  TIMING_WHEEL_EXPORT void request_stop() noexcept;

 protected:
  /// How it ended.
  enum class wake_reason : std::uint8_t { fired, dropped, refused, refused_by_executor };
  enum flag : unsigned {
    armed = 1,  // the handle is there, and others may go on
    stop = 2,   // a stop was requested
    over = 4,   // it ended within the `schedule` call, on the same thread
    taken = 8,  // somebody resumes the coroutine, or destroys it
  };
  /// What a stop request does with the timer.
  enum class stop_rule : std::uint8_t {
    hurry,   // the timer is due at once, and goes on where it would have
    cancel,  // the timer goes at once, and what sleeps goes on inside the request
  };
  /// Called once, when it is over. `of` may have gone when that returns.
  using wake_function = void (*)(sleeping& of, wake_reason how);
  struct stop_request {
    sleeping* sleep;
    void operator()() const noexcept { sleep->request_stop(); }
  };

  sleeping(wake_function wake, stop_rule rule) noexcept : wake_(wake), rule_(rule) {}
  ~sleeping() = default;

  /// Schedules the timer, and arms it. \throws as `timer::schedule_after` if `error` is null.
  /// \returns false if the service refuses. Otherwise this object may have gone.
  TIMING_WHEEL_EXPORT bool begin(const sleep_time& what, std::error_code* error);

  bool set(flag which) noexcept { return (flags_.fetch_or(which, std::memory_order_acq_rel) & which) == 0; }
  [[nodiscard]] bool has(flag which) const noexcept { return (flags_.load(std::memory_order_acquire) & which) != 0; }

  // Written before `armed` is set.
  timer_handle handle_;
  // The alarm's: one thread at a time has it.
  alarm* alarm_ = nullptr;  // where it is; null before it is moved into its timer, and after its end

 private:
  friend alarm;

  template <class... Error>
  timer_handle start(const sleep_time& what, Error&... error);
  static void obey(stop_rule rule, const timer_handle& timer) noexcept;
  void ring(wake_reason how);
  bool is_armed_or_waits() const noexcept;

  const wake_function wake_;
  std::thread::id starter_;  // written before `armed` is set
  // Any thread's.
  std::atomic<unsigned> flags_{0};
  const stop_rule rule_;
  wake_reason end_ = wake_reason::fired;  // the alarm's, before `over`
};

/// A sleep that a coroutine awaits. It lies in the frame of the coroutine. A stop request only makes the timer due.
class awaited_sleep : sleeping {
 public:
  explicit awaited_sleep(sleep_request what) noexcept
      : sleeping(&awaited_sleep::wake, stop_rule::hurry), what_(std::move(what)) {}
  TIMING_WHEEL_EXPORT ~awaited_sleep();

  [[nodiscard]] TIMING_WHEEL_EXPORT bool await_ready() noexcept;
  // Not inlined into the coroutine: clang before version 17 would put its locals into the frame, which may have gone.
  [[gnu::noinline]] TIMING_WHEEL_EXPORT bool await_suspend(std::coroutine_handle<> coroutine);
  TIMING_WHEEL_EXPORT sleep_result await_resume();

 private:
  static void wake(sleeping& of, wake_reason how);
  void pass_on(wake_reason how);
  void hand_over(wake_reason how);
  void resume();

  const sleep_request what_;
  std::coroutine_handle<> coroutine_;  // written before it begins
  // The alarm's.
  wake_reason how_ = wake_reason::fired;
  bool is_handed_over_ = false;
  std::optional<std::stop_callback<stop_request>> on_stop_;
};

}  // namespace detail

}  // namespace timing_wheel

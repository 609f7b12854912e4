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

/// What to sleep, and how.
struct sleep_request {
  sleep_request(timer* of, time_kind how, std::chrono::nanoseconds until, const sleep_arguments& options,
                std::error_code* told) noexcept
      : by(of),
        kind(how),
        time(until),
        tag(options.tag),
        stop(options.stop.token()),
        on(options.on),
        window(options.window),
        error(told) {}

  timer* by;
  time_kind kind;
  std::chrono::nanoseconds time;  // a delay, or since the epoch
  std::uint64_t tag;
  std::stop_token stop;
  executor_ref on;
  std::chrono::nanoseconds window;
  std::error_code* error;  // null: to throw
};

/// Writes `code` to `error`, or throws it as a `timer_error` if there is none.
TIMING_WHEEL_EXPORT void report_to(std::error_code* error, std::error_code code);

class sleeping;

/// Resumes a sleeping coroutine, once: when it is called, or else when it is destroyed. It is what a sleep's timer
/// calls, and then what the executor calls.
///
/// The coroutine's frame may go first. So the sleep knows where its alarm is, wherever that is moved, and turns it off.
/// An alarm that was never moved does nothing when it is destroyed: the service has refused it.
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

/// A sleep that is awaited. It lies in the frame of the coroutine, with everything that it needs.
///
/// Who may resume the coroutine: the callback of its timer, the destructor of that, or a task of the executor. One
/// `alarm` does all three, and ends with it, so there is no second time. A stop request only makes the timer due.
/// docs/coroutines.md has the races.
///
/// 1. `await_suspend` does not touch the frame after it has set `armed`, which is when others may begin to resume the
///    coroutine. Before that they wait.
/// 2. `taken` is set by who resumes the coroutine, and by who destroys it. The first one goes on.
class sleeping {
 public:
  explicit sleeping(sleep_request what) noexcept : what_(std::move(what)) {}
  sleeping(const sleeping&) = delete;
  sleeping& operator=(const sleeping&) = delete;
  TIMING_WHEEL_EXPORT ~sleeping();

  [[nodiscard]] TIMING_WHEEL_EXPORT bool await_ready() noexcept;
  // Not inlined into the coroutine: clang before version 17 would put its locals into the frame, which may have gone.
  [[gnu::noinline]] TIMING_WHEEL_EXPORT bool await_suspend(std::coroutine_handle<> coroutine);
  TIMING_WHEEL_EXPORT sleep_result await_resume();

 private:
  friend alarm;

  enum class end : std::uint8_t { fired, dropped, refused, refused_by_executor };
  enum flag : unsigned {
    armed = 1,  // the handle is there, and the coroutine is suspended
    stop = 2,   // a stop was requested
    over = 4,   // it ended within the `schedule` call, on the same thread
    taken = 8,  // somebody resumes the coroutine, or destroys it
  };
  struct stop_request {
    sleeping* sleep;
    void operator()() const noexcept { sleep->request_stop(); }
  };

  template <class... Error>
  timer_handle start(Error&... error);
  void request_stop() noexcept;
  static void hurry(const timer_handle& timer) noexcept;
  void ring(end how);
  bool is_armed_or_waits() const noexcept;
  void pass_on(end how);
  void hand_over();
  void resume();
  bool set(flag which) noexcept { return (flags_.fetch_or(which, std::memory_order_acq_rel) & which) == 0; }
  [[nodiscard]] bool has(flag which) const noexcept { return (flags_.load(std::memory_order_acquire) & which) != 0; }

  const sleep_request what_;
  // Written before `armed` is set.
  std::coroutine_handle<> coroutine_;
  std::thread::id starter_;
  timer_handle handle_;
  bool is_suspended_ = false;
  // The alarm's: one thread at a time has it.
  alarm* alarm_ = nullptr;  // where it is; null before it is moved into its timer, and after its end
  end end_ = end::fired;
  bool is_handed_over_ = false;
  // Any thread's.
  std::atomic<unsigned> flags_{0};
  std::optional<std::stop_callback<stop_request>> on_stop_;
};

}  // namespace detail

}  // namespace timing_wheel

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <iosfwd>
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

namespace timing_wheel {

/// How a sleep ended.
enum class sleep_result : std::uint8_t {
  elapsed,  ///< The time is over, or `stop(run_now)` has run the timer.
  stopped,  ///< Its stop token asked for it.
  failed,   ///< There was an error, and the `std::error_code` that was given tells which.
};

/// Its name, as it is written here.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(sleep_result result) noexcept;
/// Writes its name.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, sleep_result result);

/// Refers to a stop token that lives until it is copied.
class stop_token_ref {
 public:
  /// Refers to none.
  stop_token_ref() noexcept = default;
  /// Refers to `token`.
  stop_token_ref(const std::stop_token& token) noexcept : token_(&token) {}  // NOLINT(google-explicit-constructor)
  /// A temporary may go before it is copied.
  stop_token_ref(const std::stop_token&& temporary) = delete;

  /// A copy of the token; one that cannot be stopped, if there is none.
  [[nodiscard]] std::stop_token token() const noexcept { return token_ != nullptr ? *token_ : std::stop_token(); }

 private:
  const std::stop_token* token_ = nullptr;
};

/// Refers to what can be given a task: an `executor`, or anything else that is a `task_executor`. Unlike an `executor`
/// it does not keep that, so making and copying it costs nothing; what it refers to must outlive its use.
class executor_ref {
 public:
  /// Refers to nothing.
  executor_ref() noexcept = default;

  /// Refers to `target`; to nothing, if that is an empty `executor` or `std::function`.
  // clang-format off
  template <class E>
    requires(!std::same_as<std::remove_cv_t<E>, executor_ref>) && std::is_object_v<E> && task_executor<E>
  executor_ref(E& target) noexcept {  // NOLINT(google-explicit-constructor)
    // clang-format on
    if constexpr (std::same_as<std::remove_cv_t<E>, executor>) {
      if (!target) {
        return;
      }
    } else if (detail::is_null<std::remove_cv_t<E>>(target)) {
      return;
    }
    target_ = const_cast<void*>(static_cast<const volatile void*>(std::addressof(target)));
    give_ = [](void* to, task&& work) {
      if constexpr (std::invocable<E&, task&&>) {
        static_cast<void>((*static_cast<E*>(to))(std::move(work)));
      } else {
        static_cast<void>(static_cast<E*>(to)->execute(std::move(work)));
      }
    };
  }

  /// A temporary would go before the coroutine goes on.
  // clang-format off
  template <class E>
    requires(!std::same_as<E, executor_ref>) && task_executor<E>
  executor_ref(const E&& temporary) = delete;
  // clang-format on

  /// Whether it refers to something.
  [[nodiscard]] explicit operator bool() const noexcept { return give_ != nullptr; }

  /// Gives it `work`. Throws what that throws. \pre it refers to something.
  void operator()(task&& work) const { give_(target_, std::move(work)); }

 private:
  void* target_ = nullptr;
  void (*give_)(void* target, task&& work) = nullptr;
};

namespace detail {

/// A stop token in the braces of a call. The call copies it, so a temporary lives long enough.
class stop_token_in_braces {
 public:
  stop_token_in_braces() noexcept = default;
  stop_token_in_braces(const std::stop_token& token) noexcept : token_(token) {}  // NOLINT(google-explicit-constructor)
  stop_token_in_braces(stop_token_ref token) noexcept : token_(token) {}          // NOLINT(google-explicit-constructor)

  [[nodiscard]] std::stop_token token() const noexcept { return token_.token(); }

 private:
  stop_token_ref token_;
};

/// What `sleep_options` becomes in a call, and what its braces make.
///
/// It does not keep the stop token: GCC 12 destroys an aggregate twice that is written in a `co_await` expression. So
/// these have no destructor. They must not be given a name, by which they would outlive a temporary.
struct sleep_options_in_braces {
  std::uint64_t tag = 0;
  stop_token_in_braces stop = {};
  executor_ref on = {};
};

/// As `sleep_options_in_braces`, of `timeout_options`.
struct timeout_options_in_braces {
  std::uint64_t tag = 0;
  stop_token_in_braces stop = {};
};

static_assert(std::is_trivially_destructible_v<sleep_options_in_braces> &&
              std::is_trivially_destructible_v<timeout_options_in_braces>);

/// What the time of a sleep means.
enum class time_kind : std::uint8_t { delay, steady, wall };
template <class Clock>
inline constexpr time_kind kind_of =
    std::same_as<Clock, std::chrono::steady_clock> ? time_kind::steady : time_kind::wall;

/// What to sleep, and how.
struct sleep_request {
  timer* by;
  time_kind kind;
  std::chrono::nanoseconds time;  // a delay, or since the epoch
  std::uint64_t tag;
  std::stop_token stop;
  executor_ref on;
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

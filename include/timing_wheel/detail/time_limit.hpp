#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/sleeping.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::detail {

// ---- What can be awaited ----

// clang-format off
template <class A>
concept awaiter = requires(A& one) {
  { one.await_ready() } -> std::convertible_to<bool>;
  one.await_resume();
};
template <class T>
concept awaited_by_member = requires(T&& one) {
  { std::forward<T>(one).operator co_await() } -> awaiter;
};
template <class T>
concept awaited_by_function = requires(T&& one) {
  { operator co_await(std::forward<T>(one)) } -> awaiter;
};
template <class T>
concept awaitable = awaited_by_member<T> || awaited_by_function<T> || awaiter<T>;
// clang-format on

/// What `co_await` asks, of something that is awaited as it is.
template <awaitable T>
decltype(auto) awaiter_of(T&& one) {
  if constexpr (awaited_by_member<T>) {
    return std::forward<T>(one).operator co_await();
  } else if constexpr (awaited_by_function<T>) {
    return operator co_await(std::forward<T>(one));
  } else {
    return std::forward<T>(one);
  }
}

/// Makes, given a stop token, something that can be awaited.
template <class Make>
concept awaited_with_stop =
    std::invocable<Make&, std::stop_token> && awaitable<std::invoke_result_t<Make&, std::stop_token>>;

// ---- The answer ----

template <class T>
struct in_time {
  using type = std::optional<std::remove_cvref_t<T>>;
};
template <class T>
struct in_time<T&> {
  using type = T*;
};
template <class T>
requires std::is_void_v<T>
struct in_time<T> {
  using type = bool;
};

// ---- The limit ----

/// What was first: the end of what is awaited, or of its limit.
enum class limit_verdict : std::uint8_t { open, in_time, late, dropped };

/// What a limit and its timer share. The timer's callable may outlive the coroutine, and the coroutine that callable.
struct limit_state {
  std::atomic<limit_verdict> verdict{limit_verdict::open};
  std::stop_source stop;

  /// \returns whether `given` is it.
  bool decide(limit_verdict given) noexcept {
    limit_verdict before = limit_verdict::open;
    return verdict.compare_exchange_strong(before, given, std::memory_order_acq_rel);
  }
};

/// The callable of a limit's timer: asks to stop when it is called, and when it is destroyed without a call.
class limit_strike {
 public:
  explicit limit_strike(std::shared_ptr<limit_state> state) noexcept : state_(std::move(state)) {}
  limit_strike(limit_strike&&) noexcept = default;
  limit_strike& operator=(limit_strike&&) = delete;
  ~limit_strike() { strike(limit_verdict::dropped); }

  void operator()() noexcept { strike(limit_verdict::late); }

 private:
  void strike(limit_verdict as) noexcept {
    if (const auto state = std::move(state_); state != nullptr && state->decide(as)) {
      state->stop.request_stop();
    }
  }

  std::shared_ptr<limit_state> state_;
};

/// What is asked of `with_timeout`.
template <class Make>
struct limit_request {
  timer* by = nullptr;
  std::chrono::nanoseconds limit{};
  std::uint64_t tag = 0;
  std::stop_token stop;
  std::chrono::nanoseconds window{};
  std::error_code* error = nullptr;  // null: to throw
  Make make;
};

/// What was made, and what awaits it.
template <class Made>
struct awaited {
  using awaiter_type = decltype(awaiter_of(std::declval<Made>()));
  using result = decltype(std::declval<awaiter_type&>().await_resume());

  template <class Make>
  awaited(Make& make, const std::stop_token& stop)
      : made(std::invoke(make, std::stop_token(stop))), one(awaiter_of(static_cast<Made&&>(made))) {}

  Made made;
  awaiter_type one;
};

/// `with_timeout`, awaited. The coroutine is resumed by what it awaits, as if it awaited that itself; the timer only
/// asks to stop. So nobody races for the coroutine here.
template <class Make>
class limited {
  using awaited_type = awaited<std::invoke_result_t<Make&, std::stop_token>>;
  using result = typename awaited_type::result;
  using answer = typename in_time<result>::type;

 public:
  explicit limited(limit_request<Make>&& what) : what_(std::move(what)) {}
  limited(const limited&) = delete;
  limited& operator=(const limited&) = delete;
  ~limited() { end(); }

  [[nodiscard]] bool await_ready() {
    state_ = std::make_shared<limit_state>();
    if (what_.stop.stop_possible()) {
      stop_passed_on_.emplace(what_.stop, pass_on{state_->stop});
    }
    if (!start()) {
      return true;
    }
    awaited_.emplace(what_.make, state_->stop.get_token());
    return static_cast<bool>(awaited_->one.await_ready());
  }

  template <class Promise>
  decltype(auto) await_suspend(std::coroutine_handle<Promise> coroutine) {
    return awaited_->one.await_suspend(coroutine);
  }

  answer await_resume() {
    if (!awaited_) {
      return answer();
    }
    end();
    const limit_verdict verdict = state_->verdict.load(std::memory_order_acquire);
    if (verdict == limit_verdict::in_time) {
      return make_answer();
    }
    discard();
    if (verdict == limit_verdict::dropped) {
      report_to(what_.error, make_error_code(timer_errc::stopped));
    }
    return answer();
  }

 private:
  struct pass_on {
    std::stop_source to;
    void operator()() const noexcept {
      std::stop_source keep = to;  // what it asks to stop may destroy this object
      keep.request_stop();
    }
  };

  bool start() {
    const schedule_options options{.tag = what_.tag, .window = what_.window};
    if (what_.error == nullptr) {
      timer_ = what_.by->schedule_after(what_.limit, limit_strike(state_), options);
    } else {
      timer_ = what_.by->schedule_after(what_.limit, limit_strike(state_), options, *what_.error);
    }
    return static_cast<bool>(timer_);
  }

  // What was awaited has ended, if nothing else came first.
  void end() noexcept {
    if (state_ != nullptr) {
      stop_passed_on_.reset();
      state_->decide(limit_verdict::in_time);
      timer_.cancel();
    }
  }

  answer make_answer() {
    if constexpr (std::is_void_v<result>) {
      awaited_->one.await_resume();
      return true;
    } else if constexpr (std::is_lvalue_reference_v<result>) {
      return std::addressof(awaited_->one.await_resume());
    } else {
      return answer(std::in_place, awaited_->one.await_resume());
    }
  }

  void discard() {
#ifdef __cpp_exceptions
    try {
      static_cast<void>(awaited_->one.await_resume());
    } catch (...) {  // NOLINT(bugprone-empty-catch): whoever waited was told of the end of the time
    }
#else
    static_cast<void>(awaited_->one.await_resume());
#endif
  }

  limit_request<Make> what_;
  std::shared_ptr<limit_state> state_;
  timer_handle timer_;
  std::optional<awaited_type> awaited_;
  std::optional<std::stop_callback<pass_on>> stop_passed_on_;
};

/// What `with_timeout` returns, before it is awaited.
template <class Make>
class [[nodiscard]] time_limited {
 public:
  explicit time_limited(limit_request<Make> what) : what_(std::move(what)) {}

  /// Begins, in a coroutine.
  auto operator co_await() && noexcept(std::is_nothrow_move_constructible_v<Make>) {
    return limited<Make>(std::move(what_));
  }

 private:
  limit_request<Make> what_;
};

}  // namespace timing_wheel::detail

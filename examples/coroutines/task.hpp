#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

/// A plain coroutine type, so that the example needs no library for it: copy it, or use the one that you have.
namespace example {

/// A piece of work that begins when it is awaited, and whose end resumes who awaits it. Destroying it destroys the
/// coroutine.
template <class T = void>
class task;

namespace task_parts {

class promise_base {
 public:
  std::suspend_always initial_suspend() noexcept { return {}; }
  auto final_suspend() noexcept {
    struct resume_who_awaits : std::suspend_always {
      std::coroutine_handle<> who;
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> /*ended*/) const noexcept { return who; }
    };
    return resume_who_awaits{{}, who_awaits_};
  }
  void unhandled_exception() noexcept { failure_ = std::current_exception(); }

  void set_who_awaits(std::coroutine_handle<> who) noexcept { who_awaits_ = who; }
  void rethrow() const {
    if (failure_ != nullptr) {
      std::rethrow_exception(failure_);
    }
  }

 private:
  std::coroutine_handle<> who_awaits_ = std::noop_coroutine();
  std::exception_ptr failure_;
};

template <class T>
class promise : public promise_base {
 public:
  task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    rethrow();
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class promise<void> : public promise_base {
 public:
  task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() const { rethrow(); }
};

}  // namespace task_parts

template <class T>
class [[nodiscard]] task {
 public:
  using promise_type = task_parts::promise<T>;

  explicit task(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}
  task(task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  task& operator=(task&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~task() {
    if (coroutine_) {
      coroutine_.destroy();
    }
  }

  auto operator co_await() && noexcept {
    struct awaiter {
      std::coroutine_handle<promise_type> coroutine;
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> who) noexcept {
        coroutine.promise().set_who_awaits(who);
        return coroutine;
      }
      T await_resume() { return coroutine.promise().take(); }
    };
    return awaiter{coroutine_};
  }

  /// Begins it without waiting for its end, which `done` tells.
  void start() { coroutine_.resume(); }
  [[nodiscard]] bool done() const noexcept { return coroutine_.done(); }
  /// What it returned, or throws what it threw. \pre done.
  T result() { return coroutine_.promise().take(); }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

template <class T>
task<T> task_parts::promise<T>::get_return_object() noexcept {
  return task<T>(std::coroutine_handle<promise>::from_promise(*this));
}
inline task<void> task_parts::promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<promise>::from_promise(*this));
}

}  // namespace example

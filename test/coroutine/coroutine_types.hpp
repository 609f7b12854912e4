#pragma once

#include <coroutine>
#include <exception>
#include <utility>

namespace timing_wheel::test {

/// A coroutine that begins at once, is destroyed by its owner, and lets its exceptions out to who resumes it.
class started {
 public:
  struct promise_type {
    started get_return_object() noexcept { return started(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() { throw; }
  };

  started() noexcept = default;
  started(started&& other) noexcept : coroutine_(std::exchange(other.coroutine_, {})) {}
  started& operator=(started&& other) noexcept {
    std::swap(coroutine_, other.coroutine_);
    return *this;
  }
  ~started() { destroy(); }

  [[nodiscard]] bool done() const noexcept { return coroutine_.done(); }
  void destroy() noexcept {
    if (coroutine_) {
      std::exchange(coroutine_, {}).destroy();
    }
  }

 private:
  explicit started(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

  std::coroutine_handle<promise_type> coroutine_;
};

/// A coroutine that begins at once, is its own owner, and throws nothing.
struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

}  // namespace timing_wheel::test

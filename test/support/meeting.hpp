#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

namespace timing_wheel::test {

// Those of libstdc++ lose wake-ups where there is no futex, as on Windows: docs/decisions/platforms.md.

/// A `std::latch`.
class latch {
 public:
  explicit latch(std::ptrdiff_t count) : count_(count) {}

  void count_down() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) {
      zero_.notify_all();
    }
  }
  [[nodiscard]] bool try_wait() const {
    const std::lock_guard lock(mutex_);
    return count_ == 0;
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    zero_.wait(lock, [this] { return count_ == 0; });
  }
  void arrive_and_wait() {
    count_down();
    wait();
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable zero_;
  std::ptrdiff_t count_;
};

/// What happens at a barrier by default.
struct nothing_more {
  void operator()() const noexcept {}
};

/// A `std::barrier`: the last thread of each round calls `completion` before the others go on.
template <class Completion = nothing_more>
class barrier {
 public:
  explicit barrier(std::ptrdiff_t threads, Completion completion = {})
      : threads_(threads), completion_(std::move(completion)) {}

  void arrive_and_wait() {
    std::unique_lock lock(mutex_);
    const std::size_t mine = round_;
    if (++arrived_ < threads_) {
      over_.wait(lock, [&] { return round_ != mine; });
      return;
    }
    completion_();
    arrived_ = 0;
    ++round_;
    over_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  const std::ptrdiff_t threads_;
  std::ptrdiff_t arrived_ = 0;
  std::size_t round_ = 0;
  Completion completion_;
};

}  // namespace timing_wheel::test

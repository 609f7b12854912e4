#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace timing_wheel::bench {

/// What a piece of work took.
struct work_time {
  std::chrono::nanoseconds all_threads{};  ///< The sum over the threads.
  std::chrono::nanoseconds wall{};         ///< From the first that began to the last that ended.

  work_time& operator+=(const work_time& other) noexcept {
    all_threads += other.all_threads;
    wall += other.wall;
    return *this;
  }
};

/// Threads that do the same work at the same time, again and again, each on a core of its own if there are enough. They
/// stay the same ones, because a service may remember which of its parts a thread uses.
class producers {
 public:
  explicit producers(std::size_t count) : gate_(static_cast<std::ptrdiff_t>(count) + 1), begins_(count), ends_(count) {
    threads_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this, i] { serve(i); });
    }
  }
  ~producers() {
    work_ = nullptr;
    gate_.arrive_and_wait();
    for (std::thread& one : threads_) {
      one.join();
    }
  }
  producers(const producers&) = delete;
  producers& operator=(const producers&) = delete;

  [[nodiscard]] std::size_t size() const noexcept { return threads_.size(); }

  /// Calls `work(i)` on the thread number i of each.
  work_time run(std::function<void(std::size_t)> work) {
    work_ = std::move(work);
    missing_.store(size(), std::memory_order_relaxed);
    gate_.arrive_and_wait();
    gate_.arrive_and_wait();
    work_time took;
    for (std::size_t i = 0; i < size(); ++i) {
      took.all_threads += ends_[i] - begins_[i];
    }
    took.wall = *std::max_element(ends_.begin(), ends_.end()) - *std::min_element(begins_.begin(), begins_.end());
    return took;
  }

 private:
  using clock = std::chrono::steady_clock;

  // A scheduler may leave two threads that were woken together on one core, for longer than the work takes. Where it is
  // not allowed, nothing changes.
  static void move_to_core(std::size_t i) {
    cpu_set_t allowed;
    if (::pthread_getaffinity_np(::pthread_self(), sizeof allowed, &allowed) != 0) {
      return;
    }
    std::vector<unsigned> cores;
    for (unsigned core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed)) {
        cores.push_back(core);
      }
    }
    cpu_set_t mine;
    CPU_ZERO(&mine);
    CPU_SET(cores[i % cores.size()], &mine);
    ::pthread_setaffinity_np(::pthread_self(), sizeof mine, &mine);
  }

  void serve(std::size_t i) {
    move_to_core(i);
    for (;;) {
      gate_.arrive_and_wait();
      if (!work_) {
        return;
      }
      rendezvous();
      const clock::time_point begin = clock::now();
      work_(i);
      const clock::time_point end = clock::now();
      begins_[i] = begin;
      ends_[i] = end;
      gate_.arrive_and_wait();
    }
  }

  // The gate lets one thread through some 50 us before another that it has put to sleep; this does not. A thread that
  // yielded at once would leave both on one core.
  void rendezvous() noexcept {
    missing_.fetch_sub(1, std::memory_order_acq_rel);
    for (unsigned spins = 0; missing_.load(std::memory_order_acquire) != 0; ++spins) {
      if (spins > spins_before_yield) {
        std::this_thread::yield();
      }
    }
  }

  static constexpr unsigned spins_before_yield = 1'000'000;  // about a millisecond

  std::barrier<> gate_;  // guards what follows: the threads use it between two passages, the owner otherwise
  std::function<void(std::size_t)> work_;
  std::vector<clock::time_point> begins_;
  std::vector<clock::time_point> ends_;
  std::atomic<std::size_t> missing_{0};
  std::vector<std::thread> threads_;
};

}  // namespace timing_wheel::bench

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "system/process_barrier.hpp"
#include "system/sanitizers.hpp"
#include "timing_wheel/detail/waiting.hpp"

namespace timing_wheel::detail {

/// A mutex for critical sections that are shorter than a system call: who finds it taken tries again for a while before
/// it sleeps. One atomic read-modify-write to lock it, a store and a load to unlock it, both inline.
///
/// Meets the requirements of a Lockable. Memory order: who locks acquires what the one that unlocked has released.
///
/// No wake-up is lost. A sleeper sets `asleep_`, and then makes every thread pass a barrier. A thread that was then
/// before the load of its `unlock` finds the mark. One that was behind it has opened the lock for all to see, and the
/// sleeper, which tries once more, finds it open. Whoever takes the mark away begins a new epoch, and wakes a sleeper,
/// which marks the lock again, for it does not know of others. A sleeper has read the epoch before its mark, and sleeps
/// only while that lasts. docs/concurrency.md has the whole argument, and test/models/short_lock.pml a model of it.
///
/// Where the system refuses that barrier nobody relies on being woken: who has to sleep does so in short steps.
///
/// Unlike with a `std::mutex`, `unlock` reads the lock after it has opened it. So who locks after that may not destroy
/// the lock: it has to stay until every `unlock` has returned.
class short_lock {
 public:
  /// The first one of a process that has several threads takes some 10 ms; any other less than a microsecond.
  short_lock() noexcept { prepare_process_barrier(); }
  short_lock(const short_lock&) = delete;
  short_lock& operator=(const short_lock&) = delete;

  void lock() noexcept {
    const seen_as_mutex::locking told(this);
    if (!try_acquire()) {
      lock_slowly();
    }
  }
  bool try_lock() noexcept {
    seen_as_mutex::trying told(this);
    return told.has(try_acquire());
  }
  /// For a thread that has unlocked it, and will lock it again at once: lets time pass, in which others find it open.
  /// Between two looks, a waiting thread pauses for half of this at most.
  static void give_way() noexcept {
    for (int i = 0; i < (2 << longest_pause); ++i) {
      relax();
    }
  }
  // By force: GCC leaves it out of line where a source has many of them.
  [[gnu::always_inline]] void unlock() noexcept {
    const seen_as_mutex::unlocking told(this);
    state_.store(open, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the order; the barrier does the rest
    if (asleep_.load(std::memory_order_relaxed)) [[unlikely]] {
      wake_one();
    }
  }

 private:
  bool try_acquire() noexcept {
    std::uint32_t expected = open;
    return state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  [[gnu::noinline]] void lock_slowly() noexcept {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < (1 << (round < longest_pause ? round : longest_pause)); ++i) {
        relax();
      }
      if (state_.load(std::memory_order_relaxed) == open && try_acquire()) {
        return;
      }
    }
    auto step = shortest_step;
    for (;;) {
      const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
      asleep_.exchange(true, std::memory_order_release);
      const bool will_be_woken = pass_process_barrier();
      if (try_acquire()) {
        return;  // and the mark stays, for others may be asleep
      }
      if (will_be_woken) {
        wait_while(epoch_, epoch, std::memory_order_relaxed);
      } else {
        std::this_thread::sleep_for(step);
        step = std::min(2 * step, longest_step);
      }
    }
  }
  [[gnu::noinline]] void wake_one() noexcept {
    if (asleep_.exchange(false, std::memory_order_acquire)) {
      epoch_.fetch_add(1, std::memory_order_seq_cst);
      notify_one(epoch_);
    }
  }

  static constexpr int rounds = 24;
  static constexpr int longest_pause = 5;  // as a power of two of pauses

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");  // some ten nanoseconds; its `yield` is a no-operation on most processors
#else
    std::this_thread::yield();
#endif
  }

  // How long who is not woken sleeps before it tries again.
  static constexpr std::chrono::microseconds shortest_step{50};
  static constexpr std::chrono::microseconds longest_step{1000};

  static constexpr std::uint32_t open = 0;
  static constexpr std::uint32_t taken = 1;

  std::atomic<std::uint32_t> state_{open};
  std::atomic<bool> asleep_{false};      // somebody may be; changed by read-modify-write only
  std::atomic<std::uint32_t> epoch_{0};  // counts up with each mark that is taken away
};

}  // namespace timing_wheel::detail

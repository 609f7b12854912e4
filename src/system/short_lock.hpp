#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "system/sanitizers.hpp"

namespace timing_wheel::detail {

/// A mutex for critical sections that are shorter than a system call: who finds it taken tries again for a while before
/// it sleeps. One atomic operation to lock it and one to unlock it, both inline. After Drepper, "Futexes Are Tricky",
/// 2011, third version.
///
/// Meets the requirements of a Lockable. Memory order: who locks acquires what the one that unlocked has released. No
/// wake-up is lost: a sleeper has marked the lock as contended, and sleeps only while that mark stands; whoever takes
/// the mark away by unlocking wakes one sleeper, which marks it again, for it does not know of others.
class short_lock {
 public:
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
  void unlock() noexcept {
    const seen_as_mutex::unlocking told(this);
    if (state_.exchange(open, std::memory_order_release) == contended) {
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
    while (state_.exchange(contended, std::memory_order_acquire) != open) {
      state_.wait(contended, std::memory_order_relaxed);
    }
  }
  [[gnu::noinline]] void wake_one() noexcept { state_.notify_one(); }

  static constexpr int rounds = 24;
  static constexpr int longest_pause = 5;  // as a power of two of pauses

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }

  static constexpr std::uint32_t open = 0;
  static constexpr std::uint32_t taken = 1;
  static constexpr std::uint32_t contended = 2;  // and somebody may be asleep

  std::atomic<std::uint32_t> state_{open};
};

}  // namespace timing_wheel::detail

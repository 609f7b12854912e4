#pragma once

#include <mutex>
#include <thread>

namespace timing_wheel::detail {

/// A mutex for critical sections that are shorter than a system call: who finds it taken tries again for a while before it
/// sleeps.
///
/// Meets the requirements of a Lockable; a mutex that cannot be locked ends the program. Whoever sleeps is woken as with
/// `std::mutex`, so a holder that was preempted costs no more than that.
class short_lock {
 public:
  void lock() noexcept {
    if (!mutex_.try_lock()) {
      lock_slowly();
    }
  }
  bool try_lock() noexcept { return mutex_.try_lock(); }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  [[gnu::noinline]] void lock_slowly() noexcept {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < (1 << (round < longest_pause ? round : longest_pause)); ++i) {
        relax();
      }
      if (mutex_.try_lock()) {
        return;
      }
    }
    mutex_.lock();
  }

  static constexpr int rounds = 24;
  static constexpr int longest_pause = 5;  // as a power of two of pauses

  static void relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
  }

  std::mutex mutex_;
};

}  // namespace timing_wheel::detail

#pragma once

#include "system/on_linux.hpp"

#if defined(TIMING_WHEEL_HAS_WINDOWS)

#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>

#include "timing_wheel/time.hpp"

/// \file
/// What the library asks of Windows. `windows.cpp` does it, so that no other source has <windows.h> and its macros.

namespace timing_wheel::detail::windows {

/// As `pass_process_barrier`, by `FlushProcessWriteBuffers`. \returns false under Wine, some versions of which have a
/// function of that name that does nothing.
[[nodiscard]] bool pass_process_barrier() noexcept;

/// For debuggers and Windows' own tools, from Windows 10, version 1607; before that it does nothing.
void name_this_thread(const char* name) noexcept;

// Memory in whole pages of the system, zeroed at first.

/// Room for `room` bytes of addresses, with memory for the first `size` of them. Null if there is none.
[[nodiscard]] void* map(std::size_t size, std::size_t room) noexcept;
/// Memory behind the first `old_size` bytes of what `map` has made. \returns false if there is none, or no room.
[[nodiscard]] bool extend(void* begin, std::size_t old_size, std::size_t size) noexcept;
/// Takes all of it back, or, where `begin` is not where it begins, the memory from there on, and leaves its room.
/// \returns whether it could.
bool unmap(void* begin, std::size_t size) noexcept;
/// The system may take the memory away, until it is written again; its content is anything.
/// \returns whether it could.
bool discard(void* begin, std::size_t size) noexcept;

/// A condition for which one thread waits. As `std::condition_variable`, which with MinGW wakes at the end of a clock
/// interrupt, 15.6 ms apart; this one sleeps on a waitable timer, of high resolution from Windows 10, version 1803.
///
/// What the condition is made of must change under the mutex. The handles of the system are made at the first sleep;
/// where it has none left, it looks at the condition each millisecond.
class condition_of_one {
 public:
  condition_of_one() noexcept = default;
  condition_of_one(const condition_of_one&) = delete;
  condition_of_one& operator=(const condition_of_one&) = delete;
  ~condition_of_one();

  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Done done) noexcept {
    while (!done()) {
      sleep(lock, std::chrono::nanoseconds::max());
    }
  }
  template <class Done>
  void wait_until(std::unique_lock<std::mutex>& lock, time_point until, Done done) noexcept {
    while (!done()) {
      const time_point now = std::chrono::steady_clock::now();
      if (now >= until) {
        return;
      }
      sleep(lock, until - now);
    }
  }
  /// After the change, with or without the mutex.
  void notify_one() noexcept;

 private:
  void sleep(std::unique_lock<std::mutex>& lock, std::chrono::nanoseconds at_most) noexcept;

  std::atomic<void*> event_{nullptr};  // made under the mutex: who then changes the condition sees it; relaxed
  void* timer_ = nullptr;              // the sleeping thread's
};

}  // namespace timing_wheel::detail::windows

#endif

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "timing_wheel/detail/export.hpp"

// `wait`, `notify_one` and `notify_all` of std::atomic, under names of our own for Windows' sake. Where there is no
// futex, libstdc++ before GCC 16 loses wake-ups: docs/decisions/platforms.md. Windows has a futex of its own. Other
// systems with that library, and a portable build, look again and again. The three ways have names of their own: a
// program that is not built as its library is must not notify by one way the threads that wait by another.

namespace timing_wheel::detail {

#if defined(_WIN32)

// May also return while the word has that value. In src/system/windows.cpp.
TIMING_WHEEL_EXPORT void wait_on_address(const void* word, const void* value, std::size_t size) noexcept;
TIMING_WHEEL_EXPORT void notify_one_on_address(const void* word) noexcept;
TIMING_WHEEL_EXPORT void notify_all_on_address(const void* word) noexcept;

inline namespace by_address {

template <class T>
void wait_while(const std::atomic<T>& word, T value, std::memory_order order) noexcept {
  static_assert(sizeof(word) == sizeof(value));
  while (word.load(order) == value) {
    wait_on_address(&word, &value, sizeof(value));
  }
}
template <class T>
void notify_one(std::atomic<T>& word) noexcept {
  notify_one_on_address(&word);
}
template <class T>
void notify_all(std::atomic<T>& word) noexcept {
  notify_all_on_address(&word);
}

}  // namespace by_address

#elif defined(TIMING_WHEEL_PORTABLE) || (defined(__GLIBCXX__) && !defined(_GLIBCXX_HAVE_LINUX_FUTEX))

inline namespace by_looking {

// A thread that waits looks again and again. It waits for the end of something, seldom and not for long.
template <class T>
void wait_while(const std::atomic<T>& word, T value, std::memory_order order) noexcept {
  while (word.load(order) == value) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}
template <class T>
void notify_one(std::atomic<T>& /*word*/) noexcept {}
template <class T>
void notify_all(std::atomic<T>& /*word*/) noexcept {}

}  // namespace by_looking

#else

inline namespace by_atomic {

template <class T>
void wait_while(const std::atomic<T>& word, T value, std::memory_order order) noexcept {
  word.wait(value, order);
}
template <class T>
void notify_one(std::atomic<T>& word) noexcept {
  word.notify_one();
}
template <class T>
void notify_all(std::atomic<T>& word) noexcept {
  word.notify_all();
}

}  // namespace by_atomic

#endif

}  // namespace timing_wheel::detail

#pragma once

#if defined(__SANITIZE_THREAD__)
#define TIMING_WHEEL_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TIMING_WHEEL_THREAD_SANITIZER
#endif
#endif

#if defined(TIMING_WHEEL_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

/// \file
/// Tells the thread sanitizer that a lock made of atomics is one, so that it reports locks taken in both orders, taken
/// twice, or given back by another thread. Without this it reports none of these. In any other build it does nothing.

namespace timing_wheel::detail::seen_as_mutex {

#if defined(TIMING_WHEEL_THREAD_SANITIZER)

class locking {
 public:
  explicit locking(void* lock) noexcept : lock_(lock) { __tsan_mutex_pre_lock(lock, 0); }
  locking(const locking&) = delete;
  locking& operator=(const locking&) = delete;
  ~locking() { __tsan_mutex_post_lock(lock_, 0, 0); }

 private:
  void* lock_;
};

class trying {
 public:
  explicit trying(void* lock) noexcept : lock_(lock) { __tsan_mutex_pre_lock(lock, __tsan_mutex_try_lock); }
  trying(const trying&) = delete;
  trying& operator=(const trying&) = delete;
  ~trying() { __tsan_mutex_post_lock(lock_, __tsan_mutex_try_lock | (has_ ? 0U : __tsan_mutex_try_lock_failed), 0); }
  bool has(bool taken) noexcept { return has_ = taken; }

 private:
  void* lock_;
  bool has_ = false;
};

class unlocking {
 public:
  explicit unlocking(void* lock) noexcept : lock_(lock) { __tsan_mutex_pre_unlock(lock, 0); }
  unlocking(const unlocking&) = delete;
  unlocking& operator=(const unlocking&) = delete;
  ~unlocking() { __tsan_mutex_post_unlock(lock_, 0); }

 private:
  void* lock_;
};

#else

struct locking {
  explicit locking(void* /*lock*/) noexcept {}
};
struct trying {
  explicit trying(void* /*lock*/) noexcept {}
  static bool has(bool taken) noexcept { return taken; }
};
struct unlocking {
  explicit unlocking(void* /*lock*/) noexcept {}
};

#endif

}  // namespace timing_wheel::detail::seen_as_mutex

#pragma once

#include <atomic>
#include <mutex>

/// \file
/// What a harness for GenMC has instead of the system, and in place of the headers that ask for it.
/// A thread that sleeps, and whom nobody has woken so far, ends there: GenMC sees that, and the same history with a
/// wake-up. `all_ended` fails if all sleepers of a history sleep for ever.

extern "C" {  // what GenMC knows
int __VERIFIER_thread_create(const void* attributes, void* (*start)(void*), void* argument) noexcept;
void* __VERIFIER_thread_join(long thread) noexcept;
[[noreturn]] void __VERIFIER_thread_exit(void* result) noexcept;
long __VERIFIER_thread_self() noexcept;
void __VERIFIER_assume(bool condition) noexcept;
void __VERIFIER_assert_fail(const char* what, const char* file, int line) noexcept;
int __VERIFIER_mutex_lock(void* mutex) noexcept;
int __VERIFIER_mutex_unlock(void* mutex) noexcept;
int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept { return __VERIFIER_mutex_lock(mutex); }
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept { return __VERIFIER_mutex_unlock(mutex); }
}

#define expect(condition) ((condition) ? void() : __VERIFIER_assert_fail(#condition, __FILE__, __LINE__))

namespace checker {

constexpr int threads = 4;  // main is the first
inline int me() { return static_cast<int>(__VERIFIER_thread_self()); }

inline std::mutex queue;                // as the kernel has one
inline const void* queued_on[threads];  // guarded by it
inline int sleeps[threads];             // each thread's own
inline bool is_asleep[threads];         // the same
inline std::atomic<int> wake_ups[threads];
inline std::atomic<bool> gone[threads];  // ended, or asleep

inline void sleep_in_queue() {
  if (wake_ups[me()].load(std::memory_order_acquire) != ++sleeps[me()]) {
    is_asleep[me()] = true;
    gone[me()].store(true, std::memory_order_release);
    __VERIFIER_thread_exit(nullptr);
  }
}
inline void wake(const void* address, bool all) {
  const std::lock_guard lock(queue);
  bool more = true;
  for (int i = 1; i < threads; ++i) {
    if (more && queued_on[i] == address) {
      queued_on[i] = nullptr;
      wake_ups[i].fetch_add(1, std::memory_order_release);
      more = all;
    }
  }
}

// ---- `membarrier` for two threads: an interrupt of the other one at its place PLACE, or after its end ----

#ifndef PLACE
#define PLACE 0
#endif
inline std::atomic<int> asked[threads];
inline std::atomic<int> answered[threads];

inline void interrupt(int place) {
  const int barrier = place == PLACE ? asked[3 - me()].load(std::memory_order_acquire) : 0;
  if (barrier != 0) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    answered[me()].store(barrier, std::memory_order_release);
  }
}
inline bool pass_process_barrier() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const int barrier = asked[me()].fetch_add(1, std::memory_order_acq_rel) + 1;
  __VERIFIER_assume(answered[3 - me()].load(std::memory_order_acquire) == barrier ||
                    gone[3 - me()].load(std::memory_order_acquire));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

// ---- `wait` and `notify` of std::atomic, as libstdc++ 12 has them on a futex ----

inline std::atomic<int> waiting{0};

template <class T>
void wait_while(const std::atomic<T>& word, T value, std::memory_order order) {
  while (word.load(order) == value) {
    waiting.fetch_add(1, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    queue.lock();
    const bool sleeps = word.load(std::memory_order_relaxed) == value;
    queued_on[me()] = sleeps ? &word : nullptr;
    queue.unlock();
    if (sleeps) {
      sleep_in_queue();
    }
    waiting.fetch_sub(1, std::memory_order_release);
  }
}
template <class T>
void notify_one(std::atomic<T>& word) {
  if (waiting.load(std::memory_order_seq_cst) != 0) {
    wake(&word, false);
  }
}

// ---- The threads of a harness ----

template <void (*Body)()>
void* thread(void* /*unused*/) {
  Body();
  gone[me()].store(true, std::memory_order_release);
  return nullptr;
}

/// Runs the bodies, each in a thread. \returns whether none is asleep at the end.
template <void (*... Bodies)()>
bool all_ended() {
  for (const long started : {__VERIFIER_thread_create(nullptr, &thread<Bodies>, nullptr)...}) {
    __VERIFIER_thread_join(started);
  }
  bool asleep = false;
  bool woken = false;
  for (int i = 1; i < threads; ++i) {
    asleep = asleep || is_asleep[i];
    woken = woken || (is_asleep[i] && wake_ups[i].load(std::memory_order_relaxed) == sleeps[i]);
  }
  const bool somebody_sleeps_for_ever = asleep && !woken;
  expect(!somebody_sleeps_for_ever);
  return !asleep;
}

}  // namespace checker

namespace timing_wheel::detail {
using checker::notify_one;
using checker::pass_process_barrier;
using checker::wait_while;
}  // namespace timing_wheel::detail

namespace std {

class condition_variable {
 public:
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, Done done) {
    while (!done()) {
      checker::queue.lock();
      checker::queued_on[checker::me()] = this;
      checker::queue.unlock();
      lock.unlock();
      checker::sleep_in_queue();
      lock.lock();
    }
  }
  void wait_until(std::unique_lock<std::mutex>& lock, auto /*time*/, auto done) { wait(lock, done); }
  void notify_one() noexcept { checker::wake(this, false); }
  void notify_all() noexcept { checker::wake(this, true); }

 private:
  int unused_ = 0;  // so that it has an address of its own
};

}  // namespace std

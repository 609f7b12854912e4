#pragma once

#include <condition_variable>
#include <mutex>

namespace timing_wheel::durable::sqlite {

/// A lock that threads get in the order in which they asked for it: whoever commits in a loop keeps nobody else out.
class fair_lock {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    if (!held_) {
      held_ = true;
      return;
    }
    waiter me;
    *last_ = &me;
    last_ = &me.next;
    me.granted.wait(guard, [&me] { return me.has_it; });
  }

  void unlock() {
    const std::scoped_lock guard(mutex_);
    if (first_ == nullptr) {
      held_ = false;
      return;
    }
    waiter& next = *first_;
    first_ = next.next;
    if (first_ == nullptr) {
      last_ = &first_;
    }
    next.has_it = true;
    next.granted.notify_one();  // under the mutex: `next` is gone as soon as its thread gets that
  }

 private:
  struct waiter {
    std::condition_variable granted;
    waiter* next = nullptr;
    bool has_it = false;
  };

  std::mutex mutex_;  // guards what follows
  bool held_ = false;
  waiter* first_ = nullptr;
  waiter** last_ = &first_;
};

}  // namespace timing_wheel::durable::sqlite

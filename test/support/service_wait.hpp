#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "support/meeting.hpp"

namespace timing_wheel::test {

/// Far more than any machine needs; a test that gets here has failed.
inline constexpr std::chrono::seconds patience{60};

/// Waits until `condition()` holds. \returns false if it did not within `limit`.
template <class Condition>
[[nodiscard]] bool eventually(Condition condition, std::chrono::nanoseconds limit = patience) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Time enough for a thread to begin to wait.
inline void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

/// Lets the one poller of a service come round: what has woken it before is counted then, however late it was.
template <class Service>
void settle(Service& service) {
  std::atomic<bool> ran{false};
  service.schedule_after(std::chrono::nanoseconds(0), [&ran] { ran = true; });
  EXPECT_TRUE(eventually([&ran] { return ran.load(); }));
  settle();
}

/// Lets `work` schedule for one time, which has come before any of it runs; what comes first runs first. The one poller
/// stands still meanwhile, so all of it is one batch, however long `work` takes.
template <class Service, class Work>
void with_all_due_at_once(Service& service, Work work) {
  const auto scheduled = std::make_shared<latch>(1);
  service.schedule_after(std::chrono::nanoseconds(0), [scheduled] { scheduled->wait(); });
  work(service.now() + std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  scheduled->count_down();
}

}  // namespace timing_wheel::test

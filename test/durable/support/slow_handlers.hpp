#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {

/// 150 checks are due at once, and one thread has to run them, each for `time`: what is claimed is bounded, and no
/// lease ends in the queue. `is_empty` says that no check is left.
template <class Condition>
void expect_no_lease_lost_in_the_queue(store& where, std::chrono::milliseconds time, std::chrono::milliseconds lease,
                                       const Condition& is_empty) {
  using namespace std::chrono_literals;
  constexpr int count = 150;
  std::mutex mutex;
  std::map<std::string, int> ran;
  scheduler checks(where, {.poll = 20ms, .lease = lease, .max_claimed = 100, .threads = 1});
  checks.on("close", [&](const job& what) {
    std::this_thread::sleep_for(time);
    const std::scoped_lock lock(mutex);
    ++ran[what.key()];
  });
  checks.start();
  std::vector<request> all;
  for (int number = 0; number < count; ++number) {
    all.push_back({.kind = "close", .key = std::to_string(number), .payload = {}, .due = {}});
  }
  checks.schedule(all);
  std::size_t running = 0;
  std::chrono::microseconds lag{};
  while (!is_empty()) {
    const scheduler_stats now = checks.stats();
    running = std::max(running, now.running);
    lag = std::max(lag, now.lag);
    std::this_thread::sleep_for(2ms);
  }
  checks.stop();
  EXPECT_LE(running, 100U);
  EXPECT_GT(lag, 20ms);
  EXPECT_EQ(checks.stats().lost_leases, 0U);
  EXPECT_THAT(ran, testing::SizeIs(count));
  EXPECT_EQ(checks.stats().fired, static_cast<std::uint64_t>(count));
}

}  // namespace timing_wheel::durable::test

/// \file
/// Rules of the service that only rare sizes, failures and moments show.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include "support/allocation.hpp"
#include "support/service_scale.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- Turns ----

TEST(ServiceRules, WhatWasDueWhenItCameRunsBeforeTheRestOfALargeTick) {
  manual_timer timer;
  int runs = 0;
  int before = -1;
  timer.schedule_after(1ms, [&] { timer.schedule_after(-1ms, [&] { before = runs; }); });
  for (int i = 0; i < 10'000; ++i) {
    timer.schedule_after(1ms, [&] { ++runs; });
  }
  EXPECT_EQ(timer.advance_by(1ms), 10'002U);
  EXPECT_LT(before, 1'000);
}

// ---- Without memory ----

TEST(ServiceRules, NothingRunsAfterAStopThatFoundNoMemory) {
  manual_timer timer;
  timer.schedule_after(1ms, nothing);
  timer.schedule_after(-1ms, nothing);
  ASSERT_FALSE(succeeds_with(0, [&] { timer.stop(); }));
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(timer.stop().size(), 2U);
}

/// Runs a timer that comes again a thousand hours later, and finds no memory for that.
void run_without_memory_for_the_next(manual_timer& timer, int& runs) {
  const auto next = [first = true](time_point previous) mutable {
    return std::optional(previous + (std::exchange(first, false) ? 1ms : 1000h));
  };
  timer.schedule_with(next, [&runs] {
    ++runs;
    allocations.left = 0;
  });
  ASSERT_FALSE(succeeds_with(UINT64_MAX, [&] { timer.advance_by(1ms); })) << "memory was needed";
}

TEST(ServiceRules, ATimerWithoutMemoryKeepsNoOtherFromItsTurn) {
  manual_timer timer;
  int runs = 0;
  run_without_memory_for_the_next(timer, runs);
  timer.schedule_after(-1ms, [&] { ++runs; });
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(succeeds_with(0, [&] { timer.advance_by(0ms); }));
  }
  EXPECT_EQ(runs, 2);
}

TEST(ServiceRules, AShardWithoutMemoryKeepsNoOtherFromItsTurn) {
  manual_timer timer({.shards = 2});
  int runs = 0;
  run_without_memory_for_the_next(timer, runs);
  std::thread([&] { timer.schedule_after(-1ms, [&] { ++runs; }); }).join();
  EXPECT_FALSE(succeeds_with(0, [&] { timer.advance_by(0ms); }));
  EXPECT_EQ(runs, 2);
}

// ---- Executors ----

TEST(ServiceRules, ACalledTaskLetsGoOfItsShardOnce) {
  const std::size_t before = allocations.live_bytes;
  timer_handle handle;
  {
    manual_timer timer({.executor = [](task&& work) { work(); }});
    handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(1ms);
  }
  EXPECT_GT(allocations.live_bytes, before) << "the handle keeps its shard";
  handle = {};
  EXPECT_EQ(allocations.live_bytes, before);
}

// ---- Who waits ----

TEST(ServiceRules, CancelAndWaitReturnsWhenTheCallbackHasEndedEvenIfThatDestroysTheService) {
  for (const auto& [by_key, destroys] : {std::pair(false, false), {true, false}, {true, true}}) {
    auto owner = std::make_unique<manual_timer>();
    manual_timer& timer = *owner;
    std::atomic<bool> begun{false};
    std::atomic<bool> waits{false};
    std::atomic<bool> ended{false};
    const auto callback = [&, ends = destroys] {
      begun = true;
      EXPECT_TRUE(eventually([&] { return waits.load(); }));
      settle();
      if (ends) {
        owner.reset();
      }
      ended = true;
    };
    const timer_handle handle = timer.schedule_after(1ms, callback);
    const std::jthread driver([&] { timer.advance_by(1ms); });
    ASSERT_TRUE(eventually([&] { return begun.load(); }));
    waits = true;
    EXPECT_EQ(by_key ? timer.cancel_and_wait(handle.key()) : handle.cancel_and_wait(), cancel_result::running);
    EXPECT_TRUE(ended);
    EXPECT_EQ(handle.status(), timer_status::finished);
  }
}

/// How long `stop_drain` takes, of a service with a far timer, if another thread calls `action(service, handle)`
/// meanwhile.
template <class Action>
nanoseconds time_to_drain(Action action) {
  timer service;
  const timer_handle handle = service.schedule_after(1h, nothing);
  const time_point begin = service.now();
  const std::jthread other([&] {
    settle();
    action(service, handle);
  });
  service.stop_drain(begin + patience);
  return service.now() - begin;
}

TEST(ServiceRules, ACancelOfTheLastPendingTimerEndsADrain) {
  EXPECT_LT(time_to_drain([](timer&, const timer_handle& handle) { handle.cancel(); }), patience / 2);
}

TEST(ServiceRules, AStopEndsADrain) {
  EXPECT_LT(time_to_drain([](timer& service, const timer_handle&) { service.stop(); }), patience / 2);
}

// ---- Errors ----

bool by_largest_flush(const level_stats& a, const level_stats& b) { return a.largest_flush < b.largest_flush; }

TEST(ServiceRules, AMillionTimersInOneBucketAreCascadedRunAndListedInHoldsOf256) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  const std::uint64_t timers = scaled(1'000'000);
  for (std::uint64_t i = 0; i < timers; ++i) {
    timer.schedule_after(30min, [] {});
  }
  std::uint64_t listed = 0;
  timer.for_each_pending([&](const pending_timer&) { ++listed; });
  EXPECT_EQ(timer.advance_by(30min), timers);
  const timer_stats stats = timer.stats();
  EXPECT_EQ(listed, timers);
  EXPECT_GE(stats.moves, timers) << "there was no cascade";
  EXPECT_EQ(std::max_element(stats.levels.begin(), stats.levels.end(), by_largest_flush)->largest_flush, timers);
  EXPECT_EQ(stats.largest_hold, max_timers_per_lock);
}

}  // namespace
}  // namespace timing_wheel::test

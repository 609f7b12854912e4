/// \file
/// On the real clock: who wakes the poller, and what for. A machine may be arbitrarily slow: that a timer
/// is late is a failure only after `patience`; that one is early, always.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <future>
#include <optional>
#include <thread>

#include "system/on_linux.hpp"

#if defined(TIMING_WHEEL_HAS_TIMER_SLACK)
#include <sys/prctl.h>
#endif

#include "support/service_probe.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// ---- What a wake-up was for ----

TEST(Wakeups, ThoseForAnEarlierTimerAreCountedAsThat) {
  timer service;
  settle();
  nanoseconds delay = 10h;
  const auto is_woken = [&] {
    delay -= 1s;
    const timer_handle earlier = service.schedule_after(delay, [] {});
    std::this_thread::sleep_for(500us);
    earlier.cancel();
    return service.stats().earlier_wakeups != 0;
  };
  for (int i = 0; i < 200; ++i) {
    is_woken();
  }
  EXPECT_TRUE(eventually(is_woken));  // where a busy machine has kept the poller from its first sleep
  service.stop();                     // so that it counts no more while the counts are read
  const timer_stats stats = service.stats();
  EXPECT_EQ(stats.wakeups, stats.earlier_wakeups);
  EXPECT_EQ(stats.empty_wakeups, 0U);
}

TEST(Wakeups, OneOnTimeIsNoneOfTheOthers) {
  timer service;
  service.schedule_after(50ms, [] {});
  ASSERT_TRUE(eventually([&] { return service.stats().fired == 1; }));
  const timer_stats stats = service.stats();
  EXPECT_EQ(stats.empty_wakeups, 0U);
  EXPECT_LE(stats.earlier_wakeups, 1U);
  EXPECT_LE(stats.wakeups, stats.earlier_wakeups + 1);
}

#if defined(TIMING_WHEEL_HAS_TIMER_SLACK)
/// How late the system may wake the poller of a service.
nanoseconds slack_with(nanoseconds tick) {
  std::promise<nanoseconds> slack;
  timer service({.tick = tick});
  service.schedule_after(0ns, [&] { slack.set_value(nanoseconds(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL))); });
  return slack.get_future().get();
}
#endif

// ---- Idle ----

TEST(Timer, OneFarTimerCausesNoWakeupInTenSeconds) {
  timer service;
  service.schedule_after(24h, nothing);
  settle(service);
  const std::uint64_t wakeups = service.stats().wakeups;
  std::this_thread::sleep_for(10s);
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

TEST(Timer, AServiceWhoseTimersHaveAllFiredIsNotWokenAgain) {
  std::atomic<int> runs{0};
  timer service;
  for (int i = 0; i < 100; ++i) {
    service.schedule_after(i * 1ms, [&] { ++runs; });
  }
  ASSERT_TRUE(eventually([&] { return runs == 100; }));
  settle();
  const std::uint64_t wakeups = service.stats().wakeups;
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

#if !defined(_WIN32)  // where std::clock tells what time has passed, used or not
TEST(Timer, AnIdleServiceUsesNoProcessor) {
  timer service({.tick = 1us});
  service.schedule_after(24h, nothing);
  service.schedule_at(time_point::max(), nothing);
  settle();
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4);
}
#endif

TEST(Timer, FarTimersThatAreCancelledOrMovedToLaterCauseNoWakeup) {
  timer service;
  const timer_handle moved = service.schedule_after(1h, nothing);
  settle(service);
  const std::uint64_t wakeups = service.stats().wakeups;
  for (int i = 1; i <= 1000; ++i) {
    service.schedule_after(24h, nothing).cancel();
    EXPECT_TRUE(moved.reschedule_after(1h + i * 1min));
  }
  settle();
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

/// Schedules 1 001 timers for one time, and waits until all have run. \returns how often the poller woke for them; none
/// if that time came before all were scheduled.
std::optional<std::uint64_t> wakeups_for_one_tick() {
  std::atomic<int> runs{0};
  timer service;
  const time_point deadline = steady_clock::now() + 300ms;  // one wheel's: a cascade would cost a wake-up, too
  service.schedule_at(deadline, [&] { ++runs; });
  settle(service);
  const std::uint64_t wakeups = service.stats().wakeups;
  for (int i = 0; i < 1000; ++i) {
    service.schedule_at(deadline, [&] { ++runs; });
  }
  const bool in_time = steady_clock::now() < deadline;
  EXPECT_TRUE(eventually([&] { return runs == 1001; }));
  settle();
  return in_time ? std::optional(service.stats().wakeups - wakeups) : std::nullopt;
}

TEST(Timer, ManyTimersOfOneTickCostOneWakeup) {
  std::optional<std::uint64_t> wakeups;
  for (int tries = 0; !wakeups && tries < 100; ++tries) {
    wakeups = wakeups_for_one_tick();
  }
  ASSERT_TRUE(wakeups);
  EXPECT_LE(*wakeups, 1U);
}

// ---- Reschedule ----

TEST(Timer, RescheduleEarlierWakesThePoller) {
  probe one;
  timer service;
  const timer_handle handle = service.schedule_after(1h, one.callback());
  settle();
  const time_point deadline = steady_clock::now() + 20ms;
  EXPECT_TRUE(handle.reschedule(deadline));
  ASSERT_TRUE(eventually([&] { return one.ran(); }));
  EXPECT_GE(one.ran_at(), deadline);
  EXPECT_FALSE(handle.reschedule_after(1ms));
}

TEST(Timer, TouchesOfANearTimerCostOneEmptyWakeupAtMost) {
  timer service;
  nanoseconds delay = 200ms;
  timer_handle handle = service.schedule_after(delay, nothing);
  while (!handle.reschedule_after(1h)) {  // the machine has stood still, and it has fired
    delay *= 2;
    handle = service.schedule_after(delay, nothing);
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(handle.reschedule_after(1h));
  }
  const std::uint64_t wakeups = service.stats().empty_wakeups;
  std::this_thread::sleep_for(delay + 300ms);
  EXPECT_LE(service.stats().empty_wakeups, wakeups + 1);
}

#if defined(TIMING_WHEEL_HAS_TIMER_SLACK)
TEST(Timer, TheSystemWakesThePollerWithinASixteenthOfATick) {
  EXPECT_EQ(slack_with(160us), 10us);
  EXPECT_EQ(slack_with(1ns), 1ns);
}

TEST(Timer, ASlackOfSecondsIsNotThePollers) {
  for (const unsigned long inherited : {3'000'000'000UL, (1UL << 32U) + 1000}) {
    prctl(PR_SET_TIMERSLACK, inherited, 0UL, 0UL, 0UL);
    EXPECT_EQ(slack_with(1ms), 62'500ns) << inherited;
  }
  prctl(PR_SET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);  // the usual one again
}

TEST(Timer, ALongTickLeavesTheSlackOfWakeUpsAlone) {
  EXPECT_EQ(slack_with(20ms), nanoseconds(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL)));
}
#endif

}  // namespace
}  // namespace timing_wheel::test

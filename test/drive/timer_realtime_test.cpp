/// \file
/// On the real clock: never early, and on time. A machine may be arbitrarily slow: that a timer
/// is late is a failure only after `patience`; that one is early, always.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/allocation.hpp"
#include "support/build.hpp"
#include "support/service_audit.hpp"
#include "support/service_probe.hpp"
#include "support/service_random.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

TEST(Timer, ADeadlineOfTheWallClockIsToldAsOneOfTheSteadyClock) {
  timer service;
  const timer_handle handle = service.schedule_at(std::chrono::system_clock::now() + 1h, nothing);
  ASSERT_TRUE(handle.remaining());
  EXPECT_LE(*handle.remaining(), 1h + 1s);
  EXPECT_GE(*handle.remaining(), 1h - patience);
}

TEST(Timer, ManyTimersWithRandomDelaysAreAllOnTimeAndNeverEarly) {
  constexpr std::uint64_t count = 100'000;
  std::atomic<std::uint64_t> runs{0};
  std::atomic<std::uint64_t> early{0};
  dice random(5);
  timer service;
  for (std::uint64_t i = 0; i < count; ++i) {
    const time_point deadline = steady_clock::now() + random.between(0ns, 2s);
    service.schedule_at(deadline, [&, deadline] {
      early += steady_clock::now() < deadline;
      ++runs;
    });
  }
  ASSERT_TRUE(eventually([&] { return runs == count; }));
  EXPECT_EQ(early, 0U);
  EXPECT_EQ(service.stats().early, 0U);
  EXPECT_EQ(service.stats().lateness.count(), count);
}

TEST(Timer, ThePollerWithoutMemoryTriesAgainAndLosesNothing) {
  std::atomic<int> runs{0};
  std::atomic<int> early{0};
  timer service({.tick = 1ms, .wheel_size = 512, .shards = 1});
  const time_point begin = steady_clock::now();
  for (int i = 0; i < 400; ++i) {  // one bucket, whose cascade needs a chunk for each
    service.schedule_at(begin + 520ms + i * 1ms, [&, i] {
      early += steady_clock::now() < begin + 520ms + i * 1ms;
      ++runs;
    });
  }
  service.schedule_at(begin + 200ms, [] { allocations.failures = 3; });  // of the poller's thread
  ASSERT_TRUE(eventually([&] { return runs == 400; }));
  EXPECT_EQ(early, 0);
  EXPECT_TRUE(conserved(service));
}

/// Runs a hundred thousand tasks of an eighth of a second on a long tick. \returns how late they were: not the last
/// one, since a machine may be slow for a moment.
nanoseconds lateness_of_tasks_on_a_long_tick() {
  constexpr std::uint64_t count = 100'000;
  std::atomic<std::uint64_t> runs{0};
  std::atomic<std::uint64_t> early{0};
  timer service({.tick = 200ms});
  for (std::uint64_t i = 0; i < count; ++i) {
    const time_point begin = steady_clock::now();
    service.schedule_after(125ms, [&, begin] {
      early += steady_clock::now() - begin < 125ms;
      ++runs;
    });
  }
  EXPECT_TRUE(eventually([&] { return runs == count; }));
  EXPECT_EQ(early, 0U);
  return service.stats().lateness.quantile(slow_build ? 0.5 : 0.99);
}

TEST(Timer, AHundredThousandTasksOfAnEighthOfASecondOnALongTickAreInTheirTick) {
  constexpr nanoseconds limit = slow_build ? 5s : 525ms;
  nanoseconds late = nanoseconds::max();
  for (int tries = 0; tries < 5 && late >= limit; ++tries) {  // a machine that stands still makes all of one try late
    late = lateness_of_tasks_on_a_long_tick();
  }
  EXPECT_LT(late, limit);
}

TEST(Timer, AnAddEarlierThanTheHeadIsOnTimeWhileThePollerSleeps) {
  timer service;
  service.schedule_after(1h, nothing);
  for (const nanoseconds delay : std::vector<nanoseconds>{20ms, 600ms, 1ms}) {
    settle();
    probe one;
    const time_point deadline = steady_clock::now() + delay;
    service.schedule_at(deadline, one.callback());
    ASSERT_TRUE(eventually([&] { return one.ran(); }));
    EXPECT_GE(one.ran_at(), deadline);
    EXPECT_LT(one.ran_at() - deadline, 5s);
  }
}

TEST(Timer, AnAddFromEachOfManyThreadsWakesThePoller) {
  timer service({.shards = 4});
  service.schedule_after(1h, nothing);
  settle();
  std::vector<probe> probes(16);
  for (probe& one : probes) {
    std::thread([&] { service.schedule_after(10ms, one.callback()); }).join();
  }
  for (const probe& one : probes) {
    EXPECT_TRUE(eventually([&] { return one.ran(); }));
  }
}

}  // namespace
}  // namespace timing_wheel::test

// Among the few tests that sleep (docs/CONTRIBUTING.md names them). A machine may be arbitrarily slow: that a timer is late is a
// failure only after `patience`; that one is early, always.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

void nothing() {}

#if defined(__linux__)
/// How late the system may wake the poller of a service.
nanoseconds slack_with(nanoseconds tick) {
  std::promise<nanoseconds> slack;
  timer service({.tick = tick});
  service.schedule_after(0ns, [&] { slack.set_value(nanoseconds(prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL))); });
  return slack.get_future().get();
}
#endif

/// One timer, and when it ran.
class probe {
 public:
  auto callback() {
    return [this] {
      ran_at_ = steady_clock::now();
      ++runs_;
    };
  }
  [[nodiscard]] bool ran() const { return runs_ > 0; }
  [[nodiscard]] int runs() const { return runs_; }
  [[nodiscard]] time_point ran_at() const { return ran_at_; }

 private:
  std::atomic<time_point> ran_at_{time_point()};
  std::atomic<int> runs_{0};
};

// ---- Idle ----

TEST(Timer, Scenario16_OneFarTimerCausesNoWakeupInTenSeconds) {
  timer service;
  service.schedule_after(24h, nothing);
  settle();
  const std::uint64_t wakeups = service.stats().wakeups;
  std::this_thread::sleep_for(10s);
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

TEST(Timer, Scenario16_AServiceWithoutTimersIsNeverWoken) {
  const timer service;
  settle();
  const std::uint64_t wakeups = service.stats().wakeups;
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

TEST(Timer, Scenario16_AServiceWhoseTimersHaveAllFiredIsNotWokenAgain) {
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

TEST(Timer, Scenario16_AnIdleServiceUsesNoProcessor) {
  timer service({.tick = 1us});
  service.schedule_after(24h, nothing);
  service.schedule_at(time_point::max(), nothing);
  settle();
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4);
}

TEST(Timer, Scenario16_FarTimersThatAreCancelledCauseNoWakeup) {
  timer service;
  service.schedule_after(1h, nothing);
  settle();
  const std::uint64_t wakeups = service.stats().wakeups;
  for (int i = 0; i < 1000; ++i) {
    service.schedule_after(24h, nothing).cancel();
  }
  settle();
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

TEST(Timer, Scenario16_ManyTimersOfOneTickCostOneWakeup) {
  std::atomic<int> runs{0};
  timer service;
  const time_point deadline = steady_clock::now() + 300ms;
  service.schedule_at(deadline, [&] { ++runs; });
  settle();
  const std::uint64_t wakeups = service.stats().wakeups;
  for (int i = 0; i < 1000; ++i) {
    service.schedule_at(deadline, [&] { ++runs; });
  }
  ASSERT_TRUE(eventually([&] { return runs == 1001; }));
  settle();
  EXPECT_LE(service.stats().wakeups, wakeups + 1);
}

// ---- On time ----

TEST(Timer, FiresOnceAndNotEarly) {
  probe one;
  timer service;
  const time_point deadline = steady_clock::now() + 50ms;
  service.schedule_at(deadline, one.callback());
  ASSERT_TRUE(eventually([&] { return one.ran(); }));
  EXPECT_GE(one.ran_at(), deadline);
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(one.runs(), 1);
}

TEST(Timer, FiresAtADeadlineOfTheWallClock) {
  probe one;
  timer service;
  const time_point before = steady_clock::now();
  service.schedule_at(std::chrono::system_clock::now() + 100ms, one.callback());
  ASSERT_TRUE(eventually([&] { return one.ran(); }));
  EXPECT_GE(one.ran_at() - before, 95ms) << "less what the wall clock may have been corrected by meanwhile";
}

TEST(Timer, ADeadlineOfTheWallClockIsToldAsOneOfTheSteadyClock) {
  timer service;
  const timer_handle handle = service.schedule_at(std::chrono::system_clock::now() + 1h, nothing);
  ASSERT_TRUE(handle.remaining());
  EXPECT_LE(*handle.remaining(), 1h + 1s);
  EXPECT_GE(*handle.remaining(), 1h - patience);
}

TEST(Timer, NeverFiresAtTheLargestDeadlines) {
  std::atomic<int> runs{0};
  timer service;
  service.schedule_after(std::chrono::hours::max(), [&] { ++runs; });
  service.schedule_at(std::chrono::sys_time<std::chrono::hours>::max(), [&] { ++runs; });
  service.schedule_at(time_point::max(), [&] { ++runs; });
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(service.stop().size(), 3U);
}

TEST(Timer, FiresZeroAndNegativeDelaysSoon) {
  std::atomic<int> runs{0};
  timer service;
  service.schedule_after(0ns, [&] { ++runs; });
  service.schedule_after(-1h, [&] { ++runs; });
  service.schedule_at(time_point::min(), [&] { ++runs; });
  service.schedule_at(std::chrono::system_clock::now() - 1h, [&] { ++runs; });
  EXPECT_TRUE(eventually([&] { return runs == 4; }));
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

TEST(Timer, Scenario23_AHundredThousandTasksOfAnEighthOfASecondOnALongTickAreInTheirTick) {
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
  ASSERT_TRUE(eventually([&] { return runs == count; }));
  EXPECT_EQ(early, 0U);
  // Not the last one, since a machine may be slow for a moment.
  EXPECT_LT(service.stats().lateness.quantile(slow_build ? 0.5 : 0.99), slow_build ? 5s : 525ms);
}

TEST(Timer, ATickOfAnyLengthIsNeverEarly) {
  for (const nanoseconds tick : std::vector<nanoseconds>{1ns, 1us, 333us, 10ms, 70ms}) {
    std::atomic<int> runs{0};
    std::atomic<int> early{0};
    timer service({.tick = tick});
    for (int i = 0; i < 100; ++i) {
      const time_point deadline = steady_clock::now() + i * 1'234'567ns;
      service.schedule_at(deadline, [&, deadline] {
        early += steady_clock::now() < deadline;
        ++runs;
      });
    }
    ASSERT_TRUE(eventually([&] { return runs == 100; })) << tick.count();
    EXPECT_EQ(early, 0) << tick.count();
  }
}

TEST(Timer, Scenario17_AnAddEarlierThanTheHeadIsOnTimeWhileThePollerSleeps) {
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

TEST(Timer, Scenario17_AnAddFromEachOfManyThreadsWakesThePoller) {
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

TEST(Timer, Scenario17_TheFirstAddAfterAnIdleWhileIsOnTime) {
  timer service;
  for (int i = 0; i < 3; ++i) {
    settle();
    probe one;
    service.schedule_after(5ms, one.callback());
    EXPECT_TRUE(eventually([&] { return one.ran(); }));
  }
}

// ---- Reschedule ----

TEST(Timer, Scenario14_RescheduleEarlierWakesThePoller) {
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

TEST(Timer, Scenario14_RescheduleToThePastWakesThePoller) {
  probe one;
  timer service;
  const timer_handle handle = service.schedule_after(1h, one.callback());
  settle();
  EXPECT_TRUE(handle.reschedule(time_point::min()));
  EXPECT_TRUE(eventually([&] { return one.ran(); }));
}

TEST(Timer, Scenario14_RescheduleLaterCostsNoWakeup) {
  timer service;
  const timer_handle handle = service.schedule_after(1h, nothing);
  settle();
  const std::uint64_t wakeups = service.stats().wakeups;
  for (int i = 1; i <= 1000; ++i) {
    EXPECT_TRUE(handle.reschedule_after(1h + i * 1min));
  }
  settle();
  EXPECT_EQ(service.stats().wakeups, wakeups);
}

TEST(Timer, Scenario14_TouchesOfANearTimerCostOneEmptyWakeupAtMost) {
  timer service;
  const timer_handle handle = service.schedule_after(200ms, nothing);
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(handle.reschedule_after(1h));
  }
  const std::uint64_t wakeups = service.stats().empty_wakeups;
  std::this_thread::sleep_for(500ms);
  EXPECT_LE(service.stats().empty_wakeups, wakeups + 1);
}

TEST(Timer, Scenario14_ATimerThatIsTouchedInTimeNeverFires) {
  probe one;
  timer service;
  const timer_handle handle = service.schedule_after(patience, one.callback());
  const time_point first = *handle.deadline();
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(handle.reschedule_after(patience));
  }
  EXPECT_GT(*handle.deadline(), first + 49ms);
  EXPECT_FALSE(one.ran());
}

// 64 buckets use up the 64 chunks that were allocated at once, and the one in question holds two timers; so there is no
// chunk for another bucket, and without memory the timer must go back to where it was, though the clock has moved on.
TEST(Timer, Scenario14_RescheduleWithoutMemoryLosesNothing) {
  probe one;
  timer service({.shards = 1});
  const time_point start = steady_clock::now();
  service.schedule_at(start + 700ms, nothing);
  const timer_handle handle = service.schedule_at(start + 700ms, one.callback());
  for (int i = 0; i < 63; ++i) {
    service.schedule_at(start + 400ms + i * 1ms, nothing);
  }
  std::this_thread::sleep_until(start + 300ms);
  if (!succeeds_with(0, [&] { handle.reschedule(start + 480ms); })) {
    EXPECT_EQ(handle.deadline(), start + 700ms);
  }
  EXPECT_TRUE(eventually([&] { return one.ran(); }, 10s));
}

TEST(Timer, RemainingBecomesLess) {
  timer service;
  const timer_handle handle = service.schedule_after(1h, nothing);
  const std::optional<nanoseconds> first = handle.remaining();
  std::this_thread::sleep_for(20ms);
  const std::optional<nanoseconds> second = handle.remaining();
  ASSERT_TRUE(first && second);
  EXPECT_LE(*first, 1h);
  EXPECT_LE(*second, *first - 20ms);
}

TEST(Timer, NowIsTheSteadyClock) {
  const timer service;
  const time_point before = steady_clock::now();
  const time_point now = service.now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, steady_clock::now());
}

// ---- Callbacks ----

TEST(Timer, RunsCallbacksOnOneThreadOfItsOwnOneAfterTheOther) {
  std::set<std::thread::id> threads;
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::atomic<int> runs{0};
  timer service({.shards = 4});
  for (int i = 0; i < 200; ++i) {
    std::thread([&] {
      service.schedule_after((runs % 5) * 1ms, [&] {
        overlaps += ++inside != 1;
        threads.insert(std::this_thread::get_id());
        --inside;
        ++runs;
      });
    }).join();
  }
  ASSERT_TRUE(eventually([&] { return runs == 200; }));
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

TEST(Timer, CancelFromAnotherThreadSaysRunningWhileTheCallbackRuns) {
  std::latch begun(1);
  std::latch go_on(1);
  timer service;
  const timer_handle handle = service.schedule_after(1ms, [&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  EXPECT_EQ(handle.status(), timer_status::running);
  EXPECT_EQ(handle.cancel(), cancel_result::running);
  EXPECT_FALSE(handle.reschedule_after(1ms));
  go_on.count_down();
  EXPECT_TRUE(eventually([&] { return handle.status() == timer_status::finished; }));
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TEST(Timer, OthersMayUseTheServiceWhileACallbackBlocks) {
  std::latch begun(1);
  std::latch go_on(1);
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  const timer_handle handle = service.schedule_after(1h, nothing);
  EXPECT_TRUE(handle.reschedule_after(2h));
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_TRUE(conserved(service));
  go_on.count_down();
}

TEST(Timer, ADueTimerBehindABlockedCallbackCanStillBeCancelled) {
  std::latch begun(1);
  std::latch go_on(1);
  probe behind;
  timer service;
  const time_point deadline = steady_clock::now() + 50ms;
  service.schedule_at(deadline, [&] {
    begun.count_down();
    go_on.wait();
  });
  const timer_handle handle = service.schedule_at(deadline, behind.callback());
  begun.wait();
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  go_on.count_down();
  probe last;
  service.schedule_after(1ms, last.callback());
  EXPECT_TRUE(eventually([&] { return last.ran(); }));
  EXPECT_FALSE(behind.ran());
}

TEST(Timer, ACallbackThatThrowsDoesNotEndTheThread) {
  probe next;
  timer service;
  service.schedule_after(1ms, [] { throw 42; });
  service.schedule_after(2ms, next.callback());
  EXPECT_TRUE(eventually([&] { return next.ran(); }));
  EXPECT_EQ(service.stats().failed, 1U);
}

TEST(Timer, ATimerThatArmsItselfGoesOn) {
  std::atomic<int> left{1000};
  timer service({.tick = 100us});
  std::function<void()> again = [&] {
    if (--left > 0) {
      service.schedule_after(100us, again);
    }
  };
  service.schedule_after(0ns, again);
  EXPECT_TRUE(eventually([&] { return left == 0; }));
}

/// A timer that takes its time and comes again, as one of many that together are more than a service can do.
struct busy_timer {
  timer* service;
  void operator()() const {
    const time_point end = steady_clock::now() + 20us;
    while (steady_clock::now() < end) {
    }
    std::error_code stopped;
    service->schedule_after(1ms, *this, stopped);
  }
};

TEST(Timer, AnOverloadedServiceDoesNotStarveATimerThatWasDueWhenItCame) {
  probe one;
  timer service({.shards = 1});
  for (int i = 0; i < 1000; ++i) {
    service.schedule_after(1ms, busy_timer{&service});
  }
  settle();
  service.schedule_after(-1min, one.callback());
  EXPECT_TRUE(eventually([&] { return one.ran(); }, 5s));
  service.stop();
}

// ---- Scenario 10 ----

/// Timers that stand in the upper wheels until shortly before they are due, and what became of each.
class cascade {
 public:
  static constexpr std::size_t count = 100'000;

  cascade() : ran_(count), answers_(count) {
    const time_point base = steady_clock::now() + 1500ms;
    dice random(10);
    for (std::size_t i = 0; i < count; ++i) {
      handles_.push_back(service_.schedule_at(base + random.between(0ns, 500ms), [this, i] { ++ran_[i]; }));
    }
    std::this_thread::sleep_until(base - 400ms);
  }

  /// Cancels every `step`-th timer from `first` on, until the last has been due for a while.
  void cancel_from(std::size_t first, std::size_t step) {
    for (std::size_t i = first; i < count; i += step) {
      answers_[i] = handles_[i].cancel();
      if (i % 256 < step) {
        std::this_thread::sleep_for(1ms);
      }
    }
  }

  void expect_one_outcome_each() {
    ASSERT_TRUE(eventually([&] { return service_.pending() == 0; }));
    service_.stop();  // waits for the last callback
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool cancelled = answers_[i] == cancel_result::cancelled;
      wrong += ran_[i] != (cancelled ? 0 : 1);
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(service_.stats().early, 0U);
    EXPECT_GT(service_.stats().moves, count / 2) << "there was a cascade";
    EXPECT_TRUE(conserved(service_));
  }

  timer& service() { return service_; }

 private:
  std::vector<std::atomic<int>> ran_;
  std::vector<std::optional<cancel_result>> answers_;
  std::vector<timer_handle> handles_;
  timer service_{{.wheel_size = 20, .shards = 2}};
};

TEST(Timer, Scenario10_NoneOfThoseCancelledInTheMiddleOfACascadeRuns) {
  cascade timers;
  {
    const std::jthread one([&] { timers.cancel_from(0, 4); });
    const std::jthread other([&] { timers.cancel_from(1, 4); });
  }
  EXPECT_GT(timers.service().stats().cancelled, 0U);
  timers.expect_one_outcome_each();
}

TEST(Timer, Scenario10_AddersGetInDuringACascade) {
  cascade timers;
  std::atomic<int> runs{0};
  for (int i = 0; i < 500; ++i) {
    timers.service().schedule_after(1ms, [&] { ++runs; });
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(eventually([&] { return runs == 500; }));
  timers.expect_one_outcome_each();
  EXPECT_LE(timers.service().stats().largest_hold, max_timers_per_lock);
}

// ---- Scenario 18 ----

TEST(Timer, Scenario18_StopWhileThePollerSleepsReturnsThePendingOne) {
  timer service;
  service.schedule_after(1h, nothing, {.tag = 7});
  settle();
  const std::vector<pending_task> left = service.stop();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].tag, 7U);
  EXPECT_TRUE(service.stopped());
}

TEST(Timer, Scenario18_StopTwiceReturnsNothingTheSecondTime) {
  timer service;
  service.schedule_after(1h, nothing);
  EXPECT_EQ(service.stop().size(), 1U);
  EXPECT_EQ(service.stop().size(), 0U);
  EXPECT_THROW(service.schedule_after(1ms, nothing), timer_error);
}

TEST(Timer, Scenario18_StopOfAServiceThatWasNeverUsedReturnsNothing) {
  timer service;
  EXPECT_TRUE(service.stop().empty());
}

TEST(Timer, Scenario18_StopFromACallbackReturnsTheOthers) {
  std::atomic<int> returned{-1};
  timer service;
  service.schedule_after(1h, nothing);
  service.schedule_after(20ms, [&] { returned = static_cast<int>(service.stop().size()); });
  ASSERT_TRUE(eventually([&] { return returned >= 0; }));
  EXPECT_EQ(returned, 1);
  EXPECT_TRUE(service.stop().empty());
}

TEST(Timer, Scenario18_StopFromACallbackAndAtOnceTheDestructor) {
  for (int i = 0; i < 50; ++i) {
    std::latch begun(1);
    timer service;
    service.schedule_after(0ns, [&] {
      begun.count_down();
      service.stop();
    });
    begun.wait();
  }
}

TEST(Timer, Scenario18_StopWaitsForACallbackThatRuns) {
  std::latch begun(1);
  std::atomic<bool> ended{false};
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    std::this_thread::sleep_for(100ms);
    ended = true;
  });
  begun.wait();
  service.stop();
  EXPECT_TRUE(ended);
}

TEST(Timer, Scenario18_EveryStopWaitsForACallbackThatRuns) {
  std::latch begun(1);
  std::atomic<bool> ended{false};
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    std::this_thread::sleep_for(100ms);
    ended = true;
  });
  begun.wait();
  std::vector<std::jthread> stoppers;
  for (int i = 0; i < 4; ++i) {
    stoppers.emplace_back([&] {
      service.stop();
      EXPECT_TRUE(ended);
    });
  }
}

TEST(Timer, Scenario18_StopFromTwoCallersOneOfThemACallbackDoesNotDeadlock) {
  std::latch begun(1);
  std::atomic<bool> called{false};
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    std::this_thread::sleep_for(50ms);
    service.stop();
    called = true;
  });
  begun.wait();
  service.stop();
  EXPECT_TRUE(called);
}

/// What a thread that adds until it is refused has achieved.
std::uint64_t add_until_refused(timer& service, std::atomic<std::uint64_t>& runs) {
  dice random(6);
  std::error_code error;
  std::uint64_t accepted = 0;
  while (service.schedule_after(
      random.between(0ns, 100ms), [&] { ++runs; }, error)) {
    ++accepted;
  }
  EXPECT_EQ(error, timer_errc::stopped);
  return accepted;
}

TEST(Timer, Scenario18_StopWhileEightThreadsAddLosesNothing) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<std::uint64_t> runs{0};
    std::atomic<std::uint64_t> accepted{0};
    timer service({.shards = 4});
    std::vector<std::jthread> adders;
    for (int i = 0; i < 8; ++i) {
      adders.emplace_back([&] { accepted += add_until_refused(service, runs); });
    }
    std::this_thread::sleep_for(30ms);
    const std::size_t returned = service.stop().size();
    const std::uint64_t runs_at_stop = runs;
    adders.clear();
    EXPECT_EQ(accepted, runs + returned);
    EXPECT_EQ(runs, runs_at_stop) << "none runs after stop";
    EXPECT_EQ(service.stats().rejected, 8U);
    EXPECT_TRUE(conserved(service));
  }
}

TEST(Timer, Scenario18_TheDestructorDropsWhatIsPending) {
  live_captures captures;
  std::atomic<int> runs{0};
  {
    timer service;
    for (int i = 0; i < 1000; ++i) {
      service.schedule_after(1h, [&runs, token = captures.make()] { ++runs; });
    }
  }
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(captures.alive(), 0);
}

// The system gives the number of the poller's thread, which has ended, to the next one.
TEST(Timer, Scenario18_ANewThreadMayDestroyAStoppedService) {
  auto service = std::make_unique<timer>();
  service->stop();
  std::thread([&] { service.reset(); }).join();
  EXPECT_EQ(service, nullptr);
}

TEST(Timer, Scenario17_AWakeUpForAnEarlierTimerIsNotAnEmptyOne) {
  timer service;
  service.schedule_after(24h, nothing);
  settle();
  const timer_stats before = service.stats();
  service.schedule_after(12h, nothing);
  settle();
  EXPECT_EQ(service.stats().wakeups, before.wakeups + 1);
  EXPECT_EQ(service.stats().empty_wakeups, before.empty_wakeups);
}

TEST(Timer, Scenario18_TheDestructorWaitsForACallbackThatRuns) {
  std::atomic<bool> ended{false};
  {
    std::latch begun(1);
    timer service;
    service.schedule_after(0ns, [&] {
      begun.count_down();
      std::this_thread::sleep_for(100ms);
      ended = true;
    });
    begun.wait();
  }
  EXPECT_TRUE(ended);
}

#if defined(__linux__)
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

TEST(Timer, Scenario18_ManyServicesComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    timer service({.shards = 2});
    service.schedule_after((i % 3) * 1ms, nothing);
  }
}

}  // namespace
}  // namespace timing_wheel::test

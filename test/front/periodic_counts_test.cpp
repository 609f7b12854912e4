/// \file
/// Periodic timers: refusals, counts and memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_periodic.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// ---- Refusals ----

TEST(PeriodicRefusal, RefusesAPeriodThatIsNotPositiveAndNamesIt) {
  manual_timer timer;
  for (const auto& [period, number] : {std::pair<nanoseconds, const char*>(0ns, "0"), {-5ns, "-5"}, {-7h, "-252"}}) {
    for (const period_policy policy : every_policy) {
      const refusal answer = refusal_of([&, p = period] { timer.schedule_every(p, nothing, {.policy = policy}); });
      EXPECT_EQ(answer.code, timer_errc::invalid_period);
      EXPECT_THAT(answer.message, HasSubstr(number));
    }
  }
}

TEST(PeriodicRefusal, ReportsAPeriodThatIsNotPositiveAsAnErrorCode) {
  live_captures captures;
  manual_timer timer;
  for (const nanoseconds period : {0ns, -1ns, nanoseconds::min()}) {
    std::error_code error;
    const timer_handle handle = timer.schedule_every(
        period, [token = captures.make()] {}, {.policy = fixed_delay, .tag = 7}, error);
    EXPECT_EQ(error, timer_errc::invalid_period);
    EXPECT_FALSE(handle);
  }
  EXPECT_EQ(captures.alive(), 0);
}

TEST(PeriodicRefusal, ARefusedPeriodSchedulesNothing) {
  manual_timer timer;
  EXPECT_THROW(timer.schedule_every(0ms, nothing), timer_error);
  EXPECT_THROW(timer.schedule_every(std::chrono::duration<double>(-0.5), nothing), timer_error);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(PeriodicRefusal, ARefusedPeriodLeavesTheCallableToTheCaller) {
  live_captures captures;
  manual_timer timer;
  {
    auto callback = [token = captures.make()] {};
    EXPECT_THROW(timer.schedule_every(0ms, std::move(callback)), timer_error);
    EXPECT_EQ(captures.alive(), 1);
  }
  EXPECT_EQ(captures.alive(), 0);
}

TEST(PeriodicRefusal, AcceptsTheSmallestPeriod) {
  manual_timer timer({.tick = 1ns});
  EXPECT_TRUE(timer.schedule_every(1ns, nothing));
  EXPECT_TRUE(timer.schedule_every(std::chrono::duration<double, std::nano>(0.25), nothing));
  EXPECT_EQ(timer.advance_by(10ns), 20U);
}

TEST(PeriodicRefusal, IsRefusedByAStoppedService) {
  live_captures captures;
  manual_timer timer;
  timer.stop();
  EXPECT_EQ(refusal_of([&] { timer.schedule_every(1ms, [token = captures.make()] {}); }).code, timer_errc::stopped);
  std::error_code error;
  const auto always = [](time_point previous) { return std::optional(previous + 1ms); };
  EXPECT_FALSE(timer.schedule_with(
      always, [token = captures.make()] {}, {}, error));
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().rejected, 2U);
}

TEST(PeriodicRefusal, TheErrorCodeIsClearedOnSuccess) {
  manual_timer timer;
  std::error_code error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_every(1ms, nothing, {.policy = fixed_delay}, error));
  EXPECT_FALSE(error);
  error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_with([](time_point now) { return now + 1ms; }, nothing, {}, error));
  EXPECT_FALSE(error);
}

// ---- max_pending ----

TEST(PeriodicRefusal, KeepsItsPlaceWhileItRuns) {
  manual_timer timer({.max_pending = 1});
  std::vector<std::error_code> answers;
  timer.schedule_every(10ms, [&] {
    std::error_code error;
    timer.schedule_after(1ms, nothing, {}, error);
    answers.push_back(error);
  });
  EXPECT_EQ(timer.advance_by(35ms), 3U);
  EXPECT_THAT(answers, AllOf(SizeIs(3), Each(std::error_code(timer_errc::too_many_pending))));
  EXPECT_EQ(timer.stats().rejected, 3U);
}

TEST(PeriodicRefusal, IsRefusedAboveTheLimit) {
  live_captures captures;
  manual_timer timer({.max_pending = 2});
  timer.schedule_every(10ms, nothing);
  timer.schedule_every(10ms, nothing);
  EXPECT_EQ(refusal_of([&] { timer.schedule_every(10ms, [token = captures.make()] {}); }).code,
            timer_errc::too_many_pending);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(timer.advance_by(10ms), 2U);
}

/// After a periodic timer has ended in each way, its place is free again, once.
template <class Next, class Callback>
void expect_its_place_back(Next next, Callback callback) {
  manual_timer timer({.max_pending = 1, .on_error = [](const std::exception_ptr&, std::uint64_t) {}});
  timer.schedule_with(next, callback);
  timer.advance_by(1s);
  std::error_code error;
  timer.schedule_after(1ms, nothing, {}, error);
  EXPECT_FALSE(error);
  timer.schedule_after(1ms, nothing, {}, error);
  EXPECT_EQ(error, timer_errc::too_many_pending);
}

TEST(PeriodicRefusal, GivesItsPlaceBackWhenItEnds) {
  expect_its_place_back(ten_ms(3, none), nothing);
  expect_its_place_back(ten_ms(3, failing), nothing);
  expect_its_place_back(ten_ms(3, none), [](const timer_handle& self) { self.cancel(); });
  expect_its_place_back(ten_ms(0, none), nothing);
}

TEST(PeriodicRefusal, ARefusedPeriodUsesUpNoPlace) {
  manual_timer timer({.max_pending = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(timer.schedule_every(0ms, nothing), timer_error);
    EXPECT_THROW(timer.schedule_with(ten_ms(0, failing), nothing), std::runtime_error);
  }
  EXPECT_TRUE(timer.schedule_every(1ms, nothing));
}

// ---- Counts ----

TEST(PeriodicCounts, EachRunCountsAsScheduledAndFiredOnce) {
  manual_timer timer;
  timer.schedule_every(10ms, nothing);
  for (std::uint64_t run = 0; run < 20; ++run) {
    const timer_stats counts = timer.stats();
    EXPECT_EQ(counts.scheduled, run + 1);
    EXPECT_EQ(counts.rearmed, run);
    EXPECT_EQ(counts.fired, run);
    EXPECT_EQ(counts.pending, 1U);
    EXPECT_EQ(counts.running, 0U);
    timer.advance_by(10ms);
  }
}

TEST(PeriodicCounts, CountsAgreeInItsCallback) {
  manual_timer timer;
  std::uint64_t runs = 0;
  timer.schedule_every(10ms, [&] {
    const timer_stats counts = timer.stats();
    EXPECT_TRUE(conserved(counts));
    EXPECT_EQ(counts.fired, ++runs);
    EXPECT_EQ(counts.scheduled, runs);
    EXPECT_EQ(counts.rearmed, runs - 1);
    EXPECT_EQ(counts.pending, 0U);
    EXPECT_EQ(counts.running, 1U);
    EXPECT_EQ(timer.pending(), 0U);
  });
  timer.advance_by(100ms);
  EXPECT_EQ(runs, 10U);
}

TEST(PeriodicCounts, CountsAgreeInItsRule) {
  manual_timer timer;
  timer.schedule_with(
      [&](time_point previous) {
        EXPECT_TRUE(conserved(timer));
        EXPECT_EQ(timer.pending(), 0U);
        return previous + 10ms;
      },
      nothing);
  timer.advance_by(100ms);
  EXPECT_TRUE(conserved(timer));
}

TEST(PeriodicCounts, AnEndedOneLeavesNothingInTheCounts) {
  manual_timer timer;
  timer.schedule_with(ten_ms(3, none), nothing);
  timer.schedule_every(10ms, [](const timer_handle& self) { self.cancel(); });
  timer.schedule_every(10ms, nothing).cancel();
  timer.advance_by(1h);
  const timer_stats counts = timer.stats();
  EXPECT_TRUE(conserved(counts));
  EXPECT_EQ(counts.scheduled, 5U);
  EXPECT_EQ(counts.rearmed, 2U);
  EXPECT_EQ(counts.fired, 4U);
  EXPECT_EQ(counts.cancelled, 1U);
  EXPECT_EQ(counts.pending, 0U);
  EXPECT_EQ(counts.running, 0U);
}

TEST(PeriodicCounts, LatenessIsThatOfEachRun) {
  manual_timer timer({.tick = 10ms});
  timer.schedule_every(25ms, nothing, {.policy = fixed_rate_catch_up});
  timer.advance_by(100ms);
  EXPECT_EQ(timer.stats().lateness.count(), 4U);
}

// ---- Captures ----

TEST(PeriodicMemory, KeepsCapturesThatCannotBeCopied) {
  manual_timer timer;
  std::vector<int> seen;
  timer.schedule_every(10ms, [&, number = std::make_unique<int>(0)] { seen.push_back(++*number); });
  timer.advance_by(45ms);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4));
}

TEST(PeriodicMemory, KeepsCapturesOfAHundredBytesIntact) {
  std::array<std::uint8_t, 100> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7);
  }
  manual_timer timer({.wheel_size = 4});
  int intact = 0;
  for (const period_policy policy : every_policy) {
    timer.schedule_every(3ms, [&intact, bytes, expected = bytes] { intact += bytes == expected; }, {.policy = policy});
  }
  timer.advance_by(3s);
  EXPECT_EQ(intact, 3000);
}

TEST(PeriodicMemory, KeepsOneCallableOverAllRuns) {
  live_captures captures;
  manual_timer timer;
  std::vector<int> seen;
  timer.schedule_every(10ms, [&seen, n = 0, token = captures.make()]() mutable { seen.push_back(++n); });
  timer.advance_by(35ms);
  EXPECT_THAT(seen, ElementsAre(1, 2, 3));
  EXPECT_EQ(captures.alive(), 1);
  EXPECT_EQ(captures.destroyed(), 0);
}

// ---- Memory ----

TEST(PeriodicMemory, ArmsAgainWithoutAllocating) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    std::array<char, 100> large{};
    timer.schedule_every(3ms, nothing, {.policy = policy});
    timer.schedule_every(7ms, [large] { static_cast<void>(large); }, {.policy = policy});
    timer.schedule_with([](time_point previous) { return previous + 5ms; }, nothing);
    timer.advance_by(10s);
    EXPECT_EQ(count_allocations([&] { timer.advance_by(10s); }), 0U);
  }
}

TEST(PeriodicMemory, ArmsAgainWithoutGrowing) {
  manual_timer timer({.wheel_size = 16});
  for (int i = 0; i < 100; ++i) {
    timer.schedule_every((i + 1) * 1ms, nothing);
  }
  timer.advance_by(10s);
  const std::size_t bytes = timer.stats().bytes;
  timer.advance_by(100s);
  EXPECT_LE(timer.stats().bytes, bytes + bytes / 10);
}

/// Schedules with memory for `left` allocations. \returns whether there was enough.
template <class Schedule>
bool schedules_with(std::uint64_t left, Schedule schedule) {
  live_captures captures;
  manual_timer timer;
  std::array<char, 100> large{};
  const bool enough =
      succeeds_with(left, [&] { schedule(timer, [large, token = captures.make()] { static_cast<void>(large); }); });
  EXPECT_EQ(timer.stats().scheduled, enough ? 1U : 0U);
  EXPECT_EQ(timer.pending(), enough ? 1U : 0U);
  EXPECT_EQ(captures.alive(), enough ? 1 : 0);
  timer.schedule_every(10ms, nothing);
  EXPECT_EQ(timer.advance_by(10ms), enough ? 2U : 1U);
  EXPECT_TRUE(conserved(timer));
  return enough;
}

TEST(PeriodicMemory, SchedulingWithoutMemoryChangesNothing) {
  std::uint64_t left = 0;
  while (!schedules_with(left, [](manual_timer& timer, auto&& callback) {
    timer.schedule_every(10ms, std::forward<decltype(callback)>(callback));
  })) {
    ASSERT_LT(++left, 100U);
  }
  EXPECT_GT(left, 0U);
  left = 0;
  while (!schedules_with(left, [](manual_timer& timer, auto&& callback) {
    timer.schedule_with(ten_ms(9, none), std::forward<decltype(callback)>(callback));
  })) {
    ASSERT_LT(++left, 100U);
  }
}

TEST(PeriodicMemory, TheErrorCodeOverloadsReportThatThereIsNoMemory) {
  live_captures captures;
  manual_timer timer;
  std::array<char, 100> large{};
  std::error_code every;
  std::error_code with;
  {
    const scarce_memory limit(0);
    timer.schedule_every(
        10ms, [large, token = captures.make()] { static_cast<void>(large); }, {}, every);
    timer.schedule_with(
        ten_ms(9, none), [large, token = captures.make()] { static_cast<void>(large); }, {}, with);
  }
  EXPECT_EQ(every, std::errc::not_enough_memory);
  EXPECT_EQ(with, std::errc::not_enough_memory);
  EXPECT_EQ(captures.alive(), 0);
}

/// A timer whose periods grow, so that to arm it again may need another wheel, with memory for `left` allocations until
/// it has run `scarce_runs` times. \returns whether that was enough.
bool arms_again_with(std::uint64_t left, int scarce_runs) {
  manual_timer timer({.tick = 1ms, .wheel_size = 4});
  int runs = 0;
  int early = 0;
  const timer_handle handle =
      timer.schedule_with([](time_point previous) { return previous + (previous.time_since_epoch() + 1ms) * 6; },
                          [&](const timer_handle& self) {
                            ++runs;
                            early += timer.now() < self.deadline().value();
                          });
  const auto run_until = [&](int wanted) {
    while (runs < wanted) {
      timer.advance_to(handle.deadline().value_or(timer.now()));
    }
  };
  const bool enough = succeeds_with(left, [&] { run_until(scarce_runs); });
  EXPECT_EQ(handle.status(), timer_status::pending) << "lost, with memory for " << left << " allocations";
  const int before = runs;
  for (int step = 0; step < 3 && handle.deadline(); ++step) {
    timer.advance_to(*handle.deadline() + 1ms);
  }
  EXPECT_GE(runs, before + 3) << "left " << left;
  EXPECT_EQ(early, 0);
  EXPECT_EQ(timer.stats().early, 0U);
  EXPECT_TRUE(conserved(timer));
  return enough;
}

TEST(PeriodicMemory, ArmingAgainWithoutMemoryLosesNoTimer) {
  std::uint64_t left = 0;
  while (!arms_again_with(left, 6)) {
    ASSERT_LT(++left, 1000U);
  }
  EXPECT_GT(left, 0U) << "nothing was tried";
}

/// Many periodic timers run with memory for `left` allocations only. \returns whether that was enough.
bool all_arm_again_with(std::uint64_t left, period_policy policy) {
  constexpr int count = 300;
  manual_timer timer({.tick = 1ms, .wheel_size = 4});
  std::vector<int> runs(count);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    timer.schedule_every(1ms * (1 + static_cast<int>(i) % 50), [&runs, i] { ++runs[i]; }, {.policy = policy});
  }
  const bool enough = succeeds_with(left, [&] { timer.advance_by(200ms); });
  EXPECT_EQ(timer.pending(), runs.size()) << "left " << left;
  EXPECT_TRUE(conserved(timer));
  timer.advance_to(at(200ms));
  const std::vector<int> before = runs;
  timer.advance_by(60ms);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_GT(runs[i], before[i]) << "timer " << i << ", left " << left;
  }
  EXPECT_EQ(timer.stats().early, 0U);
  return enough;
}

TEST(PeriodicMemory, ManyArmAgainWithoutMemory) {
  for (const period_policy policy : every_policy) {
    for (std::uint64_t left = 0; !all_arm_again_with(left, policy) && left < 200 && !HasFailure(); ++left) {
    }
  }
}

}  // namespace
}  // namespace timing_wheel::test

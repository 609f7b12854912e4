/// \file
/// Periodic timers: when they run, what they take, how they end, and the rule of a user.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/meeting.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// ---- When it runs ----

TEST(Periodic, ThePolicyIsAFixedDelayUnlessGiven) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_every(10ms, nothing);
  timer.advance_by(37ms);
  tasks.run();
  EXPECT_EQ(handle.deadline(), at(47ms));
}

// ---- Runs that are late ----

/// The deadline after a first run, due at 10 ms, that begins at `begin` and ends at `end`; the period is 10 ms.
std::optional<time_point> deadline_after_run(period_policy policy, nanoseconds begin, nanoseconds end) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  latch begun(1);
  latch over(1);
  const timer_handle handle = timer.schedule_every(10ms, [&] { begun.count_down(), over.wait(); }, {.policy = policy});
  timer.advance_to(at(begin));
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  timer.advance_to(at(end));
  over.count_down();
  thread.join();
  return handle.deadline();
}

TEST(Periodic, FixedDelayCountsFromTheEndOfTheRun) {
  EXPECT_EQ(deadline_after_run(fixed_delay, 10ms, 35ms), at(45ms));
  EXPECT_EQ(deadline_after_run(fixed_delay, 30ms, 35ms), at(45ms));
  EXPECT_EQ(deadline_after_run(fixed_delay, 12ms, 12ms), at(22ms));
}

TEST(Periodic, CatchUpCountsFromTheDeadlineBefore) {
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 10ms, 35ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 35ms, 35ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_catch_up, 12ms, 12ms), at(20ms));
}

TEST(Periodic, SkipTakesTheNextMultipleAfterTheEndOfTheRun) {
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 35ms), at(40ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 12ms, 12ms), at(20ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 40ms), at(50ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 40ms - 1ns), at(40ms));
  EXPECT_EQ(deadline_after_run(fixed_rate_skip, 10ms, 40ms + 1ns), at(50ms));
}

TEST(Periodic, ATaskOfAnEarlierRunDoesNotRunTheTimerAgain) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_every(10ms, [&] { ++runs; });
  timer.advance_by(10ms);
  std::vector<task> first = tasks.take();
  first.at(0)();
  first.at(0)();
  EXPECT_EQ(runs, 1);
  timer.advance_by(10ms);
  first.at(0)();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(tasks.run(), 1U);
  EXPECT_EQ(runs, 2);
}

// ---- The ends of time ----

TEST(Periodic, ASkipOverMoreThanHalfOfAllTimeIsToALaterDeadline) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()}, at(nanoseconds::min()));
  const timer_handle handle = timer.schedule_every(1h, nothing, {.policy = fixed_rate_skip});
  timer.advance_to(time_point::max() - 90min);
  tasks.run();
  // "At the next multiple of the period that is later than now."
  ASSERT_TRUE(handle.deadline());
  EXPECT_GT(*handle.deadline(), timer.now());
}

// ---- Refusals ----

TEST(PeriodicRefusal, AcceptsTheSmallestPeriod) {
  manual_timer timer({.tick = 1ns});
  EXPECT_TRUE(timer.schedule_every(1ns, nothing));
  EXPECT_TRUE(timer.schedule_every(std::chrono::duration<double, std::nano>(0.25), nothing));
  EXPECT_EQ(timer.advance_by(10ns), 20U);
}

TEST(PeriodicRefusal, TheErrorCodeIsClearedOnSuccess) {
  manual_timer timer;
  std::error_code error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_after(1h, nothing, {}, error));
  EXPECT_FALSE(error);
  error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_every(1ms, nothing, {.policy = fixed_delay}, error));
  EXPECT_FALSE(error);
  error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_with([](time_point now) { return now + 1ms; }, nothing, {}, error));
  EXPECT_FALSE(error);
}

// ---- Memory ----

TEST(PeriodicMemory, ArmsAgainWithoutAllocating) {
  for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
    manual_timer timer;
    std::array<char, 100> large{};
    timer.schedule_every(3ms, nothing, {.policy = policy});
    timer.schedule_every(7ms, [large] { static_cast<void>(large); }, {.policy = policy});
    timer.schedule_with([](time_point previous) { return previous + 5ms; }, nothing);
    timer.advance_by(10s);
    EXPECT_EQ(count_allocations([&] { timer.advance_by(10s); }), 0U);
  }
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

// ---- Stop ----

TEST(PeriodicEnd, AReturnedCallableThatTakesItsHandleGetsAnEmptyOne) {
  manual_timer timer;
  std::vector<bool> known;
  timer.schedule_every(10ms, [&](const timer_handle& self) { known.push_back(static_cast<bool>(self)); });
  timer.advance_by(10ms);
  for (pending_task& left : timer.stop()) {
    left.callback();
  }
  EXPECT_THAT(known, ElementsAre(true, false));
}

TEST(PeriodicEnd, AReturnedCallableScheduledEveryPeriodElsewhereKeepsThatPeriod) {
  manual_timer first;
  first.schedule_every(10ms, nothing);
  std::vector<pending_task> left = first.stop();
  manual_timer second;
  second.schedule_every(100ms, std::move(left.at(0).callback));
  EXPECT_EQ(second.advance_by(1s), 10U);
}

// ---- The user's own rule ----

TEST(PeriodicRule, ADeadlineInThePastRunsAtOnceAndNotInline) {
  manual_timer timer({}, at(1h));
  std::vector<int> trace;
  int left = 3;
  timer.schedule_with([&](time_point) { return left-- > 0 ? std::optional(at(1min)) : std::nullopt; },
                      [&] {
                        trace.push_back(1);
                        EXPECT_EQ(timer.stats().running, 1U);
                      });
  EXPECT_THAT(trace, IsEmpty());
  EXPECT_EQ(timer.advance_by(1ms), 3U);
  EXPECT_THAT(trace, SizeIs(3));
}

TEST(PeriodicRule, MayCancelItsTimer) {
  live_captures captures;
  manual_timer timer;
  timer_handle handle;
  cancel_result answer{};
  handle = timer.schedule_with(
      [&](time_point previous) {
        answer = handle.cancel();
        return previous + 10ms;
      },
      [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::running);
  EXPECT_EQ(captures.alive(), 0);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// Executors that refuse.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_refusing.hpp"
#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

// ---- Refusals ----

TEST(ExecutorRefusal, ComesBackUntilItIsAccepted) {
  for (const way how : every_way) {
    refusing target(how, 100);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    target.timer = &timer;
    const timer_handle handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(1s);
    EXPECT_EQ(timer.stats().refused, 100U);
    EXPECT_THAT(target.asked, SizeIs(101));
    for (std::size_t i = 1; i < target.asked.size(); ++i) {
      EXPECT_GE(target.asked[i] - target.asked[i - 1], 1ms);
    }
    EXPECT_EQ(target.accepted.run(), 1U);
    EXPECT_EQ(handle.status(), timer_status::finished);
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(ExecutorRefusal, DroppingAKeptTaskRefusesItLater) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  timer.advance_by(10ms);
  tasks.drop();
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(timer.stats().refused, 1U);
  EXPECT_EQ(timer.stats().due, 0U);
  EXPECT_EQ(timer.advance_to(at(11ms) - 1ns), 0U);
  EXPECT_EQ(timer.advance_by(2ms), 1U);
  EXPECT_EQ(tasks.run(), 1U);
  EXPECT_EQ(handle.status(), timer_status::finished);
}

TEST(ExecutorRefusal, ARefusedPeriodicTimerGoesOn) {
  for (const way how : every_way) {
    for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
      refusing target(how, 3);
      manual_timer timer({.executor = target.taking(), .on_error = ignore});
      const timer_handle handle = timer.schedule_every(10ms, nothing, {.policy = policy});
      timer.advance_by(20ms);
      EXPECT_EQ(target.accepted.run(), 1U);
      EXPECT_EQ(timer.stats().rearmed, 1U);
      EXPECT_EQ(handle.deadline(), policy == fixed_rate_catch_up ? at(20ms) : at(30ms));
      EXPECT_EQ(timer.pending(), 1U);
    }
  }
}

TEST(ExecutorRefusal, ARefusalWithoutAThrowIsNoError) {
  captured_stderr output;
  refusing target(way::drops, 3);
  manual_timer timer({.executor = target.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(10ms);
  EXPECT_THAT(output.text(), IsEmpty());
}

TEST(ExecutorRefusal, OneThatRunsTheTaskAndThenThrowsHasRunIt) {
  std::vector<std::uint64_t> tags;
  manual_timer timer({.executor =
                          [](task&& work) {
                            work();
                            throw std::runtime_error("afterwards");
                          },
                      .on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
  timer.advance_by(1h);
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(tags, ElementsAre(5U));
  EXPECT_EQ(timer.stats().fired, 1U);
  EXPECT_EQ(timer.stats().refused, 0U);
}

TEST(ExecutorRefusal, OneThatTakesTheTaskAndThenThrowsHasItOnce) {
  kept_tasks tasks;
  int given = 0;
  manual_timer timer({.executor =
                          [&](task&& work) {
                            ++given;
                            tasks.taking()(std::move(work));
                            throw std::runtime_error("afterwards");
                          },
                      .on_error = ignore});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  tasks.run();
  timer.advance_by(10ms);
  tasks.run();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(conserved(timer));
}

// ---- Counts of a step ----

TEST(ExecutorRefusal, RefusedHandOversDoNotKeepAStepFromEnding) {
  for (const way how : every_way) {
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    timer.schedule_after(-1ms, nothing);
    timer.advance_by(100ms);
    EXPECT_EQ(timer.now(), at(100ms));
    EXPECT_THAT(timer.stats().refused, testing::AllOf(Ge(50U), Le(102U)));
    timer.advance_to(timer.now());
  }
}

// ---- Without memory ----

TEST(ExecutorRefusal, AHandOverWithoutMemoryLosesNothing) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 1000; ++left) {
    kept_tasks tasks;
    manual_timer timer({.executor = tasks.taking(), .on_error = ignore});
    std::vector<int> runs(20);
    for (int& count : runs) {
      timer.schedule_after(1ms, [&count] { ++count; });
    }
    enough = succeeds_with(left, [&] { timer.advance_by(1ms); }) && timer.stats().refused == 0;
    EXPECT_TRUE(conserved(timer));
    EXPECT_EQ(timer.pending(), runs.size());
    timer.advance_by(10ms);
    tasks.run();
    EXPECT_THAT(runs, Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

}  // namespace
}  // namespace timing_wheel::test

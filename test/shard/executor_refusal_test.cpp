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
#include "support/service_captures.hpp"
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

TEST(ExecutorRefusal, ARefusedTimerIsPendingAndComesBackAMillisecondLater) {
  for (const way how : every_way) {
    refusing target(how, 1);
    manual_timer timer({.tick = 10us, .executor = target.taking(), .on_error = ignore});
    target.timer = &timer;
    const timer_handle handle = timer.schedule_after(5ms, nothing);
    timer.advance_by(5ms);
    EXPECT_EQ(handle.status(), timer_status::pending);
    EXPECT_EQ(timer.stats().refused, 1U);
    EXPECT_TRUE(conserved(timer));
    timer.advance_to(at(6ms) - 1ns);
    EXPECT_EQ(target.accepted.size(), 0U) << "too soon";
    timer.advance_by(1ms);
    EXPECT_EQ(target.accepted.size(), 1U);
  }
}

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

TEST(ExecutorRefusal, ARefusedTimerKeepsItsDeadline) {
  for (const way how : every_way) {
    refusing target(how, 3);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    const timer_handle handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(2ms);
    EXPECT_EQ(handle.deadline(), at(1ms));
    EXPECT_EQ(handle.remaining(), 0ns);
  }
}

TEST(ExecutorRefusal, ARefusalIsNoRunAndIsNotCountedAsHandedOver) {
  for (const way how : every_way) {
    refusing target(how, 1);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    timer.schedule_after(1ms, nothing);
    timer.advance_by(1ms);
    const timer_stats counts = timer.stats();
    EXPECT_EQ(counts.scheduled, 1U);
    EXPECT_EQ(counts.fired, 0U);
    EXPECT_EQ(counts.pending, 1U);
    EXPECT_EQ(counts.due, 0U);
    EXPECT_EQ(counts.running, 0U);
    EXPECT_EQ(counts.rejected, 0U);
    EXPECT_EQ(counts.failed, 0U);
  }
}

TEST(ExecutorRefusal, ARefusedTimerCanBeCancelled) {
  for (const way how : every_way) {
    live_captures captures;
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    const timer_handle handle = timer.schedule_after(1ms, [token = captures.make()] {});
    timer.advance_by(10ms);
    EXPECT_EQ(captures.alive(), 1);
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
    EXPECT_EQ(captures.alive(), 0);
    target.accept();
    EXPECT_EQ(timer.advance_by(1h), 0U);
  }
}

TEST(ExecutorRefusal, ARefusedTimerCanBeRescheduled) {
  for (const way how : every_way) {
    refusing target(how, 1);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    const timer_handle handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(1ms);
    EXPECT_TRUE(handle.reschedule(at(1h)));
    EXPECT_EQ(handle.deadline(), at(1h));
    EXPECT_EQ(timer.advance_to(at(1h) - 1ns), 0U);
    EXPECT_EQ(timer.advance_to(at(1h)), 1U);
  }
}

TEST(ExecutorRefusal, ARefusedTimerIsReturnedByStop) {
  for (const way how : every_way) {
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    int runs = 0;
    timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
    timer.advance_by(10ms);
    std::vector<pending_task> left = timer.stop();
    ASSERT_THAT(left, SizeIs(1));
    EXPECT_EQ(left[0].deadline, at(1ms));
    EXPECT_EQ(left[0].tag, 5U);
    left[0].callback();
    EXPECT_EQ(runs, 1);
  }
}

TEST(ExecutorRefusal, ManyRefusedTimersAllComeBack) {
  for (const way how : every_way) {
    refusing target(how, 1500);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    std::vector<int> runs(1000);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      timer.schedule_after(static_cast<int>(i % 3 + 1) * 1ms, [&runs, i] { ++runs[i]; });
    }
    timer.advance_by(100ms);
    target.accepted.run();
    EXPECT_THAT(runs, Each(1));
    EXPECT_EQ(timer.stats().refused, 1500U);
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

TEST(ExecutorRefusal, AssigningOverAKeptTaskRefusesIt) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  std::vector<task> kept = tasks.take();
  kept.at(0) = task();
  EXPECT_EQ(timer.stats().refused, 1U);
  EXPECT_EQ(timer.advance_by(2ms), 1U);
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

TEST(ExecutorRefusal, OnErrorGetsWhatItThrewEachTime) {
  std::vector<std::uint64_t> tags;
  refusing target(way::throws, 3);
  manual_timer timer(
      {.executor = target.taking(), .on_error = [&](const std::exception_ptr& failure, std::uint64_t tag) {
         EXPECT_THROW(std::rethrow_exception(failure), std::runtime_error);
         tags.push_back(tag);
       }});
  timer.schedule_after(1ms, nothing, {.tag = 5});
  timer.advance_by(10ms);
  EXPECT_THAT(tags, ElementsAre(5U, 5U, 5U));
  EXPECT_EQ(timer.stats().refused, 3U);
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

TEST(ExecutorRefusal, ATaskThatWasRefusedByAThrowButKeptDoesNotRunTwice) {
  kept_tasks tasks;
  bool full = true;
  manual_timer timer({.executor =
                          [&](task&& work) {
                            tasks.taking()(std::move(work));
                            full ? throw std::runtime_error("full") : void();
                          },
                      .on_error = ignore});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  full = false;
  timer.advance_by(10ms);
  tasks.run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

// ---- Counts of a step ----

TEST(ExecutorRefusal, AdvanceReturnsWhatWasHandedOver) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  for (int i = 0; i < 10; ++i) {
    timer.schedule_after(i * 1ms, nothing);
  }
  EXPECT_EQ(timer.advance_to(at(4ms)), 5U);
  EXPECT_EQ(timer.advance_to(at(100ms)), 5U);
  tasks.run();
  EXPECT_EQ(timer.advance_to(at(200ms)), 0U);
}

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

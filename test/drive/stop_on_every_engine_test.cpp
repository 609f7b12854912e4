/// \file
/// What `stop()` returns, and what comes after it, on every engine.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "support/engines.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class StopOnEveryEngine : public on_every_engine {};

INSTANTIATE_TEST_SUITE_P(Engines, StopOnEveryEngine, every_engine, engine_name);

TEST_P(StopOnEveryEngine, ReturnsWhatIsPendingOnceAndNothingElse) {
  by_hand timer({.tick = 10ms, .wheel_size = 8});
  timer.schedule_after(20ms, nothing, {.tag = 1});
  timer.schedule_after(50ms, nothing, {.tag = 2}).cancel();
  timer.schedule_after(40ms, nothing, {.tag = 3});
  timer.schedule_after(1h, nothing, {.tag = 4});
  timer.advance_by(20ms);
  timer.schedule_after(0ms, nothing, {.tag = 5});
  std::vector<std::uint64_t> tags;
  for (const pending_task& left : timer.stop()) {
    tags.push_back(left.tag);
  }
  EXPECT_THAT(tags, UnorderedElementsAre(3, 4, 5));
}

TEST_P(StopOnEveryEngine, ReturnsDeadlineTagAndACallableThatCanBeRun) {
  by_hand timer;
  std::vector<int> ran;
  timer.schedule_after(5ms, [&] { ran.push_back(5); }, {.tag = 50});
  timer.schedule_after(7h, [&] { ran.push_back(7); }, {.tag = 70});
  timer.schedule_at(time_point::max(), [&] { ran.push_back(9); }, {.tag = 90});
  std::vector<std::pair<time_point, std::uint64_t>> left;
  for (pending_task& task : timer.stop()) {
    left.emplace_back(task.deadline, task.tag);
    task.callback();
  }
  EXPECT_THAT(left,
              UnorderedElementsAre(std::pair(at(5ms), 50U), std::pair(at(7h), 70U), std::pair(time_point::max(), 90U)));
  EXPECT_THAT(ran, UnorderedElementsAre(5, 7, 9));
}

TEST_P(StopOnEveryEngine, NothingRunsAfterItAndHandlesAreFinished) {
  by_hand timer;
  int runs = 0;
  const timer_handle handle = timer.schedule_after(1h, [&] { ++runs; });
  timer.schedule_after(-1ms, [&] { ++runs; });
  const std::vector<pending_task> left = timer.stop();
  EXPECT_THAT(left, SizeIs(2));
  EXPECT_EQ(timer.advance_by(2h), 0U);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_FALSE(handle.reschedule_after(1ms));
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(runs, 0);
}

TEST_P(StopOnEveryEngine, ASecondOneReturnsNothing) {
  by_hand timer;
  timer.schedule_after(1h, nothing);
  EXPECT_FALSE(timer.stopped());
  EXPECT_THAT(timer.stop(), SizeIs(1));
  EXPECT_TRUE(timer.stopped());
  EXPECT_THAT(timer.stop(), IsEmpty());
  EXPECT_TRUE(timer.stopped());
  EXPECT_EQ(timer.stats().returned, 1U);
}

TEST_P(StopOnEveryEngine, FromACallbackReturnsTheSiblingsThatHaveNotBegunAndTheOthers) {
  by_hand timer;
  std::vector<std::uint64_t> tags;
  std::vector<std::uint64_t> ran;
  for (std::uint64_t i = 0; i < 10; ++i) {
    const auto run = [&, i] {
      ran.push_back(i);
      for (const pending_task& task : timer.stop()) {
        tags.push_back(task.tag);
      }
    };
    timer.schedule_after(1ms, run, {.tag = i});
  }
  timer.schedule_after(2ms, nothing, {.tag = 10});
  timer.schedule_after(1h, nothing, {.tag = 11});
  EXPECT_EQ(timer.advance_by(2h), 1U);
  EXPECT_THAT(ran, ElementsAre(0));
  EXPECT_THAT(tags, UnorderedElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_TRUE(conserved(timer));
}

TEST_P(StopOnEveryEngine, InAPeriodicCallbackDoesNotArmItAgain) {
  by_hand timer;
  int runs = 0;
  std::size_t returned = 0;
  timer.schedule_every(1s, [&] {
    ++runs;
    returned = timer.stop().size();
  });
  timer.schedule_after(1min, nothing);
  timer.advance_by(1h);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(returned, 1U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST_P(StopOnEveryEngine, AfterItNothingIsAcceptedAndNothingIsCounted) {
  live_captures captures;
  by_hand timer;
  timer.stop();
  std::error_code error;
  EXPECT_FALSE(timer.schedule_after(
      1ms, [token = captures.make()] {}, {.tag = 7}, error));
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_FALSE(timer.schedule_after(1ms, nothing, {}, error));
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
  EXPECT_THROW(timer.schedule_every(1ms, nothing), timer_error);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

}  // namespace
}  // namespace timing_wheel::test

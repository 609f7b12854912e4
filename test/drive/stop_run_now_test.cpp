/// \file
/// `stop_run_now`: it runs the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_stop.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;
using testing::UnorderedElementsAre;

TEST(StopRunNow, RunsEachPendingOneOnceWhateverItsDeadline) {
  manual_timer timer;
  ends once(1000);
  for (std::size_t i = 0; i < once.size(); ++i) {
    i % 2 == 0 ? timer.schedule_after(static_cast<int>(i) * 1h, once.running(i))
               : timer.schedule_every(static_cast<int>(i) * 1h, once.running(i));
  }
  timer.schedule_at(time_point::max(), nothing);
  EXPECT_EQ(timer.stop_run_now(), 1001U);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.stats().fired, 1001U);
  EXPECT_EQ(timer.stats().returned, 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(StopRunNow, RunsThemOnThisThreadBeforeItReturns) {
  manual_timer timer;
  std::thread::id ran;
  timer.schedule_after(1h, [&] { ran = std::this_thread::get_id(); });
  timer.stop_run_now();
  EXPECT_EQ(ran, std::this_thread::get_id());
}

TEST(StopRunNow, CountsNoneAsEarlyAndNoLatenessBelowZero) {
  manual_timer timer({}, starting_at(1h));
  timer.schedule_after(1h, nothing);
  timer.schedule_every(1h, nothing);
  timer.stop_run_now();
  EXPECT_EQ(timer.stats().early, 0U);
  EXPECT_EQ(timer.stats().lateness.max(), 0ns);
  EXPECT_EQ(timer.now(), at(1h));
}

TEST(StopRunNow, DoesNotArmPeriodicOnesAgain) {
  for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
    live_captures captures;
    manual_timer timer;
    int runs = 0;
    timer.schedule_every(1ms, [&runs, token = captures.make()] { ++runs; }, {.policy = policy});
    timer.advance_by(10ms);
    EXPECT_EQ(timer.stop_run_now(), 1U);
    EXPECT_EQ(runs, 11);
    EXPECT_EQ(captures.alive(), 0);
    EXPECT_EQ(timer.advance_by(1h), 0U);
  }
}

TEST(StopRunNow, ShowsEachItselfAsRunning) {
  manual_timer timer;
  std::vector<std::uint64_t> tags;
  const auto look = [&](const timer_handle& self) {
    EXPECT_EQ(self.status(), timer_status::running);
    EXPECT_EQ(self.cancel(), cancel_result::running);
    EXPECT_EQ(self.cancel_and_wait(), cancel_result::running);
    EXPECT_EQ(timer.stats().running, 1U);
    EXPECT_TRUE(conserved(timer));
    tags.push_back(self.tag().value_or(99));
  };
  timer.schedule_after(1h, look, {.tag = 1});
  timer.schedule_every(1h, look, {.policy = fixed_delay, .tag = 2});
  timer.stop_run_now();
  EXPECT_THAT(tags, UnorderedElementsAre(1U, 2U));
}

TEST(StopRunNow, DoesNotRunWhatACallbackCancels) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  std::size_t cancelled = 0;
  for (int i = 0; i < 1000; ++i) {
    handles.push_back(timer.schedule_after(i * 1h, [&] {
      for (const timer_handle& handle : handles) {
        cancelled += handle.cancel() == cancel_result::cancelled ? 1U : 0U;
      }
    }));
  }
  EXPECT_EQ(timer.stop_run_now(), 1U);
  EXPECT_EQ(cancelled, 999U);
  EXPECT_EQ(timer.stats().cancelled, 999U);
  EXPECT_TRUE(conserved(timer));
}

TEST(StopRunNow, RunsOnceWhatACallbackReschedules) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  ends once(500);
  for (std::size_t i = 0; i < once.size(); ++i) {
    handles.push_back(timer.schedule_after(static_cast<int>(i) * 1h, [&, i] {
      once.add(i);
      for (std::size_t other = 0; other < handles.size(); other += 7) {
        static_cast<void>(handles[other].reschedule_after(static_cast<int>(other % 3) * 1h));
      }
    }));
  }
  EXPECT_EQ(timer.stop_run_now(), 500U);
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopRunNow, RefusesWhatItsCallbacksSchedule) {
  manual_timer timer;
  std::vector<std::error_code> codes;
  for (int i = 0; i < 3; ++i) {
    timer.schedule_after(1h, [&] {
      codes.push_back(refusal_of([&] { timer.schedule_after(0ms, nothing); }).code);
      codes.push_back(refusal_of([&] { timer.schedule_every(1ms, nothing); }).code);
    });
  }
  EXPECT_EQ(timer.stop_run_now(), 3U);
  EXPECT_THAT(codes, AllOf(SizeIs(6), Each(std::error_code(timer_errc::stopped))));
}

TEST(StopRunNow, GoesOnAfterACallbackThatThrows) {
  std::vector<std::uint64_t> tags;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  int runs = 0;
  for (std::uint64_t i = 0; i < 10; ++i) {
    timer.schedule_after(1h, [&runs, i] { i % 2 == 0 ? throw std::runtime_error("asked for") : ++runs; }, {.tag = i});
  }
  EXPECT_EQ(timer.stop_run_now(), 10U);
  EXPECT_EQ(runs, 5);
  EXPECT_THAT(tags, UnorderedElementsAre(0U, 2U, 4U, 6U, 8U));
  EXPECT_EQ(timer.stats().failed, 5U);
}

/// Each callback of a `stop_run_now` stops again; each timer must have one outcome.
void expect_each_once_when_stopped_within(std::size_t count, how way) {
  manual_timer timer;
  ends once(count);
  for (std::size_t i = 0; i < count; ++i) {
    timer.schedule_after(1h,
                         [&, i] {
                           once.add(i);
                           once.add(stop_by(timer, way));
                         },
                         {.tag = i});
  }
  timer.stop_run_now();
  EXPECT_THAT(once.counts(), Each(1));
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(StopRunNow, LetsItsCallbacksStopAgain) {
  for (const how way : every_how) {
    for (const std::size_t count : {1U, 2U, 100U}) {
      expect_each_once_when_stopped_within(count, way);
    }
  }
}

TEST(StopRunNow, FromACallbackRunsTheSiblingsAndNotItselfAgain) {
  manual_timer timer;
  std::vector<int> ran;
  std::size_t ran_there = 0;
  timer.schedule_every(1ms, [&] {
    ran.push_back(0);
    ran_there = timer.stop_run_now();
    ran.push_back(10);
  });
  timer.schedule_after(1ms, [&] { ran.push_back(1); });
  timer.schedule_after(1h, [&] { ran.push_back(2); });
  EXPECT_EQ(timer.advance_by(2h), 1U);
  EXPECT_EQ(ran_there, 2U);
  EXPECT_THAT(ran, UnorderedElementsAre(0, 1, 2, 10));
  EXPECT_EQ(ran.back(), 10);
}

TEST(StopRunNow, FromACallbackOfAnotherServiceRunsAllAndEnds) {
  int runs = 0;
  auto other = std::make_unique<manual_timer>();
  other->schedule_after(1h, [&] { ++runs; });
  manual_timer timer;
  timer.schedule_after(1ms, [&] {
    EXPECT_EQ(other->stop_run_now(), 1U);
    other.reset();
  });
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(other, nullptr);
}

TEST(StopRunNow, DestroysTheCapturesOfEachBeforeTheNextBegins) {
  live_captures captures;
  manual_timer timer;
  std::vector<std::int64_t> alive;
  for (int i = 0; i < 5; ++i) {
    timer.schedule_after(1h, [&, token = captures.make()] { alive.push_back(captures.alive()); });
  }
  timer.stop_run_now();
  EXPECT_THAT(alive, ElementsAre(5, 4, 3, 2, 1));
}

TEST(StopRunNow, WithoutMemoryCanBeCalledAgain) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    manual_timer timer;
    ends once(1000);
    for (std::size_t i = 0; i < once.size(); ++i) {
      timer.schedule_every(1h, once.running(i), {.policy = fixed_delay, .tag = i});
    }
    enough = succeeds_with(left, [&] { timer.stop_run_now(); });
    EXPECT_TRUE(conserved(timer));
    timer.stop_run_now();
    EXPECT_THAT(once.counts(), Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

TEST(StopRunNow, HoldsTheLockForFewTimers) {
  manual_timer timer;
  for (int i = 0; i < 3000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  timer.stop_run_now();
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

TEST(StopRunNow, AfterAStopWithoutMemoryLosesNothing) {
  std::size_t runs = 0;
  manual_timer service;
  for (int i = 0; i < 10; ++i) {
    service.schedule_after(1h, [&] { ++runs; });
  }
  EXPECT_FALSE(succeeds_with(0, [&] { service.stop(); }));
  EXPECT_EQ(service.stop_run_now(), runs);
  EXPECT_EQ(runs + service.stop().size(), 10U) << "neither run nor returned";
}

}  // namespace
}  // namespace timing_wheel::test

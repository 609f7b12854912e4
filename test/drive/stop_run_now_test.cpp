/// \file
/// `stop_run_now`: it runs the rest.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
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
using testing::Each;
using testing::ElementsAre;

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

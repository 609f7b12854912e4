/// \file
/// `for_each_pending`: a visit of what is pending.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Le;
using testing::Pair;
using testing::SizeIs;

std::map<std::uint64_t, int> visits_by_tag(const manual_timer& timer) {
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) { ++visits[one.tag]; });
  return visits;
}

TEST(ForEachPending, VisitsAllHoweverTheyFillAHoldOfTheLock) {
  for (const std::size_t count : {1U, 255U, 256U, 257U, 511U, 512U, 513U}) {
    manual_timer timer;
    for (std::uint64_t i = 0; i < count; ++i) {
      timer.schedule_after(1s, nothing, {.tag = i});
    }
    EXPECT_THAT(visits_by_tag(timer), SizeIs(count));
  }
}

TEST(ForEachPending, VisitsTheTimersOfAllShards) {
  constexpr std::uint64_t each = 700;
  manual_timer timer({.shards = 3});
  for (std::uint64_t worker = 0; worker < 3; ++worker) {
    std::thread([&timer, worker] {
      for (std::uint64_t i = 0; i < each; ++i) {
        timer.schedule_after(static_cast<int>(i) * 1ms + 1ms, nothing, {.tag = worker * each + i});
      }
    }).join();
  }
  EXPECT_THAT(visits_by_tag(timer), AllOf(SizeIs(3 * each), Each(Pair(testing::_, 1))));
  timer.stop();
  EXPECT_THAT(visits_by_tag(timer), IsEmpty());
}

TEST(ForEachPending, DoesNotShowTheOneThatRuns) {
  manual_timer timer;
  std::map<std::uint64_t, int> visits;
  timer.schedule_every(1ms, [&] { visits = visits_by_tag(timer); }, {.policy = fixed_delay, .tag = 1});
  timer.schedule_after(1ms, nothing, {.tag = 2});
  timer.schedule_after(1h, nothing, {.tag = 3});
  timer.advance_by(1ms);
  EXPECT_THAT(visits, ElementsAre(Pair(2U, 1), Pair(3U, 1)));
}

TEST(ForEachPending, VisitsAtMostOnceWhenTheVisitCancelsOthers) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    handles.push_back(timer.schedule_after(1s, nothing, {.tag = i}));
  }
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) {
    ++visits[one.tag];
    handles[(one.tag + 750) % 1500].cancel();
  });
  EXPECT_THAT(visits, Each(Pair(testing::_, 1)));
  EXPECT_GE(visits.size(), 750U);
}

TEST(ForEachPending, EndsThoughEachVisitSchedulesAnother) {
  manual_timer timer;
  timer.schedule_after(1s, nothing);
  std::uint64_t visits = 0;
  const auto visit_and_schedule = [&](const pending_timer&) {
    timer.schedule_after(1s, nothing);
    if (++visits == 10'000) {
      throw std::runtime_error("it does not end");
    }
  };
  EXPECT_NO_THROW(timer.for_each_pending(visit_and_schedule));
}

TEST(ForEachPending, PassesOnWhatTheVisitThrows) {
  manual_timer timer;
  for (int i = 0; i < 10; ++i) {
    timer.schedule_after(1ms, nothing);
  }
  int visits = 0;
  EXPECT_THROW(timer.for_each_pending([&](const pending_timer&) {
    if (++visits == 3) {
      throw std::runtime_error("asked for");
    }
  }),
               std::runtime_error);
  EXPECT_EQ(visits, 3);
  EXPECT_EQ(timer.stats().failed, 0U);
  EXPECT_EQ(timer.advance_by(1ms), 10U);
}

TEST(ForEachPending, WithoutMemoryChangesNothing) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1ms, nothing);
  }
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 100; ++left) {
    int visits = 0;
    enough = succeeds_with(left, [&] { timer.for_each_pending([&](const pending_timer&) { ++visits; }); });
    EXPECT_THAT(visits, Le(1000));
    EXPECT_EQ(timer.pending(), 1000U);
  }
  EXPECT_TRUE(enough);
  EXPECT_EQ(timer.advance_by(1ms), 1000U);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// `for_each_pending`: a visit of what is pending.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Key;
using testing::Le;
using testing::Pair;
using testing::SizeIs;

std::map<std::uint64_t, int> visits_by_tag(const manual_timer& timer) {
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) { ++visits[one.tag]; });
  return visits;
}

TEST(ForEachPending, ShowsHandleDeadlineAndTag) {
  manual_timer timer;
  const timer_handle first = timer.schedule_after(10ms, nothing, {.tag = 1});
  const timer_handle second = timer.schedule_every(20ms, nothing, {.policy = fixed_delay, .tag = 2});
  std::map<std::uint64_t, pending_timer> found;
  timer.for_each_pending([&](const pending_timer& one) { found[one.tag] = one; });
  ASSERT_THAT(found, ElementsAre(Key(1U), Key(2U)));
  EXPECT_EQ(found[1].handle, first);
  EXPECT_EQ(found[1].deadline, at(10ms));
  EXPECT_EQ(found[2].handle, second);
  EXPECT_EQ(found[2].deadline, at(20ms));
}

TEST(ForEachPending, VisitsEachOfManyOnce) {
  manual_timer timer;
  constexpr std::uint64_t count = 3000;
  for (std::uint64_t i = 0; i < count; ++i) {
    timer.schedule_after(static_cast<int>(i) * 1s, nothing, {.tag = i});
  }
  const std::map<std::uint64_t, int> visits = visits_by_tag(timer);
  EXPECT_THAT(visits, AllOf(SizeIs(count), Each(Pair(testing::_, 1))));
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

TEST(ForEachPending, VisitsNoneOfAnEmptyOne) {
  manual_timer timer;
  EXPECT_THAT(visits_by_tag(timer), IsEmpty());
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  EXPECT_THAT(visits_by_tag(timer), IsEmpty());
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

TEST(ForEachPending, DoesNotShowWhatFiredOrWasCancelled) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    handles.push_back(timer.schedule_after(i % 3 == 0 ? 1ms : 1s, nothing, {.tag = i}));
  }
  for (std::size_t i = 1; i < handles.size(); i += 3) {
    handles[i].cancel();
  }
  timer.advance_by(1ms);
  const std::map<std::uint64_t, int> visits = visits_by_tag(timer);
  EXPECT_THAT(visits, SizeIs(timer.pending()));
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& one) { return one.first % 3 == 2; }));
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

TEST(ForEachPending, ShowsTheDeadlineThatARescheduleHasGiven) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  handle.reschedule(at(7h));
  std::vector<time_point> deadlines;
  timer.for_each_pending([&](const pending_timer& one) { deadlines.push_back(one.deadline); });
  EXPECT_THAT(deadlines, ElementsAre(at(7h)));
}

TEST(ForEachPending, LetsTheVisitCancel) {
  live_captures captures;
  manual_timer timer;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    timer.schedule_after(1s, [token = captures.make()] {});
  }
  int cancelled = 0;
  timer.for_each_pending(
      [&](const pending_timer& one) { cancelled += one.handle.cancel() == cancel_result::cancelled; });
  EXPECT_EQ(cancelled, 1500);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 0U);
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

TEST(ForEachPending, LetsTheVisitSchedule) {
  manual_timer timer;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    timer.schedule_after(1s, nothing, {.tag = i});
  }
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) {
    ++visits[one.tag];
    if (one.tag < 1000) {
      timer.schedule_after(1s, nothing, {.tag = one.tag + 1000});
    }
  });
  EXPECT_THAT(visits, Each(Pair(testing::_, 1)));
  EXPECT_GE(visits.size(), 1000U);
  EXPECT_EQ(timer.pending(), 2000U);
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

TEST(ForEachPending, LetsTheVisitStop) {
  manual_timer timer;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(1s, nothing);
  }
  std::size_t returned = 0;
  std::size_t visits = 0;
  timer.for_each_pending([&](const pending_timer& one) {
    returned += timer.stop().size();
    ++visits;
    EXPECT_EQ(one.handle.status(), timer_status::finished);
  });
  EXPECT_EQ(returned, 1000U);
  EXPECT_THAT(visits, AllOf(testing::Ge(1U), Le(1000U)));
}

TEST(ForEachPending, LetsTheVisitAdvance) {
  manual_timer timer;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    timer.schedule_after(static_cast<int>(i + 1) * 1ms, nothing, {.tag = i});
  }
  std::map<std::uint64_t, int> visits;
  timer.for_each_pending([&](const pending_timer& one) { ++visits[one.tag], timer.advance_by(1ms); });
  EXPECT_THAT(visits, Each(Pair(testing::_, 1)));
  EXPECT_TRUE(conserved(timer));
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

TEST(ForEachPending, HoldsTheLockForFewTimers) {
  manual_timer timer;
  for (int i = 0; i < 3000; ++i) {
    timer.schedule_after(1h, nothing);
  }
  visits_by_tag(timer);
  EXPECT_LE(timer.stats().largest_hold, max_timers_per_lock);
}

}  // namespace
}  // namespace timing_wheel::test

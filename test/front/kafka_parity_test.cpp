/// \file
/// What users of Kafka rely on, and what docs/coming_from/peers.md tells them. The suite `…Parity` runs on every engine.
/// A suite `…WheelParity` runs on the engine that is its peer's.
///
/// What lies between `// snippet NAME` and `// end` stands in docs/coming_from/peers.md to the letter; the test `pages` sees to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "support/engines.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

// ---- The snippets of docs/coming_from/peers.md ----

// snippet kafka
std::size_t expire_operations(std::vector<std::string>& expired) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  const timer_handle produce = timer.schedule_after(30s, [&expired] { expired.emplace_back("produce"); });
  timer.schedule_after(500ms, [&expired] { expired.emplace_back("fetch"); });
  produce.cancel();
  timer.advance_by(500ms);
  const std::size_t left = timer.pending();
  timer.stop();
  return left;
}
// end

class KafkaParity : public on_every_engine {};

INSTANTIATE_TEST_SUITE_P(Engines, KafkaParity, every_engine, engine_name);

TEST(PeersPage, KafkaSnippetExpiresWhatWasNotCompleted) {
  std::vector<std::string> expired;
  EXPECT_EQ(expire_operations(expired), 0U);
  EXPECT_THAT(expired, ElementsAre("fetch"));
}

// ---- Kafka ----

TEST_P(KafkaParity, SizeFollowsAddCancelAndExpiry) {
  by_hand timer({.tick = 1ms, .wheel_size = 20});
  const timer_handle handle = timer.schedule_after(450ms, nothing);
  timer.schedule_after(450ms, nothing);
  timer.schedule_after(0ms, nothing);
  EXPECT_EQ(timer.pending(), 3U) << "one that is due counts until its callback begins";
  EXPECT_EQ(timer.advance_by(440ms), 1U);
  EXPECT_EQ(timer.pending(), 2U);
  handle.cancel();
  EXPECT_EQ(timer.pending(), 1U);
  timer.advance_by(10ms);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST_P(KafkaParity, SizeDoesNotDipInACascade) {
  by_hand timer({.tick = 1ms, .wheel_size = 20});
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(399ms, nothing);
  }
  for (int i = 379; i < 399; ++i) {
    timer.schedule_after(milliseconds(i), [&] { sizes.push_back(timer.pending() + timer.stats().fired); });
  }
  timer.advance_by(398ms);
  EXPECT_THAT(sizes, AllOf(SizeIs(20), Each(1020U)));
}

TEST_P(KafkaParity, AdvanceClockRunsWhatIsDueInOrderAndSaysHowMany) {
  by_hand timer({.tick = 1ms, .wheel_size = 3});
  std::vector<int> ran;
  for (const int delay : {100, 3, 27, 9, 1, 8}) {
    timer.schedule_after(milliseconds(delay), [&ran, delay] { ran.push_back(delay); });
  }
  EXPECT_EQ(timer.advance_by(9ms), 4U);
  EXPECT_EQ(timer.advance_by(17ms), 0U);
  EXPECT_EQ(timer.advance_by(1s), 2U);
  EXPECT_THAT(ran, ElementsAre(1, 3, 8, 9, 27, 100));
}

TEST_P(KafkaParity, AddingATaskAgainIsARescheduleOfItsHandle) {
  by_hand timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  const timer_handle handle = timer.schedule_after(50ms, [&] { ran.push_back(timer.now()); });
  timer.advance_by(40ms);
  EXPECT_TRUE(handle.reschedule_after(500ms));
  EXPECT_EQ(timer.pending(), 1U);
  timer.advance_by(1h);
  EXPECT_THAT(ran, ElementsAre(at(540ms)));
}

TEST_P(KafkaParity, AMockTimerRunsWhatIsDueExactlyNow) {
  by_hand timer;
  timer.schedule_after(200ms, nothing);
  EXPECT_EQ(timer.advance_by(199ms), 0U);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST_P(KafkaParity, AMockTimerShowsEachTaskItsOwnTime) {
  by_hand timer;
  std::vector<time_point> ran;
  timer.schedule_after(5ms, [&] {
    ran.push_back(timer.now());
    timer.schedule_after(5ms, [&] { ran.push_back(timer.now()); });
  });
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_THAT(ran, ElementsAre(at(5ms), at(10ms)));
  EXPECT_EQ(timer.now(), at(1h));
}

TEST_P(KafkaParity, ACallbackThatBlocksOnAnExecutorDelaysNobody) {
  std::deque<task> pool;
  by_hand timer({.executor = [&pool](task&& work) { pool.push_back(std::move(work)); }});
  for (int i = 1; i <= 3; ++i) {
    timer.schedule_after(milliseconds(i), nothing);
  }
  timer.advance_by(1ms);
  EXPECT_EQ(timer.advance_by(2ms), 2U) << "the first is still in the pool";
  EXPECT_EQ(timer.stats().due, 3U);
}

TEST(KafkaWheelParity, LevelsShowTickSizeIntervalAndCurrentTime) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  EXPECT_THAT(timer.stats().levels, SizeIs(1)) << "an overflow wheel is made when it is needed";
  timer.schedule_after(450ms, nothing);
  timer.advance_by(419ms);
  const std::vector<level_stats> levels = timer.stats().levels;
  ASSERT_THAT(levels, SizeIs(3));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(levels[i].interval, levels[i].tick_length * 20);
    EXPECT_EQ(levels[i].tick_length, i == 0 ? 1 : levels[i - 1].interval);
    EXPECT_EQ(levels[i].current_time % levels[i].tick_length, 0U);
  }
  EXPECT_EQ(levels[2].current_time, 400U);
}

TEST(KafkaWheelParity, ABucketIsQueuedOncePerRevolution) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  for (int revolution = 1; revolution <= 3; ++revolution) {
    for (int i = 0; i < 100; ++i) {
      timer.schedule_after(7ms, nothing);
    }
    EXPECT_EQ(timer.stats().levels[0].buckets_queued, static_cast<std::uint64_t>(revolution));
    timer.advance_by(20ms);
  }
  EXPECT_EQ(timer.stats().levels[0].flushes, 3U);
  EXPECT_EQ(timer.stats().levels[0].largest_flush, 100U);
}

}  // namespace
}  // namespace timing_wheel::test

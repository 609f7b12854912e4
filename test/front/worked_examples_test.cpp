/// \file
/// The numbers that the articles on timing wheels give, through the whole service: each timer, and when it ran.
/// conformance_test.cpp and hierarchical_wheel_test.cpp have them for the engines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "support/engines.hpp"
#include "support/service_audit.hpp"
#include "support/service_scale.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

/// A service by hand whose timers write down when they ran.
class notebook {
 public:
  explicit notebook(const timer_options& options) : timer_(options) {}

  void schedule(seconds delay) {
    timer_.schedule_after(delay,
                          [this] { ran_at.push_back(std::chrono::floor<seconds>(timer_.now().time_since_epoch())); });
  }
  void advance_to(seconds now) { timer_.advance_to(time_point(now)); }
  [[nodiscard]] timer_stats stats() const { return timer_.stats(); }

  std::vector<seconds> ran_at;

 private:
  manual_timer timer_;
};

class RevolutionsOfAWheel : public on_every_engine {};

INSTANTIATE_TEST_SUITE_P(Engines, RevolutionsOfAWheel, every_engine, engine_name);

TEST_P(RevolutionsOfAWheel, OneHundredAndThirtySecondsOnSixtySlotsRunAt130AndNotAt70) {
  by_hand timer({.tick = 1s, .wheel_size = 60});
  std::vector<time_point> ran;
  timer.schedule_after(130s, [&] { ran.push_back(timer.now()); });
  for (int second = 1; second < 130; ++second) {
    EXPECT_EQ(timer.advance_by(1s), 0U) << second;
  }
  EXPECT_EQ(timer.advance_by(1s), 1U);
  EXPECT_EQ(timer.advance_to(time_point(1'000s)), 0U);
  EXPECT_THAT(ran, ElementsAre(time_point(130s)));
}

TEST_P(RevolutionsOfAWheel, ThirteenSecondsOnTwelveSlotsDoNotRunAtOne) {
  by_hand timer({.tick = 1s, .wheel_size = 12});
  std::vector<time_point> ran;
  timer.schedule_after(13s, [&] { ran.push_back(timer.now()); });
  timer.schedule_after(1s, [&] { ran.push_back(timer.now()); });
  EXPECT_EQ(timer.advance_by(12s), 1U);
  EXPECT_THAT(ran, ElementsAre(time_point(1s)));
  timer.advance_by(1h);
  EXPECT_THAT(ran, ElementsAre(time_point(1s), time_point(13s)));
}

TEST(WorkedExample, TwoSecondsThenNineAtTwoAndFifteenThatOverflow) {
  notebook book({.tick = 1s, .wheel_size = 10});
  book.schedule(2s);
  book.schedule(15s);
  book.advance_to(2s);
  book.schedule(9s);
  book.advance_to(100s);
  EXPECT_THAT(book.ran_at, ElementsAre(2s, 11s, 15s));
  EXPECT_EQ(book.stats().moves, 1U) << "15 comes down at 10, nothing else moves";
}

TEST(WorkedExample, LastSecondOfTheDayComesDownTwiceAndRunsOnce) {
  notebook book({.tick = 1s, .wheel_sizes = {60, 60, 24}});
  book.schedule(23h + 59min + 59s);
  for (const seconds now : {seconds(23h), seconds(23h + 59min), seconds(23h + 59min + 58s)}) {
    book.advance_to(now);
    EXPECT_THAT(book.ran_at, SizeIs(0));
  }
  book.advance_to(48h);
  EXPECT_THAT(book.ran_at, ElementsAre(23h + 59min + 59s));
  EXPECT_EQ(book.stats().moves, 2U);
  EXPECT_THAT(book.stats().levels, SizeIs(3));
}

// The main job: each order is checked half an hour later; of those not cancelled by then, each runs once, at its
// deadline.
TEST(MainJob, AMillionChecksOfHalfAnHourHaveExactlyOneOutcomeEach) {
  const std::uint64_t orders = stress_rounds(1'000'000);
  manual_timer timer;
  std::vector<std::uint8_t> runs(orders);
  std::vector<timer_handle> checks(orders);
  std::uint64_t not_at_their_deadline = 0;
  for (std::uint64_t i = 0; i < orders; ++i) {
    timer.advance_by(10us);  // a million in ten seconds
    const time_point deadline = timer.now() + 30min;
    checks[i] = timer.schedule_after(30min, [&, i, deadline] {
      ++runs[i];
      not_at_their_deadline += timer.now() < deadline || timer.now() >= deadline + 1ms ? 1U : 0U;
    });
  }
  EXPECT_LT(timer.stats().bytes, orders * 80);
  timer.advance_by(15min);
  for (std::uint64_t i = 0; i < orders; ++i) {
    if (i % 20 != 0) {
      ASSERT_EQ(checks[i].cancel(), cancel_result::cancelled);
    }
  }
  timer.advance_by(1h);
  for (std::uint64_t i = 0; i < orders; ++i) {
    ASSERT_EQ(runs[i], i % 20 == 0 ? 1 : 0) << "check " << i;
  }
  EXPECT_EQ(not_at_their_deadline, 0U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(WorkedExample, EachDelayOfKafkasTimerTestRunsAtItsMillisecond) {
  manual_timer timer({.tick = 1ms, .wheel_size = 3});
  std::vector<milliseconds> delays = {0ms, 1ms, 2ms, 3ms, 4ms};
  for (milliseconds delay = 10ms; delay < 500ms; ++delay) {
    delays.insert(delays.end(), delay < 100ms ? 2 : 1, delay);
  }
  std::shuffle(delays.begin(), delays.end(), std::mt19937(2));
  std::vector<milliseconds> ran;
  std::vector<milliseconds> late;
  for (const milliseconds delay : delays) {
    timer.schedule_after(delay, [&, delay] {
      ran.push_back(delay);
      late.push_back(std::chrono::floor<milliseconds>(timer.now().time_since_epoch()) - delay);
    });
  }
  timer.advance_by(500ms);
  EXPECT_THAT(late, Each(0ms));
  std::sort(delays.begin(), delays.end());
  EXPECT_EQ(ran, delays) << "nothing lost, nothing doubled, in the order of time";
}

TEST(WorkedExample, DelaysOfTheWorkedTraceRunAtTheirTicksAndMoveTwice) {
  notebook book({.tick = 1s, .wheel_size = 20});
  for (const seconds delay : {1'000s, 234s, 60s, 10s, 2s}) {
    book.schedule(delay);
  }
  book.advance_to(1'000s);
  EXPECT_THAT(book.ran_at, ElementsAre(2s, 10s, 60s, 234s, 1'000s));
  const timer_stats stats = book.stats();
  ASSERT_THAT(stats.levels, SizeIs(3));
  EXPECT_EQ(stats.levels[1].moves, 1U) << "234, at 220";
  EXPECT_EQ(stats.levels[2].moves, 1U) << "1000, at 800";
}

}  // namespace
}  // namespace timing_wheel::test

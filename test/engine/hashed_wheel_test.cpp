/// \file
/// What is particular to the wheel that counts rounds: slots, looks, visits, jumps.

#include "timing_wheel/engine/hashed_wheel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>
#include <vector>

#include "support/allocation.hpp"
#include "support/build.hpp"
#include "support/drive.hpp"
#include "support/oracle.hpp"

namespace timing_wheel::test {
namespace {

using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

/// How often a timer is looked at until it fires.
std::uint64_t look_rule(tick delay, std::uint32_t wheel_size) { return (delay - 1) / std::bit_ceil(wheel_size) + 1; }

/// How often the only timer of a wheel is looked at on its way, if the clock goes tick by tick.
std::uint64_t looks_of(std::uint32_t wheel_size, tick start, tick delay) {
  hashed_wheel wheel(engine_options{.wheel_size = wheel_size, .start = start});
  wheel.insert(0, start + delay);
  while (wheel.size() > 0) {
    wheel.advance(wheel.now() + 1);
  }
  EXPECT_EQ(wheel.now(), start + delay);
  return wheel.stats().looks;
}

TEST(HashedWheel, RoundsTheNumberOfSlotsUpToAPowerOfTwo) {
  for (const auto& [asked, made] : {std::pair{2U, 2U}, {3U, 4U}, {10U, 16U}, {60U, 64U}, {64U, 64U}, {513U, 1'024U}}) {
    const engine_stats stats = hashed_wheel(engine_options{.wheel_size = asked}).stats();
    ASSERT_EQ(stats.levels.size(), 1U);
    EXPECT_EQ(stats.levels[0].wheel_size, made);
    EXPECT_EQ(stats.levels[0].interval, made);
    EXPECT_EQ(stats.levels[0].tick_length, 1U);
  }
}

TEST(HashedWheel, TakesTheFirstOfSizesLevelByLevel) {
  const hashed_wheel wheel(engine_options{.wheel_size = 7, .wheel_sizes = {60, 24}});
  EXPECT_EQ(wheel.stats().levels[0].wheel_size, 64U);
}

TEST(HashedWheel, LooksAtATimerOncePerRevolution) {
  for (const std::uint32_t n : {3U, 10U, 20U, 64U, 256U, 512U}) {
    for (tick delay = 1; delay <= 1'100; ++delay) {
      ASSERT_EQ(looks_of(n, delay % 700, delay), look_rule(delay, n)) << "delay " << delay << " on " << n << " slots";
    }
  }
}

TEST(HashedWheel, JumpsCountTheSameLooksAsSingleTicks) {
  for (const std::uint32_t n : {3U, 10U, 64U, 512U}) {
    std::mt19937_64 random(n);
    hashed_wheel jumping(engine_options{.wheel_size = n});
    hashed_wheel walking(engine_options{.wheel_size = n});
    for (timer_number s = 0; s < 2'000; ++s) {
      const tick deadline = 1 + random() % 50'000;
      jumping.insert(s, deadline);
      walking.insert(s, deadline);
    }
    while (walking.size() > 0) {
      const tick target = walking.now() + 1 + random() % (4 * n);
      drain(jumping, target, 1 + random() % 300);
      while (walking.now() < target) {
        walking.advance(walking.now() + 1);
      }
      ASSERT_EQ(jumping.stats().looks, walking.stats().looks) << "at " << target << " on " << n << " slots";
    }
  }
}

TEST(HashedWheel, WakesOnEachTickWhileAnythingIsPending) {
  hashed_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, {130});
  std::vector<tick> all(130);
  std::iota(all.begin(), all.end(), tick{1});
  EXPECT_EQ(wakeups(wheel), all);
  EXPECT_EQ(wheel.next_expiration(), std::nullopt);
}

TEST(HashedWheel, NextExpirationIsTheClockOrBeforeWhileAVisitIsUnderWay) {
  hashed_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, std::vector<tick>(100, 7));
  ASSERT_TRUE(wheel.advance(9, 30).more);
  EXPECT_EQ(wheel.next_expiration(), 7U);
  EXPECT_EQ(wheel.now(), 9U);
  drain(wheel, 9);
  EXPECT_EQ(wheel.next_expiration(), std::nullopt);
}

TEST(HashedWheel, VisitLooksAtNoTimerTwiceWhateverTheBudget) {
  for (std::size_t budget = 1; budget < 140; budget += 1 + budget / 8) {
    hashed_wheel wheel(engine_options{.wheel_size = 4});
    for (timer_number s = 0; s < 500; ++s) {
      wheel.insert(s, s % 3 == 0 ? 5 : 9);
    }
    drain(wheel, 1, budget);
    EXPECT_EQ(wheel.stats().looks, 500U) << "budget " << budget;
    EXPECT_EQ(drain(wheel, 5, budget).size(), 167U);
    EXPECT_EQ(drain(wheel, 9, budget).size(), 333U);
    EXPECT_EQ(wheel.stats().looks, 500U + 500U + 333U) << "budget " << budget;
  }
}

TEST(HashedWheel, TimersThatComeInTheMiddleOfAVisitAreNotLookedAtInIt) {
  hashed_wheel wheel(engine_options{.wheel_size = 4});
  insert_all(wheel, std::vector<tick>(100, 9));
  ASSERT_TRUE(wheel.advance(1, 30).more);
  for (timer_number s = 100; s < 200; ++s) {
    ASSERT_TRUE(wheel.insert(s, 5));
  }
  EXPECT_THAT(drain(wheel, 1, 30), IsEmpty());
  EXPECT_EQ(wheel.stats().looks, 100U);
  EXPECT_EQ(drain(wheel, 5).size(), 100U);
  EXPECT_EQ(wheel.stats().looks, 300U);
}

TEST(HashedWheel, TimersOfOneTickComeInTheOrderTheyCame) {
  for (const std::size_t budget : {std::size_t{7}, std::size_t{64}, no_limit}) {
    hashed_wheel wheel(engine_options{.wheel_size = 10});
    std::vector<timer_number> expected;
    for (timer_number s = 0; s < 600; ++s) {
      wheel.insert(599 - s, s % 5 == 0 ? 35 : 83);
      if (s % 5 != 0) {
        expected.push_back(599 - s);
      }
    }
    EXPECT_EQ(drain(wheel, 82, budget).size(), 120U);
    EXPECT_THAT(wheel.advance(83).due, ElementsAreArray(expected));
  }
}

TEST(HashedWheel, JumpOfACenturyLooksAtEachTimerOnce) {
  constexpr tick century_in_ns = tick{36'525} * 24 * 3'600 * 1'000'000'000;
  hashed_wheel wheel(engine_options{.wheel_size = 512});
  for (timer_number s = 0; s < 1'000; ++s) {
    wheel.insert(s, s % 2 == 0 ? century_in_ns + 1 : 1 + s * 1'000);
  }
  const advance_result result = wheel.advance(century_in_ns);
  EXPECT_EQ(result.handled, 1'000U);
  EXPECT_EQ(result.due.size(), 500U);
  EXPECT_EQ(wheel.stats().levels[0].flushes, 33U);  // the near ones lie in 32 slots
  EXPECT_EQ(drain(wheel, century_in_ns + 1).size(), 500U);
}

TEST(HashedWheel, CountsVisitsAndTheLargest) {
  hashed_wheel wheel(engine_options{.wheel_size = 16});
  insert_all(wheel, {3, 19, 35, 7});
  for (tick now = 1; now <= 35; ++now) {
    drain(wheel, now, 1);
  }
  EXPECT_EQ(wheel.stats().levels[0].flushes, 4U);
  EXPECT_EQ(wheel.stats().levels[0].largest_flush, 3U);
  EXPECT_EQ(wheel.stats().moves(), 0U);
  EXPECT_EQ(wheel.stats().heap_operations, 0U);
}

TEST(HashedWheelMemory, TimerInAFullChunkTakesThirteenBytesAndASlotSixtyFour) {
  // An eighth, or a half, of the places, and of what is known of chunks: 4.5 bytes per timer.
  constexpr std::size_t grown_ahead = 1'000'000 * 45 / (can_map ? 80 : 20);
  hashed_wheel wheel(engine_options{.wheel_size = 512});
  const std::size_t before = wheel.stats().bytes;
  EXPECT_NEAR(static_cast<double>(before), 512 * 64, 512);
  for (timer_number s = 0; s < 1'000'000; ++s) {
    wheel.insert(s, 1'800'000);
  }
  EXPECT_LE(wheel.stats().bytes - before, 13U * 1'000'000 + grown_ahead);
}

TEST(HashedWheelMemory, RevolutionsTakeNoMore) {
  hashed_wheel wheel(engine_options{.wheel_size = 64});
  for (timer_number s = 0; s < 10'000; ++s) {
    wheel.insert(s, 100'000 + s);
  }
  drain(wheel, 64, 13);
  EXPECT_EQ(count_allocations([&] {
              for (tick now = 65; now < 1'000; ++now) {
                wheel.advance(now, 13);
              }
            }),
            0U);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// What is particular to Kafka's wheel: levels, moves, wake-ups, memory.

#include "timing_wheel/engine/hierarchical_wheel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/build.hpp"
#include "support/drive.hpp"

namespace timing_wheel::test {
namespace {

using detail::entry;

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using ticks = std::vector<tick>;

/// Non-zero digits of `deadline` below its top one, in base `n`.
std::uint64_t digit_rule(tick deadline, tick n) {
  std::uint64_t digits = 0;
  for (; deadline >= n; deadline /= n) {
    digits += deadline % n != 0 ? 1U : 0U;
  }
  return digits;
}

/// One number of each level, lowest first.
template <class Member>
std::vector<std::uint64_t> of_each_level(const hierarchical_wheel& wheel, Member level_stats::*member) {
  std::vector<std::uint64_t> values;
  for (const level_stats& level : wheel.stats().levels) {
    values.push_back(level.*member);
  }
  return values;
}

TEST(HierarchicalWheel, IntervalPastTheEndOfTimeIsNever) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 1 << 16});
  insert_all(wheel, {never});
  EXPECT_EQ(of_each_level(wheel, &level_stats::interval),
            (ticks{tick{1} << 16U, tick{1} << 32U, tick{1} << 48U, never}));
}

TEST(HierarchicalWheel, SimpleWheelOfTenSlotsWakesAt2And10And11And15) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 10});
  ASSERT_TRUE(wheel.insert(0, 2));
  ASSERT_TRUE(wheel.insert(1, 15));
  EXPECT_EQ(wheel.next_expiration(), 2U);
  EXPECT_THAT(drain(wheel, 2), ElementsAre(0));
  ASSERT_TRUE(wheel.insert(2, 2 + 9));
  EXPECT_EQ(wheel.next_expiration(), 10U);
  EXPECT_THAT(drain(wheel, 10), IsEmpty());
  EXPECT_EQ(of_each_level(wheel, &level_stats::moves), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(wheel.next_expiration(), 11U);
  EXPECT_THAT(drain(wheel, 11), ElementsAre(2));
  EXPECT_EQ(wheel.next_expiration(), 15U);
  EXPECT_THAT(drain(wheel, 15), ElementsAre(1));
  EXPECT_EQ(wheel.next_expiration(), std::nullopt);
}

TEST(HierarchicalWheel, ThirteenOnTwelveSlotsWakesAt12And13) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 12});
  insert_all(wheel, {13});
  EXPECT_EQ(wakeups(wheel), (ticks{12, 13}));
}

TEST(HierarchicalWheel, OneHundredAndThirtyOnSixtySlotsWakesAt120And130) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 60});
  insert_all(wheel, {130});
  EXPECT_EQ(wakeups(wheel), (ticks{120, 130}));
}

TEST(HierarchicalWheel, TaskAt23_59_59ComesDownFromHourToMinuteToSecond) {
  hierarchical_wheel wheel(engine_options{.wheel_sizes = {60, 60, 24}});
  insert_all(wheel, {86'399});
  EXPECT_EQ(of_each_level(wheel, &level_stats::wheel_size), (ticks{60, 60, 24}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::interval), (ticks{60, 3'600, 86'400}));
  EXPECT_THAT(drain(wheel, 82'799), IsEmpty());
  EXPECT_EQ(wakeups(wheel), (ticks{82'800, 86'340, 86'399}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::moves), (std::vector<std::uint64_t>{0, 1, 1}));
  EXPECT_EQ(wheel.size(), 0U);
}

TEST(HierarchicalWheel, LevelsBeyondTheListTakeItsLastSize) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 7, .wheel_sizes = {60, 60, 24}});
  insert_all(wheel, {tick{86'400} * 24});
  EXPECT_EQ(of_each_level(wheel, &level_stats::wheel_size), (ticks{60, 60, 24, 24, 24}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::tick_length), (ticks{1, 60, 3'600, 86'400, 86'400 * 24}));
}

TEST(HierarchicalWheel, OverflowWheelIsMadeByTheFirstTimerThatNeedsIt) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 10});
  insert_all(wheel, {1, 5, 9});
  EXPECT_EQ(wheel.stats().levels.size(), 1U);
  wheel.insert(10, 10);
  EXPECT_EQ(wheel.stats().levels.size(), 2U);
  wheel.insert(11, 99);
  EXPECT_EQ(wheel.stats().levels.size(), 2U);
  wheel.insert(12, 100);
  EXPECT_EQ(wheel.stats().levels.size(), 3U);
}

TEST(HierarchicalWheel, OverflowWheelStartsAtTheStartTrimmedToItsTick) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 10, .start = 12'345});
  EXPECT_EQ(wheel.stats().levels[0].current_time, 12'345U);
  insert_all(wheel, {12'345 + 5'000});
  EXPECT_EQ(of_each_level(wheel, &level_stats::current_time), (ticks{12'345, 12'340, 12'300, 12'000}));
}

TEST(HierarchicalWheel, LevelHoldsWhatComesBeforeItsTrimmedTimePlusItsInterval) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 10, .start = 12'345});
  insert_all(wheel, {12'354});
  EXPECT_EQ(wheel.stats().levels.size(), 1U);
  insert_all(wheel, {12'439});
  EXPECT_EQ(wheel.stats().levels.size(), 2U);
  wheel.insert(5, 12'440);
  EXPECT_EQ(wheel.stats().levels.size(), 3U);
}

TEST(HierarchicalWheel, FiveTicksAfterAnIdleHourMakeOneLevelAndNoMove) {
  for (const std::uint32_t n : {10U, 20U, 64U, 512U}) {
    hierarchical_wheel wheel(engine_options{.wheel_size = n});
    wheel.catch_up(3'600'000);
    ASSERT_TRUE(wheel.insert(0, 3'600'005));
    EXPECT_EQ(wheel.next_expiration(), 3'600'005U);
    expect_each_at_its_tick(wheel, {{3'600'005, {0}}});
    EXPECT_EQ(wheel.stats().levels.size(), 1U);
    EXPECT_EQ(wheel.stats().moves(), 0U);
  }
}

TEST(HierarchicalWheel, FiveTicksAfterAnHourBesideAFarTimerDoNotMove) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 512});
  insert_all(wheel, {100'000'000});
  wheel.catch_up(3'600'000);
  EXPECT_EQ(wheel.now(), 3'600'000U);
  ASSERT_TRUE(wheel.insert(1, 3'600'005));
  EXPECT_THAT(drain(wheel, 3'600'005), ElementsAre(1));
  EXPECT_EQ(wheel.stats().moves(), 0U);
}

TEST(HierarchicalWheel, WorkedTraceOfSize20) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, {2, 10, 60, 234, 1'000});
  EXPECT_EQ(wakeups(wheel), (ticks{2, 10, 60, 220, 234, 800, 1'000}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::moves), (std::vector<std::uint64_t>{0, 1, 1}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::flushes), (std::vector<std::uint64_t>{3, 3, 1}));
}

std::vector<timer_number> numbers_of(std::span<const entry> entries) {
  std::vector<timer_number> numbers(entries.size());
  std::transform(entries.begin(), entries.end(), numbers.begin(), [](const entry& e) { return e.which; });
  return numbers;
}

TEST(HierarchicalWheel, AdvanceShowsWhatIsDueEightTicksOn) {
  hierarchical_wheel wheel;
  for (const timer_number s : {3U, 1U, 4U}) {
    wheel.insert(s, 20);
  }
  EXPECT_THAT(wheel.advance(11).soon, IsEmpty());
  EXPECT_THAT(numbers_of(wheel.advance(12).soon), ElementsAre(3, 1, 4));
  EXPECT_THAT(wheel.advance(13).soon, IsEmpty());
}

TEST(HierarchicalWheel, AdvanceShowsWhatIsSoonBesideWhatIsDue) {
  hierarchical_wheel wheel;
  wheel.insert(0, 5);
  wheel.insert(1, 13);
  const advance_result result = wheel.advance(5);
  EXPECT_THAT(result.due, ElementsAre(0));
  EXPECT_THAT(numbers_of(result.soon), ElementsAre(1));
}

TEST(HierarchicalWheel, MovesOfManyTimersAddUpToTheDigitRule) {
  for (const std::uint32_t n : {3U, 10U, 20U, 64U, 256U, 512U}) {
    hierarchical_wheel wheel(engine_options{.wheel_size = n});
    std::mt19937_64 random(n);
    std::uint64_t expected = 0;
    for (timer_number s = 0; s < 20'000; ++s) {
      const tick deadline = 1 + random() % 1'800'000;
      ASSERT_TRUE(wheel.insert(s, deadline));
      expected += digit_rule(deadline, n);
    }
    EXPECT_EQ(drain(wheel, 1'800'000).size(), 20'000U);
    EXPECT_EQ(wheel.stats().moves(), expected) << "wheels of " << n;
  }
}

TEST(HierarchicalWheel, ErasedBeforeItsFirstCascadeItNeverMoves) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, {1'239, 999'999});
  drain(wheel, 1'199);
  wheel.erase(0);
  wheel.erase(1);
  drain(wheel, 2'000'000);
  EXPECT_EQ(wheel.stats().moves(), 0U);
  EXPECT_THAT(of_each_level(wheel, &level_stats::flushes), Each(0U));
}

TEST(HierarchicalWheel, TimersOfOneTickComeInTheOrderTheyCame) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 10});
  ticks expected;
  for (timer_number s = 0; s < 300; ++s) {
    wheel.insert(299 - s, 5);
    expected.push_back(299 - s);
  }
  EXPECT_THAT(wheel.advance(5).due, ::testing::ElementsAreArray(expected));
}

TEST(HierarchicalWheel, SleepsThroughEmptiedBuckets) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, {3, 4, 70, 75, 130, 900});
  for (const timer_number s : {0U, 2U, 3U, 5U}) {
    wheel.erase(s);
  }
  EXPECT_EQ(wakeups(wheel), (ticks{4, 120, 130}));
}

TEST(HierarchicalWheel, BucketEntersTheQueueOncePerRevolutionAndLeavesItWhenEmptied) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, {5, 5, 5, 45, 47, 59});
  EXPECT_EQ(of_each_level(wheel, &level_stats::buckets_queued), (std::vector<std::uint64_t>{1, 1}));
  for (const timer_number s : {3U, 4U, 5U}) {
    wheel.erase(s);
  }
  wheel.insert(3, 45);
  EXPECT_EQ(of_each_level(wheel, &level_stats::buckets_queued), (std::vector<std::uint64_t>{1, 2}));
}

TEST(HierarchicalWheel, LargestFlushCountsABucketOnceHoweverManyStepsItTakes) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, ticks(500, 45));
  drain(wheel, 40, 7);
  EXPECT_EQ(of_each_level(wheel, &level_stats::flushes), (std::vector<std::uint64_t>{0, 1}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::largest_flush), (std::vector<std::uint64_t>{0, 500}));
  drain(wheel, 45, 7);
  EXPECT_EQ(of_each_level(wheel, &level_stats::flushes), (std::vector<std::uint64_t>{1, 1}));
  EXPECT_EQ(of_each_level(wheel, &level_stats::largest_flush), (std::vector<std::uint64_t>{500, 500}));
}

TEST(HierarchicalWheel, StepCanEndInTheMiddleOfACascade) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  insert_all(wheel, ticks(100, 47));
  const advance_result step = wheel.advance(40, 33);
  EXPECT_EQ(step.handled, 33U);
  EXPECT_TRUE(step.more);
  EXPECT_THAT(step.due, IsEmpty());
  EXPECT_LE(wheel.next_expiration(), wheel.now());
  EXPECT_EQ(of_each_level(wheel, &level_stats::moves), (std::vector<std::uint64_t>{0, 33}));
  EXPECT_THAT(drain(wheel, 46), IsEmpty());
  EXPECT_EQ(drain(wheel, 47).size(), 100U);
}

TEST(HierarchicalWheelMemory, NothingIsAllocatedPerTimer) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 512});
  EXPECT_LE(count_allocations([&] {
              for (timer_number s = 0; s < 100'000; ++s) {
                wheel.insert(s, 1'800'000);
              }
            }),
            200U);
}

TEST(HierarchicalWheelMemory, AdvanceWithNothingDueTakesNone) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 512});
  insert_all(wheel, ticks(100'000, 1'800'000));
  const std::size_t bytes = wheel.stats().bytes;
  EXPECT_EQ(count_allocations([&] { wheel.advance(1); }), 0U);
  EXPECT_EQ(wheel.stats().bytes, bytes);
}

TEST(HierarchicalWheel, TakesTheLowestWheelThatHoldsADeadlineAlsoWhereAHigherOneHasRoomBehindAnother) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 16});
  wheel.advance(133);
  wheel.insert(0, 500);
  wheel.insert(1, 380);
  wheel.advance(256);
  EXPECT_EQ(wheel.stats().levels.at(2).moves, 1U);
}

TEST(HierarchicalWheelMemory, RearmingOneTimerForeverKeepsItsMemory) {
  hierarchical_wheel wheel(engine_options{.wheel_size = 20});
  wheel.insert(0, 30 * 60 * 1'000);
  const std::size_t bytes = wheel.stats().bytes;
  for (tick i = 0; i < 100'000; ++i) {
    wheel.erase(0);
    wheel.insert(0, 30 * 60 * 1'000 + i % 7'000);
  }
  EXPECT_EQ(wheel.stats().bytes, bytes);
}

TEST(HierarchicalWheelMemory, TimerInAFullChunkTakesThirteenBytes) {
  // An eighth, or a half, of the places, and of what is known of chunks: 4.5 bytes per timer.
  constexpr std::size_t grown_ahead = 1'000'000 * 45 / (can_map ? 80 : 20);
  hierarchical_wheel wheel(engine_options{.wheel_size = 512});
  const std::size_t before = wheel.stats().bytes;
  for (timer_number s = 0; s < 1'000'000; ++s) {
    wheel.insert(s, 1'800'000);
  }
  EXPECT_LE(wheel.stats().bytes - before, 13U * 1'000'000 + 3 * 512 * 48 + grown_ahead);
}

// ---- Windows ----

/// The longest tick of a level that divides `t`, and how often 2 divides the quotient.
std::pair<tick, int> evenness(tick t, tick n) {
  tick unit = 1;
  while (t % (unit * n) == 0) {
    unit *= n;
  }
  return {unit, std::countr_zero(t / unit)};
}

TEST(HierarchicalWheel, CoalesceChoosesTheLongestLevelTickAndThenTheLargestPowerOfTwo) {
  for (const std::uint32_t size : {2U, 3U, 10U, 12U, 20U, 64U}) {
    const hierarchical_wheel wheel(engine_options{.wheel_size = size});
    for (tick deadline = 1; deadline < 700; deadline += 3) {
      for (const tick window : {0U, 1U, 2U, size - 1, size, 100U, 500U}) {
        std::pair<tick, int> best{0, 0};
        for (tick t = deadline; t <= deadline + window; ++t) {
          best = std::max(best, evenness(t, size));
        }
        const tick chosen = wheel.coalesce(deadline, window);
        ASSERT_TRUE(chosen >= deadline && chosen <= deadline + window) << deadline << " + " << window;
        ASSERT_EQ(evenness(chosen, size), best) << deadline << " + " << window << " in a wheel of " << size;
      }
    }
  }
}

TEST(HierarchicalWheel, CoalesceKnowsWheelsOfSeveralSizes) {
  const hierarchical_wheel wheel(engine_options{.wheel_sizes = {10, 64, 3}});  // ticks of 1, 10, 640, 1920, 5760, ...
  EXPECT_EQ(wheel.coalesce(1'001, 8), 1'008U);
  EXPECT_EQ(wheel.coalesce(1'001, 100), 1'040U) << "of the multiples of 10, the 104th";
  EXPECT_EQ(wheel.coalesce(1'001, 300), 1'280U);
  EXPECT_EQ(wheel.coalesce(1'001, 1'000), 1'920U);
  EXPECT_EQ(wheel.coalesce(1'001, 6'000), 5'760U);
}

TEST(HierarchicalWheel, CoalesceLeavesTheEndOfTimeAndStopsBeforeIt) {
  for (const std::uint32_t size : {1000U, 1024U}) {
    const hierarchical_wheel wheel(engine_options{.wheel_size = size});
    EXPECT_EQ(wheel.coalesce(never, 5), never);
    EXPECT_EQ(wheel.coalesce(never - 1, never), never - 1);
    EXPECT_LT(wheel.coalesce(never - 5'000, never), never);
    EXPECT_EQ(wheel.coalesce(0, 5), 0U);
  }
}

/// What a hundred thousand timers of half an hour, armed evenly over ten minutes, cost with a window.
struct half_hours {
  half_hours(const engine_options& options, tick window) : wheel(options) {
    constexpr std::size_t count = 100'000;
    std::vector<tick> deadlines(count);
    for (timer_number n = 0; n < count; ++n) {
      const tick now = tick{n} * 6;
      wheel.advance(now);
      deadlines[n] = now + 1'800'000;
      wheel.insert(n, deadlines[n], window);
    }
    for (auto next = wheel.next_expiration(); next; next = wheel.next_expiration()) {
      ++stops;
      for (const timer_number n : wheel.advance(*next).due) {
        early += *next < deadlines[n] ? 1U : 0U;
        latest = std::max(latest, *next - deadlines[n]);
      }
    }
  }

  hierarchical_wheel wheel;
  std::size_t stops = 0;
  std::size_t early = 0;
  tick latest = 0;
};

TEST(HierarchicalWheel, AWindowThatHasAMultipleOfALevelsTickSparesTheMoves) {
  const engine_options sizes{.wheel_sizes = {512, 4096}};
  half_hours exact(sizes, 0);
  EXPECT_GT(exact.wheel.stats().moves(), 99'000U);
  EXPECT_EQ(exact.latest, 0U);

  half_hours second(sizes, 1'000);
  EXPECT_EQ(second.wheel.stats().moves(), 0U);
  EXPECT_EQ(second.early, 0U);
  EXPECT_LE(second.latest, 1'000U);
  EXPECT_LT(second.stops, exact.stops / 50);
  EXPECT_EQ(exact.wheel.stats().moves_saved, 0U);
  EXPECT_EQ(second.wheel.stats().moves_saved, exact.wheel.stats().moves());
  EXPECT_EQ(second.wheel.stats().wakeups_shared, 100'000U - second.stops) << "each bucket wakes once";
}

TEST(HierarchicalWheel, AWindowOfASecondSparesNearlyAllMovesOfTheDefaultWheels) {
  // 23 in 1024 deadlines have no multiple of 1024 in the second after them.
  const engine_stats second = half_hours({}, 1'000).wheel.stats();
  EXPECT_LE(second.moves(), 100'000U * 23 / 1'024 + 23);
  EXPECT_EQ(second.moves() + second.moves_saved, half_hours({}, 0).wheel.stats().moves());
  EXPECT_EQ(half_hours({}, 1'023).wheel.stats().moves(), 0U);
}

}  // namespace
}  // namespace timing_wheel::test

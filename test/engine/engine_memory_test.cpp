/// \file
/// What every engine does with memory: how much it takes, what it says of it, and what happens when there is none.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "engine/system_page.hpp"
#include "support/allocation.hpp"
#include "support/build.hpp"
#include "support/drive.hpp"
#include "support/engines.hpp"
#include "support/oracle.hpp"

namespace timing_wheel::test {
namespace {

template <class Engine>
class EngineMemory : public ::testing::Test {};
TYPED_TEST_SUITE(EngineMemory, engine_types);

/// Inserts, erases and advances, the same again for the same beginning.
template <timer_engine Engine>
void churn(Engine& engine, tick begin) {
  std::mt19937 random(11);
  for (tick step = 0; step < 20'000; ++step) {
    const auto s = static_cast<timer_number>(random() % 4'000);
    engine.erase(s);
    engine.insert(s, begin + step + 1 + random() % 100'000);
    engine.advance(begin + step, 1 + random() % 50);
  }
  while (engine.advance(begin + 200'000).more) {
  }
}

TYPED_TEST(EngineMemory, NothingIsAllocatedAfterWarmUp) {
  constexpr tick turn_of_all_levels = 64 * 64 * 64 * 64;
  TypeParam engine(engine_options{.wheel_size = 64});
  churn(engine, 0);
  engine.catch_up(turn_of_all_levels);
  EXPECT_EQ(count_allocations([&] { churn(engine, turn_of_all_levels); }), 0U);
}

TYPED_TEST(EngineMemory, ErasedTimersLeaveRoomForOthers) {
  constexpr timer_number million = 1'000'000;
  TypeParam engine(engine_options{.wheel_size = 512});
  const auto insert_million = [&](timer_number key) {
    for (timer_number s = 0; s < million; ++s) {
      engine.insert(s, 1 + (s ^ key) % 1'800'000);
    }
  };
  insert_million(0);
  const std::size_t bytes = engine.stats().bytes;
  for (timer_number s = 0; s < million; ++s) {
    engine.erase(s);
  }
  insert_million(0x1FF);
  EXPECT_EQ(engine.size(), million);
  EXPECT_EQ(engine.stats().bytes, bytes);
}

TYPED_TEST(EngineMemory, ShrinksToLittleMoreThanItHadWhenAPeakHasGone) {
  constexpr timer_number many = 300'000;
  TypeParam engine(engine_options{.wheel_size = 512});
  const auto fill = [&] {
    for (timer_number n = 0; n < many; ++n) {
      engine.insert(n, 1 + engine.now() + n * tick{7'919} % 200'000);
    }
  };
  engine.insert(0, 200'000);  // makes what levels there are to be
  const std::size_t before = engine.stats().bytes;
  engine.erase(0);
  fill();
  const std::size_t peak = engine.stats().bytes;
  for (timer_number n = 10; n < many; ++n) {
    engine.erase(n);
  }
  while (engine.shrink_some()) {
  }
  constexpr std::size_t page_of_chunks = 64 * 544;  // with one timer in it, it stays
  // Each of four arrays ends within a page of the system, which stays, too.
  constexpr std::size_t places = can_map ? 0 : many * 63 / 10;  // an array that is not mapped keeps them
  EXPECT_LT(engine.stats().bytes, before + 10 * page_of_chunks + 4 * detail::system_page() + places);
  EXPECT_LT(engine.stats().bytes, peak / (can_map ? 8 : 2));
  EXPECT_TRUE(engine.invariants_hold());
  EXPECT_EQ(engine.size(), 10U);
  for (timer_number n = 0; n < 10; ++n) {
    EXPECT_TRUE(engine.contains(n));
  }
  EXPECT_FALSE(engine.contains(many - 1));
  EXPECT_FALSE(engine.erase(many - 1));
  for (timer_number n = 0; n < 10; ++n) {
    engine.erase(n);
  }
  fill();
  EXPECT_TRUE(engine.invariants_hold());
  EXPECT_EQ(engine.size(), many);
  EXPECT_LE(engine.stats().bytes, peak + peak / 50);
}

TYPED_TEST(EngineMemory, ShrinksAroundTheOneTimerThatIsLeftWhereverItLies) {
  constexpr timer_number in_a_chunk = 64;
  constexpr timer_number in_a_small_one = 12;
  constexpr timer_number timers = in_a_small_one + 66 * in_a_chunk;  // more than a page of chunks
  for (timer_number first = in_a_small_one; first < timers; first += in_a_chunk) {
    TypeParam engine(engine_options{.wheel_size = 512});
    for (timer_number n = 0; n < timers; ++n) {
      engine.insert(n, 300);
    }
    for (timer_number n = 0; n < timers; ++n) {
      if (n < first || n >= first + in_a_chunk) {
        engine.erase(n);
      }
    }
    for (timer_number n = first + 1; n < first + in_a_chunk; ++n) {
      engine.erase(n);
    }
    while (engine.shrink_some()) {
    }
    ASSERT_TRUE(engine.invariants_hold()) << first;
    ASSERT_TRUE(engine.contains(first));
    const advance_result result = engine.advance(300);
    ASSERT_EQ(std::vector<timer_number>(result.due.begin(), result.due.end()), std::vector<timer_number>{first});
  }
}

TYPED_TEST(EngineMemory, ShrinksBetweenTheStepsOfAFlush) {
  TypeParam engine(engine_options{.wheel_size = 64});
  oracle expected;
  std::mt19937 random(3);
  for (timer_number n = 0; n < 60'000; ++n) {
    const tick deadline = 1 + random() % 100'000;
    engine.insert(n, deadline);
    expected.insert(n, deadline);
  }
  for (tick now = 0; now < 100'000; now += 25'000) {
    for (bool more = true; more;) {
      const advance_result result = engine.advance(now, 100);
      more = result.more;
      for (const timer_number n : result.due) {
        const auto deadline = expected.take(n);
        ASSERT_TRUE(deadline.has_value());
        ASSERT_LE(*deadline, now);
      }
      for (int step = 0; step < 5; ++step) {
        engine.shrink_some();
      }
    }
    ASSERT_TRUE(engine.invariants_hold());
  }
}

TYPED_TEST(EngineMemory, BytesAreWhatWasAllocated) {
  const std::size_t before = allocations.live_bytes;
  TypeParam engine(engine_options{.wheel_size = 512, .huge_pages = false});
  for (timer_number s = 0; s < 200'000; ++s) {
    engine.insert(s, 1 + tick{s} * 7'919 % 1'800'000);
  }
  engine.advance(100'000, 5'000);
  const auto allocated = static_cast<double>(allocations.live_bytes - before);
  EXPECT_NEAR(static_cast<double>(engine.stats().bytes), allocated, 0.02 * allocated);
}

/// Timers that need a far page of numbers, several levels and a chunk each.
const std::vector<std::pair<timer_number, tick>> demanding = {
    {20'000, 7}, {3, tick{1} << 40U}, {30'000, never}, {4, 65'000}};

TYPED_TEST(EngineMemory, InsertThatFindsNoneChangesNothingAndCanBeRepeated) {
  for (const auto& [which, deadline] : demanding) {
    bool succeeded = false;
    for (std::uint64_t left = 0; !succeeded; ++left) {
      TypeParam engine(engine_options{.wheel_size = 20});
      const schedule expected = insert_all(engine, {5, 6'000});
      const auto next = engine.next_expiration();
      succeeded = succeeds_with(left, [&, s = which, when = deadline] { engine.insert(s, when); });
      ASSERT_EQ(engine.contains(which), succeeded);
      ASSERT_EQ(engine.size(), succeeded ? 3U : 2U);
      ASSERT_EQ(engine.next_expiration(), next);
      ASSERT_TRUE(engine.invariants_hold()) << "with " << left << " allocations";
      ASSERT_TRUE(succeeded || engine.insert(which, deadline));
      ASSERT_TRUE(engine.invariants_hold());
      ASSERT_TRUE(engine.erase(which));
      expect_each_at_its_tick(engine, expected);
    }
  }
}

TYPED_TEST(EngineMemory, InsertionThatWasReservedNeedsNoneHoweverManyChunksAreInUse) {
  for (timer_number timers = 60; timers <= 70; ++timers) {  // a page of the pool has 64 chunks
    TypeParam engine(engine_options{.wheel_size = 128});
    for (timer_number s = 0; s < timers; ++s) {
      engine.insert(s, 1 + s);
    }
    engine.reserve(timers, 100);
    EXPECT_TRUE(succeeds_with(0, [&] { engine.insert(timers, 100); })) << timers << " in use";
  }
}

TYPED_TEST(EngineMemory, ReserveThatFindsNoneChangesNothing) {
  for (const auto& [which, deadline] : demanding) {
    bool succeeded = false;
    for (std::uint64_t left = 0; !succeeded; ++left) {
      TypeParam engine(engine_options{.wheel_size = 20});
      const schedule expected = insert_all(engine, {5, 6'000});
      succeeded = succeeds_with(left, [&, s = which, when = deadline] { engine.reserve(s, when); });
      ASSERT_FALSE(engine.contains(which));
      ASSERT_TRUE(engine.invariants_hold()) << "with " << left << " allocations";
      expect_each_at_its_tick(engine, expected);
    }
  }
}

TYPED_TEST(EngineMemory, WhatWasDueBeforeAFailureIsNotKeptBack) {
  std::size_t interrupted = 0;
  bool succeeded = false;
  for (std::uint64_t left = 0; !succeeded; ++left) {
    TypeParam engine(engine_options{.wheel_size = 64});
    std::vector<tick> deadlines(1'000);
    std::iota(deadlines.begin(), deadlines.end(), tick{1});
    insert_all(engine, deadlines);
    std::vector<timer_number> due;
    due.reserve(1'000);
    bool more = true;
    succeeds_with(left, [&] {
      const advance_result result = engine.advance(1'000);
      due.assign(result.due.begin(), result.due.end());
      more = result.more;
    });
    succeeded = !more;
    interrupted += !succeeded && !due.empty() ? 1U : 0U;
    EXPECT_EQ(due.size() + engine.size(), 1'000U);
    EXPECT_TRUE(std::none_of(due.begin(), due.end(), [&](timer_number s) { return engine.contains(s); }));
    EXPECT_TRUE(engine.invariants_hold());
  }
  EXPECT_GT(interrupted, 0U) << "no failure came after something was due";
}

TYPED_TEST(EngineMemory, EraseAndCatchUpNeedNone) {
  TypeParam engine(engine_options{.wheel_size = 20});
  insert_all(engine, std::vector<tick>(1'000, 777));
  EXPECT_TRUE(succeeds_with(0, [&] {
    engine.catch_up(700);
    for (timer_number s = 0; s < 1'000; ++s) {
      engine.erase(s);
    }
    engine.catch_up(5'000);
  }));
  EXPECT_EQ(engine.size(), 0U);
  EXPECT_EQ(engine.now(), 5'000U);
}

}  // namespace
}  // namespace timing_wheel::test

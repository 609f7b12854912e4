/// \file
/// What every engine must do, by the concept alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/drive.hpp"
#include "support/engines.hpp"
#include "support/oracle.hpp"

namespace timing_wheel::test {
namespace {

constexpr tick hour_in_ms = 3'600'000;
constexpr tick hour_in_ns = hour_in_ms * 1'000'000;
constexpr tick century_in_ms = hour_in_ms * 24 * 36'525;
constexpr tick century_in_ns = century_in_ms * 1'000'000;

const std::vector<std::uint32_t> several_wheel_sizes = {2, 3, 10, 20, 60, 63, 64, 65, 100, 512, 1000};

/// n^k − 1, n^k and n^k + 1 for each k, counted from `now`, as far as time goes.
std::vector<tick> around_powers(tick n, tick now) {
  std::vector<tick> deadlines;
  for (tick power = n; power <= (never - 2 - now) / n; power *= n) {
    for (const tick delay : {power + 1, power - 1, power}) {
      deadlines.push_back(now + delay);
    }
  }
  return deadlines;
}

/// Clocks on, before and after the beginning of a revolution of the first wheels.
std::vector<tick> clocks_around_turns(tick n) {
  return {0, 1, n - 1, n, n + 1, n * n - 1, n * n + n + 1, n * n * n - 1, 12'345};
}

std::vector<tick> random_deadlines(std::size_t count, tick first, tick last, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<tick> deadlines(count);
  std::generate(deadlines.begin(), deadlines.end(), [&] { return first + random() % (last - first + 1); });
  return deadlines;
}

template <class Engine>
class Conformance : public ::testing::Test {};
TYPED_TEST_SUITE(Conformance, engine_types);

TYPED_TEST(Conformance, FiresEachDelayOfKafkasTimerTestAtItsTick) {
  TypeParam engine(engine_options{.wheel_size = 3});
  std::vector<tick> delays = {1, 2, 3, 4};
  for (tick delay = 10; delay < 100; ++delay) {
    delays.insert(delays.end(), {delay, delay});
  }
  for (tick delay = 100; delay < 500; ++delay) {
    delays.push_back(delay);
  }
  std::shuffle(delays.begin(), delays.end(), std::mt19937(2));
  EXPECT_FALSE(engine.insert(1'000, 0));
  expect_each_at_its_tick(engine, insert_all(engine, delays));
}

TYPED_TEST(Conformance, FiresDelaysAroundEachPowerOfTheWheelSizeHoweverTheClockCameThere) {
  for (const std::uint32_t n : several_wheel_sizes) {
    for (const tick now : clocks_around_turns(n)) {
      for (const std::string_view way : {"start", "advance", "catch_up"}) {
        SCOPED_TRACE("wheel size " + std::to_string(n) + ", clock " + std::to_string(now));
        TypeParam engine(engine_options{.wheel_size = n, .start = way == "start" ? now : 0});
        if (way == "advance" && now != 0) {
          insert_all(engine, {now});
          drain(engine, now);
        }
        engine.catch_up(now);
        const std::size_t budget = way == "catch_up" ? 1 : no_limit;
        expect_each_at_its_tick(engine, insert_all(engine, around_powers(n, now)), budget);
        ASSERT_FALSE(this->HasFailure()) << way;
      }
    }
  }
}

TYPED_TEST(Conformance, WorkOfAJumpIsBoundedByTimersAndNotByTicks) {
  for (const tick jump : {hour_in_ms, hour_in_ns, century_in_ms, century_in_ns}) {
    TypeParam engine(engine_options{.wheel_size = 20});
    insert_all(engine, random_deadlines(1'000, 1, jump, 6));
    const std::uint64_t before = engine.stats().heap_operations;
    const advance_result result = engine.advance(jump, no_limit);
    EXPECT_EQ(result.due.size(), 1'000U);
    EXPECT_LE(result.handled, 1'000U * 15);
    EXPECT_LE(engine.stats().heap_operations - before, 2 * result.handled);
  }
}

TYPED_TEST(Conformance, ErasesAndInsertsInTheMiddleOfACascadeOf100000AreExact) {
  TypeParam engine(engine_options{.wheel_size = 64});
  oracle expected;
  std::mt19937 random(10);
  const auto add = [&](timer_number s, tick deadline) {
    ASSERT_TRUE(engine.insert(s, deadline));
    expected.insert(s, deadline);
  };
  for (timer_number s = 0; s < 100'000; ++s) {
    add(s, 12'288 + random() % 4'096);
  }
  timer_number next = 100'000;
  for (bool more = true; more; ++next) {
    const advance_result step = engine.advance(12'288, 1 + random() % 16);
    std::for_each(step.due.begin(), step.due.end(), [&](timer_number s) { ASSERT_EQ(expected.take(s), tick{12'288}); });
    more = step.more;
    const auto victim = static_cast<timer_number>(random() % next);
    ASSERT_EQ(engine.erase(victim), expected.take(victim).has_value());
    add(next, 12'289 + random() % 10'000);
  }
  expect_each_at_its_tick(engine, expected.pending(), 7);
}

TYPED_TEST(Conformance, InsertAndEraseTakeAtMostOneHeapOperationEach) {
  TypeParam engine(engine_options{.wheel_size = 20});
  timer_number next = 0;
  for (const tick deadline : random_deadlines(5'000, 1, 1'000'000, 1)) {
    const std::uint64_t before = engine.stats().heap_operations;
    ASSERT_TRUE(engine.insert(next++, deadline));
    ASSERT_LE(engine.stats().heap_operations - before, 1U);
  }
  while (next-- > 0) {
    const std::uint64_t before = engine.stats().heap_operations;
    ASSERT_TRUE(engine.erase(next));
    ASSERT_LE(engine.stats().heap_operations - before, 1U);
  }
}

TYPED_TEST(Conformance, AdvanceOverNothingCostsNothing) {
  TypeParam engine(engine_options{.wheel_size = 512});
  insert_all(engine, {century_in_ms});
  const std::uint64_t before = engine.stats().heap_operations;
  const tick quiet = engine.next_expiration().value() - 1;
  for (tick now = 0; now < quiet; now += quiet / 1'000) {
    EXPECT_EQ(engine.advance(now, no_limit).handled, 0U);
  }
  EXPECT_EQ(engine.stats().heap_operations, before);
}

TYPED_TEST(Conformance, ErasedTimersAreNotLookedAtAgain) {
  TypeParam engine(engine_options{.wheel_size = 20});
  insert_all(engine, random_deadlines(10'000, 1, 1'000'000, 5));
  for (timer_number s = 1; s < 10'000; ++s) {
    ASSERT_TRUE(engine.erase(s));
  }
  EXPECT_LE(engine.advance(1'000'000, no_limit).handled, 5U);
}

TYPED_TEST(Conformance, RefusesAWheelSizeOutOfRangeAndNamesIt) {
  for (const std::uint32_t size : {0U, 1U, (1U << 24U) + 1, UINT32_MAX}) {
    const auto names_value_and_range = ::testing::ThrowsMessage<std::invalid_argument>(
        ::testing::AllOf(::testing::HasSubstr(std::to_string(size)), ::testing::HasSubstr("2"),
                         ::testing::HasSubstr(std::to_string(1U << 24U))));
    using options = engine_options;
    for (const options& wrong : {options{.wheel_size = size}, options{.wheel_sizes = {60, size, 24}},
                                 options{.wheel_sizes = {60, 60, size}}}) {
      EXPECT_THAT([&] { TypeParam engine(wrong); }, names_value_and_range);
    }
  }
}

TYPED_TEST(Conformance, RefusesToStartAtTheEndOfTimeAndNamesIt) {
  EXPECT_THAT([] { TypeParam engine(engine_options{.start = never}); },
              ::testing::ThrowsMessage<std::invalid_argument>(::testing::HasSubstr(std::to_string(never))));
  EXPECT_NO_THROW(TypeParam(engine_options{.start = never - 1}));
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// Years of use, and their cost in operations, of the engines.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/drive.hpp"
#include "support/engines.hpp"
#include "support/oracle.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

constexpr tick hour = 3'600'000;  // in ticks of a millisecond
constexpr unsigned bits_of_an_hour = 21;
constexpr std::uint64_t hours_of_a_century = 876'600;

struct uptime {
  const char* name;
  tick length;
};

constexpr uptime uptimes[] = {
    {"12 days", 12 * 24 * hour},
    {"24.8 days, 2^31 ms", tick{1} << 31U},
    {"49.7 days, 2^32 ms", tick{1} << 32U},
    {"795 days, 2^36 ms", tick{1} << 36U},
    {"34.8 years, 2^40 ms", tick{1} << 40U},
    {"an hour before 2^63 ms", (tick{1} << 63U) - hour},
};

/// Tick 1 at the bottom; interval = tick × size; the next tick = this interval; the time = the clock, trimmed to the
/// tick.
void expect_levels_agree(const std::vector<level_stats>& levels, tick now) {
  tick length = 1;
  for (const level_stats& level : levels) {
    SCOPED_TRACE("tick " + std::to_string(length) + " at " + std::to_string(now));
    EXPECT_EQ(level.tick_length, length);
    EXPECT_EQ(level.interval, saturating_multiply(length, level.wheel_size));
    EXPECT_EQ(level.current_time % level.tick_length, 0U);
    EXPECT_LE(level.current_time, now);
    EXPECT_LT(now - level.current_time, level.tick_length);
    length = level.interval;
  }
}

/// An engine with fifty timers of all lengths up to half an hour, each armed again as it fires; an oracle says when.
template <timer_engine Engine>
class busy_engine {
 public:
  explicit busy_engine(const engine_options& options) : engine_(options), random_(options.wheel_size.value_or(0)) {}

  void arm(timer_number s, tick deadline) {
    ASSERT_TRUE(engine_.insert(s, deadline));
    expected_.insert(s, deadline);
  }

  void arm_fifty() {
    for (timer_number s = 0; s < 50; ++s) {
      arm(s, random_deadline());
    }
  }

  void advance(tick now) { ASSERT_EQ(drain(engine_, now), std::vector<timer_number>()); }

  /// From deadline to deadline up to `end`: nothing in the tick before, and all of them in their own.
  void live_until(tick end) {
    while (expected_.earliest().value() <= end) {
      const tick now = expected_.earliest().value();
      ASSERT_EQ(drain(engine_, now - 1), std::vector<timer_number>()) << "early, before " << now;
      const std::vector<timer_number> due = drain(engine_, now);
      ASSERT_FALSE(due.empty()) << "missing at " << now;
      for (const timer_number s : due) {
        ASSERT_EQ(expected_.take(s), now);
        arm(s, random_deadline());
      }
      ASSERT_GT(expected_.earliest().value(), now) << "one was left behind";
    }
    ASSERT_TRUE(engine_.invariants_hold());
  }

  [[nodiscard]] const Engine& engine() const { return engine_; }

 private:
  tick random_deadline() { return engine_.now() + 1 + static_cast<tick>(random_.magnitude(bits_of_an_hour)); }

  Engine engine_;
  oracle expected_;
  dice random_;
};

template <class Engine>
class EngineLife : public ::testing::Test {};
TYPED_TEST_SUITE(EngineLife, engine_types);

TYPED_TEST(EngineLife, BusyEngineStaysExactThroughEachUptime) {
  for (const uptime& up : uptimes) {
    for (const std::uint32_t n : {20U, 64U, 512U}) {
      SCOPED_TRACE(std::string(up.name) + ", wheel size " + std::to_string(n));
      busy_engine<TypeParam> busy(engine_options{.wheel_size = n});
      busy.arm(50, up.length);  // on its way from the top to the bottom all that time
      busy.advance(up.length - hour);
      busy.arm_fifty();
      busy.live_until(up.length + 2 * hour);
      ASSERT_FALSE(this->HasFailure());
    }
  }
}

TYPED_TEST(EngineLife, TimerRearmsItselfTenMillionTimes) {
  constexpr std::uint64_t times = scaled(10'000'000);
  TypeParam engine(engine_options{.wheel_size = 20});
  tick deadline = 0;
  for (std::uint64_t i = 0; i < times; ++i) {
    deadline += 1 + i % 23;
    ASSERT_TRUE(engine.insert(0, deadline));
    advance_result result = engine.advance(deadline - 1, no_limit);
    ASSERT_TRUE(result.due.empty() && !result.more) << "early, the " << i << "th time";
    result = engine.advance(deadline, no_limit);
    ASSERT_TRUE(result.due.size() == 1 && !result.more) << "not at " << deadline << ", the " << i << "th time";
  }
  EXPECT_EQ(engine.size(), 0U);
}

TYPED_TEST(EngineLife, HourlyTimersOfAHundredYearsFireEachInTheirSecond) {
  constexpr tick hour_in_s = 3'600;
  constexpr tick phases[] = {1, 1'799};
  TypeParam engine(engine_options{.wheel_size = 64});
  ASSERT_TRUE(engine.insert(0, phases[0]) && engine.insert(1, phases[1]));
  std::size_t bytes_of_the_first_year = 0;
  for (std::uint64_t i = 0; i < scaled(hours_of_a_century); ++i) {
    for (const timer_number s : {0U, 1U}) {
      const tick now = i * hour_in_s + phases[s];
      ASSERT_EQ(drain(engine, now - 1), std::vector<timer_number>());
      ASSERT_EQ(drain(engine, now), std::vector<timer_number>{s}) << "in hour " << i;
      ASSERT_TRUE(engine.insert(s, now + hour_in_s));
    }
    if (i == 8'766) {
      bytes_of_the_first_year = engine.stats().bytes;
    }
  }
  EXPECT_EQ(engine.size(), 2U);
  EXPECT_LE(engine.stats().bytes, bytes_of_the_first_year + (1U << 14U)) << "a level or two, and nothing per timer";
}

// ---- What can be read of each level ----

TEST(HierarchicalWheelLife, EveryLevelAgreesWithTheClockAtEachUptime) {
  for (const auto& sizes : {std::vector<std::uint32_t>{20}, {512}, {60, 60, 24}, {2, 3, 5, 7}}) {
    hierarchical_wheel wheel(engine_options{.wheel_sizes = sizes});
    ASSERT_TRUE(wheel.insert(0, never));  // makes every level that there can be
    dice random(sizes.size());
    tick latest = 0;
    for (const uptime& up : uptimes) {
      for (int i = 0; i < 100; ++i) {
        latest = std::max(latest, up.length + random.below(hour));
        wheel.advance(latest);
        expect_levels_agree(wheel.stats().levels, latest);
      }
      EXPECT_EQ(wheel.stats().levels.back().interval, never) << "not all levels were made";
    }
  }
}

// ---- Cost, in operations ----

/// Inserts `count` timers at random within `horizon`, from a clock that is on no boundary, and lets all fire.
engine_stats life_of_many(const engine_options& options, timer_number count, tick horizon) {
  hierarchical_wheel wheel(options);
  dice random(count);
  for (timer_number s = 0; s < count; ++s) {
    EXPECT_TRUE(wheel.insert(s, options.start + 1 + random.below(horizon)));
  }
  const std::size_t handled = wheel.advance(options.start + horizon).handled;
  EXPECT_EQ(wheel.size(), 0U);
  EXPECT_EQ(handled, count + wheel.stats().moves()) << "a timer was looked at without being moved or fired";
  return wheel.stats();
}

TEST(HierarchicalWheelCost, TimerMovesLessOftenThanThereAreLevels) {
  for (const std::uint32_t n : {2U, 3U, 20U, 64U, 512U}) {
    for (const tick start : {tick{0}, tick{12'345'677}, (tick{1} << 32U) - 1}) {
      SCOPED_TRACE("wheel size " + std::to_string(n) + ", start " + std::to_string(start));
      hierarchical_wheel wheel(engine_options{.wheel_size = n, .start = start});
      dice random(n);
      for (int i = 0; i < 1'000; ++i) {
        const std::uint64_t moves_before = wheel.stats().moves();
        const tick deadline = wheel.now() + 1 + random.below(tick{n} * n * n);
        ASSERT_TRUE(wheel.insert(0, deadline));
        ASSERT_EQ(drain(wheel, deadline), std::vector<timer_number>{0});
        ASSERT_LT(wheel.stats().moves() - moves_before, wheel.stats().levels.size());
      }
      EXPECT_LE(wheel.stats().levels.size(), 4U);
    }
  }
}

TEST(HierarchicalWheelCost, HeapOperationsPerTimerAreBoundedByLevelsAndFallAsMoreShareABucket) {
  for (const std::uint32_t n : {20U, 512U}) {
    double fewest_so_far = 1e9;
    for (const timer_number count : {10U, 1'000U, 100'000U}) {
      const engine_stats stats = life_of_many({.wheel_size = n, .start = 7'777}, count, 1'000'000);
      const double per_timer = static_cast<double>(stats.heap_operations) / count;
      EXPECT_LE(per_timer, 2.0 * static_cast<double>(stats.levels.size()));
      EXPECT_LT(per_timer, fewest_so_far) << count << " timers on wheels of " << n;
      fewest_so_far = per_timer;
    }
  }
}

}  // namespace
}  // namespace timing_wheel::test

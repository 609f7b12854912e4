#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;

inline constexpr tick hour = 3'600'000;  // in ticks of a millisecond
inline constexpr unsigned bits_of_an_hour = 21;
inline constexpr std::uint64_t hours_of_a_century = 876'600;

struct uptime {
  const char* name;
  tick length;
};

inline constexpr uptime uptimes[] = {
    {"12 days", 12 * 24 * hour},
    {"24.8 days, 2^31 ms", tick{1} << 31U},
    {"49.7 days, 2^32 ms", tick{1} << 32U},
    {"795 days, 2^36 ms", tick{1} << 36U},
    {"34.8 years, 2^40 ms", tick{1} << 40U},
    {"an hour before 2^63 ms", (tick{1} << 63U) - hour},
};

/// Tick 1 at the bottom; interval = tick × size; the next tick = this interval; the time = the clock, trimmed to the
/// tick.
inline void expect_levels_agree(const std::vector<level_stats>& levels, tick now) {
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

}  // namespace timing_wheel::test

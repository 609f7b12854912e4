#include "timing_wheel/time.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <ratio>

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::nanoseconds;

constexpr time_point at(nanoseconds since_epoch) { return time_point(since_epoch); }
constexpr nanoseconds largest = nanoseconds::max();
constexpr nanoseconds smallest = nanoseconds::min();
constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t int64_min = std::numeric_limits<std::int64_t>::min();

template <class Rep>
constexpr Rep infinity = std::numeric_limits<Rep>::infinity();

TEST(SaturatingMultiply, GivesTheProductWhenItFits) {
  EXPECT_EQ(saturating_multiply(20, 400), 8'000U);
  EXPECT_EQ(saturating_multiply(0, never), 0U);
  EXPECT_EQ(saturating_multiply(never, 0), 0U);
  EXPECT_EQ(saturating_multiply(never, 1), never);
  EXPECT_EQ(saturating_multiply(tick{1} << 32U, (tick{1} << 32U) - 1), never - 0xFFFF'FFFFU);
  EXPECT_EQ(saturating_multiply(tick{641} * 65'537 * 65'535, 6'700'417), never);
}

TEST(SaturatingMultiply, GivesNeverWhenItDoesNotFit) {
  EXPECT_EQ(saturating_multiply(never, 2), never);
  EXPECT_EQ(saturating_multiply(2, never), never);
  EXPECT_EQ(saturating_multiply(tick{1} << 32U, tick{1} << 32U), never);
  EXPECT_EQ(saturating_multiply((tick{1} << 63U) + 1, 2), never);
}

TEST(SaturatingAdd, AddsWhatFits) {
  EXPECT_EQ(saturating_add(at(5ns), 7ns), at(12ns));
  EXPECT_EQ(saturating_add(at(5ns), -7ns), at(-2ns));
  EXPECT_EQ(saturating_add(at(largest), smallest), at(-1ns));
  EXPECT_EQ(saturating_add(at(smallest), largest), at(-1ns));
  EXPECT_EQ(saturating_add(at(largest - 1ns), 1ns), at(largest));
  EXPECT_EQ(saturating_add(at(smallest + 1ns), -1ns), at(smallest));
}

TEST(SaturatingAdd, StopsAtTheEndsOfTime) {
  EXPECT_EQ(saturating_add(at(1ns), largest), time_point::max());
  EXPECT_EQ(saturating_add(at(largest), 1ns), time_point::max());
  EXPECT_EQ(saturating_add(at(largest), largest), time_point::max());
  EXPECT_EQ(saturating_add(at(-1ns), smallest), time_point::min());
  EXPECT_EQ(saturating_add(at(smallest), smallest), time_point::min());
}

TEST(SaturatingDifference, SubtractsWhatFits) {
  EXPECT_EQ(saturating_difference(at(5ns), at(7ns)), -2ns);
  EXPECT_EQ(saturating_difference(at(largest), at(0ns)), largest);
  EXPECT_EQ(saturating_difference(at(-1ns), at(largest)), smallest);
  EXPECT_EQ(saturating_difference(at(smallest), at(smallest)), 0ns);
}

TEST(SaturatingDifference, StopsAtTheEndsOfTheRange) {
  EXPECT_EQ(saturating_difference(at(largest), at(-1ns)), largest);
  EXPECT_EQ(saturating_difference(at(0ns), at(smallest)), largest);
  EXPECT_EQ(saturating_difference(at(-2ns), at(largest)), smallest);
  EXPECT_EQ(saturating_difference(at(smallest), at(1ns)), smallest);
}

TEST(SaturatingNanoseconds, ConvertsWhatFitsExactly) {
  EXPECT_EQ(saturating_nanoseconds(0s), 0ns);
  EXPECT_EQ(saturating_nanoseconds(17ms), 17'000'000ns);
  EXPECT_EQ(saturating_nanoseconds(-3h), -3h);
  EXPECT_EQ(saturating_nanoseconds(largest), largest);
  EXPECT_EQ(saturating_nanoseconds(smallest), smallest);
  EXPECT_EQ(saturating_nanoseconds(std::chrono::seconds(9'223'372'036)), 9'223'372'036'000'000'000ns);
}

TEST(SaturatingNanoseconds, StopsAtTheEndsOfTheRange) {
  EXPECT_EQ(saturating_nanoseconds(std::chrono::hours::max()), largest);
  EXPECT_EQ(saturating_nanoseconds(std::chrono::hours::min()), smallest);
  EXPECT_EQ(saturating_nanoseconds(std::chrono::seconds(9'223'372'037)), largest);
  EXPECT_EQ(saturating_nanoseconds(std::chrono::seconds(-9'223'372'037)), smallest);
  EXPECT_EQ(saturating_nanoseconds(std::chrono::microseconds::max()), largest);
  EXPECT_EQ((saturating_nanoseconds(duration<std::int64_t, std::giga>(10))), largest);
  EXPECT_EQ((saturating_nanoseconds(duration<std::int8_t, std::giga>(-10))), smallest);
}

TEST(SaturatingNanoseconds, TakesNarrowAndUnsignedCounts) {
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint8_t, std::milli>(255))), 255ms);
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint32_t>(4'294'967'295U))), 4'294'967'295s);
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint64_t, std::nano>(UINT64_MAX))), largest);
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint64_t>(UINT64_MAX))), largest);
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint64_t, std::nano>(std::uint64_t{1} << 63U))), largest);
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint64_t, std::nano>(INT64_MAX))), largest);
  EXPECT_EQ((saturating_nanoseconds(duration<std::int16_t, std::ratio<3'600>>(-32'768))), -32'768h);
}

TEST(SaturatingNanoseconds, RoundsPicosecondsUp) {
  using picoseconds = duration<std::int64_t, std::pico>;
  EXPECT_EQ(saturating_nanoseconds(picoseconds(1)), 1ns);
  EXPECT_EQ(saturating_nanoseconds(picoseconds(999)), 1ns);
  EXPECT_EQ(saturating_nanoseconds(picoseconds(1'000)), 1ns);
  EXPECT_EQ(saturating_nanoseconds(picoseconds(1'001)), 2ns);
  EXPECT_EQ(saturating_nanoseconds(picoseconds(-1)), 0ns);
  EXPECT_EQ(saturating_nanoseconds(picoseconds(-1'001)), -1ns);
  EXPECT_EQ(saturating_nanoseconds(picoseconds::max()), nanoseconds(int64_max / 1'000 + 1));
  EXPECT_EQ(saturating_nanoseconds(picoseconds::min()), nanoseconds(int64_min / 1'000));
  EXPECT_EQ((saturating_nanoseconds(duration<std::uint64_t, std::pico>(UINT64_MAX))),
            nanoseconds(18'446'744'073'709'552));
}

TEST(SaturatingNanoseconds, RoundsFractionsOfASecondUp) {
  using sixtieths = duration<std::int64_t, std::ratio<1, 60>>;
  EXPECT_EQ(saturating_nanoseconds(sixtieths(1)), 16'666'667ns);
  EXPECT_EQ(saturating_nanoseconds(sixtieths(60)), 1s);
  EXPECT_EQ(saturating_nanoseconds(sixtieths(-1)), -16'666'666ns);
  EXPECT_EQ(saturating_nanoseconds(sixtieths(60'000'000'001)), 1'000'000'000'016'666'667ns);
  EXPECT_EQ(saturating_nanoseconds(sixtieths(600'000'000'000)), largest);
  EXPECT_EQ(saturating_nanoseconds(sixtieths::max()), largest);
  EXPECT_EQ(saturating_nanoseconds(sixtieths::min()), smallest);
}

TEST(SaturatingNanoseconds, LongThirdsOfASecondDoNotOverflow) {
  using thirds = duration<std::int64_t, std::ratio<1, 3>>;
  EXPECT_EQ(saturating_nanoseconds(thirds(27'000'000'000)), 9'000'000'000s);
  EXPECT_EQ(saturating_nanoseconds(thirds(-27'000'000'000)), -9'000'000'000s);
  EXPECT_EQ(saturating_nanoseconds(thirds(10'000'000'001)), 3'333'333'333'666'666'667ns);
}

TEST(SaturatingNanoseconds, DecimalFractionsOfASecondAreExact) {
  EXPECT_EQ(saturating_nanoseconds(duration<double>(0.1)), 100ms);
  EXPECT_EQ(saturating_nanoseconds(duration<double>(1.1)), 1'100ms);
  EXPECT_EQ(saturating_nanoseconds(duration<double, std::milli>(0.2)), 200us);
}

TEST(SaturatingNanoseconds, TakesUnitsThatLastLongerThanTime) {
  using terasecond = std::chrono::duration<std::int64_t, std::tera>;
  using exasecond = std::chrono::duration<std::int64_t, std::exa>;
  using real_terasecond = std::chrono::duration<double, std::tera>;
  EXPECT_EQ(saturating_nanoseconds(terasecond(0)), 0ns);
  EXPECT_EQ(saturating_nanoseconds(terasecond(1)), std::chrono::nanoseconds::max());
  EXPECT_EQ(saturating_nanoseconds(terasecond(-1)), std::chrono::nanoseconds::min());
  EXPECT_EQ(saturating_nanoseconds(terasecond::max()), std::chrono::nanoseconds::max());
  EXPECT_EQ(saturating_nanoseconds(terasecond(1'000'000'000'000'000'000)), std::chrono::nanoseconds::max())
      << "the product has more than 128 bits";
  EXPECT_EQ(saturating_nanoseconds(terasecond(-1'000'000'000'000'000'000)), std::chrono::nanoseconds::min());
  EXPECT_EQ(saturating_nanoseconds(exasecond::max()), std::chrono::nanoseconds::max());
  EXPECT_EQ(saturating_nanoseconds(exasecond::min()), std::chrono::nanoseconds::min());
  EXPECT_EQ(saturating_nanoseconds(real_terasecond(1e-12)), 1s);
  EXPECT_EQ(saturating_nanoseconds(real_terasecond(1)), std::chrono::nanoseconds::max());
}

TEST(SaturatingNanoseconds, TakesFractionsOfLongUnits) {
  using third_of_a_terasecond = std::chrono::duration<std::int64_t, std::ratio<1'000'000'000'000, 3>>;
  using attosecond = std::chrono::duration<std::int64_t, std::atto>;
  EXPECT_EQ(saturating_nanoseconds(third_of_a_terasecond(1)), std::chrono::nanoseconds::max());
  EXPECT_EQ(saturating_nanoseconds(attosecond(1)), 1ns);
  EXPECT_EQ(saturating_nanoseconds(attosecond(-1)), 0ns);
  EXPECT_EQ(saturating_nanoseconds(attosecond::max()), 9'223'372'037ns);
}

TEST(SaturatingNanoseconds, RoundsFloatingPointUp) {
  using double_nanoseconds = duration<double, std::nano>;
  EXPECT_EQ(saturating_nanoseconds(double_nanoseconds(0.25)), 1ns);
  EXPECT_EQ(saturating_nanoseconds(double_nanoseconds(7.0)), 7ns);
  EXPECT_EQ(saturating_nanoseconds(double_nanoseconds(7.5)), 8ns);
  EXPECT_EQ(saturating_nanoseconds(double_nanoseconds(-0.75)), 0ns);
  EXPECT_EQ(saturating_nanoseconds(double_nanoseconds(-7.5)), -7ns);
  EXPECT_EQ(saturating_nanoseconds(duration<double>(1.5)), 1'500ms);
  EXPECT_EQ(saturating_nanoseconds(duration<float>(0.5F)), 500ms);
  EXPECT_EQ(saturating_nanoseconds(duration<double>(1e-12)), 1ns);
}

template <class Rep>
class SaturatingNanosecondsOfFloating : public ::testing::Test {};
using floating_types = ::testing::Types<float, double, long double>;
TYPED_TEST_SUITE(SaturatingNanosecondsOfFloating, floating_types);

TYPED_TEST(SaturatingNanosecondsOfFloating, NotANumberIsTheLargest) {
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam>(std::numeric_limits<TypeParam>::quiet_NaN())), largest);
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam>(-std::numeric_limits<TypeParam>::quiet_NaN())), largest);
}

TYPED_TEST(SaturatingNanosecondsOfFloating, StopsAtTheEndsOfTheRange) {
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam>(infinity<TypeParam>)), largest);
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam>(-infinity<TypeParam>)), smallest);
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam>(std::numeric_limits<TypeParam>::max())), largest);
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam>(std::numeric_limits<TypeParam>::lowest())), smallest);
  EXPECT_EQ(saturating_nanoseconds(duration<TypeParam, std::nano>(TypeParam{9'223'372'036'854'775'808.0L})), largest);
}

/// From the largest value whose nanoseconds fit, down: each must stay near the end of time and never wrap.
template <class Period, class Rep>
void expect_near_the_end(Rep limit) {
  Rep value = limit;
  for (int i = 0; i < 200; ++i, value = std::nextafter(value, Rep{0})) {
    const auto ceiling = static_cast<long double>(saturating_nanoseconds(duration<Rep, Period>(value)).count());
    ASSERT_GE(ceiling, 9.2e18L) << "for " << std::hexfloat << value;
    const auto floor = static_cast<long double>(saturating_nanoseconds(duration<Rep, Period>(-value)).count());
    ASSERT_LE(floor, -9.2e18L) << "for " << std::hexfloat << -value;
  }
}

TYPED_TEST(SaturatingNanosecondsOfFloating, NearTheEndOfTimeNothingWraps) {
  expect_near_the_end<std::nano>(static_cast<TypeParam>(9'223'372'036'854'775'808.0L));
  expect_near_the_end<std::micro>(static_cast<TypeParam>(9'223'372'036'854'775.808L));
  expect_near_the_end<std::milli>(static_cast<TypeParam>(9'223'372'036'854.775'808L));
  expect_near_the_end<std::ratio<1>>(static_cast<TypeParam>(9'223'372'036.854'775'808L));
  expect_near_the_end<std::ratio<3'600>>(static_cast<TypeParam>(2'562'047.788'015'215'502L));
}

TEST(TickScale, DeadlineOf28MillisecondsIsTheThirdTickOfTen) {
  constexpr tick_scale scale(at(0ns), 10ms);
  EXPECT_EQ(scale.ceil(at(3ms + 25ms)), 3U);
  EXPECT_EQ(scale.floor(at(20ms)), 2U);
  EXPECT_EQ(scale.floor(at(30ms - 1ns)), 2U);
  EXPECT_EQ(scale.floor(at(30ms)), 3U);
  EXPECT_EQ(scale.begin_of(3), at(30ms));
  EXPECT_EQ(scale.tick_length(), 10ms);
}

TEST(TickScale, DeadlinesAroundATickRoundUp) {
  constexpr tick_scale scale(at(1'000s), 1ms);
  EXPECT_EQ(scale.ceil(at(1'000s)), 0U);
  EXPECT_EQ(scale.ceil(at(1'000s + 1ns)), 1U);
  EXPECT_EQ(scale.ceil(at(1'000s + 1ms - 1ns)), 1U);
  EXPECT_EQ(scale.ceil(at(1'000s + 1ms)), 1U);
  EXPECT_EQ(scale.ceil(at(1'000s + 1ms + 1ns)), 2U);
}

TEST(TickScale, WhatLiesBeforeTheOriginIsTickZero) {
  constexpr tick_scale scale(at(5s), 1ms);
  for (const time_point when : {at(5s - 1ns), at(0s), at(-1s), time_point::min()}) {
    EXPECT_EQ(scale.floor(when), 0U);
    EXPECT_EQ(scale.ceil(when), 0U);
  }
  EXPECT_EQ(scale.begin_of(0), at(5s));
}

TEST(TickScale, EndOfTimeIsNever) {
  for (const nanoseconds origin : {smallest, -1ns, 0ns, nanoseconds(5'000s), largest}) {
    for (const nanoseconds length : {nanoseconds(1), 1'000'000ns, nanoseconds(1h), largest}) {
      EXPECT_EQ(tick_scale(at(origin), length).ceil(time_point::max()), never);
      EXPECT_EQ(tick_scale(at(origin), length).begin_of(never), time_point::max());
    }
  }
}

TEST(TickScale, CountsNanosecondsFromTheBeginningToTheEndOfTime) {
  constexpr tick_scale scale(time_point::min(), 1ns);
  EXPECT_EQ(scale.floor(time_point::min()), 0U);
  EXPECT_EQ(scale.floor(at(0ns)), tick{1} << 63U);
  EXPECT_EQ(scale.floor(time_point::max()), never - 1);
  EXPECT_EQ(scale.ceil(at(largest - 1ns)), never - 1);
  EXPECT_EQ(scale.begin_of(tick{1} << 63U), at(0ns));
  EXPECT_EQ(scale.begin_of(never - 1), at(largest - 1ns));
}

TEST(TickScale, TickThatBeginsAfterTheEndOfTimeBeginsAtTheEnd) {
  constexpr tick_scale scale(at(0ns), 1s);
  const tick last = scale.floor(time_point::max());
  EXPECT_EQ(last, 9'223'372'036U);
  EXPECT_EQ(scale.begin_of(last), at(9'223'372'036s));
  EXPECT_EQ(scale.begin_of(last + 1), time_point::max());
  EXPECT_EQ(scale.ceil(at(largest - 1ns)), last + 1);
}

TEST(TickScale, NothingIsEarlyAndNothingIsATickLate) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 100'000; ++i) {
    const auto any = [&] { return nanoseconds(static_cast<std::int64_t>(random()) >> (random() % 64)); };
    const nanoseconds length = nanoseconds(1 + std::abs(any().count() / 2));
    const time_point origin = at(any());
    const tick_scale scale(origin, length);
    const time_point deadline = at(any());
    const tick due = scale.ceil(deadline);
    ASSERT_GE(scale.begin_of(due), deadline);
    ASSERT_TRUE(due == 0 || scale.begin_of(due - 1) < deadline);
    ASSERT_LE(scale.begin_of(scale.floor(deadline)), std::max(deadline, origin));
    ASSERT_TRUE(deadline < origin || scale.begin_of(scale.floor(deadline) + 1) > deadline);
  }
}

}  // namespace
}  // namespace timing_wheel::test

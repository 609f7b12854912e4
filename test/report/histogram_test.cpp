#include "timing_wheel/histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/allocation.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

/// The upper end of the class that `value` falls into.
nanoseconds end_of_class(nanoseconds value) {
  histogram one;
  one.record(value);
  one.record(nanoseconds::max());
  return one.quantile(0.5);
}

std::vector<nanoseconds> random_values(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<nanoseconds> values(count);
  std::generate(values.begin(), values.end(),
                [&] { return nanoseconds(static_cast<std::int64_t>(random() >> (1 + random() % 63))); });
  return values;
}

void expect_quantiles_of(const histogram& recorded, std::vector<nanoseconds> values) {
  std::sort(values.begin(), values.end());
  for (const double share : {0.001, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    const nanoseconds exact = values[rank - 1];
    EXPECT_GE(recorded.quantile(share), exact) << share;
    EXPECT_LE(recorded.quantile(share) - exact, exact / 16) << share;
  }
}

TEST(Histogram, IsEmptyAtFirst) {
  const histogram empty;
  EXPECT_EQ(empty.count(), 0U);
  EXPECT_EQ(empty.max(), 0ns);
  for (const double share : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(empty.quantile(share), 0ns);
  }
}

TEST(Histogram, ClassIsAtMostASixteenthOfItsValueWide) {
  for (const nanoseconds value : random_values(20'000, 1)) {
    ASSERT_GE(end_of_class(value), value);
    ASSERT_LE(end_of_class(value) - value, value / 16) << value.count();
  }
}

TEST(Histogram, SumIsWithinAThirtySecondOfTheExactOne) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    histogram recorded;
    double exact = 0;
    for (const nanoseconds value : random_values(1000, seed)) {
      recorded.record(value);
      exact += static_cast<double>(value.count()) / 1e9;
    }
    EXPECT_NEAR(recorded.sum().count(), exact, exact / 32);
  }
  EXPECT_EQ(histogram().sum().count(), 0.0);
}

TEST(Histogram, SumOfSmallValuesIsExact) {
  histogram recorded;
  recorded.record(-5ns);
  recorded.record(0ns);
  recorded.record(7ns);
  recorded.record(15ns);
  EXPECT_DOUBLE_EQ(recorded.sum().count(), 22e-9);
}

TEST(Histogram, CountsUpToABound) {
  const auto values = random_values(1000, 5);
  histogram recorded;
  for (const nanoseconds value : values) {
    recorded.record(value);
  }
  for (const nanoseconds bound : {0ns, 5ns, 1000ns, 123'456'789ns, nanoseconds(1h), nanoseconds::max()}) {
    const auto up_to = [&](double most) {
      return static_cast<std::uint64_t>(std::count_if(
          values.begin(), values.end(), [&](nanoseconds each) { return static_cast<double>(each.count()) <= most; }));
    };
    const auto end = static_cast<double>(bound.count());
    EXPECT_LE(recorded.count_up_to(bound), up_to(end)) << bound.count();
    EXPECT_GE(recorded.count_up_to(bound), up_to(end * 15 / 16)) << bound.count();
  }
  EXPECT_EQ(recorded.count_up_to(-1ns), 0U);
}

TEST(Histogram, SmallValuesAreExact) {
  for (nanoseconds value = 0ns; value < 32ns; ++value) {
    EXPECT_EQ(end_of_class(value), value);
  }
}

TEST(Histogram, ClassesMeetAtPowersOfTwo) {
  for (unsigned bit = 5; bit < 63; ++bit) {
    const nanoseconds power(std::int64_t{1} << bit);
    EXPECT_EQ(end_of_class(power - 1ns), power - 1ns) << bit;
    EXPECT_EQ(end_of_class(power), power + power / 16 - 1ns) << bit;
  }
}

TEST(Histogram, QuantilesAreThoseOfTheSortedValuesAlsoAfterAMerge) {
  const std::vector<nanoseconds> values = random_values(10'000, 2);
  histogram whole;
  histogram first;
  histogram second;
  for (std::size_t i = 0; i < values.size(); ++i) {
    whole.record(values[i]);
    (i % 3 == 0 ? first : second).record(values[i]);
  }
  histogram merged = first;
  merged.merge(second);
  second.merge(first);  // one of the two has to take the largest over
  for (const histogram& recorded : {whole, merged, second}) {
    EXPECT_EQ(recorded.count(), values.size());
    EXPECT_EQ(recorded.max(), *std::max_element(values.begin(), values.end()));
    expect_quantiles_of(recorded, values);
  }
}

TEST(Histogram, QuantilesOfSmallValuesAreExact) {
  histogram recorded;
  for (nanoseconds value = 1ns; value <= 10ns; ++value) {
    recorded.record(value);
  }
  EXPECT_EQ(recorded.quantile(0.1), 1ns);
  EXPECT_EQ(recorded.quantile(0.5), 5ns);
  EXPECT_EQ(recorded.quantile(0.51), 6ns);
  EXPECT_EQ(recorded.quantile(0.9), 9ns);
  EXPECT_EQ(recorded.quantile(0.91), 10ns);
}

TEST(Histogram, ShareIsClamped) {
  histogram recorded;
  recorded.record(3ns);
  recorded.record(9ns);
  EXPECT_EQ(recorded.quantile(-1.0), 3ns);
  EXPECT_EQ(recorded.quantile(0.0), 3ns);
  EXPECT_EQ(recorded.quantile(1.0), 9ns);
  EXPECT_EQ(recorded.quantile(7.0), 9ns);
}

TEST(Histogram, QuantileIsNeverMoreThanTheLargestValue) {
  for (const nanoseconds value : {33ns, 1'000ns, nanoseconds(5s), nanoseconds::max() - 1ns}) {
    histogram recorded;
    recorded.record(value);
    EXPECT_EQ(recorded.quantile(0.5), value);
    EXPECT_EQ(recorded.quantile(1.0), value);
  }
}

TEST(Histogram, NegativeValuesCountAsZero) {
  histogram recorded;
  recorded.record(-1ns);
  recorded.record(nanoseconds::min());
  EXPECT_EQ(recorded.count(), 2U);
  EXPECT_EQ(recorded.max(), 0ns);
  EXPECT_EQ(recorded.quantile(1.0), 0ns);
}

TEST(Histogram, RecordingAllocatesNothing) {
  histogram recorded;
  EXPECT_EQ(count_allocations([&] {
              for (std::int64_t value = 1; value > 0 && value < INT64_MAX / 3; value *= 3) {
                recorded.record(nanoseconds(value));
              }
            }),
            0U);
}

TEST(Histogram, TakesEightKibibytes) {
  const std::size_t before = allocations.live_bytes;
  const histogram recorded;
  EXPECT_LE(allocations.live_bytes - before + sizeof(recorded), 8'192U);
}

}  // namespace
}  // namespace timing_wheel::test

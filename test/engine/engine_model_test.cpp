/// \file
/// Random histories against an ordered map, with the invariants checked after each step.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "support/drive.hpp"
#include "support/engine_session.hpp"
#include "support/engines.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"

namespace timing_wheel::test {
namespace {

constexpr std::size_t longest_history = 2'000;  // bytes, of which a step takes about five

/// The wheel with cascades has the most states, and gets the most histories.
template <class Engine>
constexpr std::uint64_t seeds_of = std::is_same_v<Engine, hierarchical_wheel> ? 3'000 : 1'500;

tick magnitude(dice& random, unsigned bits) { return static_cast<tick>(random.magnitude(bits)); }

template <class Engine>
class Model : public ::testing::Test {};
TYPED_TEST_SUITE(Model, engine_types);

TYPED_TEST(Model, RandomHistoriesAgreeWithAnOrderedMap) {
  const std::uint64_t seeds = stress_rounds(seeds_of<TypeParam>);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    dice random(seed);
    std::vector<std::uint8_t> bytes(1 + random.below(longest_history));
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random.below(256)); });
    ASSERT_NO_THROW(engine_session<TypeParam>(fuzz::input(bytes)).run()) << "seed " << seed;
  }
}

TYPED_TEST(Model, LivesThroughEveryIntegerBoundaryOfItsTime) {
  TypeParam engine(engine_options{.wheel_size = 20});
  for (unsigned bit = 4; bit < 64; ++bit) {
    const tick boundary = tick{1} << bit;
    engine.catch_up(boundary - 6);
    const std::vector<tick> deadlines = {boundary + 2, boundary - 1, boundary,
                                         boundary - 4, boundary + 1, boundary + 1};
    expect_each_at_its_tick(engine, insert_all(engine, deadlines));
    ASSERT_EQ(engine.now(), boundary + 2);
  }
}

TEST(HierarchicalWheelLife, TimerThatRearmsItselfLivesUntilTheEndOfTime) {
  for (const std::uint32_t n : {2U, 20U, 64U, 512U}) {
    hierarchical_wheel wheel(engine_options{.wheel_size = n});
    dice random(n);
    while (wheel.now() < never - 1) {
      const tick deadline = std::min(never - 1, after(wheel.now(), 1 + magnitude(random, 58)));
      ASSERT_TRUE(wheel.insert(0, deadline));
      std::vector<timer_number> due;
      while (due.empty()) {
        due = drain(wheel, wheel.next_expiration().value());
      }
      ASSERT_EQ(wheel.now(), deadline);
      ASSERT_EQ(due, std::vector<timer_number>{0});
    }
    EXPECT_TRUE(wheel.invariants_hold());
  }
}

}  // namespace
}  // namespace timing_wheel::test

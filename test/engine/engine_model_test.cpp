/// \file
/// Random histories against an ordered map, with the invariants checked after each step.
/// The environment variable TIMING_WHEEL_SEEDS multiplies the number of histories.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <random>
#include <set>
#include <type_traits>
#include <utility>

#include "support/build.hpp"
#include "support/drive.hpp"
#include "support/engines.hpp"
#include "support/oracle.hpp"

namespace timing_wheel::test {
namespace {

constexpr std::uint64_t seeds = slow_build ? 300 : 3'000;
constexpr int steps_per_seed = 300;

/// The wheel with cascades has the most states, and gets the most histories.
template <class Engine>
constexpr std::uint64_t seeds_of = std::is_same_v<Engine, hierarchical_wheel> ? seeds : seeds / 2;

std::uint64_t seed_factor() {
  const char* text = std::getenv("TIMING_WHEEL_SEEDS");
  return text == nullptr ? 1 : std::max<std::uint64_t>(1, std::strtoull(text, nullptr, 10));
}

/// Random numbers as a sceptic draws them: all magnitudes are equally likely.
class dice {
 public:
  explicit dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t of_magnitude(unsigned bits) {
    const auto width = static_cast<unsigned>(below(bits + 1));
    return width == 0 ? 0 : random_() >> (64 - width);
  }

 private:
  std::mt19937_64 random_;
};

engine_options random_options(dice& random) {
  engine_options options;
  options.wheel_size = static_cast<std::uint32_t>(2 + random.below(random.one_in(3) ? 599 : 70));
  for (std::uint64_t levels = random.one_in(3) ? 1 + random.below(4) : 0; levels > 0; --levels) {
    options.wheel_sizes.push_back(static_cast<std::uint32_t>(2 + random.below(130)));
  }
  const tick start = random.of_magnitude(64);
  options.start = random.one_in(4) ? never - 1 - start / 2 : std::min(start, never - 1);
  return options;
}

/// How many bits the delays have: mostly so many that they need a few levels, sometimes all.
unsigned random_longest_delay(dice& random, const engine_options& options) {
  const auto bits_of_a_level = static_cast<unsigned>(std::bit_width(options.wheel_size.value()));
  const unsigned most = random.one_in(5) ? 64 : std::min(64U, 4 * bits_of_a_level);
  return static_cast<unsigned>(2 + random.below(most - 1));
}

/// One engine and the oracle beside it.
template <timer_engine Engine>
class history {
 public:
  explicit history(std::uint64_t seed)
      : random_(seed),
        options_(random_options(random_)),
        longest_bits_(random_longest_delay(random_, options_)),
        numbers_(1 + random_.below(400)),
        engine_(options_) {}

  void step() {
    const std::uint64_t which = random_.below(100);
    if (which < 40) {
      insert(random_number(), random_deadline());
    } else if (which < 42) {
      insert_burst();
    } else if (which < 55) {
      erase(random_number());
    } else if (which < 65) {
      reschedule(random_number(), random_deadline());
    } else if (which < 72) {
      catch_up(random_time());
    } else if (which < 76) {
      engine_.shrink_some();
    } else {
      advance(random_time(), random_budget());
    }
  }

  void check() const {
    ASSERT_TRUE(engine_.invariants_hold());
    ASSERT_EQ(engine_.size(), expected_.size());
    const auto next = engine_.next_expiration();
    ASSERT_EQ(next.has_value(), expected_.earliest().has_value());
    ASSERT_LE(next, expected_.earliest());
  }

 private:
  timer_number random_number() { return static_cast<timer_number>(random_.below(numbers_)); }

  tick random_deadline() {
    if (random_.one_in(3)) {
      return recent_;
    }
    if (random_.one_in(50)) {
      return random_.one_in(2) ? never : engine_.now() - random_.below(engine_.now() + 1);
    }
    if (random_.one_in(4)) {
      return recent_ = coalesced(after(engine_.now(), random_.of_magnitude(longest_bits_)));
    }
    return recent_ = after(engine_.now(), random_.of_magnitude(longest_bits_));
  }

  tick coalesced(tick deadline) {
    const tick window = random_.of_magnitude(longest_bits_);
    const tick chosen = engine_.coalesce(deadline, window);
    EXPECT_GE(chosen, deadline);
    EXPECT_LE(chosen - deadline, window);
    EXPECT_EQ(chosen == never, deadline == never);
    return chosen;
  }

  tick random_time() {
    switch (random_.below(5)) {
      case 0:
        return engine_.next_expiration().value_or(engine_.now());
      case 1:
        return expected_.earliest().value_or(engine_.now()) - random_.below(2);
      case 2:
        return engine_.now() - std::min(engine_.now(), random_.of_magnitude(10));
      case 3:
        return after(engine_.now(), random_.below(options_.wheel_size.value()));
      default:
        return after(engine_.now(), random_.of_magnitude(longest_bits_));
    }
  }

  std::size_t random_budget() { return random_.one_in(4) ? no_limit : random_.of_magnitude(8); }

  void insert(timer_number s, tick deadline) {
    if (expected_.contains(s)) {
      return;
    }
    const bool pending = deadline > engine_.now();
    ASSERT_EQ(engine_.insert(s, deadline), pending);
    ASSERT_EQ(engine_.contains(s), pending);
    if (pending) {
      expected_.insert(s, deadline);
    }
  }

  void insert_burst() {
    const tick deadline = random_deadline();
    const std::uint64_t spread = 1 + random_.of_magnitude(8);
    for (timer_number s = 0; s < numbers_; ++s) {
      insert(s, after(deadline, random_.below(spread)));
    }
  }

  void erase(timer_number s) {
    ASSERT_EQ(engine_.contains(s), expected_.contains(s));
    ASSERT_EQ(engine_.erase(s), expected_.take(s).has_value());
    ASSERT_FALSE(engine_.contains(s));
  }

  void reschedule(timer_number s, tick deadline) {
    erase(s);
    insert(s, deadline);
  }

  void catch_up(tick now) {
    const tick before = engine_.now();
    engine_.catch_up(now);
    ASSERT_GE(engine_.now(), before);
    ASSERT_LE(engine_.now(), std::max(before, std::min(now, never - 1)));
    const tick next = engine_.next_expiration().value_or(never);
    ASSERT_TRUE(engine_.now() == before || engine_.now() < next);
    ASSERT_TRUE(engine_.now() >= now || engine_.now() == before || engine_.now() + 1 == next);
  }

  void advance(tick now, std::size_t budget) {
    const tick target = std::max(engine_.now(), std::min(now, never - 1));
    const advance_result result = engine_.advance(now, budget);
    ASSERT_LE(result.handled, budget);
    ASSERT_LE(result.due.size(), result.handled);
    for (const timer_number s : result.due) {
      const auto deadline = expected_.take(s);
      ASSERT_TRUE(deadline.has_value()) << "timer " << s << " came out and was not pending";
      ASSERT_LE(*deadline, target) << "timer " << s << " is early";
      ASSERT_FALSE(engine_.contains(s));
    }
    ASSERT_EQ(result.more, engine_.next_expiration().value_or(never) <= target);
    ASSERT_TRUE(result.more || expected_.earliest().value_or(never) > target) << "something was left behind";
    ASSERT_TRUE(result.more ? engine_.now() <= target : engine_.now() == target);
  }

  dice random_;
  engine_options options_;
  unsigned longest_bits_;
  std::uint64_t numbers_;
  tick recent_ = 0;
  Engine engine_;
  oracle expected_;
};

template <class Engine>
class Model : public ::testing::Test {};
TYPED_TEST_SUITE(Model, engine_types);

TYPED_TEST(Model, RandomHistoriesAgreeWithAnOrderedMap) {
  for (std::uint64_t seed = 0; seed < seeds_of<TypeParam> * seed_factor(); ++seed) {
    history<TypeParam> random_history(seed);
    for (int step = 0; step < steps_per_seed; ++step) {
      random_history.step();
      random_history.check();
      ASSERT_FALSE(this->HasFatalFailure()) << "seed " << seed << ", step " << step;
    }
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

/// What comes out when, of the same random insertions, erasures and steps of the clock for the same seed.
template <timer_engine Engine>
std::set<std::pair<tick, timer_number>> random_firings(std::uint64_t seed) {
  dice random(seed);
  const auto most_slots = static_cast<std::uint32_t>(2 + random.below(100));
  Engine engine(engine_options{.wheel_size = most_slots, .start = random.of_magnitude(60)});
  std::set<std::pair<tick, timer_number>> fired;
  for (int step = 0; step < 300; ++step) {
    for (std::uint64_t count = random.below(10); count > 0; --count) {
      const auto s = static_cast<timer_number>(random.below(200));
      engine.erase(s);
      engine.insert(s, after(engine.now(), random.of_magnitude(16)));
    }
    const tick now = engine.now() + random.of_magnitude(12);
    for (const timer_number s : drain(engine, now, 1 + random.below(100))) {
      fired.emplace(now, s);
    }
  }
  return fired;
}

TEST(AllEngines, FireTheSameTimersAtTheSameTicks) {
  for (std::uint64_t seed = 0; seed < seeds / 10 * seed_factor(); ++seed) {
    const auto expected = random_firings<hierarchical_wheel>(seed);
    ASSERT_FALSE(expected.empty());
    ASSERT_EQ(random_firings<hashed_wheel>(seed), expected) << "seed " << seed;
    ASSERT_EQ(random_firings<heap_queue>(seed), expected) << "seed " << seed;
  }
}

TEST(HierarchicalWheelLife, TimerThatRearmsItselfLivesUntilTheEndOfTime) {
  for (const std::uint32_t n : {2U, 20U, 64U, 512U}) {
    hierarchical_wheel wheel(engine_options{.wheel_size = n});
    dice random(n);
    while (wheel.now() < never - 1) {
      const tick deadline = std::min(never - 1, after(wheel.now(), 1 + random.of_magnitude(58)));
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

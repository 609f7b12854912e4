#include "core/slab.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace timing_wheel::test {
namespace {

using detail::admission;

TEST(Admission, LetsInAsManyAsItsLimitAndOneForEachThatLeaves) {
  EXPECT_FALSE(admission(0).enter());
  admission door(3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(door.enter()) << i;
  }
  EXPECT_FALSE(door.enter());
  EXPECT_FALSE(door.enter()) << "a refusal takes no place";
  door.leave();
  EXPECT_TRUE(door.enter());
  EXPECT_FALSE(door.enter());
}

TEST(Admission, WithoutALimitLetsInEverybodyAndCountsNobody) {
  admission door(no_limit);
  door.leave();
  EXPECT_TRUE(door.enter());
  EXPECT_EQ(door.limit(), no_limit);
}

TEST(Admission, OfSeveralThreadsLetsInAsManyAsItsLimit) {
  constexpr std::size_t limit = 1000;
  admission door(limit);
  std::atomic<std::size_t> inside{0};
  std::atomic<std::size_t> most{0};
  const auto come_and_go = [&] {
    for (int i = 0; i < 10'000; ++i) {
      if (door.enter()) {
        const std::size_t now = ++inside;
        for (std::size_t before = most; before < now && !most.compare_exchange_weak(before, now);) {
        }
        if (i % 4 != 0) {  // every fourth stays
          --inside;
          door.leave();
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back(come_and_go);
  }
  for (std::thread& one : threads) {
    one.join();
  }
  EXPECT_EQ(inside, limit);
  EXPECT_LE(most, limit);
  EXPECT_FALSE(door.enter());
}

}  // namespace
}  // namespace timing_wheel::test

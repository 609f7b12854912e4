#include "timing_wheel/detail/engine/delay_queue.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <utility>
#include <vector>

#include "support/allocation.hpp"

namespace timing_wheel::test {
namespace {

using detail::delay_queue;

/// Takes the front until the queue is empty. \returns the expirations in the order they came.
std::vector<tick> expirations_of(delay_queue& queue) {
  std::vector<tick> expirations;
  while (!queue.empty()) {
    expirations.push_back(queue.front().expiration);
    queue.erase(queue.front().which);
    EXPECT_TRUE(queue.invariants_hold());
  }
  return expirations;
}

/// Pushes, updates or erases a random member, here and there.
void random_step(delay_queue& queue, std::set<std::pair<tick, delay_queue::member>>& expected, std::mt19937& random) {
  const auto m = static_cast<delay_queue::member>(random() % 200);
  const tick expiration = random() % 500;
  if (!queue.contains(m)) {
    queue.push(m, expiration);
    expected.emplace(expiration, m);
    return;
  }
  expected.erase({queue.expiration(m), m});
  if (random() % 3 == 0) {
    queue.erase(m);
  } else {
    queue.update(m, expiration);
    expected.emplace(expiration, m);
  }
}

TEST(DelayQueue, RandomHistoryAgreesWithAnOrderedSet) {
  delay_queue queue;
  queue.grow(200);
  std::set<std::pair<tick, delay_queue::member>> expected;
  std::mt19937 random(5);
  for (int step = 0; step < 50'000; ++step) {
    random_step(queue, expected, random);
    ASSERT_TRUE(queue.invariants_hold());
    ASSERT_EQ(queue.size(), expected.size());
    ASSERT_TRUE(queue.empty() || queue.front().expiration == expected.begin()->first);
  }
}

TEST(DelayQueue, CountsItsOperations) {
  delay_queue queue;
  queue.grow(2);
  queue.push(0, 1);
  queue.push(1, 2);
  queue.update(1, 0);
  queue.erase(0);
  EXPECT_EQ(queue.operations(), 4U);
}

TEST(DelayQueue, GrowToLessKeepsItsMembers) {
  delay_queue queue;
  queue.grow(3);
  queue.push(2, 40);
  queue.grow(1);
  EXPECT_TRUE(queue.invariants_hold());
  queue.grow(3);
  EXPECT_TRUE(queue.contains(2));
}

TEST(DelayQueue, GrowThatFindsNoMemoryChangesNothing) {
  bool succeeded = false;
  for (std::uint64_t left = 0; !succeeded; ++left) {
    delay_queue queue;
    queue.grow(2);
    queue.push(1, 10);
    succeeded = succeeds_with(left, [&] { queue.grow(100'000); });
    EXPECT_TRUE(queue.invariants_hold());
    queue.push(0, 5);
    EXPECT_EQ(expirations_of(queue), (std::vector<tick>{5, 10}));
  }
}

TEST(DelayQueue, AllocatesOnlyToGrow) {
  delay_queue queue;
  queue.grow(1'000);
  EXPECT_EQ(count_allocations([&] {
              for (delay_queue::member m = 0; m < 1'000; ++m) {
                queue.push(m, 1'000 - m);
                queue.update(m, 2'000 - m);
              }
              queue.erase(500);
            }),
            0U);
  EXPECT_GE(queue.bytes(), 1'000 * (sizeof(delay_queue::element) + sizeof(std::uint32_t)));
}

}  // namespace
}  // namespace timing_wheel::test

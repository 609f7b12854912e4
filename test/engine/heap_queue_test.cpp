/// \file
/// What is particular to the heap: wake-ups, the count of its operations, memory.

#include "timing_wheel/engine/heap_queue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "support/allocation.hpp"
#include "support/drive.hpp"

namespace timing_wheel::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(HeapQueue, WakesAtTheDeadlinesAndAtNothingBetween) {
  heap_queue heap;
  insert_all(heap, {2, 10, 60, 234, 1'000});
  EXPECT_EQ(wakeups(heap), (std::vector<tick>{2, 10, 60, 234, 1'000}));
}

TEST(HeapQueue, OneJumpGivesTimersInTheOrderOfTheirDeadlines) {
  heap_queue heap;
  std::mt19937_64 random(1);
  std::vector<tick> deadlines(2'000);
  std::generate(deadlines.begin(), deadlines.end(), [&] { return 1 + random() % 1'000'000; });
  insert_all(heap, deadlines);
  const std::span<const timer_number> due = heap.advance(1'000'000).due;
  EXPECT_EQ(due.size(), 2'000U);
  EXPECT_TRUE(std::is_sorted(due.begin(), due.end(),
                             [&](timer_number a, timer_number b) { return deadlines[a] < deadlines[b]; }));
}

TEST(HeapQueue, ClockStopsAtTheDeadlineWhereTheBudgetEnds) {
  heap_queue heap;
  insert_all(heap, {4, 5, 5, 9});
  EXPECT_THAT(heap.advance(20, 2).due, ::testing::SizeIs(2));
  EXPECT_EQ(heap.now(), 5U);
  EXPECT_EQ(heap.next_expiration(), 5U);
  EXPECT_THAT(heap.advance(20, 0).due, IsEmpty());
  EXPECT_THAT(heap.advance(8).due, ::testing::SizeIs(1));
  EXPECT_THAT(drain(heap, 20), ElementsAre(3));
}

TEST(HeapQueue, IgnoresSizesOfWheelsAndShowsNoLevel) {
  heap_queue heap(engine_options{.wheel_size = 2, .wheel_sizes = {60, 24}, .start = 7});
  EXPECT_EQ(heap.now(), 7U);
  EXPECT_THAT(heap.stats().levels, IsEmpty());
  EXPECT_EQ(heap.stats().moves(), 0U);
  EXPECT_EQ(heap.stats().looks, 0U);
}

TEST(HeapQueue, EachTimerCostsTwoHeapOperations) {
  heap_queue heap;
  insert_all(heap, {2, 10, 60, 234, 1'000});
  heap.erase(2);
  drain(heap, 1'000);
  EXPECT_EQ(heap.stats().heap_operations, 10U);
}

TEST(HeapQueueMemory, SlotTakesTwentyBytesAndUpToFortyAfterGrowing) {
  heap_queue heap;
  const std::size_t before = heap.stats().bytes;
  for (timer_number s = 0; s < 1'000'000; ++s) {
    heap.insert(s, 1'800'000 - s);
  }
  EXPECT_GE(heap.stats().bytes - before, 20U * 1'000'000);
  EXPECT_LE(heap.stats().bytes - before, 40U * 1'000'000);
}

TEST(HeapQueueMemory, GrowingAllocatesSeldom) {
  heap_queue heap;
  EXPECT_LE(count_allocations([&] {
              for (timer_number s = 0; s < 1'000'000; ++s) {
                heap.insert(s, 1'800'000);
              }
            }),
            50U);
}

TEST(HeapQueue, CoalesceChoosesTheMultipleOfTheLargestPowerOfTwo) {
  const heap_queue queue;
  for (tick deadline = 1; deadline < 300; ++deadline) {
    for (const tick window : {0U, 1U, 7U, 100U}) {
      int best = 0;
      for (tick t = deadline; t <= deadline + window; ++t) {
        best = std::max(best, std::countr_zero(t));
      }
      const tick chosen = queue.coalesce(deadline, window);
      ASSERT_TRUE(chosen >= deadline && chosen <= deadline + window) << deadline << " + " << window;
      ASSERT_EQ(std::countr_zero(chosen), best) << deadline << " + " << window;
    }
  }
  EXPECT_EQ(queue.coalesce(never, 5), never);
  EXPECT_EQ(queue.coalesce(never - 1, never), never - 1);
}

}  // namespace
}  // namespace timing_wheel::test

#include "system/short_lock.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace timing_wheel::detail {
namespace {

using namespace std::chrono_literals;

template <class Work>
void on_threads(int count, Work work) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([work, i] { work(i); });
  }
}

TEST(ShortLock, TryLockTakesItOnce) {
  short_lock lock;
  ASSERT_TRUE(lock.try_lock());
  bool taken = true;
  on_threads(1, [&](int /*thread*/) { taken = lock.try_lock(); });
  EXPECT_FALSE(taken);
  lock.unlock();
  ASSERT_TRUE(lock.try_lock());
  lock.unlock();
}

TEST(ShortLock, HoldersExcludeEachOther) {
  constexpr int threads = 4;
  constexpr int rounds = 5'000;
  short_lock lock;
  int count = 0;
  on_threads(threads, [&](int /*thread*/) {
    for (int i = 0; i < rounds; ++i) {
      const std::lock_guard guard(lock);
      const int before = count;
      if (i % 64 == 0) {
        std::this_thread::yield();
      }
      count = before + 1;
    }
  });
  EXPECT_EQ(count, threads * rounds);
}

TEST(ShortLock, EverySleeperIsWoken) {
  constexpr int threads = 4;
  short_lock lock;
  for (int round = 0; round < 10; ++round) {
    int through = 0;
    lock.lock();
    std::jthread others([&] {
      on_threads(threads, [&](int /*thread*/) {
        const std::lock_guard guard(lock);
        ++through;
      });
    });
    std::this_thread::sleep_for(5ms);  // until they have given up trying
    lock.unlock();
    others.join();
    EXPECT_EQ(through, threads);
  }
}

TEST(ShortLock, AConditionVariableCanWaitWithIt) {
  constexpr int turns = 2'000;
  short_lock lock;
  std::condition_variable_any changed;
  int turn = 0;
  on_threads(2, [&](int mine) {
    for (int i = 0; i < turns; ++i) {
      std::unique_lock guard(lock);
      changed.wait(guard, [&] { return turn % 2 == mine; });
      ++turn;
      changed.notify_all();
    }
  });
  EXPECT_EQ(turn, 2 * turns);
}

}  // namespace
}  // namespace timing_wheel::detail

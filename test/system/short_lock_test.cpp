#include "system/short_lock.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "support/in_child.hpp"
#include "system/process_barrier.hpp"

#if defined(TIMING_WHEEL_PROCESS_BARRIER)
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#endif

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

// Each of the threads takes the lock so many times, and keeps it for longer than another one tries before it sleeps.
template <class Prepare>
void hand_on(int threads, int rounds, Prepare prepare) {
  short_lock lock;
  int count = 0;
  on_threads(threads, [&](int thread) {
    prepare(thread);
    for (int i = 0; i < rounds; ++i) {
      const std::lock_guard guard(lock);
      const int before = count;
      std::this_thread::sleep_for(100us);
      count = before + 1;
    }
  });
  EXPECT_EQ(count, threads * rounds);
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

TEST(ShortLock, SleepersHandItOn) {
  hand_on(4, 100, [](int /*thread*/) {});
}

// One that never sleeps takes the lock from under those that were woken for it.
TEST(ShortLock, SleepersAreWokenThoughOthersComeBeforeThem) {
  short_lock lock;
  std::atomic<bool> over{false};
  int count = 0;
  std::jthread impatient([&] {
    while (!over.load()) {
      if (lock.try_lock()) {
        ++count;
        lock.unlock();
      }
    }
  });
  on_threads(3, [&](int /*thread*/) {
    for (int i = 0; i < 50; ++i) {
      const std::lock_guard guard(lock);
      ++count;
      std::this_thread::sleep_for(100us);
    }
  });
  over = true;
  impatient.join();
  EXPECT_GE(count, 150);
}

#if defined(TIMING_WHEEL_PROCESS_BARRIER)

/// From now on the system refuses `membarrier` to the calling thread, and to those that it starts, with `error`, as a
/// container (`EPERM`) or an old kernel (`ENOSYS`) does. \returns whether it does.
bool refuse_the_barrier(unsigned error = EPERM) {
  std::array<sock_filter, 4> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{filter.size(), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

TEST(ProcessBarrier, IsPassedWhetherItIsPreparedOrNot) {
  const long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (offered < 0 || (offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) {
    GTEST_SKIP() << "this system does not offer it";
  }
  const test::child_end child = test::in_child([] {
    errno = 0;
    const bool passed = pass_process_barrier();
    prepare_process_barrier();
    return passed && pass_process_barrier() && errno == 0 ? 0 : 1;
  });
  EXPECT_EQ(child, (test::child_end{true, 0}));
}

/// Skipped where the system cannot refuse the barrier to a thread.
class ShortLockWithoutBarrier : public testing::Test {
 protected:
  void SetUp() override {
    bool can = false;
    on_threads(1, [&](int /*thread*/) { can = refuse_the_barrier(); });
    if (!can) {
      GTEST_SKIP() << "this system has no filter of calls";
    }
  }
};

TEST_F(ShortLockWithoutBarrier, IsToldThatItIsRefused) {
  for (const unsigned error : {unsigned{EPERM}, unsigned{ENOSYS}}) {
    on_threads(1, [&](int /*thread*/) {
      refuse_the_barrier(error);
      errno = 0;
      EXPECT_FALSE(pass_process_barrier()) << error;
      EXPECT_EQ(errno, 0);
    });
  }
}

TEST_F(ShortLockWithoutBarrier, SleepersHandItOn) {
  hand_on(4, 50, [](int /*thread*/) { refuse_the_barrier(); });
}

TEST_F(ShortLockWithoutBarrier, SleepersOfBothKindsHandItOn) {
  hand_on(4, 50, [](int thread) {
    if (thread % 2 == 0) {
      refuse_the_barrier();
    }
  });
}

TEST_F(ShortLockWithoutBarrier, ASleeperFindsItOpenByItself) {
  for (int round = 0; round < 20; ++round) {
    short_lock lock;
    std::atomic<bool> through{false};
    lock.lock();
    std::jthread other([&] {
      refuse_the_barrier();
      const std::lock_guard guard(lock);
      through = true;
    });
    std::this_thread::sleep_for(2ms);
    EXPECT_FALSE(through.load());
    lock.unlock();
    other.join();
    EXPECT_TRUE(through.load());
  }
}

#endif

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

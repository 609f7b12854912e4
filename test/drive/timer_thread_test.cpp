/// \file
/// On the real clock: one thread runs callbacks while others cancel, add and stop. A machine may be arbitrarily slow:
/// that a timer is late is a failure only after `patience`; that one is early, always.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "support/meeting.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

// ---- Callbacks ----

TEST(Timer, RunsCallbacksOnOneThreadOfItsOwnOneAfterTheOther) {
  std::set<std::thread::id> threads;
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  std::atomic<int> runs{0};
  timer service({.shards = 4});
  for (int i = 0; i < 200; ++i) {
    std::thread([&] {
      service.schedule_after((runs % 5) * 1ms, [&] {
        overlaps += ++inside != 1;
        threads.insert(std::this_thread::get_id());
        --inside;
        ++runs;
      });
    }).join();
  }
  ASSERT_TRUE(eventually([&] { return runs == 200; }));
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(threads.size(), 1U);
  EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
}

// ---- In the middle of a batch, whose next callback blocks ----

/// Timers of one moment: some that run to their end, one that blocks, and some behind it.
class BlockedBatch : public testing::Test {
 protected:
  BlockedBatch() {
    with_all_due_at_once(service_, [this](time_point deadline) {
      for (auto& handle : before_) {
        handle = service_.schedule_at(deadline, [] {});
      }
      service_.schedule_at(deadline, [this] {
        begun_.count_down();
        go_on_.wait();
      });
      for (auto& handle : behind_) {
        handle = service_.schedule_at(deadline, [this] { ++ran_behind_; });
      }
    });
    begun_.wait();
  }
  ~BlockedBatch() override {
    if (!go_on_.try_wait()) {
      go_on_.count_down();
    }
  }

  timer& service() { return service_; }
  const timer_handle& before(std::size_t i) const { return before_.at(i); }
  const timer_handle& behind(std::size_t i) const { return behind_.at(i); }
  static constexpr std::size_t each = 3;
  static constexpr std::size_t begun = each + 2;  // with the one that blocks, and the one in which all were scheduled
  int ran_behind() const { return ran_behind_; }
  void go_on() { go_on_.count_down(); }

 private:
  latch begun_{1};
  latch go_on_{1};
  std::atomic<int> ran_behind_{0};
  std::array<timer_handle, each> before_;
  std::array<timer_handle, each> behind_;
  timer service_{{.shards = 1}};
};

TEST_F(BlockedBatch, ThoseBeforeAreFinishedAndCountedAndNobodyWaitsForThem) {
  EXPECT_EQ(before(0).status(), timer_status::finished);
  EXPECT_EQ(before(0).cancel_and_wait(), cancel_result::finished);
  EXPECT_EQ(before(1).cancel(), cancel_result::finished);
  EXPECT_FALSE(before(2).reschedule_after(1h));
  const timer_stats seen = service().stats();
  EXPECT_EQ(seen.fired, begun);
  EXPECT_EQ(seen.running, 1U);
  EXPECT_EQ(seen.pending, each);
  EXPECT_EQ(seen.due, each);
  EXPECT_EQ(seen.lateness.count(), begun);
  EXPECT_EQ(service().pending(), each);
}

TEST_F(BlockedBatch, ThoseBehindAreCancelledMovedAndListed) {
  EXPECT_EQ(behind(0).cancel(), cancel_result::cancelled);
  EXPECT_TRUE(behind(1).reschedule_after(1h));
  std::size_t listed = 0;
  service().for_each_pending([&](const pending_timer& /*one*/) { ++listed; });
  EXPECT_EQ(listed, 2U);
  go_on();
  EXPECT_TRUE(eventually([&] { return ran_behind() == 1; }));
  EXPECT_EQ(behind(1).status(), timer_status::pending);
}

TEST_F(BlockedBatch, ThoseBehindAreReturnedByStopAndDoNotRun) {
  std::thread stopping([&] { EXPECT_EQ(service().stop().size(), each); });
  EXPECT_TRUE(eventually([&] { return service().pending() == 0; }));
  go_on();
  stopping.join();
  EXPECT_EQ(ran_behind(), 0);
}

TEST_F(BlockedBatch, ThoseBehindAreRunByAnotherThreadThatStopsWithRunNow) {
  std::thread stopping([&] { EXPECT_EQ(service().stop_run_now(), each); });
  EXPECT_TRUE(eventually([&] { return ran_behind() == static_cast<int>(each); }));
  go_on();
  stopping.join();
}

TEST(Timer, AWaitForARunEndsWithItAlthoughTheNextOneBlocks) {
  latch begun(1);
  latch end(1);
  latch next_begun(1);
  latch next_end(1);
  timer service({.shards = 1});
  const time_point deadline = steady_clock::now() + 50ms;
  const timer_handle first = service.schedule_at(deadline, [&] {
    begun.count_down();
    end.wait();
  });
  service.schedule_at(deadline, [&] {
    next_begun.count_down();
    next_end.wait();
  });
  begun.wait();
  latch waits(1);
  std::thread waiting([&] {
    waits.count_down();
    EXPECT_EQ(first.cancel_and_wait(), cancel_result::running);
  });
  waits.wait();
  std::this_thread::sleep_for(10ms);  // more likely than not it sleeps by now
  end.count_down();
  next_begun.wait();
  waiting.join();  // while the next one blocks
  next_end.count_down();
}

/// A callable whose first move waits until something has happened: it is moved into its node under the shard's lock.
class slow_to_move {
 public:
  struct history {
    latch holds_the_lock{1};
    std::atomic<bool> moved{false};
    std::atomic<bool> happened{false};
    bool happened_meanwhile = false;
  };

  explicit slow_to_move(history& seen) : seen_(&seen) {}
  slow_to_move(slow_to_move&& other) noexcept : seen_(other.seen_) {
    if (!seen_->moved.exchange(true)) {
      seen_->holds_the_lock.count_down();
      seen_->happened_meanwhile = eventually([this] { return seen_->happened.load(); });
    }
  }
  slow_to_move& operator=(slow_to_move&&) = delete;
  ~slow_to_move() = default;

  void operator()() const {}

 private:
  history* seen_;
};

TEST(Timer, ADueTimerRunsWhileAnotherThreadHoldsTheLockOfItsShard) {
  latch begun(1);
  slow_to_move::history seen;
  timer service({.shards = 1});
  with_all_due_at_once(service, [&](time_point deadline) {
    service.schedule_at(deadline, [&] {
      begun.count_down();
      seen.holds_the_lock.wait();
    });
    service.schedule_at(deadline, [&] { seen.happened = true; });
  });
  begun.wait();
  service.schedule_after(1h, slow_to_move(seen));
  EXPECT_TRUE(seen.happened_meanwhile) << "the second one has run, with the lock in the hands of this thread";
}

TEST(Timer, ACallbackOfABatchFindsTheRoomThatItsOwnRunHasLeft) {
  std::atomic<int> scheduled{0};
  timer service({.shards = 1, .max_pending = 40});
  const time_point deadline = steady_clock::now() + 50ms;
  for (int i = 0; i < 40; ++i) {
    service.schedule_at(deadline, [&] {
      service.schedule_after(1h, [] {});
      ++scheduled;
    });
  }
  EXPECT_TRUE(eventually([&] { return scheduled == 40; }));
  EXPECT_EQ(service.stats().failed, 0U);
  EXPECT_EQ(service.pending(), 40U);
}

// ---- The end ----

TEST(Timer, StopFromACallbackAndAtOnceTheDestructor) {
  for (int i = 0; i < 50; ++i) {
    latch begun(1);
    timer service;
    service.schedule_after(0ns, [&] {
      begun.count_down();
      service.stop();
    });
    begun.wait();
  }
}

TEST(Timer, EveryStopWaitsForACallbackThatRuns) {
  latch begun(1);
  std::atomic<bool> ended{false};
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    std::this_thread::sleep_for(100ms);
    ended = true;
  });
  begun.wait();
  std::vector<std::jthread> stoppers;
  for (int i = 0; i < 4; ++i) {
    stoppers.emplace_back([&] {
      service.stop();
      EXPECT_TRUE(ended);
    });
  }
}

// The system gives the number of the poller's thread, which has ended, to the next one.
TEST(Timer, ANewThreadMayDestroyAStoppedService) {
  auto service = std::make_unique<timer>();
  service->stop();
  std::thread([&] { service.reset(); }).join();
  EXPECT_EQ(service, nullptr);
}

}  // namespace
}  // namespace timing_wheel::test

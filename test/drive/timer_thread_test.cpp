/// \file
/// On the real clock: one thread runs callbacks while others cancel, add and stop. A machine may be arbitrarily slow:
/// that a timer is late is a failure only after `patience`; that one is early, always.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_probe.hpp"
#include "support/service_random.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
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

TEST(Timer, CancelFromAnotherThreadSaysRunningWhileTheCallbackRuns) {
  std::latch begun(1);
  std::latch go_on(1);
  timer service;
  const timer_handle handle = service.schedule_after(1ms, [&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  EXPECT_EQ(handle.status(), timer_status::running);
  EXPECT_EQ(handle.cancel(), cancel_result::running);
  EXPECT_FALSE(handle.reschedule_after(1ms));
  go_on.count_down();
  EXPECT_TRUE(eventually([&] { return handle.status() == timer_status::finished; }));
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TEST(Timer, OthersMayUseTheServiceWhileACallbackBlocks) {
  std::latch begun(1);
  std::latch go_on(1);
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    go_on.wait();
  });
  begun.wait();
  const timer_handle handle = service.schedule_after(1h, nothing);
  EXPECT_TRUE(handle.reschedule_after(2h));
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_TRUE(conserved(service));
  go_on.count_down();
}

TEST(Timer, ADueTimerBehindABlockedCallbackCanStillBeCancelled) {
  std::latch begun(1);
  std::latch go_on(1);
  probe behind;
  timer service;
  const time_point deadline = steady_clock::now() + 50ms;
  service.schedule_at(deadline, [&] {
    begun.count_down();
    go_on.wait();
  });
  const timer_handle handle = service.schedule_at(deadline, behind.callback());
  begun.wait();
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  go_on.count_down();
  probe last;
  service.schedule_after(1ms, last.callback());
  EXPECT_TRUE(eventually([&] { return last.ran(); }));
  EXPECT_FALSE(behind.ran());
}

// ---- In the middle of a batch, whose next callback blocks ----

/// Timers of one moment: some that run to their end, one that blocks, and some behind it.
class BlockedBatch : public testing::Test {
 protected:
  BlockedBatch() {
    const time_point deadline = steady_clock::now() + 50ms;
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
  int ran_behind() const { return ran_behind_; }
  void go_on() { go_on_.count_down(); }

 private:
  std::latch begun_{1};
  std::latch go_on_{1};
  std::atomic<int> ran_behind_{0};
  std::array<timer_handle, each> before_;
  std::array<timer_handle, each> behind_;
  timer service_{{.shards = 1}};
};

TEST_F(BlockedBatch, ThoseBeforeAreFinished) {
  EXPECT_EQ(before(0).status(), timer_status::finished);
  EXPECT_EQ(before(1).cancel(), cancel_result::finished);
  EXPECT_FALSE(before(2).reschedule_after(1h));
}

TEST_F(BlockedBatch, ThoseBeforeAreCountedAndTheirLatenessToo) {
  const timer_stats seen = service().stats();
  EXPECT_EQ(seen.fired, each + 1);
  EXPECT_EQ(seen.running, 1U);
  EXPECT_EQ(seen.pending, each);
  EXPECT_EQ(seen.due, each);
  EXPECT_EQ(seen.lateness.count(), each + 1);
  EXPECT_EQ(service().pending(), each);
}

TEST_F(BlockedBatch, AWaitForOneBeforeEndsAtOnce) { EXPECT_EQ(before(0).cancel_and_wait(), cancel_result::finished); }

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
  std::latch begun(1);
  std::latch end(1);
  std::latch next_begun(1);
  std::latch next_end(1);
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
  std::latch waits(1);
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
    std::latch holds_the_lock{1};
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
  std::latch begun(1);
  slow_to_move::history seen;
  timer service({.shards = 1});
  const time_point deadline = steady_clock::now() + 50ms;
  service.schedule_at(deadline, [&] {
    begun.count_down();
    seen.holds_the_lock.wait();
  });
  service.schedule_at(deadline, [&] { seen.happened = true; });
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

TEST(Timer, ACallbackThatThrowsDoesNotEndTheThread) {
  probe next;
  timer service;
  service.schedule_after(1ms, [] { throw 42; });
  service.schedule_after(2ms, next.callback());
  EXPECT_TRUE(eventually([&] { return next.ran(); }));
  EXPECT_EQ(service.stats().failed, 1U);
}

TEST(Timer, ATimerThatArmsItselfGoesOn) {
  std::atomic<int> left{1000};
  timer service({.tick = 100us});
  std::function<void()> again = [&] {
    if (--left > 0) {
      service.schedule_after(100us, again);
    }
  };
  service.schedule_after(0ns, again);
  EXPECT_TRUE(eventually([&] { return left == 0; }));
}

/// A timer that takes its time and comes again, as one of many that together are more than a service can do.
struct busy_timer {
  timer* service;
  void operator()() const {
    const time_point end = steady_clock::now() + 20us;
    while (steady_clock::now() < end) {
    }
    std::error_code stopped;
    service->schedule_after(1ms, *this, {}, stopped);
  }
};

TEST(Timer, AnOverloadedServiceDoesNotStarveATimerThatWasDueWhenItCame) {
  probe one;
  timer service({.shards = 1});
  for (int i = 0; i < 1000; ++i) {
    service.schedule_after(1ms, busy_timer{&service});
  }
  settle();
  service.schedule_after(-1min, one.callback());
  EXPECT_TRUE(eventually([&] { return one.ran(); }, 5s));
  service.stop();
}

// ---- In the middle of a cascade ----

/// Timers that stand in the upper wheels until shortly before they are due, and what became of each.
class cascade {
 public:
  static constexpr std::size_t count = 100'000;

  cascade() : ran_(count), answers_(count) {
    for (auto lead = 1500ms; !begun_before(lead); lead *= 2) {
    }
  }

  /// Cancels every `step`-th timer from `first` on, until the last has been due for a while.
  void cancel_from(std::size_t first, std::size_t step) {
    for (std::size_t i = first; i < count; i += step) {
      answers_[i] = handles_[i].cancel();
      if (i % 256 < step) {
        std::this_thread::sleep_for(1ms);
      }
    }
  }

  void expect_one_outcome_each() {
    ASSERT_TRUE(eventually([&] { return service_->pending() == 0; }));
    service_->stop();  // waits for the last callback
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool cancelled = answers_[i] == cancel_result::cancelled;
      wrong += ran_[i] != (cancelled ? 0 : 1);
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(service_->stats().early, 0U);
    EXPECT_GT(service_->stats().moves, count / 2) << "there was a cascade";
    EXPECT_TRUE(conserved(*service_));
  }

  timer& service() { return *service_; }

 private:
  /// Schedules all, the first to be due in `lead`, and sleeps until shortly before. \returns whether there was time.
  bool begun_before(nanoseconds lead) {
    service_.emplace(timer_options{.wheel_size = 20, .shards = 2});
    for (std::atomic<int>& one : ran_) {
      one = 0;
    }
    handles_.clear();
    const time_point base = steady_clock::now() + lead;
    dice random(10);
    for (std::size_t i = 0; i < count; ++i) {
      handles_.push_back(service_->schedule_at(base + random.between(0ns, 500ms), [this, i] { ++ran_[i]; }));
    }
    const bool in_time = steady_clock::now() < base - 400ms;
    std::this_thread::sleep_until(base - 400ms);
    return in_time;
  }

  std::vector<std::atomic<int>> ran_;
  std::vector<std::optional<cancel_result>> answers_;
  std::vector<timer_handle> handles_;
  std::optional<timer> service_;
};

TEST(Timer, NoneOfThoseCancelledInTheMiddleOfACascadeRuns) {
  cascade timers;
  {
    const std::jthread one([&] { timers.cancel_from(0, 4); });
    const std::jthread other([&] { timers.cancel_from(1, 4); });
  }
  EXPECT_GT(timers.service().stats().cancelled, 0U);
  timers.expect_one_outcome_each();
}

TEST(Timer, AddersGetInDuringACascade) {
  cascade timers;
  std::atomic<int> runs{0};
  for (int i = 0; i < 500; ++i) {
    timers.service().schedule_after(1ms, [&] { ++runs; });
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_TRUE(eventually([&] { return runs == 500; }));
  timers.expect_one_outcome_each();
  EXPECT_LE(timers.service().stats().largest_hold, max_timers_per_lock);
}

// ---- The end ----

TEST(Timer, StopWhileThePollerSleepsReturnsThePendingOne) {
  timer service;
  service.schedule_after(1h, nothing, {.tag = 7});
  settle();
  const std::vector<pending_task> left = service.stop();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].tag, 7U);
  EXPECT_TRUE(service.stopped());
}

TEST(Timer, StopTwiceReturnsNothingTheSecondTime) {
  timer service;
  service.schedule_after(1h, nothing);
  EXPECT_EQ(service.stop().size(), 1U);
  EXPECT_EQ(service.stop().size(), 0U);
  EXPECT_THROW(service.schedule_after(1ms, nothing), timer_error);
}

TEST(Timer, StopOfAServiceThatWasNeverUsedReturnsNothing) {
  timer service;
  EXPECT_TRUE(service.stop().empty());
}

TEST(Timer, StopFromACallbackReturnsTheOthers) {
  std::atomic<int> returned{-1};
  timer service;
  service.schedule_after(1h, nothing);
  service.schedule_after(20ms, [&] { returned = static_cast<int>(service.stop().size()); });
  ASSERT_TRUE(eventually([&] { return returned >= 0; }));
  EXPECT_EQ(returned, 1);
  EXPECT_TRUE(service.stop().empty());
}

TEST(Timer, StopFromACallbackAndAtOnceTheDestructor) {
  for (int i = 0; i < 50; ++i) {
    std::latch begun(1);
    timer service;
    service.schedule_after(0ns, [&] {
      begun.count_down();
      service.stop();
    });
    begun.wait();
  }
}

TEST(Timer, StopWaitsForACallbackThatRuns) {
  std::latch begun(1);
  std::atomic<bool> ended{false};
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    std::this_thread::sleep_for(100ms);
    ended = true;
  });
  begun.wait();
  service.stop();
  EXPECT_TRUE(ended);
}

TEST(Timer, EveryStopWaitsForACallbackThatRuns) {
  std::latch begun(1);
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

TEST(Timer, StopFromTwoCallersOneOfThemACallbackDoesNotDeadlock) {
  std::latch begun(1);
  std::atomic<bool> called{false};
  timer service;
  service.schedule_after(1ms, [&] {
    begun.count_down();
    std::this_thread::sleep_for(50ms);
    service.stop();
    called = true;
  });
  begun.wait();
  service.stop();
  EXPECT_TRUE(called);
}

/// What a thread that adds until it is refused has achieved.
std::uint64_t add_until_refused(timer& service, std::atomic<std::uint64_t>& runs) {
  dice random(6);
  std::error_code error;
  std::uint64_t accepted = 0;
  while (service.schedule_after(
      random.between(0ns, 100ms), [&] { ++runs; }, {}, error)) {
    ++accepted;
  }
  EXPECT_EQ(error, timer_errc::stopped);
  return accepted;
}

TEST(Timer, StopWhileEightThreadsAddLosesNothing) {
  for (int round = 0; round < 5; ++round) {
    std::atomic<std::uint64_t> runs{0};
    std::atomic<std::uint64_t> accepted{0};
    timer service({.shards = 4});
    std::vector<std::jthread> adders;
    for (int i = 0; i < 8; ++i) {
      adders.emplace_back([&] { accepted += add_until_refused(service, runs); });
    }
    std::this_thread::sleep_for(30ms);
    const std::size_t returned = service.stop().size();
    const std::uint64_t runs_at_stop = runs;
    adders.clear();
    EXPECT_EQ(accepted, runs + returned);
    EXPECT_EQ(runs, runs_at_stop) << "none runs after stop";
    EXPECT_EQ(service.stats().rejected, 8U);
    EXPECT_TRUE(conserved(service));
  }
}

TEST(Timer, TheDestructorDropsWhatIsPending) {
  live_captures captures;
  std::atomic<int> runs{0};
  {
    timer service;
    for (int i = 0; i < 1000; ++i) {
      service.schedule_after(1h, [&runs, token = captures.make()] { ++runs; });
    }
  }
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(captures.alive(), 0);
}

// The system gives the number of the poller's thread, which has ended, to the next one.
TEST(Timer, ANewThreadMayDestroyAStoppedService) {
  auto service = std::make_unique<timer>();
  service->stop();
  std::thread([&] { service.reset(); }).join();
  EXPECT_EQ(service, nullptr);
}

TEST(Timer, TheDestructorWaitsForACallbackThatRuns) {
  std::atomic<bool> ended{false};
  {
    std::latch begun(1);
    timer service;
    service.schedule_after(0ns, [&] {
      begun.count_down();
      std::this_thread::sleep_for(100ms);
      ended = true;
    });
    begun.wait();
  }
  EXPECT_TRUE(ended);
}

TEST(Timer, ManyServicesComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    timer service({.shards = 2});
    service.schedule_after((i % 3) * 1ms, nothing);
  }
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// A service with several pollers, on the real clock: what runs at the same time, who waits for whom, and who is woken.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "support/meeting.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Calls `use` on a thread of its own: the threads of a service are dealt to its shards in turn, and so to its pollers.
template <class Use>
void on_a_fresh_thread(Use use) {
  std::thread(use).join();
}

/// Waits for others, but not for ever. \returns whether they came.
bool meet(latch& others) {
  others.count_down();
  return eventually([&] { return others.try_wait(); });
}

TEST(Pollers, RunCallbacksOfDifferentShardsAtTheSameTime) {
  for (const unsigned count : {2U, 3U}) {
    latch all(count);
    std::atomic<unsigned> met{0};
    timer service({.shards = count, .pollers = count});
    for (unsigned i = 0; i < count; ++i) {
      on_a_fresh_thread([&] { service.schedule_after(1ms, [&] { met += meet(all) ? 1 : 0; }); });
    }
    EXPECT_TRUE(eventually([&] { return met == count; }));
  }
}

TEST(Pollers, CallWhatTheServiceWasGivenAtTheSameTime) {
  for (const char* what : {"executor", "on_error", "on_thread_start"}) {
    latch both(2);
    std::atomic<int> met{0};
    timer_options options{.shards = 2, .pollers = 2, .on_error = [](const std::exception_ptr&, std::uint64_t) {}};
    const auto come = [&] { met += meet(both) ? 1 : 0; };
    if (what == std::string_view("executor")) {
      options.executor = [&](task&& work) { come(), work(); };
    } else if (what == std::string_view("on_error")) {
      options.on_error = [&](const std::exception_ptr&, std::uint64_t) { come(); };
    } else {
      options.on_thread_start = come;
    }
    timer service(options);
    for (int i = 0; i < 2; ++i) {
      on_a_fresh_thread([&] { service.schedule_after(1ms, [] { throw std::runtime_error("no route"); }); });
    }
    EXPECT_TRUE(eventually([&] { return met == 2; })) << what;
  }
}

TEST(Pollers, AreThreadsThatStayWithTheirShards) {
  std::mutex mutex;
  std::map<std::uint64_t, std::set<std::thread::id>> threads_of;
  std::atomic<int> runs{0};
  timer service({.shards = 5, .pollers = 2});
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t shard = 0; shard < 5; ++shard) {
      on_a_fresh_thread([&] {
        service.schedule_after(1ms, [&, shard] {
          const std::lock_guard lock(mutex);
          threads_of[shard].insert(std::this_thread::get_id());
          ++runs;
        });
      });
    }
  }
  ASSERT_TRUE(eventually([&] { return runs == 100; }));
  std::set<std::thread::id> all;
  for (const auto& [shard, threads] : threads_of) {
    EXPECT_EQ(threads.size(), 1U) << "shard " << shard;
    all.insert(threads.begin(), threads.end());
  }
  EXPECT_EQ(all.size(), 2U);
  EXPECT_FALSE(all.contains(std::this_thread::get_id()));
}

TEST(Pollers, WhatACallbackSchedulesRunsOnItsOwnPoller) {
  std::atomic<int> runs{0};
  std::atomic<int> elsewhere{0};
  timer service({.shards = 4, .pollers = 4});
  for (int i = 0; i < 40; ++i) {
    on_a_fresh_thread([&] {
      service.schedule_after(1ms, [&] {
        service.schedule_after(1ms, [&, first = std::this_thread::get_id()] {
          elsewhere += std::this_thread::get_id() != first ? 1 : 0;
          ++runs;
        });
      });
    });
  }
  ASSERT_TRUE(eventually([&] { return runs == 40; }));
  EXPECT_EQ(elsewhere, 0);
}

// ---- Wake-ups ----

TEST(Pollers, SleepWhileNothingIsDue) {
  timer service({.shards = 4, .pollers = 4});
  for (int i = 0; i < 4; ++i) {
    on_a_fresh_thread([&] { service.schedule_after(24h, nothing); });
  }
  std::this_thread::sleep_for(1s);
  EXPECT_LE(service.stats().earlier_wakeups, 4U) << "each by its timer";
  service.stop();  // so that they count no more while the counts are read
  const timer_stats stats = service.stats();
  EXPECT_EQ(stats.wakeups, stats.earlier_wakeups) << "none by itself";
}

TEST(Pollers, AnEarlierTimerWakesTheOneOfItsShard) {
  std::atomic<int> runs{0};
  timer service({.shards = 4, .pollers = 4});
  for (int i = 0; i < 4; ++i) {
    on_a_fresh_thread([&] { service.schedule_after(24h, nothing); });
  }
  settle();
  for (int i = 0; i < 4; ++i) {
    on_a_fresh_thread([&] { service.schedule_after(1ms, [&] { ++runs; }); });
    EXPECT_TRUE(eventually([&] { return runs == i + 1; }));
  }
  EXPECT_TRUE(conserved(service));
}

// ---- The beginning of a thread ----

TEST(OnThreadStart, IsCalledOnEachPollerBeforeItsFirstCallback) {
  thread_local bool prepared = false;
  std::atomic<int> starts{0};
  std::atomic<int> runs{0};
  std::atomic<int> unprepared{0};
  timer service({.shards = 2, .pollers = 2, .on_thread_start = [&] {
                   prepared = true;
                   ++starts;
                 }});
  for (int i = 0; i < 10; ++i) {
    on_a_fresh_thread([&] {
      service.schedule_after(-1ms, [&] {
        unprepared += prepared ? 0 : 1;
        ++runs;
      });
    });
  }
  ASSERT_TRUE(eventually([&] { return runs == 10; }));
  EXPECT_EQ(starts, 2);
  EXPECT_EQ(unprepared, 0);
}

TEST(OnThreadStart, MayUseTheService) {
  std::atomic<timer*> made{nullptr};
  std::atomic<bool> ran{false};
  timer service({.on_thread_start = [&] {
    ASSERT_TRUE(eventually([&] { return made != nullptr; }));
    made.load()->schedule_after(1ms, [&] { ran = true; });
  }});
  made = &service;
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
}

TEST(OnThreadStart, WhatItThrowsGoesToOnErrorAndTheServiceRuns) {
  std::atomic<int> told{0};
  std::atomic<bool> ran{false};
  timer service({.on_thread_start = [] { throw std::runtime_error("no such core"); },
                 .on_error =
                     [&](const std::exception_ptr& failure, std::uint64_t tag) {
                       EXPECT_EQ(tag, 0U);
                       EXPECT_THROW(std::rethrow_exception(failure), std::runtime_error);
                       ++told;
                     }});
  service.schedule_after(1ms, [&] { ran = true; });
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
  EXPECT_EQ(told, 1);
}

TEST(OnThreadStart, MayStopTheServiceWhichDoesNotWaitForItThen) {
  latch made(1);
  timer* one = nullptr;
  std::atomic<std::size_t> returned{0};
  {
    timer service({.on_thread_start = [&] {
      made.wait();
      returned = one->stop().size();
    }});
    one = &service;
    service.schedule_after(1h, nothing);
    made.count_down();
    EXPECT_TRUE(eventually([&] { return service.stopped(); }));
  }
  EXPECT_EQ(returned, 1U);
}

TEST(OnThreadStart, IsDestroyedWithTheService) {
  live_captures captures;
  {
    const timer service({.on_thread_start = [token = std::make_shared<live_captures::token>(captures.make())] {}});
  }
  EXPECT_EQ(captures.alive(), 0);
}

// ---- The end ----

TEST(Pollers, AStopFromACallbackEndsThemAll) {
  latch stopped(1);
  std::atomic<int> later{0};
  timer service({.shards = 3, .pollers = 3});
  for (int i = 0; i < 3; ++i) {
    on_a_fresh_thread([&] { service.schedule_after(1h, [&] { ++later; }); });
  }
  std::atomic<std::size_t> returned{0};
  service.schedule_after(1ms, [&] {
    returned = service.stop().size();
    stopped.count_down();
  });
  stopped.wait();
  EXPECT_EQ(returned, 3U);
  EXPECT_TRUE(service.stopped());
  EXPECT_EQ(later, 0);
}

TEST(Pollers, AStopFromOutsideWaitsForTheCallbacksOfEach) {
  latch both(2);
  std::atomic<int> ended{0};
  timer service({.shards = 2, .pollers = 2});
  for (int i = 0; i < 2; ++i) {
    on_a_fresh_thread([&] {
      service.schedule_after(0ms, [&] {
        EXPECT_TRUE(meet(both));
        std::this_thread::sleep_for(20ms);
        ++ended;
      });
    });
  }
  both.wait();
  EXPECT_TRUE(service.stop().empty());
  EXPECT_EQ(ended, 2);
}

TEST(Pollers, ACallbackThatDestroysTheServiceDoesNotWaitForTheOthers) {
  live_captures captures;
  latch both(2);
  latch destroyed(1);
  std::atomic<bool> other_saw_it{false};
  auto service = std::make_unique<timer>(timer_options{.shards = 2, .pollers = 2});
  on_a_fresh_thread([&] {
    service->schedule_after(0ms, [&, token = captures.make()] {
      EXPECT_TRUE(meet(both));
      other_saw_it = eventually([&] { return destroyed.try_wait(); });
    });
  });
  on_a_fresh_thread([&] {
    service->schedule_after(1h, [token = captures.make()] {});
    service->schedule_after(0ms, [&, token = captures.make()] {
      EXPECT_TRUE(meet(both));
      service.reset();
      destroyed.count_down();
    });
  });
  EXPECT_TRUE(eventually([&] { return captures.alive() == 0; }));
  EXPECT_TRUE(other_saw_it);
}

/// A callback of one lane drains. The last `together` timers of the other one are due at once; each takes a while, in
/// which who drains looks and waits on, and the last one blocks until the drain is over.
void drain_until_the_last_has_begun(int together) {
  latch scheduled(1);
  latch drained(1);
  std::atomic<int> runs{0};
  std::atomic<bool> ended_meanwhile{false};
  timer service({.shards = 2, .pollers = 2});
  on_a_fresh_thread([&] {
    service.schedule_after(1ms, [&] {
      scheduled.wait();
      EXPECT_TRUE(service.stop_drain(steady_clock::now() + patience).empty());
      drained.count_down();
    });
    service.schedule_after(20ms, [&] { ++runs; });
  });
  on_a_fresh_thread([&] {
    service.schedule_after(30ms, [&] { ++runs; });
    const time_point last = steady_clock::now() + 60ms;
    for (int i = 1; i < together; ++i) {
      service.schedule_at(last, [&] {
        ++runs;
        std::this_thread::sleep_for(10ms);
      });
    }
    service.schedule_at(last, [&] {
      ++runs;
      ended_meanwhile = eventually([&] { return drained.try_wait(); }, patience / 2);
    });
  });
  scheduled.count_down();
  EXPECT_TRUE(eventually([&] { return drained.try_wait(); }));
  EXPECT_EQ(runs, 2 + together);
  service.stop();
  EXPECT_TRUE(ended_meanwhile) << "the drain has waited for the end of a callback on another poller";
}

// The drain is in a callback. It is over when the last timer has begun, of whatever poller, and waits for no end.
TEST(Pollers, ADrainInACallbackWaitsUntilTheLastOfTheOthersHasBegun) { drain_until_the_last_has_begun(1); }

TEST(Pollers, ADrainInACallbackWaitsUntilTheLastOfABatchHasBegun) { drain_until_the_last_has_begun(2); }

TEST(Pollers, DrainsInCallbacksOfEachDoNotWaitForEachOther) {
  latch both(2);
  latch scheduled(1);
  std::atomic<int> drained{0};
  std::atomic<int> runs{0};
  timer service({.shards = 2, .pollers = 2});
  for (int i = 0; i < 2; ++i) {
    on_a_fresh_thread([&] {
      service.schedule_after(0ms, [&] {
        EXPECT_TRUE(meet(both));
        scheduled.wait();
        EXPECT_TRUE(service.stop_drain(steady_clock::now() + patience).empty());
        ++drained;
      });
      for (int k = 1; k <= 50; ++k) {
        service.schedule_after(k * 1ms, [&] { ++runs; });
      }
    });
  }
  scheduled.count_down();
  EXPECT_TRUE(eventually([&] { return drained == 2; }));
  EXPECT_EQ(runs, 100);
}

}  // namespace
}  // namespace timing_wheel::test

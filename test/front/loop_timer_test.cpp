// What is due at once needs no sleep: its deadline is in the past. The few tests that need the clock sleep for
// milliseconds.

#include "timing_wheel/loop_timer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/meeting.hpp"
#include "support/service_audit.hpp"
#include "support/service_virtual.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using testing::SizeIs;

constexpr nanoseconds overdue = -1s;

/// A service that counts how often it says that the next event has become earlier.
struct loop {
  explicit loop(const timer_options& options = {}) : timer(options, [this] { ++told; }) {}

  /// \pre something is pending.
  time_point next() { return timer.next_event().value(); }
  bool has_come() {
    const time_point told_next = next();
    return told_next <= steady_clock::now();
  }

  /// As a loop does: sleeps, and runs what is due. \returns how many callbacks ran.
  std::size_t run_next() {
    std::this_thread::sleep_until(next());
    return timer.run_due();
  }

  int told = 0;
  loop_timer timer;
};

constexpr std::array all_engines{engine_kind::hierarchical, engine_kind::hashed, engine_kind::heap};

// ---- next_event ----

TEST(LoopTimer, HasNoNextEventWhenNothingIsPending) {
  for (const engine_kind engine : all_engines) {
    loop l({.engine = engine});
    EXPECT_EQ(l.timer.next_event(), std::nullopt);
    l.timer.schedule_after(1h, nothing).cancel();
    EXPECT_EQ(l.timer.next_event(), std::nullopt);
    l.timer.schedule_after(overdue, nothing);
    l.timer.run_due();
    EXPECT_EQ(l.timer.next_event(), std::nullopt);
  }
}

TEST(LoopTimer, TheNextEventIsTheTickOfTheEarliestDeadline) {
  for (const engine_kind engine : {engine_kind::hierarchical, engine_kind::heap}) {
    const auto is_in_time = [&] {
      loop l({.engine = engine});
      const time_point deadline = l.timer.now() + 200ms;
      l.timer.schedule_at(deadline + 100ms, nothing);
      l.timer.schedule_at(deadline, nothing);
      if (l.timer.now() >= deadline) {
        return false;
      }
      EXPECT_GE(l.next(), deadline);
      EXPECT_LT(l.next(), deadline + 1ms);
      return true;
    };
    EXPECT_TRUE(eventually(is_in_time));  // on a busy machine what is scheduled may be due already
  }
}

TEST(LoopTimer, TheNextEventIsTheSameUntilTheWorkChanges) {
  for (const engine_kind engine : all_engines) {
    loop l({.engine = engine, .shards = 2});
    for (int i = 0; i < 3; ++i) {
      std::jthread([&] { l.timer.schedule_after(1ms * i, nothing); }).join();
    }
    std::this_thread::sleep_for(5ms);  // nothing is told of what becomes due
    for (std::size_t left = 3; left > 0; --left) {
      const time_point next = l.next();
      EXPECT_LT(next, steady_clock::now() - 1ms) << left;
      std::this_thread::sleep_for(1ms);
      EXPECT_EQ(l.next(), next) << left;
      EXPECT_EQ(l.timer.run_due(1), 1U);
    }
  }
}

TEST(LoopTimer, WhatABudgetHasLeftIsTheNextEventInTheTickInWhichItWasDue) {
  loop l({.shards = 1});
  const time_point deadline = l.timer.now() + 50ms;
  std::vector<timer_handle> handles;
  for (int i = 0; i < 10; ++i) {
    handles.push_back(l.timer.schedule_at(deadline, nothing));
  }
  const timer_handle later = l.timer.schedule_at(deadline + 1h, nothing);
  const time_point next = l.next();
  std::this_thread::sleep_until(deadline + 5ms);
  ASSERT_EQ(l.timer.run_due(1), 1U);
  EXPECT_EQ(l.next(), next);
  for (const timer_handle& one : handles) {
    one.cancel();
  }
  EXPECT_GE(l.next(), deadline + 30min) << "the wheel's, when nothing of the batch is left";
}

TEST(LoopTimer, TheNextEventIsThatOfTheEarliestTimerThatABudgetHasLeft) {
  for (const engine_kind engine : all_engines) {
    loop l({.wheel_size = 4, .engine = engine, .shards = 1});  // they come from several turns and wheels
    const time_point start = l.timer.now();
    std::vector<timer_handle> handles;
    for (int i = 20; i > 0; --i) {
      handles.push_back(l.timer.schedule_at(start + 1ms * i, nothing));
    }
    std::this_thread::sleep_until(start + 25ms);
    while (l.timer.run_due(1) == 1 && l.timer.pending() != 0) {
      time_point earliest = time_point::max();
      for (const timer_handle& one : handles) {
        earliest = std::min(earliest, one.deadline().value_or(time_point::max()));
      }
      EXPECT_GE(l.next(), earliest);
      EXPECT_LT(l.next(), earliest + 1ms);
    }
    EXPECT_EQ(l.timer.pending(), 0U);
  }
}

TEST(LoopTimer, TheNextEventIsNotMovedByTimeOrByWhoLooks) {
  for (const engine_kind engine : all_engines) {
    for (const nanoseconds delay : {overdue, nanoseconds(0), nanoseconds(3ms)}) {
      loop l({.engine = engine});
      const timer_handle one = l.timer.schedule_after(delay, nothing);
      const time_point next = l.next();
      EXPECT_TRUE(next < steady_clock::now() || delay != overdue);
      for (int look = 0; look < 2; ++look) {
        std::this_thread::sleep_for(2ms);
        EXPECT_EQ(l.timer.stats().pending, 1U);
        EXPECT_EQ(one.status(), timer_status::pending);
        l.timer.for_each_pending([](const pending_timer&) {});
        l.timer.shrink_to_fit();
        l.timer.schedule_after(1h, nothing).cancel();
        EXPECT_EQ(l.next(), next) << look;
      }
    }
  }
}

// ---- run_due ----

TEST(LoopTimer, RunsAtMostItsBudgetAndTheNextEventHasThenCome) {
  for (const engine_kind engine : all_engines) {
    loop l({.engine = engine});
    for (int i = 0; i < 1000; ++i) {
      l.timer.schedule_after(overdue, nothing);
    }
    for (std::size_t left = 1000; left > 0; left -= 10) {
      ASSERT_TRUE(l.has_come()) << left;
      ASSERT_EQ(l.timer.run_due(10), 10U) << left;
    }
    EXPECT_EQ(l.timer.next_event(), std::nullopt);
  }
}

TEST(LoopTimer, ABudgetIsForAllShards) {
  loop l({.shards = 4});
  for (int thread = 0; thread < 4; ++thread) {
    std::jthread([&] {
      for (int i = 0; i < 10; ++i) {
        l.timer.schedule_after(overdue, nothing);
      }
    }).join();
  }
  EXPECT_EQ(l.timer.run_due(15), 15U);
  EXPECT_EQ(l.timer.run_due(15), 15U);
  EXPECT_EQ(l.timer.run_due(15), 10U);
}

TEST(LoopTimer, ABudgetOfNothingRunsNothing) {
  loop l;
  l.timer.schedule_after(overdue, nothing);
  EXPECT_EQ(l.timer.run_due(0), 0U);
  EXPECT_TRUE(l.has_come());
  EXPECT_EQ(l.timer.run_due(), 1U);
}

TEST(LoopTimer, WhatABudgetHasLeftCanBeCancelledAndMoved) {
  loop l({.shards = 1});
  l.timer.schedule_after(overdue, nothing);
  const timer_handle cancelled = l.timer.schedule_after(overdue, nothing);
  const timer_handle moved = l.timer.schedule_after(overdue, nothing);
  l.timer.run_due(1);
  EXPECT_EQ(cancelled.cancel(), cancel_result::cancelled);
  EXPECT_TRUE(moved.reschedule_after(1h));
  EXPECT_EQ(l.timer.run_due(), 0U);
  EXPECT_EQ(moved.status(), timer_status::pending);
}

TEST(LoopTimer, WhatACallbackSchedulesForNowIsRunByThisCallOrTheNextEventHasCome) {
  loop l;
  int runs = 0;
  l.timer.schedule_after(overdue, [&] { l.timer.schedule_after(overdue, [&] { ++runs; }); });
  l.timer.run_due();
  while (runs == 0) {
    ASSERT_TRUE(l.has_come());
    l.timer.run_due();
  }
  EXPECT_EQ(l.timer.next_event(), std::nullopt);
}

TEST(LoopTimer, RunDueWithinItselfIsRefusedOnEachThread) {
  loop l;
  const auto expect_refusal = [&] {
    EXPECT_EQ(refusal_of([&] { l.timer.run_due(); }).code, timer_errc::nested_advance);
  };
  l.timer.schedule_after(overdue, expect_refusal);
  l.timer.schedule_after(overdue, [&] { std::jthread(expect_refusal).join(); });
  EXPECT_EQ(l.timer.run_due(), 2U);
}

TEST(LoopTimer, ACallbackMayAskForTheNextEvent) {
  loop l({.shards = 1});
  std::optional<time_point> with_another;
  std::optional<time_point> alone = time_point();
  l.timer.schedule_after(overdue, [&] { with_another = l.timer.next_event(); });
  l.timer.schedule_after(overdue, [&] { alone = l.timer.next_event(); });
  EXPECT_EQ(l.timer.run_due(), 2U);
  ASSERT_NE(with_another, std::nullopt);
  EXPECT_LE(*with_another, l.timer.now());
  EXPECT_EQ(alone, std::nullopt);
}

/// What users write: it knows nothing of the loop.
class session {
 public:
  session(timer& t, nanoseconds patience) : idle_(t.schedule_after(patience, [this] { open_ = false; })) {}
  [[nodiscard]] bool open() const { return open_; }

 private:
  bool open_ = true;
  scoped_timer idle_;
};

TEST(LoopTimer, DrivesCodeThatTakesATimer) {
  loop l;
  const session visit(l.timer, 1ms);
  EXPECT_TRUE(visit.open());
  while (visit.open()) {
    l.run_next();
  }
  EXPECT_EQ(l.timer.pending(), 0U);
}

// ---- An executor ----

TEST(LoopTimer, APeriodicTimerThatIsArmedAgainOnTheExecutorTellsTheLoop) {
  std::vector<task> queue;
  loop l({.executor = [&](task work) { queue.push_back(std::move(work)); }});
  const timer_handle beat = l.timer.schedule_every(1ms, nothing);
  while (queue.empty()) {
    l.run_next();
  }
  EXPECT_EQ(beat.status(), timer_status::pending);
  EXPECT_EQ(l.timer.next_event(), std::nullopt);
  std::jthread([&] { queue.front()(); }).join();
  EXPECT_EQ(l.told, 1);
  EXPECT_NE(l.timer.next_event(), std::nullopt);
}

// ---- on_earlier ----

TEST(LoopTimer, SaysNothingBeforeItWasAsked) {
  loop l;
  l.timer.schedule_after(1h, nothing);
  l.timer.schedule_after(overdue, nothing);
  EXPECT_EQ(l.told, 0);
}

TEST(LoopTimer, AStopTokenThatWasStoppedBeforeTheCallLetsNothingRun) {
  std::stop_source stop;
  stop.request_stop();
  int runs = 0;
  std::optional<loop_timer> timer;
  timer.emplace(timer_options(), [&] { timer->run_due(); });
  static_cast<void>(timer->next_event());  // from now on, an earlier timer is run as soon as it is there
  timer->schedule_after(overdue, [&] { ++runs; });
  EXPECT_EQ(runs, 1);
  static_cast<void>(timer->next_event());
  EXPECT_EQ(timer->schedule_after(overdue, [&] { ++runs; }, {.stop = stop.get_token()}).status(),
            timer_status::finished);
  timer->schedule_every(1ms, [&] { ++runs; }, {.stop = stop.get_token()});
  timer->run_due();
  EXPECT_EQ(runs, 1);
}

TEST(LoopTimer, SaysItOnceUntilItIsAskedAgain) {
  loop l;
  l.timer.schedule_after(1h, nothing);
  for (int round = 1; round <= 3; ++round) {
    static_cast<void>(l.timer.next_event());
    l.timer.schedule_after(1min - round * 10s, nothing);
    EXPECT_EQ(l.told, round);
    l.timer.schedule_after(1min - round * 10s - 1s, nothing);
    EXPECT_EQ(l.told, round);
  }
}

TEST(LoopTimer, SaysNothingOfWhatIsLaterOrEqual) {
  for (const engine_kind engine : {engine_kind::hierarchical, engine_kind::heap}) {
    loop l({.engine = engine});
    const time_point deadline = l.timer.now() + 1min;
    const timer_handle first = l.timer.schedule_at(deadline, nothing);
    static_cast<void>(l.timer.next_event());
    l.timer.schedule_at(deadline, nothing);
    l.timer.schedule_at(deadline + 1s, nothing);
    l.timer.schedule_at(time_point::max(), nothing);
    l.timer.schedule_every(1h, nothing);
    first.reschedule(deadline + 1h);
    first.cancel();
    EXPECT_EQ(l.told, 0);
  }
}

TEST(LoopTimer, SaysThatATimerWasRescheduledEarlier) {
  loop l;
  const timer_handle one = l.timer.schedule_after(2h, nothing);
  static_cast<void>(l.timer.next_event());
  one.reschedule_after(3h);
  EXPECT_EQ(l.told, 0);
  one.reschedule_after(1s);
  EXPECT_EQ(l.told, 1);
}

TEST(LoopTimer, RunDueDoesNotAskForTheLoop) {
  loop l;
  l.timer.schedule_after(1h, nothing);
  static_cast<void>(l.timer.next_event());
  l.timer.schedule_after(30min, nothing);
  l.timer.run_due();
  l.timer.schedule_after(1min, nothing);
  EXPECT_EQ(l.told, 1);
}

TEST(LoopTimer, SaysItOutsideEveryLock) {
  std::optional<loop_timer> timer;
  int told = 0;
  timer.emplace(timer_options{.shards = 1}, [&] {
    ++told;
    const timer_handle mine = timer->schedule_after(1ms, nothing);
    EXPECT_EQ(mine.cancel(), cancel_result::cancelled);
    EXPECT_TRUE(conserved(*timer));
    std::jthread([&] { timer->schedule_after(1s, nothing).cancel(); }).join();
  });
  static_cast<void>(timer->next_event());
  timer->schedule_after(1h, nothing);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(timer->pending(), 1U);
}

TEST(LoopTimer, SaysItAlsoWhenThatDestroysTheServiceAndTheHandleThatMoves) {
  struct owner_of_both {
    timer_handle idle;
    std::optional<loop_timer> timer;
  };
  auto mine = std::make_unique<owner_of_both>();
  mine->timer.emplace(timer_options{}, [&] { mine.reset(); });
  mine->idle = mine->timer->schedule_after(1h, nothing);
  static_cast<void>(mine->timer->next_event());
  EXPECT_TRUE(mine->idle.reschedule_after(1s));
  EXPECT_EQ(mine, nullptr);
}

TEST(LoopTimer, WhatItThrowsAsItSaysSoIsReportedAndTheTimerIsScheduled) {
  int failures = 0;
  loop_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) { ++failures; }},
                   [] { throw std::runtime_error("no"); });
  static_cast<void>(timer.next_event());
  const timer_handle one = timer.schedule_after(1h, nothing);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(one.status(), timer_status::pending);
  EXPECT_EQ(timer.stats().failed, 0U);
}

// ---- Budgets ----

TEST(LoopTimer, ABudgetStarvesNoShard) {
  loop_timer timer({.shards = 2});
  const std::function<void()> again = [&] { timer.schedule_after(overdue, again); };
  timer.schedule_after(overdue, again);
  int ran = 0;
  for (int thread = 0; thread < 2; ++thread) {  // one of them schedules on the other shard
    std::jthread([&] { timer.schedule_after(overdue, [&] { ++ran; }); }).join();
  }
  for (int call = 0; call < 10; ++call) {
    timer.run_due(1);
  }
  EXPECT_EQ(ran, 2);
}

// ---- What it counts ----

TEST(LoopTimer, CountsItsCallsAsWakeups) {
  loop l;
  l.timer.run_due();
  l.timer.schedule_after(overdue, nothing);
  l.timer.run_due();
  l.timer.run_due();
  EXPECT_EQ(l.timer.stats().wakeups, 3U);
  EXPECT_EQ(l.timer.stats().empty_wakeups, 2U);
  EXPECT_EQ(l.timer.stats().earlier_wakeups, 0U);
}

// ---- stop ----

TEST(LoopTimer, StopReturnsWhatABudgetHasLeft) {
  loop l({.shards = 1});
  for (int i = 0; i < 5; ++i) {
    l.timer.schedule_after(overdue, nothing);
  }
  l.timer.run_due(2);
  EXPECT_THAT(l.timer.stop(), SizeIs(3));
  EXPECT_EQ(l.timer.run_due(), 0U);
  EXPECT_EQ(l.timer.next_event(), std::nullopt);
}

TEST(LoopTimer, StopOnAnotherThreadWaitsForTheCallbackThatRuns) {
  loop l;
  latch stopping(1);
  bool ended = false;
  std::jthread another;
  l.timer.schedule_after(overdue, [&] {
    another = std::jthread([&] {
      stopping.count_down();
      l.timer.stop();
      EXPECT_TRUE(ended);
    });
    stopping.wait();
    std::this_thread::sleep_for(5ms);
    ended = true;
  });
  EXPECT_EQ(l.timer.run_due(), 1U);
}

TEST(LoopTimer, DrainSleepsAndRunsWhatBecomesDueAndReturnsTheRest) {
  for (const engine_kind engine : all_engines) {
    const auto runs_in_time = [&] {
      loop l({.engine = engine});
      std::size_t runs = 0;
      for (const auto delay : {0ms, 2ms, 5ms}) {
        l.timer.schedule_after(delay, [&] { ++runs; });
      }
      l.timer.schedule_after(1h, nothing);
      const time_point until = l.timer.now() + 20ms;
      const std::size_t rest = l.timer.stop_drain(until).size();
      EXPECT_GE(steady_clock::now(), until);
      EXPECT_EQ(runs + rest, 4U);
      return runs == 3;
    };
    EXPECT_TRUE(eventually(runs_in_time));  // a busy machine may sleep beyond `until`
  }
}

TEST(LoopTimer, DrainGoesOnWithWhatABudgetHasLeft) {
  loop l({.shards = 1});
  int runs = 0;
  for (int i = 0; i < 5; ++i) {
    l.timer.schedule_after(overdue, [&] { ++runs; });
  }
  l.timer.run_due(2);
  EXPECT_THAT(l.timer.stop_drain(time_point::max()), SizeIs(0));
  EXPECT_EQ(runs, 5);
}

/// Drains on this thread, which sleeps for a timer in an hour, while another thread calls `meanwhile` with its handle.
void expect_end_of_drain(const std::function<void(const timer_handle&)>& meanwhile, std::uint64_t fired) {
  loop_timer without;
  loop_timer with({}, nothing);
  for (loop_timer* timer : {&without, &with}) {
    const timer_handle distant = timer->schedule_after(1h, nothing);
    static_cast<void>(timer->next_event());
    const time_point start = timer->now();
    const std::jthread another([&] {
      std::this_thread::sleep_for(20ms);
      meanwhile(distant);
    });
    EXPECT_THAT(timer->stop_drain(start + 2 * patience), SizeIs(0));
    EXPECT_LT(steady_clock::now(), start + patience);
    EXPECT_EQ(timer->stats().fired, fired);
  }
}

TEST(LoopTimer, DrainIsWokenByARescheduleToEarlier) {
  expect_end_of_drain([](const timer_handle& distant) { EXPECT_TRUE(distant.reschedule_after(1ms)); }, 1);
}

TEST(LoopTimer, DrainIsWokenByTheCancelOfTheLast) {
  expect_end_of_drain([](const timer_handle& distant) { EXPECT_EQ(distant.cancel(), cancel_result::cancelled); }, 0);
}

TEST(LoopTimer, DrainOnAnotherThreadRunsTheRestAfterTheLoopHasLeftRunDue) {
  loop l;
  bool ended = false;
  bool ran_after = false;
  std::jthread another;
  l.timer.schedule_after(overdue, [&] {
    l.timer.schedule_after(1ms, [&] { ran_after = ended; });  // else it might run first
    another = std::jthread([&] { l.timer.stop_drain(time_point::max()); });
    std::this_thread::sleep_for(5ms);
    ended = true;
  });
  l.timer.run_due(1);
  another.join();
  EXPECT_TRUE(ran_after);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// Executors: what they are given, and what cancels it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::Ge;

// ---- Handing over ----

TEST(Executor, NothingRunsOnTheDriver) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.schedule_after(0ms, [&] { ++runs; });
  timer.schedule_every(1ms, [&] { ++runs; });
  EXPECT_EQ(tasks.size(), 0U);
  timer.advance_by(1ms);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(tasks.run(), 3U);
  EXPECT_EQ(runs, 3);
}

TEST(Executor, AHandedOverTimerIsPendingAndDue) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_after(1ms, nothing, {.tag = 5});
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer.stats().due, 0U);
  timer.advance_by(1ms);
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(handle.deadline(), at(1ms));
  EXPECT_EQ(handle.tag(), 5U);
  EXPECT_EQ(timer.stats().due, 1U);
  EXPECT_EQ(timer.stats().pending, 2U);
  EXPECT_EQ(timer.stats().fired, 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(Executor, ATaskThatIsCalledTwiceRunsOnce) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  std::vector<task> kept = tasks.take();
  kept.at(0)();
  kept.at(0)();
  kept.clear();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().fired, 1U);
  EXPECT_EQ(timer.stats().refused, 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(Executor, ATaskThatCallsItselfRunsOnce) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<task> kept;
  int runs = 0;
  timer.schedule_every(1ms, [&] {
    if (++runs < 5) {
      kept.at(0)();
    }
  });
  timer.advance_by(1ms);
  kept = tasks.take();
  kept.at(0)();
  EXPECT_EQ(runs, 1);
}

TEST(Executor, ATaskMayBeDestroyedWhileItRuns) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<task> kept;
  const timer_handle handle = timer.schedule_every(1ms, [&] { kept.clear(); });
  timer.advance_by(1ms);
  for (task& one : tasks.take()) {
    kept.push_back(std::move(one));
  }
  kept.at(0)();
  EXPECT_EQ(timer.stats().refused, 0U);
  EXPECT_EQ(handle.status(), timer_status::pending);
}

TEST(Executor, MayUseTheServiceWhenItIsGivenATask) {
  kept_tasks tasks;
  manual_timer* service = nullptr;
  manual_timer timer({.executor = [&](task&& work) {
    EXPECT_TRUE(conserved(*service));
    static_cast<void>(service->pending());
    tasks.taking()(std::move(work));
    if (service->stats().scheduled < 5) {
      service->schedule_after(1ms, nothing);
    }
  }});
  service = &timer;
  timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1h), 5U);
}

TEST(Executor, LatenessIsCountedToTheStartOfTheRun) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stats().lateness.count(), 0U);
  timer.advance_by(1h);
  tasks.run();
  EXPECT_EQ(timer.stats().lateness.count(), 1U);
  EXPECT_THAT(timer.stats().lateness.quantile(1.0), Ge(nanoseconds(59min)));
}

// ---- Cancel and reschedule of what was handed over ----

TEST(ExecutorCancel, AfterTheHandOverSaysCancelledAndTheTaskDoesNothing) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_after(1ms, [token = captures.make()] { FAIL(); });
  timer.advance_by(1ms);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(timer.stats().due, 0U);
  tasks.run();
  EXPECT_EQ(timer.stats().fired, 0U);
  EXPECT_EQ(timer.stats().cancelled, 1U);
}

TEST(ExecutorCancel, RescheduleAfterTheHandOverMovesTheTimer) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  const timer_handle handle = timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  EXPECT_TRUE(handle.reschedule(at(1h)));
  EXPECT_EQ(tasks.run(), 1U);
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(timer.advance_to(at(1h) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(1h)), 1U);
  tasks.run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(ExecutorCancel, DroppingTheTaskOfATimerThatWasMovedDoesNothing) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  handle.reschedule(at(1h));
  tasks.drop();
  EXPECT_EQ(handle.deadline(), at(1h));
  EXPECT_EQ(timer.advance_to(at(1h) - 1ns), 0U);
  EXPECT_EQ(timer.advance_to(at(1h)), 1U);
  EXPECT_EQ(tasks.size(), 1U);
}

TEST(ExecutorCancel, TheTaskOfACancelledTimerDoesNothingToTheNextInItsPlace) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  const timer_handle stale = timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  std::vector<task> old = tasks.take();
  stale.cancel();
  const timer_handle next = timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  old.at(0)();
  EXPECT_EQ(runs, 0);
  old.clear();
  EXPECT_EQ(timer.stats().refused, 0U);
  EXPECT_EQ(next.status(), timer_status::pending);
  tasks.run();
  EXPECT_EQ(runs, 1);
}

// ---- What can be an executor ----

TEST(Executor, MayBeACallableThatCannotBeCopied) {
  kept_tasks tasks;
  manual_timer timer(
      {.executor = [to = std::make_unique<kept_tasks*>(&tasks)](task&& work) { (*to)->taking()(std::move(work)); }});
  timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(tasks.size(), 1U);
}

struct with_execute {
  kept_tasks* tasks;
  void execute(task&& work) const { tasks->taking()(std::move(work)); }
};

TEST(Executor, MayHaveAMemberExecute) {
  kept_tasks tasks;
  manual_timer timer({.executor = with_execute{&tasks}});
  timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(tasks.run(), 1U);
}

TEST(Executor, AnEmptyOneRunsOnTheDriver) {
  const std::vector<executor> empty{executor(), executor(std::function<void(task &&)>()),
                                    executor(static_cast<void (*)(task &&)>(nullptr))};
  for (const executor& none : empty) {
    EXPECT_FALSE(none);
    manual_timer timer({.executor = none});
    int runs = 0;
    timer.schedule_after(1ms, [&] { ++runs; });
    EXPECT_EQ(timer.advance_by(1ms), 1U);
    EXPECT_EQ(runs, 1);
  }
}

TEST(Executor, CopiesShareOneTarget) {
  int calls = 0;
  const executor first = [&calls, n = 0](task&& work) mutable { calls = ++n, work(); };
  const executor copy = first;  // NOLINT(performance-unnecessary-copy-initialization): the copy is the point
  first(task(nothing));
  copy(task(nothing));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace timing_wheel::test

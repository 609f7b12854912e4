/// \file
/// Executors: what they are given, and what cancels it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
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
using testing::Each;
using testing::ElementsAre;
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

TEST(Executor, IsGivenNothingBeforeTheDeadline) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(10ms, nothing);
  EXPECT_EQ(timer.advance_to(at(10ms) - 1ns), 0U);
  EXPECT_EQ(tasks.size(), 0U);
  EXPECT_EQ(timer.advance_to(at(10ms)), 1U);
  EXPECT_EQ(tasks.size(), 1U);
}

TEST(Executor, IsGivenTheTimersInTheOrderOfTheTicks) {
  kept_tasks tasks;
  manual_timer timer({.wheel_size = 4, .executor = tasks.taking()});
  std::vector<int> ran;
  for (const int delay : {70, 3, 700, 4, 1, 300, 2, 71}) {
    timer.schedule_after(delay * 1ms, [&ran, delay] { ran.push_back(delay); });
  }
  EXPECT_EQ(timer.advance_by(1s), 8U);
  tasks.run();
  EXPECT_THAT(ran, ElementsAre(1, 2, 3, 4, 70, 71, 300, 700));
}

TEST(Executor, IsGivenEachOfManyOnce) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<int> runs(3000);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    timer.schedule_after(static_cast<int>(i % 5) * 1ms, [&runs, i] { ++runs[i]; });
  }
  EXPECT_EQ(timer.advance_by(10ms), 3000U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_EQ(tasks.run(), 3000U);
  EXPECT_THAT(runs, Each(1));
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

TEST(Executor, CountsAgreeInATaskAndAfterIt) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  for (int i = 0; i < 3; ++i) {
    timer.schedule_after(1ms, [&] {
      EXPECT_TRUE(conserved(timer));
      EXPECT_EQ(timer.stats().running, 1U);
      EXPECT_EQ(timer.stats().due + timer.stats().fired, 3U);
    });
  }
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(timer.stats().running, 0U);
  EXPECT_EQ(timer.stats().due, 0U);
  EXPECT_EQ(timer.stats().fired, 3U);
  EXPECT_EQ(timer.stats().refused, 0U);
}

TEST(Executor, AHandedOverTimerKeepsItsPlace) {
  kept_tasks tasks;
  manual_timer timer({.max_pending = 1, .executor = tasks.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1ms, nothing); }).code, timer_errc::too_many_pending);
  tasks.run();
  EXPECT_TRUE(timer.schedule_after(1ms, nothing));
}

TEST(Executor, ForEachPendingShowsWhatWasHandedOver) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, nothing, {.tag = 5});
  timer.advance_by(1ms);
  std::vector<std::uint64_t> tags;
  timer.for_each_pending([&](const pending_timer& one) { tags.push_back(one.tag); });
  EXPECT_THAT(tags, ElementsAre(5U));
}

TEST(Executor, MayRunItsTasksInline) {
  manual_timer timer({.executor = [](task&& work) { work(); }});
  std::vector<nanoseconds> ran;
  timer.schedule_every(10ms, [&] { ran.push_back(timer.now().time_since_epoch()); });
  timer.schedule_after(5ms, [&] { timer.schedule_after(1ms, nothing); });
  EXPECT_EQ(timer.advance_by(35ms), 5U);
  EXPECT_THAT(ran, ElementsAre(10ms, 20ms, 30ms));
}

TEST(Executor, MayRunMovedTasksInline) {
  live_captures captures;
  manual_timer timer({.executor = [](task work) { work(); }});
  timer.schedule_after(1ms, [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().refused, 0U);
}

TEST(Executor, ACallbackGetsItsHandleThere) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer_handle given;
  const timer_handle made = timer.schedule_after(1ms, [&](const timer_handle& self) {
    given = self;
    EXPECT_EQ(self.status(), timer_status::running);
  });
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(given, made);
}

TEST(Executor, RunsATaskThatWasMovedAround) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  task first = std::move(tasks.take().at(0));
  task second = std::move(first);
  task third;
  third = std::move(second);
  EXPECT_EQ(timer.stats().refused, 0U);
  EXPECT_EQ(timer.stats().due, 1U);
  third();
  EXPECT_EQ(runs, 1);
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

TEST(Executor, CallbacksMayUseTheServiceThere) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] {
    timer.schedule_after(0ms, [&] { ++runs; });
    timer.schedule_after(1h, [&] { ++runs; }).cancel();
  });
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  tasks.run();
  EXPECT_EQ(runs, 1);
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

TEST(Executor, DestroysTheCapturesWhenTheRunEnds) {
  live_captures captures;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, [&, token = captures.make()] { EXPECT_EQ(captures.alive(), 1); });
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 1);
  std::vector<task> kept = tasks.take();
  kept.at(0)();
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 1);
}

TEST(Executor, ACallbackThatThrowsThereIsReportedAndDoesNotReachTheExecutor) {
  std::vector<std::uint64_t> tags;
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking(),
                      .on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  timer.schedule_after(1ms, [] { throw std::runtime_error("asked for"); }, {.tag = 5});
  timer.advance_by(1ms);
  EXPECT_NO_THROW(tasks.run());
  EXPECT_THAT(tags, ElementsAre(5U));
  EXPECT_EQ(timer.stats().failed, 1U);
  EXPECT_EQ(timer.stats().refused, 0U);
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

TEST(ExecutorCancel, ATaskCancelsASiblingThatWasHandedOverToo) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer_handle first;
  timer_handle second;
  first = timer.schedule_after(1ms, [&] { EXPECT_EQ(second.cancel(), cancel_result::cancelled); });
  second = timer.schedule_after(1ms, [&] { EXPECT_EQ(first.cancel(), cancel_result::cancelled); });
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(timer.stats().fired, 1U);
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

TEST(ExecutorCancel, AllTasksOfATimerThatWasMovedRunItOnce) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  const timer_handle handle = timer.schedule_after(1ms, [&] { ++runs; });
  for (int i = 0; i < 5; ++i) {
    timer.advance_by(1ms);
    handle.reschedule_after(1ms);
  }
  timer.advance_by(1ms);
  EXPECT_EQ(tasks.run(), 6U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_TRUE(conserved(timer));
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

TEST(ExecutorCancel, RescheduleToThePastAfterTheHandOverRunsItOnce) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()}, starting_at(1h));
  int runs = 0;
  const timer_handle handle = timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  EXPECT_TRUE(handle.reschedule(at(1min)));
  EXPECT_EQ(handle.deadline(), at(1min));
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_EQ(runs, 1);
  timer.advance_by(1h);
  EXPECT_EQ(tasks.size(), 0U);
  EXPECT_EQ(timer.stats().due, 0U);
}

TEST(ExecutorCancel, IsNotGivenATimerThatASiblingHasCancelled) {
  int given = 0;
  manual_timer timer({.executor = [&](task&& work) { ++given, work(); }});
  timer_handle victim;
  timer.schedule_after(1ms, [&] { victim.cancel(); });
  victim = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1ms), 1U);  // "it counts what was handed over"
  EXPECT_EQ(given, 1);
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

TEST(Executor, OfOneServiceMayServeAnother) {
  kept_tasks tasks;
  manual_timer first({.executor = tasks.taking()});
  manual_timer second({.executor = tasks.taking()});
  std::vector<int> ran;
  first.schedule_after(1ms, [&] { ran.push_back(1); });
  second.schedule_after(1ms, [&] { ran.push_back(2); });
  first.advance_by(1ms);
  second.advance_by(1ms);
  tasks.run();
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

}  // namespace
}  // namespace timing_wheel::test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_random.hpp"
#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;
using testing::UnorderedElementsAre;

void ignore(const std::exception_ptr& /*failure*/, std::uint64_t /*tag*/) {}

/// How an executor may refuse.
enum class way { throws, drops, returns_without_taking };
constexpr std::array every_way{way::throws, way::drops, way::returns_without_taking};

/// Refuses until `refusals` are used up, and keeps the tasks from then on. It notes when it was asked.
class refusing {
 public:
  explicit refusing(way how, int refusals) : how_(how), refusals_(refusals) {}

  [[nodiscard]] auto taking() {
    return [this](task&& work) { return take(std::move(work)); };
  }
  void accept() noexcept { refusals_ = 0; }

  kept_tasks accepted;
  const manual_timer* timer = nullptr;
  std::vector<nanoseconds> asked;

 private:
  bool take(task&& work) {
    if (timer != nullptr) {
      asked.push_back(timer->now().time_since_epoch());
    }
    if (refusals_-- <= 0) {
      accepted.taking()(std::move(work));
      refusals_ = 0;
      return true;
    }
    if (how_ == way::throws) {
      throw std::runtime_error("full");
    }
    if (how_ == way::drops) {
      const task dropped = std::move(work);
    }
    return false;
  }

  way how_;
  int refusals_;
};

constexpr int always = 1'000'000;

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

TEST(Executor, Scenario09_CancelAfterTheHandOverSaysCancelledAndTheTaskDoesNothing) {
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

TEST(Executor, Scenario09_ATaskCancelsASiblingThatWasHandedOverToo) {
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

TEST(Executor, Scenario14_RescheduleAfterTheHandOverMovesTheTimer) {
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

TEST(Executor, Scenario14_AllTasksOfATimerThatWasMovedRunItOnce) {
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

TEST(Executor, Scenario14_DroppingTheTaskOfATimerThatWasMovedDoesNothing) {
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

TEST(Executor, Scenario14_RescheduleToThePastAfterTheHandOverRunsItOnce) {
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

TEST(Executor, Scenario09_IsNotGivenATimerThatASiblingHasCancelled) {
  int given = 0;
  manual_timer timer({.executor = [&](task&& work) { ++given, work(); }});
  timer_handle victim;
  timer.schedule_after(1ms, [&] { victim.cancel(); });
  victim = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(timer.advance_by(1ms), 1U);  // "it counts what was handed over"
  EXPECT_EQ(given, 1);
}

TEST(Executor, Scenario15_TheTaskOfACancelledTimerDoesNothingToTheNextInItsPlace) {
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

// ---- Refusals ----

TEST(Executor, ARefusedTimerIsPendingAndComesBackAMillisecondLater) {
  for (const way how : every_way) {
    refusing target(how, 1);
    manual_timer timer({.tick = 10us, .executor = target.taking(), .on_error = ignore});
    target.timer = &timer;
    const timer_handle handle = timer.schedule_after(5ms, nothing);
    timer.advance_by(5ms);
    EXPECT_EQ(handle.status(), timer_status::pending);
    EXPECT_EQ(timer.stats().refused, 1U);
    EXPECT_TRUE(conserved(timer));
    timer.advance_to(at(6ms) - 1ns);
    EXPECT_EQ(target.accepted.size(), 0U) << "too soon";
    timer.advance_by(1ms);
    EXPECT_EQ(target.accepted.size(), 1U);
  }
}

TEST(Executor, ComesBackUntilItIsAccepted) {
  for (const way how : every_way) {
    refusing target(how, 100);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    target.timer = &timer;
    const timer_handle handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(1s);
    EXPECT_EQ(timer.stats().refused, 100U);
    EXPECT_THAT(target.asked, SizeIs(101));
    for (std::size_t i = 1; i < target.asked.size(); ++i) {
      EXPECT_GE(target.asked[i] - target.asked[i - 1], 1ms);
    }
    EXPECT_EQ(target.accepted.run(), 1U);
    EXPECT_EQ(handle.status(), timer_status::finished);
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(Executor, ARefusedTimerKeepsItsDeadline) {
  for (const way how : every_way) {
    refusing target(how, 3);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    const timer_handle handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(2ms);
    EXPECT_EQ(handle.deadline(), at(1ms));
    EXPECT_EQ(handle.remaining(), 0ns);
  }
}

TEST(Executor, ARefusalIsNoRunAndIsNotCountedAsHandedOver) {
  for (const way how : every_way) {
    refusing target(how, 1);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    timer.schedule_after(1ms, nothing);
    timer.advance_by(1ms);
    const timer_stats counts = timer.stats();
    EXPECT_EQ(counts.scheduled, 1U);
    EXPECT_EQ(counts.fired, 0U);
    EXPECT_EQ(counts.pending, 1U);
    EXPECT_EQ(counts.due, 0U);
    EXPECT_EQ(counts.running, 0U);
    EXPECT_EQ(counts.rejected, 0U);
    EXPECT_EQ(counts.failed, 0U);
  }
}

TEST(Executor, ARefusedTimerCanBeCancelled) {
  for (const way how : every_way) {
    live_captures captures;
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    const timer_handle handle = timer.schedule_after(1ms, [token = captures.make()] {});
    timer.advance_by(10ms);
    EXPECT_EQ(captures.alive(), 1);
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
    EXPECT_EQ(captures.alive(), 0);
    target.accept();
    EXPECT_EQ(timer.advance_by(1h), 0U);
  }
}

TEST(Executor, ARefusedTimerCanBeRescheduled) {
  for (const way how : every_way) {
    refusing target(how, 1);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    const timer_handle handle = timer.schedule_after(1ms, nothing);
    timer.advance_by(1ms);
    EXPECT_TRUE(handle.reschedule(at(1h)));
    EXPECT_EQ(handle.deadline(), at(1h));
    EXPECT_EQ(timer.advance_to(at(1h) - 1ns), 0U);
    EXPECT_EQ(timer.advance_to(at(1h)), 1U);
  }
}

TEST(Executor, ARefusedTimerIsReturnedByStop) {
  for (const way how : every_way) {
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    int runs = 0;
    timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
    timer.advance_by(10ms);
    std::vector<pending_task> left = timer.stop();
    ASSERT_THAT(left, SizeIs(1));
    EXPECT_EQ(left[0].deadline, at(1ms));
    EXPECT_EQ(left[0].tag, 5U);
    left[0].callback();
    EXPECT_EQ(runs, 1);
  }
}

TEST(Executor, ManyRefusedTimersAllComeBack) {
  for (const way how : every_way) {
    refusing target(how, 1500);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    std::vector<int> runs(1000);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      timer.schedule_after(static_cast<int>(i % 3 + 1) * 1ms, [&runs, i] { ++runs[i]; });
    }
    timer.advance_by(100ms);
    target.accepted.run();
    EXPECT_THAT(runs, Each(1));
    EXPECT_EQ(timer.stats().refused, 1500U);
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(Executor, DroppingAKeptTaskRefusesItLater) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  timer.advance_by(10ms);
  tasks.drop();
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(timer.stats().refused, 1U);
  EXPECT_EQ(timer.stats().due, 0U);
  EXPECT_EQ(timer.advance_to(at(11ms) - 1ns), 0U);
  EXPECT_EQ(timer.advance_by(2ms), 1U);
  EXPECT_EQ(tasks.run(), 1U);
  EXPECT_EQ(handle.status(), timer_status::finished);
}

TEST(Executor, AssigningOverAKeptTaskRefusesIt) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  std::vector<task> kept = tasks.take();
  kept.at(0) = task();
  EXPECT_EQ(timer.stats().refused, 1U);
  EXPECT_EQ(timer.advance_by(2ms), 1U);
}

TEST(Executor, ARefusedPeriodicTimerGoesOn) {
  for (const way how : every_way) {
    for (const period_policy policy : {fixed_delay, fixed_rate_catch_up, fixed_rate_skip}) {
      refusing target(how, 3);
      manual_timer timer({.executor = target.taking(), .on_error = ignore});
      const timer_handle handle = timer.schedule_every(10ms, nothing, policy);
      timer.advance_by(20ms);
      EXPECT_EQ(target.accepted.run(), 1U);
      EXPECT_EQ(timer.stats().rearmed, 1U);
      EXPECT_EQ(handle.deadline(), policy == fixed_rate_catch_up ? at(20ms) : at(30ms));
      EXPECT_EQ(timer.pending(), 1U);
    }
  }
}

TEST(Executor, OnErrorGetsWhatItThrewEachTime) {
  std::vector<std::uint64_t> tags;
  refusing target(way::throws, 3);
  manual_timer timer(
      {.executor = target.taking(), .on_error = [&](const std::exception_ptr& failure, std::uint64_t tag) {
         EXPECT_THROW(std::rethrow_exception(failure), std::runtime_error);
         tags.push_back(tag);
       }});
  timer.schedule_after(1ms, nothing, {.tag = 5});
  timer.advance_by(10ms);
  EXPECT_THAT(tags, ElementsAre(5U, 5U, 5U));
  EXPECT_EQ(timer.stats().refused, 3U);
}

TEST(Executor, ARefusalWithoutAThrowIsNoError) {
  captured_stderr output;
  refusing target(way::drops, 3);
  manual_timer timer({.executor = target.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(10ms);
  EXPECT_THAT(output.text(), IsEmpty());
}

TEST(Executor, OneThatRunsTheTaskAndThenThrowsHasRunIt) {
  std::vector<std::uint64_t> tags;
  manual_timer timer({.executor =
                          [](task&& work) {
                            work();
                            throw std::runtime_error("afterwards");
                          },
                      .on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
  timer.advance_by(1h);
  EXPECT_EQ(runs, 1);
  EXPECT_THAT(tags, ElementsAre(5U));
  EXPECT_EQ(timer.stats().fired, 1U);
  EXPECT_EQ(timer.stats().refused, 0U);
}

TEST(Executor, OneThatTakesTheTaskAndThenThrowsHasItOnce) {
  kept_tasks tasks;
  int given = 0;
  manual_timer timer({.executor =
                          [&](task&& work) {
                            ++given;
                            tasks.taking()(std::move(work));
                            throw std::runtime_error("afterwards");
                          },
                      .on_error = ignore});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  tasks.run();
  timer.advance_by(10ms);
  tasks.run();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(conserved(timer));
}

TEST(Executor, ATaskThatWasRefusedByAThrowButKeptDoesNotRunTwice) {
  kept_tasks tasks;
  bool full = true;
  manual_timer timer({.executor =
                          [&](task&& work) {
                            tasks.taking()(std::move(work));
                            full ? throw std::runtime_error("full") : void();
                          },
                      .on_error = ignore});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1ms);
  full = false;
  timer.advance_by(10ms);
  tasks.run();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

// ---- Counts of a step ----

TEST(Executor, AdvanceReturnsWhatWasHandedOver) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  for (int i = 0; i < 10; ++i) {
    timer.schedule_after(i * 1ms, nothing);
  }
  EXPECT_EQ(timer.advance_to(at(4ms)), 5U);
  EXPECT_EQ(timer.advance_to(at(100ms)), 5U);
  tasks.run();
  EXPECT_EQ(timer.advance_to(at(200ms)), 0U);
}

TEST(Executor, RefusedHandOversDoNotKeepAStepFromEnding) {
  for (const way how : every_way) {
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    timer.schedule_after(-1ms, nothing);
    timer.advance_by(100ms);
    EXPECT_EQ(timer.now(), at(100ms));
    EXPECT_THAT(timer.stats().refused, testing::AllOf(Ge(50U), Le(102U)));
    timer.advance_to(timer.now());
  }
}

// ---- Stop ----

TEST(Executor, Scenario18_StopReturnsWhatWasHandedOverAndItsTaskDoesNothing) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
  timer.schedule_after(1h, [&] { ++runs; }, {.tag = 6});
  timer.advance_by(1ms);
  std::vector<pending_task> left = timer.stop();
  ASSERT_THAT(left, SizeIs(2));
  tasks.run();
  EXPECT_EQ(runs, 0);
  left[0].callback();
  left[1].callback();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(conserved(timer));
}

TEST(Executor, Scenario18_StopFromATaskReturnsTheOtherHandedOverOnes) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<std::uint64_t> returned;
  for (std::uint64_t i = 0; i < 5; ++i) {
    timer.schedule_after(1ms,
                         [&] {
                           for (const pending_task& one : timer.stop()) {
                             returned.push_back(one.tag);
                           }
                         },
                         {.tag = i});
  }
  timer.advance_by(1ms);
  tasks.run();
  EXPECT_THAT(returned, UnorderedElementsAre(1U, 2U, 3U, 4U));
  EXPECT_EQ(timer.stats().fired, 1U);
}

TEST(Executor, Scenario18_RunNowRunsOnTheCallerWhatWasHandedOver) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<std::thread::id> threads;
  timer.schedule_after(1ms, [&] { threads.push_back(std::this_thread::get_id()); });
  timer.schedule_after(1h, [&] { threads.push_back(std::this_thread::get_id()); });
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stop(run_now), 2U);
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id(), std::this_thread::get_id()));
  tasks.run();
  EXPECT_THAT(threads, SizeIs(2));
  EXPECT_EQ(tasks.size(), 0U);
}

TEST(Executor, Scenario18_DrainRunsThroughTheExecutor) {
  manual_timer timer({.executor = [](task&& work) { work(); }});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.schedule_after(2ms, [&] { ++runs; });
  timer.schedule_after(1h, [&] { ++runs; });
  EXPECT_THAT(timer.stop(drain, at(10ms)), SizeIs(1));
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(conserved(timer));
}

TEST(Executor, Scenario18_DrainReturnsWhatTheExecutorHasNotBegun) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
  std::vector<pending_task> left = timer.stop(drain, at(10ms));
  EXPECT_EQ(tasks.run(), 1U);
  for (pending_task& one : left) {
    one.callback();
  }
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(conserved(timer));
}

TEST(Executor, Scenario18_DrainReturnsWhatIsRefusedToTheEnd) {
  for (const way how : every_way) {
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    timer.schedule_after(1ms, nothing, {.tag = 5});
    const std::vector<pending_task> left = timer.stop(drain, at(10ms));
    ASSERT_THAT(left, SizeIs(1));
    EXPECT_EQ(left[0].tag, 5U);
    EXPECT_EQ(left[0].deadline, at(1ms));
    EXPECT_EQ(timer.now(), at(10ms));
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(Executor, Scenario18_DrainRunsWhatIsAcceptedInTheEnd) {
  int refusals = 3;
  manual_timer timer({.executor = [&](task&& work) { refusals-- > 0 ? void() : work(); }});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  EXPECT_THAT(timer.stop(drain, at(100ms)), IsEmpty());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().refused, 3U);
}

TEST(Executor, Scenario18_StopWaitsForARunOnAnotherThread) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::atomic<bool> over = false;
  timer.schedule_every(1ms, [&] {
    begun.count_down();
    while (!timer.stopped()) {
      std::this_thread::yield();
    }
    for (int i = 0; i < 1000; ++i) {
      std::this_thread::yield();
    }
    over = true;
  });
  timer.advance_by(1ms);
  std::thread thread([&] { tasks.run(); });
  begun.wait();
  EXPECT_THAT(timer.stop(), IsEmpty());
  EXPECT_TRUE(over);
  thread.join();
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(Executor, Scenario18_RunNowPassesOverWhatRunsOnAnotherThread) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::latch begun(1);
  std::latch over(1);
  std::thread thread;
  timer.schedule_after(1h, [&] {
    thread = std::thread([&] { tasks.run(); });
    begun.wait();
  });
  timer.schedule_after(1ms, [&, caller = std::this_thread::get_id()] {
    ASSERT_NE(std::this_thread::get_id(), caller);
    begun.count_down();
    over.wait();
  });
  timer.schedule_after(1h, [&] { over.count_down(); });
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stop(run_now), 2U);
  thread.join();
}

// ---- Beyond the service ----

TEST(Executor, CallingATaskAfterTheServiceDoesNothing) {
  live_captures captures;
  kept_tasks tasks;
  int runs = 0;
  {
    manual_timer timer({.executor = tasks.taking()});
    for (int i = 0; i < 10; ++i) {
      timer.schedule_after(1ms, [&runs, token = captures.make()] { ++runs; });
      timer.schedule_every(1ms, [&runs, token = captures.make()] { ++runs; });
    }
    timer.advance_by(1ms);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(tasks.run(), 20U);
  EXPECT_EQ(runs, 0);
}

TEST(Executor, DestroyingATaskAfterTheServiceDoesNothing) {
  live_captures captures;
  kept_tasks tasks;
  {
    manual_timer timer({.executor = tasks.taking()});
    timer.schedule_after(1ms, [token = captures.make()] {});
    timer.advance_by(1ms);
  }
  tasks.drop();
  EXPECT_EQ(captures.destroyed(), 1);
}

TEST(Executor, DestroyingATaskAfterStopDoesNothing) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  timer.stop();
  tasks.drop();
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
  EXPECT_TRUE(conserved(timer));
}

void end_with_tasks_in_the_executor(live_captures& captures) {
  manual_timer timer(
      {.executor = [own = std::vector<task>()](task&& work) mutable { own.push_back(std::move(work)); }});
  timer.schedule_after(1ms, [token = captures.make()] {});
  timer.schedule_every(1ms, [token = captures.make()] {});
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 2);
}

TEST(Executor, MayOwnItsTasksAndDiesWithTheService) {
  live_captures captures;
  end_with_tasks_in_the_executor(captures);
  const std::size_t bytes = allocations.live_bytes;
  end_with_tasks_in_the_executor(captures);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(allocations.live_bytes, bytes);
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

// ---- Without memory ----

TEST(Executor, AHandOverWithoutMemoryLosesNothing) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough && left < 1000; ++left) {
    kept_tasks tasks;
    manual_timer timer({.executor = tasks.taking(), .on_error = ignore});
    std::vector<int> runs(20);
    for (int& count : runs) {
      timer.schedule_after(1ms, [&count] { ++count; });
    }
    enough = succeeds_with(left, [&] { timer.advance_by(1ms); }) && timer.stats().refused == 0;
    EXPECT_TRUE(conserved(timer));
    EXPECT_EQ(timer.pending(), runs.size());
    timer.advance_by(10ms);
    tasks.run();
    EXPECT_THAT(runs, Each(1)) << left;
  }
  EXPECT_TRUE(enough);
}

// ---- At random ----

/// Schedules, cancels, moves, accepts, runs and drops at random; each timer must run at most once, and none may be lost.
void expect_no_loss(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  dice random(seed);
  kept_tasks tasks;
  manual_timer timer({.wheel_size = 8,
                      .executor =
                          [&](task&& work) {
                            if (random.one_in(3)) {
                              throw std::runtime_error("full");
                            }
                            random.one_in(3) ? void() : tasks.taking()(std::move(work));
                          },
                      .on_error = ignore});
  std::vector<int> ends;
  std::vector<timer_handle> handles;
  for (int step = 0; step < 500; ++step) {
    const std::size_t id = ends.size();
    const std::size_t other = random.below(id + 1);
    switch (random.below(6)) {
      case 0:
      case 1:
        ends.push_back(0);
        handles.push_back(timer.schedule_after(random.between(-1ms, 40ms), [&ends, id] { ++ends[id]; }));
        break;
      case 2:
        if (other < id && handles[other].cancel() == cancel_result::cancelled) {
          ++ends[other];
        }
        break;
      case 3:
        if (other < id) {
          handles[other].reschedule_after(random.between(-1ms, 40ms));
        }
        break;
      case 4:
        random.one_in(2) ? static_cast<void>(tasks.run()) : tasks.drop();
        break;
      default:
        timer.advance_by(random.between(0ms, 20ms));
    }
    ASSERT_TRUE(conserved(timer));
    ASSERT_EQ(timer.pending(), static_cast<std::size_t>(std::count(ends.begin(), ends.end(), 0)));
  }
  for (int step = 0; step < 1000; ++step) {
    timer.advance_by(1ms);
    tasks.run();
  }
  EXPECT_THAT(ends, Each(1));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST(Executor, LosesNoTimerWhateverHappens) {
  for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    expect_no_loss(seed);
  }
}

}  // namespace
}  // namespace timing_wheel::test

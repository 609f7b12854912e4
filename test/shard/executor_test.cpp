/// \file
/// Executors: what they are given, what cancels it, what they refuse, and how they end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/meeting.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::Each;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

// ---- Handing over ----

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

TEST(ExecutorCancel, DroppingTheTaskOfATimerThatWasMovedDoesNothing) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_after(1ms, nothing);
  timer.advance_by(1ms);
  handle.reschedule(at(1h));
  tasks.drop();
  EXPECT_EQ(timer.stats().refused, 0U);
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

// ---- Refusals ----

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

TEST(ExecutorRefusal, ComesBackUntilItIsAccepted) {
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

TEST(ExecutorRefusal, DroppingAKeptTaskRefusesItLater) {
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

// ---- Counts of a step ----

TEST(ExecutorRefusal, RefusedHandOversDoNotKeepAStepFromEnding) {
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

// ---- Without memory ----

TEST(ExecutorRefusal, AHandOverWithoutMemoryLosesNothing) {
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

// ---- Stop ----

TEST(ExecutorStop, DrainReturnsWhatIsRefusedToTheEnd) {
  for (const way how : every_way) {
    refusing target(how, always);
    manual_timer timer({.executor = target.taking(), .on_error = ignore});
    timer.schedule_after(1ms, nothing, {.tag = 5});
    const std::vector<pending_task> left = timer.stop_drain(at(10ms));
    ASSERT_THAT(left, SizeIs(1));
    EXPECT_EQ(left[0].tag, 5U);
    EXPECT_EQ(left[0].deadline, at(1ms));
    EXPECT_EQ(timer.now(), at(10ms));
    EXPECT_TRUE(conserved(timer));
  }
}

TEST(ExecutorStop, DrainRunsWhatIsAcceptedInTheEnd) {
  int refusals = 3;
  manual_timer timer({.executor = [&](task&& work) { refusals-- > 0 ? void() : work(); }});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  EXPECT_THAT(timer.stop_drain(at(100ms)), IsEmpty());
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().refused, 3U);
}

TEST(ExecutorStop, WaitsForARunOnAnotherThread) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  latch begun(1);
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

TEST(ExecutorStop, RunNowPassesOverWhatRunsOnAnotherThread) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  latch begun(1);
  latch over(1);
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
  EXPECT_EQ(timer.stop_run_now(), 2U);
  thread.join();
}

// ---- Beyond the service ----

TEST(ExecutorEnd, CallingATaskAfterTheServiceDoesNothing) {
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

void end_with_tasks_in_the_executor(live_captures& captures) {
  manual_timer timer(
      {.executor = [own = std::vector<task>()](task&& work) mutable { own.push_back(std::move(work)); }});
  timer.schedule_after(1ms, [token = captures.make()] {});
  timer.schedule_every(1ms, [token = captures.make()] {});
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 2);
}

TEST(ExecutorEnd, MayOwnItsTasksAndDiesWithTheService) {
  live_captures captures;
  end_with_tasks_in_the_executor(captures);
  const std::size_t bytes = allocations.live_bytes;
  end_with_tasks_in_the_executor(captures);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(allocations.live_bytes, bytes);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// Executors and the end of a service.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/meeting.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_refusing.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// ---- Stop ----

TEST(ExecutorStop, ReturnsWhatWasHandedOverAndItsTaskDoesNothing) {
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

TEST(ExecutorStop, RunNowRunsOnTheCallerWhatWasHandedOver) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  std::vector<std::thread::id> threads;
  timer.schedule_after(1ms, [&] { threads.push_back(std::this_thread::get_id()); });
  timer.schedule_after(1h, [&] { threads.push_back(std::this_thread::get_id()); });
  timer.advance_by(1ms);
  EXPECT_EQ(timer.stop_run_now(), 2U);
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id(), std::this_thread::get_id()));
  tasks.run();
  EXPECT_THAT(threads, SizeIs(2));
  EXPECT_EQ(tasks.size(), 0U);
}

TEST(ExecutorStop, DrainReturnsWhatTheExecutorHasNotBegun) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 5});
  std::vector<pending_task> left = timer.stop_drain(at(10ms));
  EXPECT_EQ(tasks.run(), 1U);
  for (pending_task& one : left) {
    one.callback();
  }
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(conserved(timer));
}

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

TEST(ExecutorEnd, DestroyingATaskAfterTheServiceDoesNothing) {
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

/// \file
/// What users of Netty rely on, and what docs/coming_from/peers.md tells them. The suite `…Parity` runs on every engine.
/// A suite `…WheelParity` runs on the engine that is its peer's.
///
/// What lies between `// snippet NAME` and `// end` stands in docs/coming_from/peers.md to the letter; the test `pages` sees to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/engines.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::SizeIs;

// ---- The snippets of docs/coming_from/peers.md ----

// snippet netty
std::vector<std::string> read_timeout(std::deque<task>& pool) {
  std::vector<std::string> log;
  manual_timer timer({
      .tick = 10ms,
      .wheel_size = 512,
      .engine = engine_kind::hashed,
      .executor = [&pool](task&& work) { pool.push_back(std::move(work)); },
  });
  const timer_handle idle = timer.schedule_after(30s, [&log] { log.emplace_back("idle"); });
  timer.advance_by(29s);
  idle.reschedule_after(30s);
  timer.advance_by(30s);
  for (task& work : pool) {
    work();
  }
  return log;
}
// end

class NettyParity : public on_every_engine {};

INSTANTIATE_TEST_SUITE_P(Engines, NettyParity, every_engine, engine_name);

TEST(PeersPage, NettySnippetIsIdleThirtySecondsAfterTheLastRead) {
  std::deque<task> pool;
  EXPECT_THAT(read_timeout(pool), ElementsAre("idle"));
}

// ---- Netty ----

TEST(NettyWheelParity, SlotsAreRoundedUpToAPowerOfTwoAndReported) {
  for (const auto& [asked, made] : {std::pair{2U, 2U}, {3U, 4U}, {60U, 64U}, {512U, 512U}, {513U, 1024U}}) {
    const manual_timer_on<hashed_wheel> timer({.wheel_size = asked});
    const timer_stats stats = timer.stats();
    ASSERT_THAT(stats.levels, SizeIs(1));
    EXPECT_EQ(stats.levels[0].wheel_size, made);
  }
}

TEST(NettyWheelParity, TheHierarchicalWheelKeepsTheSizeThatWasAskedFor) {
  const manual_timer timer({.wheel_size = 60});
  EXPECT_EQ(timer.stats().levels.at(0).wheel_size, 60U);
}

TEST(NettyWheelParity, ATimerIsLookedAtOncePerRound) {
  manual_timer_on<hashed_wheel> timer({.tick = 1s, .wheel_size = 64});
  timer.schedule_after(130s, nothing);
  timer.advance_to(at(2s));
  EXPECT_EQ(timer.stats().looks, 1U);
  timer.advance_to(at(129s));
  EXPECT_EQ(timer.stats().looks, 2U);
  timer.advance_to(at(130s));
  EXPECT_EQ(timer.stats().looks, 3U);
  EXPECT_EQ(timer.stats().moves, 0U);
}

TEST_P(NettyParity, NeverEarlyAndLessThanATickLate) {
  by_hand timer({.tick = 10ms, .wheel_size = 16});
  std::mt19937_64 random(4211);
  std::uniform_int_distribution<std::int64_t> delay(1, 5'000'000'000);
  std::vector<nanoseconds> late;
  for (int i = 0; i < 5000; ++i) {
    timer.advance_by(nanoseconds(delay(random) / 5000));
    const time_point deadline = timer.now() + nanoseconds(delay(random));
    timer.schedule_at(deadline, [&timer, &late, deadline] { late.push_back(timer.now() - deadline); });
  }
  timer.advance_by(1h);
  EXPECT_THAT(late, AllOf(SizeIs(5000), Each(testing::Ge(0ns)), Each(testing::Lt(10ms))));
  EXPECT_EQ(timer.stats().early, 0U);
}

TEST_P(NettyParity, AMultipleOfTheTickIsNotATickLate) {
  by_hand timer({.tick = 100ms, .wheel_size = 8});
  std::vector<time_point> ran;
  for (const milliseconds delay : {100ms, 700ms, 800ms, 900ms, 1600ms}) {
    timer.schedule_after(delay, [&] { ran.push_back(timer.now()); });
  }
  timer.advance_by(1h);
  EXPECT_THAT(ran, ElementsAre(at(100ms), at(700ms), at(800ms), at(900ms), at(1600ms)));
}

TEST_P(NettyParity, ZeroAndNegativeDelaysDoNotWaitForATick) {
  by_hand timer({.tick = 1s});
  std::vector<time_point> ran;
  const auto note = [&] { ran.push_back(timer.now()); };
  timer.schedule_after(0s, note);
  timer.schedule_after(-1h, note);
  EXPECT_THAT(ran, SizeIs(0)) << "never within the call that schedules";
  EXPECT_EQ(timer.advance_by(0s), 2U);
  EXPECT_THAT(ran, Each(at(0s)));
}

TEST_P(NettyParity, TheLargestDelaysNeverFireAndCanBeCancelled) {
  by_hand timer({.tick = 1h}, at(24h * 365));
  const timer_handle most = timer.schedule_after(nanoseconds::max(), nothing);
  const timer_handle more = timer.schedule_after(hours::max(), nothing);
  EXPECT_EQ(timer.advance_by(24h * 3650), 0U);
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(most.cancel(), cancel_result::cancelled);
  EXPECT_EQ(more.cancel(), cancel_result::cancelled);
}

TEST_P(NettyParity, ATickMayBeShorterThanAMillisecond) {
  by_hand timer({.tick = 10us, .wheel_size = 64});
  std::vector<time_point> ran;
  timer.schedule_after(25us, [&] { ran.push_back(timer.now()); });
  timer.advance_by(1ms);
  EXPECT_THAT(ran, ElementsAre(at(30us)));
}

TEST_P(NettyParity, HandOverFromManyThreadsLosesNothing) {
  by_hand timer({.tick = 1ms, .wheel_size = 32, .shards = 3});
  constexpr int each = 2000;
  std::vector<std::jthread> producers;
  for (int producer = 0; producer < 4; ++producer) {
    producers.emplace_back([&timer] {
      for (int i = 0; i < each; ++i) {
        const timer_handle handle = timer.schedule_after(milliseconds(i), nothing);
        if (i % 4 == 0) {
          handle.cancel();
        }
      }
    });
  }
  producers.clear();
  EXPECT_EQ(timer.pending(), 4U * each * 3 / 4);
  EXPECT_EQ(timer.advance_by(1h), 4U * each * 3 / 4);
  EXPECT_TRUE(conserved(timer));
}

TEST_P(NettyParity, ATaskExecutorRunsTheTasks) {
  std::deque<task> pool;
  by_hand timer({.executor = [&pool](task&& work) { pool.push_back(std::move(work)); }});
  std::vector<int> ran;
  timer.schedule_after(1ms, [&] { ran.push_back(1); });
  const timer_handle second = timer.schedule_after(2ms, [&] { ran.push_back(2); });
  EXPECT_EQ(timer.advance_by(2ms), 2U) << "handed over";
  EXPECT_THAT(ran, SizeIs(0));
  EXPECT_EQ(second.cancel(), cancel_result::cancelled) << "it waits in the executor, and has not begun";
  for (task& work : pool) {
    work();
  }
  EXPECT_THAT(ran, ElementsAre(1));
}

TEST_P(NettyParity, AnExecutorThatRefusesLosesNoTask) {
  int refusals = 0;
  const auto busy_at_first = [&refusals](task&& work) {
    if (++refusals <= 3) {
      throw std::runtime_error("full");
    }
    work();
  };
  by_hand timer({.executor = busy_at_first, .on_error = [](const std::exception_ptr&, std::uint64_t) {}});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1s);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().refused, 3U);
  EXPECT_TRUE(conserved(timer));
}

TEST_P(NettyParity, WhatWasCapturedLearnsOfTheCancelBeforeItReturns) {
  by_hand timer({.tick = 1s});
  int told = 0;
  const timer_handle handle = timer.schedule_after(1h, [&told, told_by = on_destruction([&told, &timer] {
                                                                 ++told;
                                                                 timer.schedule_after(1s, nothing);
                                                               })] { told += 100; });
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(timer.pending(), 1U) << "what it scheduled";
}

TEST_P(NettyParity, NothingIsLeakedByStopAndByTheDestructor) {
  live_captures captures;
  {
    by_hand dropped;
    dropped.schedule_after(1h, [token = captures.make()] {});
    by_hand stopped;
    stopped.schedule_after(1h, [token = captures.make()] {});
    stopped.stop();
    EXPECT_EQ(captures.alive(), 1);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 2);
}

TEST_P(NettyParity, MoreThanSixtyFourInstancesAreNoMisuse) {
  std::deque<by_hand> many;
  std::size_t fired = 0;
  for (int i = 0; i < 100; ++i) {
    many.emplace_back().schedule_after(1ms, nothing);
  }
  for (by_hand& timer : many) {
    fired += timer.advance_by(1ms);
  }
  EXPECT_EQ(fired, 100U);
}

TEST_P(NettyParity, ATaskThatThrowsIsReportedAndTheOthersRun) {
  std::vector<std::uint64_t> failed;
  by_hand timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { failed.push_back(tag); }});
  int runs = 0;
  for (std::uint64_t tag = 0; tag < 3; ++tag) {
    timer.schedule_after(1ms, [&runs, tag] { ++runs == 0 || tag != 1 ? void() : throw std::runtime_error("task"); },
                         {.tag = tag});
  }
  EXPECT_EQ(timer.advance_by(1ms), 3U);
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(failed, ElementsAre(1));
}

}  // namespace
}  // namespace timing_wheel::test

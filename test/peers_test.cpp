/// \file
/// What users of Dubbo, Netty, Kafka and its port to Go rely on, and what docs/peers.md tells them. The suites `…Parity` run on every
/// engine, those named `…WheelParity` on the one that is theirs.
///
/// What lies between `// snippet NAME` and `// end` stands in docs/peers.md to the letter; the test `pages` sees to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/engines.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;

// ---- The snippets of docs/peers.md ----

// snippet dubbo
std::size_t retry_until_sent(const std::function<bool()>& send, std::vector<std::uint64_t>& not_sent) {
  manual_timer timer({.tick = 1s, .wheel_size = 32, .engine = engine_kind::hashed, .max_pending = 100'000});
  const auto attempt = [&send](const timer_handle& self) {
    if (send()) {
      self.cancel();
    }
  };
  timer.schedule_every(5s, attempt, fixed_delay, {.tag = 1001});
  const timer_handle other = timer.schedule_after(1min, [] {}, {.tag = 1002});
  const bool cancelled = other.cancel() == cancel_result::cancelled;
  timer.advance_by(20s);
  for (const pending_task& left : timer.stop()) {
    not_sent.push_back(left.tag);
  }
  return cancelled && timer.stopped() ? timer.pending() : no_limit;
}
// end

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

// snippet kafka
std::size_t expire_operations(std::vector<std::string>& expired) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  const timer_handle produce = timer.schedule_after(30s, [&expired] { expired.emplace_back("produce"); });
  timer.schedule_after(500ms, [&expired] { expired.emplace_back("fetch"); });
  produce.cancel();
  timer.advance_by(500ms);
  const std::size_t left = timer.pending();
  timer.stop();
  return left;
}
// end

// snippet go
std::vector<time_point> every_day_of_three() {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  const auto next = [](time_point previous) -> std::optional<time_point> {
    return previous < time_point(72h) ? std::optional(previous + 24h) : std::nullopt;
  };
  timer.schedule_with(next, [&] { ran.push_back(timer.now()); });
  const timer_handle after = timer.schedule_after(1h, [&] { ran.clear(); });
  const bool stopped = after.cancel() == cancel_result::cancelled;
  timer.advance_by(240h);
  return stopped ? ran : std::vector<time_point>();
}
// end

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

template <class Engine>
using by_hand = manual_timer_on<Engine>;

void nothing() {}

constexpr time_point at(nanoseconds since_epoch) { return time_point(since_epoch); }

std::vector<int> numbers_to(int end) {
  std::vector<int> all(static_cast<std::size_t>(end));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

template <class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const timer_error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

template <class Engine>
class DubboParity : public testing::Test {};
TYPED_TEST_SUITE(DubboParity, engine_types);

template <class Engine>
class NettyParity : public testing::Test {};
TYPED_TEST_SUITE(NettyParity, engine_types);

template <class Engine>
class KafkaParity : public testing::Test {};
TYPED_TEST_SUITE(KafkaParity, engine_types);

template <class Engine>
class GoParity : public testing::Test {};
TYPED_TEST_SUITE(GoParity, engine_types);

TEST(PeersPage, DubboSnippetCountsAndReturnsWhatWasNotSent) {
  std::vector<std::uint64_t> not_sent;
  int attempts = 0;
  EXPECT_EQ(retry_until_sent([&] { return ++attempts == 3; }, not_sent), 0U);
  EXPECT_THAT(not_sent, SizeIs(0));
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(retry_until_sent([] { return false; }, not_sent), 0U);
  EXPECT_THAT(not_sent, ElementsAre(1001));
}

TEST(PeersPage, NettySnippetIsIdleThirtySecondsAfterTheLastRead) {
  std::deque<task> pool;
  EXPECT_THAT(read_timeout(pool), ElementsAre("idle"));
}

TEST(PeersPage, KafkaSnippetExpiresWhatWasNotCompleted) {
  std::vector<std::string> expired;
  EXPECT_EQ(expire_operations(expired), 0U);
  EXPECT_THAT(expired, ElementsAre("fetch"));
}

TEST(PeersPage, GoSnippetRunsOnThreeDays) { EXPECT_THAT(every_day_of_three(), ElementsAre(at(24h), at(48h), at(72h))); }

// ---- Dubbo: the limit and the count ----

TYPED_TEST(DubboParity, D8_RejectionCarriesBothNumbersAndLeavesTheCountUnchanged) {
  by_hand<TypeParam> timer({.max_pending = 3});
  for (int i = 0; i < 3; ++i) {
    timer.schedule_after(1h, nothing);
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(message_of([&] { timer.schedule_after(1h, nothing); }),
                AllOf(HasSubstr("3 pending"), HasSubstr("max_pending 3")));
  }
  EXPECT_EQ(timer.pending(), 3U);
  EXPECT_EQ(timer.stats().rejected, 5U);
}

TYPED_TEST(DubboParity, D8_CancelAndExpiryMakeRoomAtOnce) {
  by_hand<TypeParam> timer({.tick = 1s, .max_pending = 2});
  const timer_handle first = timer.schedule_after(1h, nothing);
  timer.schedule_after(2s, nothing);
  first.cancel();
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing)) << "no tick has passed since the cancel";
  timer.advance_by(2s);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
}

TYPED_TEST(DubboParity, D8_ALimitOfZeroRefusesEverythingAndNoneIsTheDefault) {
  by_hand<TypeParam> closed({.max_pending = 0});
  EXPECT_THROW(closed.schedule_after(1h, nothing), timer_error);
  EXPECT_EQ(timer_options().max_pending, no_limit);
}

TYPED_TEST(DubboParity, D8_CancelInTheTickOfExpiryIsCountedOnce) {
  by_hand<TypeParam> timer({.tick = 100ms});
  std::vector<timer_handle> pair(2);
  for (std::size_t i = 0; i < 2; ++i) {
    pair[i] = timer.schedule_after(100ms, [&pair, i] { pair[1 - i].cancel(); });
  }
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer.advance_by(300ms), 1U);
  EXPECT_EQ(timer.pending(), 1U);
  EXPECT_EQ(timer.stats().cancelled, 1U);
  EXPECT_TRUE(conserved(timer));
}

TYPED_TEST(DubboParity, D8_CancelAfterEachOutcomeChangesNoCount) {
  by_hand<TypeParam> timer({.tick = 100ms});
  const timer_handle fired = timer.schedule_after(100ms, [](const timer_handle& self) { self.cancel(); });
  const timer_handle cancelled = timer.schedule_after(200ms, nothing);
  cancelled.cancel();
  timer.advance_by(1s);
  for (int i = 0; i < 3; ++i) {
    fired.cancel();
    cancelled.cancel();
  }
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().cancelled, 1U);
  EXPECT_EQ(timer.stats().fired, 1U);
}

// ---- Dubbo: stop ----

TYPED_TEST(DubboParity, D2_StopReturnsTheUnprocessedEachOnce) {
  by_hand<TypeParam> timer({.tick = 10ms, .wheel_size = 8});
  timer.schedule_after(20ms, nothing, {.tag = 1});
  timer.schedule_after(50ms, nothing, {.tag = 2}).cancel();
  timer.schedule_after(40ms, nothing, {.tag = 3});
  timer.schedule_after(1h, nothing, {.tag = 4});
  timer.advance_by(20ms);
  timer.schedule_after(0ms, nothing, {.tag = 5});
  std::vector<std::uint64_t> tags;
  for (const pending_task& left : timer.stop()) {
    tags.push_back(left.tag);
  }
  EXPECT_THAT(tags, UnorderedElementsAre(3, 4, 5));
}

TYPED_TEST(DubboParity, D2_WhatStopReturnsCanBeRun) {
  by_hand<TypeParam> timer;
  int runs = 0;
  timer.schedule_after(1h, [&] { ++runs; });
  timer.schedule_after(2h, [&] { runs += 10; });
  for (pending_task& left : timer.stop()) {
    left.callback();
  }
  EXPECT_EQ(runs, 11);
}

TYPED_TEST(DubboParity, D2_WhatStopReturnsIsCancelledFromThenOn) {
  by_hand<TypeParam> timer;
  bool ran = false;
  const timer_handle handle = timer.schedule_after(1h, [&] { ran = true; });
  const std::vector<pending_task> left = timer.stop();
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_FALSE(handle.reschedule_after(1ms));
  EXPECT_EQ(timer.pending(), 0U);
  timer.advance_by(2h);
  EXPECT_FALSE(ran);
}

TYPED_TEST(DubboParity, D2_StopFromATaskReturnsTheOthers) {
  by_hand<TypeParam> timer;
  std::size_t returned = 0;
  timer.schedule_after(1ms, [&] { returned = timer.stop().size(); });
  timer.schedule_after(2ms, nothing);
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer.advance_by(2h), 1U);
  EXPECT_EQ(returned, 2U);
}

TYPED_TEST(DubboParity, D2_StopInAPeriodicTaskDoesNotArmItAgain) {
  by_hand<TypeParam> timer;
  int runs = 0;
  std::size_t returned = 0;
  timer.schedule_every(1s, [&] {
    ++runs;
    returned = timer.stop().size();
  });
  timer.schedule_after(1min, nothing);
  timer.advance_by(1h);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(returned, 1U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TYPED_TEST(DubboParity, D3_StoppedTellsAndStopMayBeCalledAgain) {
  by_hand<TypeParam> timer;
  timer.schedule_after(1h, nothing);
  EXPECT_FALSE(timer.stopped());
  EXPECT_THAT(timer.stop(), SizeIs(1));
  EXPECT_TRUE(timer.stopped());
  EXPECT_THAT(timer.stop(), SizeIs(0));
}

TYPED_TEST(DubboParity, D2_AfterStopNothingIsAcceptedAndNothingIsCounted) {
  by_hand<TypeParam> timer;
  timer.stop();
  std::error_code error;
  EXPECT_FALSE(timer.schedule_after(1ms, nothing, error));
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_THROW(timer.schedule_every(1ms, nothing), timer_error);
  EXPECT_EQ(timer.pending(), 0U);
}

// ---- Dubbo: the handle ----

TYPED_TEST(DubboParity, D4_CancelIsSeenInTheCountAtOnce) {
  by_hand<TypeParam> timer({.tick = 1s});
  const timer_handle handle = timer.schedule_after(1h, nothing);
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(timer.pending(), 1U);
}

TYPED_TEST(DubboParity, D4_ExpiredIsToldByTheStatusAndByCancel) {
  by_hand<TypeParam> timer;
  cancel_result inside = cancel_result::cancelled;
  const timer_handle handle = timer.schedule_after(5ms, [&](const timer_handle& self) {
    EXPECT_EQ(self.status(), timer_status::running);
    inside = self.cancel();
  });
  EXPECT_EQ(handle.status(), timer_status::pending);
  timer.advance_by(5ms);
  EXPECT_EQ(inside, cancel_result::running);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TYPED_TEST(DubboParity, D4_CancelledIsToldOnceByCancel) {
  by_hand<TypeParam> timer;
  const timer_handle handle = timer.schedule_after(5ms, nothing);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_EQ(timer.advance_by(1s), 0U);
}

TYPED_TEST(DubboParity, D4_PrintsItsStateAndWhatIsLeft) {
  by_hand<TypeParam> timer;
  const timer_handle handle = timer.schedule_after(1500ms, nothing);
  std::ostringstream before;
  before << handle;
  EXPECT_THAT(before.str(), AllOf(StartsWith("timer "), HasSubstr("pending"), HasSubstr("1500 ms")));
  handle.cancel();
  std::ostringstream after;
  after << handle;
  EXPECT_THAT(after.str(), AllOf(StartsWith("timer "), HasSubstr("finished")));
}

TYPED_TEST(DubboParity, D4_TheHandleTellsDeadlineRemainingTimeAndTag) {
  by_hand<TypeParam> timer({.tick = 10ms}, at(3ms));
  const timer_handle handle = timer.schedule_after(1s, nothing, {.tag = 77});
  timer.advance_by(400ms);
  EXPECT_EQ(handle.deadline(), at(1003ms));
  EXPECT_EQ(handle.remaining(), 600ms);
  EXPECT_EQ(handle.tag(), 77U);
  handle.cancel();
  EXPECT_EQ(handle.deadline(), std::nullopt);
}

TYPED_TEST(DubboParity, D4_TheHandleIsValidAfterTheTimersDeath) {
  std::optional<by_hand<TypeParam>> timer(std::in_place);
  const timer_handle handle = timer->schedule_after(1h, nothing);
  timer.reset();
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  std::ostringstream out;
  out << handle;
  EXPECT_THAT(out.str(), HasSubstr("finished"));
}

TYPED_TEST(DubboParity, D5_TheTaskGetsItsOwnHandle) {
  by_hand<TypeParam> timer;
  std::vector<timer_handle> inside;
  std::vector<timer_handle> outside;
  for (int i = 0; i < 3; ++i) {
    outside.push_back(
        timer.schedule_after(milliseconds(i + 1), [&](const timer_handle& self) { inside.push_back(self); }));
  }
  timer.advance_by(3ms);
  EXPECT_EQ(inside, outside);
}

// ---- Dubbo: options, the worker, and time ----

TYPED_TEST(DubboParity, D6_ATickThatIsNotPositiveIsRefusedByName) {
  EXPECT_THAT(message_of([] { by_hand<TypeParam> timer({.tick = 0ns}); }), HasSubstr("tick"));
  EXPECT_THAT(message_of([] { by_hand<TypeParam> timer({.tick = -1ms}); }), HasSubstr("-1000000"));
  EXPECT_NO_THROW(by_hand<TypeParam>({.tick = 1ns}));
}

TEST(DubboWheelParity, D6_WheelSizesOutOfRangeAreRefusedWithValueAndRange) {
  constexpr std::uint32_t largest = 1U << 24U;
  for (const std::uint32_t size : {0U, 1U, largest + 1}) {
    EXPECT_THAT(message_of([&] { by_hand<hashed_wheel> timer({.wheel_size = size}); }),
                AllOf(HasSubstr("wheel size " + std::to_string(size) + " "), HasSubstr("[2, 16777216]")));
  }
  EXPECT_NO_THROW(by_hand<hashed_wheel>({.wheel_size = 2}));
}

TYPED_TEST(DubboParity, D6_TimeRunsFromTheCallAndWaitsForNoWorker) {
  by_hand<TypeParam> timer({.tick = 1ms}, at(5h));
  timer.advance_by(1h);
  std::vector<time_point> ran;
  timer.schedule_after(10ms, [&] { ran.push_back(timer.now()); });
  timer.advance_by(1s);
  EXPECT_THAT(ran, ElementsAre(at(6h + 10ms)));
}

TYPED_TEST(DubboParity, C05_OneHundredAndThirtySecondsOnSixtySlotsRunAt130AndNotAt70) {
  by_hand<TypeParam> timer({.tick = 1s, .wheel_size = 60});
  std::vector<time_point> ran;
  timer.schedule_after(130s, [&] { ran.push_back(timer.now()); });
  for (int second = 1; second < 130; ++second) {
    EXPECT_EQ(timer.advance_by(1s), 0U) << second;
  }
  EXPECT_EQ(timer.advance_by(1s), 1U);
  EXPECT_THAT(ran, ElementsAre(at(130s)));
}

TYPED_TEST(DubboParity, C06_ThirteenSecondsOnTwelveSlotsDoNotRunAtOne) {
  by_hand<TypeParam> timer({.tick = 1s, .wheel_size = 12});
  std::vector<time_point> ran;
  timer.schedule_after(13s, [&] { ran.push_back(timer.now()); });
  timer.schedule_after(1s, [&] { ran.push_back(timer.now()); });
  EXPECT_EQ(timer.advance_by(12s), 1U);
  timer.advance_by(1h);
  EXPECT_THAT(ran, ElementsAre(at(1s), at(13s)));
}

// ---- Dubbo: the order of the work within a tick ----

TYPED_TEST(DubboParity, D7_WhatWasCancelledBeforeTheTickNeverRuns) {
  by_hand<TypeParam> timer({.tick = 100ms, .wheel_size = 4});
  std::vector<int> ran;
  std::vector<timer_handle> handles;
  for (int i = 0; i < 6; ++i) {
    handles.push_back(timer.schedule_after(milliseconds(100 * (i % 3)), [&ran, i] { ran.push_back(i); }));
  }
  handles[0].cancel();
  timer.advance_by(50ms);
  handles[4].cancel();
  handles[5].cancel();
  timer.advance_by(1s);
  EXPECT_THAT(ran, ElementsAre(3, 1, 2));
}

TYPED_TEST(DubboParity, D7_WhatWasAddedSinceTheLastTickAndIsDueRunsInThisTick) {
  by_hand<TypeParam> timer({.tick = 100ms, .wheel_size = 4});
  std::vector<time_point> ran;
  const auto note = [&] { ran.push_back(timer.now()); };
  timer.schedule_after(1h, nothing);
  timer.advance_by(150ms);
  timer.schedule_after(50ms, note);
  timer.schedule_after(1ns, note);
  timer.advance_by(49ms);
  timer.schedule_after(1ms, note);
  EXPECT_THAT(ran, SizeIs(0));
  timer.advance_by(1ms);
  EXPECT_THAT(ran, ElementsAre(at(200ms), at(200ms), at(200ms)));
}

TEST(DubboWheelParity, D7_FirstComeFirstServedWithinASlot) {
  by_hand<hashed_wheel> timer({.tick = 1s, .wheel_size = 8});
  std::vector<int> first;
  std::vector<int> a_round_later;
  for (int i = 0; i < 300; ++i) {
    timer.schedule_after(3s, [&first, i] { first.push_back(i); });
    timer.schedule_after(11s, [&a_round_later, i] { a_round_later.push_back(i); });
  }
  EXPECT_EQ(timer.advance_by(10s), 300U);
  EXPECT_EQ(timer.advance_by(1s), 300U);
  EXPECT_THAT(first, ElementsAreArray(numbers_to(300)));
  EXPECT_THAT(a_round_later, ElementsAreArray(numbers_to(300)));
}

TYPED_TEST(DubboParity, D7_MoreThanAHundredThousandAddedInOneTickAllRunInTheNext) {
  by_hand<TypeParam> timer({.tick = 100ms, .wheel_size = 512});
  constexpr int many = 150'000;
  for (int i = 0; i < many; ++i) {
    timer.schedule_after(100ms, nothing);
  }
  EXPECT_EQ(timer.advance_by(99ms), 0U);
  EXPECT_EQ(timer.advance_by(1ms), static_cast<std::size_t>(many));
}

// ---- Dubbo: periodic ----

TYPED_TEST(DubboParity, D10_FixedDelayCountsFromTheEndOfASlowTask) {
  std::deque<task> pool;
  by_hand<TypeParam> timer({.executor = [&pool](task&& work) { pool.push_back(std::move(work)); }});
  timer.schedule_every(10ms, nothing, fixed_delay);
  EXPECT_EQ(timer.advance_by(10ms), 1U);
  EXPECT_EQ(timer.advance_by(25ms), 0U) << "it has not ended, so that the next is not due";
  pool.front()();
  EXPECT_EQ(timer.advance_to(at(44ms)), 0U);
  EXPECT_EQ(timer.advance_to(at(45ms)), 1U);
}

TYPED_TEST(DubboParity, D10_ATaskThatSubmitsItselfAgainNeverPilesUp) {
  by_hand<TypeParam> timer({.tick = 1s, .wheel_size = 12});
  int runs = 0;
  std::function<void()> again = [&] {
    EXPECT_EQ(timer.pending(), 0U);
    if (++runs < 1000) {
      timer.schedule_after(13s, again);
    }
  };
  timer.schedule_after(13s, again);
  EXPECT_EQ(timer.advance_by(13s * 999), 999U);
  EXPECT_EQ(timer.advance_by(13s * 999), 1U);
}

// ---- Netty ----

TEST(NettyWheelParity, N1_SlotsAreRoundedUpToAPowerOfTwoAndReported) {
  for (const auto& [asked, made] : {std::pair{2U, 2U}, {3U, 4U}, {60U, 64U}, {512U, 512U}, {513U, 1024U}}) {
    const by_hand<hashed_wheel> timer({.wheel_size = asked});
    const timer_stats stats = timer.stats();
    ASSERT_THAT(stats.levels, SizeIs(1));
    EXPECT_EQ(stats.levels[0].wheel_size, made);
  }
}

TEST(NettyWheelParity, N1_TheHierarchicalWheelKeepsTheSizeThatWasAskedFor) {
  const manual_timer timer({.wheel_size = 60});
  EXPECT_EQ(timer.stats().levels.at(0).wheel_size, 60U);
}

TEST(NettyWheelParity, N1_ATimerIsLookedAtOncePerRound) {
  by_hand<hashed_wheel> timer({.tick = 1s, .wheel_size = 64});
  timer.schedule_after(130s, nothing);
  timer.advance_to(at(2s));
  EXPECT_EQ(timer.stats().looks, 1U);
  timer.advance_to(at(129s));
  EXPECT_EQ(timer.stats().looks, 2U);
  timer.advance_to(at(130s));
  EXPECT_EQ(timer.stats().looks, 3U);
  EXPECT_EQ(timer.stats().moves, 0U);
}

TYPED_TEST(NettyParity, N1_NeverEarlyAndLessThanATickLate) {
  by_hand<TypeParam> timer({.tick = 10ms, .wheel_size = 16});
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

TYPED_TEST(NettyParity, N1_AMultipleOfTheTickIsNotATickLate) {
  by_hand<TypeParam> timer({.tick = 100ms, .wheel_size = 8});
  std::vector<time_point> ran;
  for (const milliseconds delay : {100ms, 700ms, 800ms, 900ms, 1600ms}) {
    timer.schedule_after(delay, [&] { ran.push_back(timer.now()); });
  }
  timer.advance_by(1h);
  EXPECT_THAT(ran, ElementsAre(at(100ms), at(700ms), at(800ms), at(900ms), at(1600ms)));
}

TYPED_TEST(NettyParity, N1_ZeroAndNegativeDelaysDoNotWaitForATick) {
  by_hand<TypeParam> timer({.tick = 1s});
  std::vector<time_point> ran;
  const auto note = [&] { ran.push_back(timer.now()); };
  timer.schedule_after(0s, note);
  timer.schedule_after(-1h, note);
  EXPECT_THAT(ran, SizeIs(0)) << "never within the call that schedules";
  EXPECT_EQ(timer.advance_by(0s), 2U);
  EXPECT_THAT(ran, Each(at(0s)));
}

TYPED_TEST(NettyParity, N1_TheLargestDelaysNeverFireAndCanBeCancelled) {
  by_hand<TypeParam> timer({.tick = 1h}, at(24h * 365));
  const timer_handle most = timer.schedule_after(nanoseconds::max(), nothing);
  const timer_handle more = timer.schedule_after(hours::max(), nothing);
  EXPECT_EQ(timer.advance_by(24h * 3650), 0U);
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(most.cancel(), cancel_result::cancelled);
  EXPECT_EQ(more.cancel(), cancel_result::cancelled);
}

TYPED_TEST(NettyParity, N1_ATickMayBeShorterThanAMillisecond) {
  by_hand<TypeParam> timer({.tick = 10us, .wheel_size = 64});
  std::vector<time_point> ran;
  timer.schedule_after(25us, [&] { ran.push_back(timer.now()); });
  timer.advance_by(1ms);
  EXPECT_THAT(ran, ElementsAre(at(30us)));
}

TYPED_TEST(NettyParity, N1_HandOverFromManyThreadsLosesNothing) {
  by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 32, .shards = 3});
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

TYPED_TEST(NettyParity, N1_ATaskExecutorRunsTheTasks) {
  std::deque<task> pool;
  by_hand<TypeParam> timer({.executor = [&pool](task&& work) { pool.push_back(std::move(work)); }});
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

TYPED_TEST(NettyParity, N1_AnExecutorThatRefusesLosesNoTask) {
  int refusals = 0;
  const auto busy_at_first = [&refusals](task&& work) {
    if (++refusals <= 3) {
      throw std::runtime_error("full");
    }
    work();
  };
  by_hand<TypeParam> timer({.executor = busy_at_first, .on_error = [](const std::exception_ptr&, std::uint64_t) {}});
  int runs = 0;
  timer.schedule_after(1ms, [&] { ++runs; });
  timer.advance_by(1s);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(timer.stats().refused, 3U);
  EXPECT_TRUE(conserved(timer));
}

TYPED_TEST(NettyParity, N1_WhatWasCapturedLearnsOfTheCancelBeforeItReturns) {
  by_hand<TypeParam> timer({.tick = 1s});
  int told = 0;
  const timer_handle handle = timer.schedule_after(1h, [&told, told_by = on_destruction([&told, &timer] {
                                                                 ++told;
                                                                 timer.schedule_after(1s, nothing);
                                                               })] { told += 100; });
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(timer.pending(), 1U) << "what it scheduled";
}

TYPED_TEST(NettyParity, N1_NothingIsLeakedByStopAndByTheDestructor) {
  live_captures captures;
  {
    by_hand<TypeParam> dropped;
    dropped.schedule_after(1h, [token = captures.make()] {});
    by_hand<TypeParam> stopped;
    stopped.schedule_after(1h, [token = captures.make()] {});
    stopped.stop();
    EXPECT_EQ(captures.alive(), 1);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(captures.destroyed(), 2);
}

TYPED_TEST(NettyParity, N1_MoreThanSixtyFourInstancesAreNoMisuse) {
  std::deque<by_hand<TypeParam>> many;
  std::size_t fired = 0;
  for (int i = 0; i < 100; ++i) {
    many.emplace_back().schedule_after(1ms, nothing);
  }
  for (by_hand<TypeParam>& timer : many) {
    fired += timer.advance_by(1ms);
  }
  EXPECT_EQ(fired, 100U);
}

TYPED_TEST(NettyParity, N1_ATaskThatThrowsIsReportedAndTheOthersRun) {
  std::vector<std::uint64_t> failed;
  by_hand<TypeParam> timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { failed.push_back(tag); }});
  int runs = 0;
  for (std::uint64_t tag = 0; tag < 3; ++tag) {
    timer.schedule_after(1ms, [&runs, tag] { ++runs == 0 || tag != 1 ? void() : throw std::runtime_error("task"); },
                         {.tag = tag});
  }
  EXPECT_EQ(timer.advance_by(1ms), 3U);
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(failed, ElementsAre(1));
}

// ---- Kafka ----

TYPED_TEST(KafkaParity, G2_SizeFollowsAddCancelAndExpiry) {
  by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 20});
  const timer_handle handle = timer.schedule_after(450ms, nothing);
  timer.schedule_after(450ms, nothing);
  timer.schedule_after(0ms, nothing);
  EXPECT_EQ(timer.pending(), 3U) << "one that is due counts until its callback begins";
  EXPECT_EQ(timer.advance_by(440ms), 1U);
  EXPECT_EQ(timer.pending(), 2U);
  handle.cancel();
  EXPECT_EQ(timer.pending(), 1U);
  timer.advance_by(10ms);
  EXPECT_EQ(timer.pending(), 0U);
}

TYPED_TEST(KafkaParity, G2_SizeDoesNotDipInACascade) {
  by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 20});
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 1000; ++i) {
    timer.schedule_after(399ms, nothing);
  }
  for (int i = 379; i < 399; ++i) {
    timer.schedule_after(milliseconds(i), [&] { sizes.push_back(timer.pending() + timer.stats().fired); });
  }
  timer.advance_by(398ms);
  EXPECT_THAT(sizes, AllOf(SizeIs(20), Each(1020U)));
}

TYPED_TEST(KafkaParity, G2_AdvanceClockRunsWhatIsDueInOrderAndSaysHowMany) {
  by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 3});
  std::vector<int> ran;
  for (const int delay : {100, 3, 27, 9, 1, 8}) {
    timer.schedule_after(milliseconds(delay), [&ran, delay] { ran.push_back(delay); });
  }
  EXPECT_EQ(timer.advance_by(9ms), 4U);
  EXPECT_EQ(timer.advance_by(17ms), 0U);
  EXPECT_EQ(timer.advance_by(1s), 2U);
  EXPECT_THAT(ran, ElementsAre(1, 3, 8, 9, 27, 100));
}

TYPED_TEST(KafkaParity, G2_CloseReturnsWhatIsPendingAndRefusesMore) {
  by_hand<TypeParam> timer;
  timer.schedule_after(1h, nothing);
  EXPECT_THAT(timer.stop(), SizeIs(1));
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
  EXPECT_EQ(timer.advance_by(2h), 0U);
}

TYPED_TEST(KafkaParity, G2_AddingATaskAgainIsARescheduleOfItsHandle) {
  by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  const timer_handle handle = timer.schedule_after(50ms, [&] { ran.push_back(timer.now()); });
  timer.advance_by(40ms);
  EXPECT_TRUE(handle.reschedule_after(500ms));
  EXPECT_EQ(timer.pending(), 1U);
  timer.advance_by(1h);
  EXPECT_THAT(ran, ElementsAre(at(540ms)));
}

TYPED_TEST(KafkaParity, G2_AMockTimerRunsWhatIsDueExactlyNow) {
  by_hand<TypeParam> timer;
  timer.schedule_after(200ms, nothing);
  EXPECT_EQ(timer.advance_by(199ms), 0U);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TYPED_TEST(KafkaParity, G2_AMockTimerShowsEachTaskItsOwnTime) {
  by_hand<TypeParam> timer;
  std::vector<time_point> ran;
  timer.schedule_after(5ms, [&] {
    ran.push_back(timer.now());
    timer.schedule_after(5ms, [&] { ran.push_back(timer.now()); });
  });
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_THAT(ran, ElementsAre(at(5ms), at(10ms)));
  EXPECT_EQ(timer.now(), at(1h));
}

TYPED_TEST(KafkaParity, G2_ACallbackThatBlocksOnAnExecutorDelaysNobody) {
  std::deque<task> pool;
  by_hand<TypeParam> timer({.executor = [&pool](task&& work) { pool.push_back(std::move(work)); }});
  for (int i = 1; i <= 3; ++i) {
    timer.schedule_after(milliseconds(i), nothing);
  }
  timer.advance_by(1ms);
  EXPECT_EQ(timer.advance_by(2ms), 2U) << "the first is still in the pool";
  EXPECT_EQ(timer.stats().due, 3U);
}

TEST(KafkaWheelParity, G1_LevelsShowTickSizeIntervalAndCurrentTime) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  EXPECT_THAT(timer.stats().levels, SizeIs(1)) << "an overflow wheel is made when it is needed";
  timer.schedule_after(450ms, nothing);
  timer.advance_by(419ms);
  const std::vector<level_stats> levels = timer.stats().levels;
  ASSERT_THAT(levels, SizeIs(3));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(levels[i].interval, levels[i].tick_length * 20);
    EXPECT_EQ(levels[i].tick_length, i == 0 ? 1 : levels[i - 1].interval);
    EXPECT_EQ(levels[i].current_time % levels[i].tick_length, 0U);
  }
  EXPECT_EQ(levels[2].current_time, 400U);
}

TEST(KafkaWheelParity, G1_ABucketIsQueuedOncePerTurn) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  for (int turn = 1; turn <= 3; ++turn) {
    for (int i = 0; i < 100; ++i) {
      timer.schedule_after(7ms, nothing);
    }
    EXPECT_EQ(timer.stats().levels[0].buckets_queued, static_cast<std::uint64_t>(turn));
    timer.advance_by(20ms);
  }
  EXPECT_EQ(timer.stats().levels[0].flushes, 3U);
  EXPECT_EQ(timer.stats().levels[0].largest_flush, 100U);
}

// ---- The port to Go ----

TYPED_TEST(GoParity, G1_AfterFuncRunsOnceAfterTheDelay) {
  by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 20});
  std::vector<time_point> ran;
  for (const milliseconds delay : {1ms, 5ms, 10ms, 50ms, 100ms, 500ms, 1000ms}) {
    timer.schedule_after(delay, [&] { ran.push_back(timer.now()); });
  }
  EXPECT_EQ(timer.advance_by(1h), 7U);
  EXPECT_THAT(ran, ElementsAre(at(1ms), at(5ms), at(10ms), at(50ms), at(100ms), at(500ms), at(1s)));
}

TYPED_TEST(GoParity, G1_WhatIsDueWithinTheTickIsNotRunAtOnce) {
  by_hand<TypeParam> timer({.tick = 10ms}, at(3ms));
  std::vector<time_point> ran;
  timer.schedule_after(5ms, [&] { ran.push_back(timer.now()); });
  EXPECT_EQ(timer.advance_by(0ms), 0U);
  timer.advance_by(1s);
  ASSERT_THAT(ran, SizeIs(1));
  EXPECT_GE(ran[0], at(8ms));
  EXPECT_LT(ran[0], at(18ms));
}

TYPED_TEST(GoParity, G1_StopSaysWhetherItStoppedTheTimer) {
  by_hand<TypeParam> timer;
  const timer_handle stopped = timer.schedule_after(5ms, nothing);
  const timer_handle fired = timer.schedule_after(5ms, nothing);
  EXPECT_EQ(stopped.cancel(), cancel_result::cancelled);
  EXPECT_EQ(stopped.cancel(), cancel_result::finished);
  EXPECT_EQ(timer.advance_by(5ms), 1U);
  EXPECT_EQ(fired.cancel(), cancel_result::finished);
}

TYPED_TEST(GoParity, G1_StopAfterEachMoveIsTrueAndFinal) {
  for (const milliseconds moved : {0ms, 1ms, 400ms, 440ms, 449ms}) {
    by_hand<TypeParam> timer({.tick = 1ms, .wheel_size = 20});
    bool ran = false;
    const timer_handle handle = timer.schedule_after(450ms, [&] { ran = true; });
    timer.advance_by(moved);
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled) << moved.count();
    timer.advance_by(1h);
    EXPECT_FALSE(ran) << moved.count();
  }
}

TYPED_TEST(GoParity, G1_ScheduleFuncAsksWithThePresentFirstAndThenWithTheDeadlineBefore) {
  by_hand<TypeParam> timer({.tick = 10ms}, at(3ms));
  std::vector<time_point> asked;
  std::vector<time_point> ran;
  const auto next = [&](time_point previous) -> std::optional<time_point> {
    asked.push_back(previous);
    return asked.size() <= 3 ? std::optional(previous + 25ms) : std::nullopt;
  };
  timer.schedule_with(next, [&] { ran.push_back(timer.now()); });
  EXPECT_EQ(timer.advance_by(1h), 3U);
  EXPECT_THAT(asked, ElementsAre(at(3ms), at(28ms), at(53ms), at(78ms)));
  EXPECT_THAT(ran, ElementsAre(at(33ms), at(53ms), at(83ms)));
  EXPECT_EQ(timer.pending(), 0U);
}

TYPED_TEST(GoParity, G1_ScheduleFuncWithNoFirstTimeSchedulesNothing) {
  by_hand<TypeParam> timer;
  live_captures captures;
  const auto none = [](time_point) -> std::optional<time_point> { return std::nullopt; };
  const timer_handle handle = timer.schedule_with(none, [token = captures.make()] {});
  EXPECT_FALSE(handle);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(captures.alive(), 0);
}

TYPED_TEST(GoParity, G1_StopInItsOwnTaskEndsAScheduleFunc) {
  by_hand<TypeParam> timer;
  int runs = 0;
  const auto every_second = [](time_point previous) { return previous + 1s; };
  const timer_handle handle = timer.schedule_with(every_second, [&runs](const timer_handle& self) {
    if (++runs == 3) {
      self.cancel();
    }
  });
  timer.advance_by(1h);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(handle.status(), timer_status::finished);
}

TYPED_TEST(GoParity, G1_StopBetweenTwoRunsEndsAScheduleFunc) {
  by_hand<TypeParam> timer;
  int runs = 0;
  const auto every_second = [](time_point previous) { return previous + 1s; };
  const timer_handle handle = timer.schedule_with(every_second, [&runs] { ++runs; });
  timer.advance_by(2500ms);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled) << "there is no gap in which it is not scheduled";
  timer.advance_by(1h);
  EXPECT_EQ(runs, 2);
}

TYPED_TEST(GoParity, G1_TheWheelMayBeStoppedTwiceAndTakesNothingAfter) {
  by_hand<TypeParam> timer;
  timer.schedule_after(1h, nothing);
  EXPECT_THAT(timer.stop(), SizeIs(1));
  EXPECT_THAT(timer.stop(), SizeIs(0));
  EXPECT_THROW(timer.schedule_after(1ms, nothing), timer_error);
}

TYPED_TEST(GoParity, G1_ATaskThatThrowsDoesNotEndTheProcess) {
  std::size_t reported = 0;
  by_hand<TypeParam> timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) { ++reported; }});
  timer.schedule_every(1s, [] { throw std::runtime_error("task"); });
  timer.advance_by(3s);
  EXPECT_EQ(reported, 3U);
  EXPECT_EQ(timer.pending(), 1U);
}

}  // namespace
}  // namespace timing_wheel::test

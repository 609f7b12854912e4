/// \file
/// What users of Dubbo rely on, and what docs/coming_from/peers.md tells them. The suite `…Parity` runs on every engine.
/// A suite `…WheelParity` runs on the engine that is its peer's.
///
/// What lies between `// snippet NAME` and `// end` stands in docs/coming_from/peers.md to the letter; the test `pages` sees to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "support/engines.hpp"
#include "support/service_audit.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

// ---- The snippets of docs/coming_from/peers.md ----

// snippet dubbo
std::size_t retry_until_sent(const std::function<bool()>& send, std::vector<std::uint64_t>& not_sent) {
  manual_timer timer({.tick = 1s, .wheel_size = 32, .engine = engine_kind::hashed, .max_pending = 100'000});
  const auto attempt = [&send](const timer_handle& self) {
    if (send()) {
      self.cancel();
    }
  };
  timer.schedule_every(5s, attempt, {.policy = fixed_delay, .tag = 1001});
  const timer_handle other = timer.schedule_after(1min, [] {}, {.tag = 1002});
  const bool cancelled = other.cancel() == cancel_result::cancelled;
  timer.advance_by(20s);
  for (const pending_task& left : timer.stop()) {
    not_sent.push_back(left.tag);
  }
  return cancelled && timer.stopped() ? timer.pending() : no_limit;
}
// end

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

class DubboParity : public on_every_engine {};

INSTANTIATE_TEST_SUITE_P(Engines, DubboParity, every_engine, engine_name);

TEST(PeersPage, DubboSnippetCountsAndReturnsWhatWasNotSent) {
  std::vector<std::uint64_t> not_sent;
  int attempts = 0;
  EXPECT_EQ(retry_until_sent([&] { return ++attempts == 3; }, not_sent), 0U);
  EXPECT_THAT(not_sent, SizeIs(0));
  EXPECT_EQ(attempts, 3);
  EXPECT_EQ(retry_until_sent([] { return false; }, not_sent), 0U);
  EXPECT_THAT(not_sent, ElementsAre(1001));
}

// ---- The limit and the count ----

TEST_P(DubboParity, RejectionCarriesBothNumbersAndLeavesTheCountUnchanged) {
  by_hand timer({.max_pending = 3});
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

TEST_P(DubboParity, CancelAndExpiryMakeRoomAtOnce) {
  by_hand timer({.tick = 1s, .max_pending = 2});
  const timer_handle first = timer.schedule_after(1h, nothing);
  timer.schedule_after(2s, nothing);
  first.cancel();
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing)) << "no tick has passed since the cancel";
  timer.advance_by(2s);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
}

TEST_P(DubboParity, ALimitOfZeroRefusesEverythingAndNoneIsTheDefault) {
  by_hand closed({.max_pending = 0});
  EXPECT_THROW(closed.schedule_after(1h, nothing), timer_error);
  EXPECT_EQ(timer_options().max_pending, no_limit);
}

TEST_P(DubboParity, CancelInTheTickOfExpiryIsCountedOnce) {
  by_hand timer({.tick = 100ms});
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

TEST_P(DubboParity, CancelAfterEachOutcomeChangesNoCount) {
  by_hand timer({.tick = 100ms});
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

// ---- The handle ----

TEST_P(DubboParity, CancelIsSeenInTheCountAtOnce) {
  by_hand timer({.tick = 1s});
  const timer_handle handle = timer.schedule_after(1h, nothing);
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(timer.pending(), 1U);
}

TEST_P(DubboParity, ExpiredIsToldByTheStatusAndByCancel) {
  by_hand timer;
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

TEST_P(DubboParity, CancelledIsToldOnceByCancel) {
  by_hand timer;
  const timer_handle handle = timer.schedule_after(5ms, nothing);
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_EQ(timer.advance_by(1s), 0U);
}

TEST_P(DubboParity, PrintsItsStateAndWhatIsLeft) {
  by_hand timer;
  const timer_handle handle = timer.schedule_after(1500ms, nothing);
  std::ostringstream before;
  before << handle;
  EXPECT_THAT(before.str(), AllOf(StartsWith("timer "), HasSubstr("pending"), HasSubstr("1500 ms")));
  handle.cancel();
  std::ostringstream after;
  after << handle;
  EXPECT_THAT(after.str(), AllOf(StartsWith("timer "), HasSubstr("finished")));
}

TEST_P(DubboParity, TheHandleTellsDeadlineRemainingTimeAndTag) {
  by_hand timer({.tick = 10ms}, at(3ms));
  const timer_handle handle = timer.schedule_after(1s, nothing, {.tag = 77});
  timer.advance_by(400ms);
  EXPECT_EQ(handle.deadline(), at(1003ms));
  EXPECT_EQ(handle.remaining(), 600ms);
  EXPECT_EQ(handle.tag(), 77U);
  handle.cancel();
  EXPECT_EQ(handle.deadline(), std::nullopt);
}

TEST_P(DubboParity, TheHandleIsValidAfterTheTimersDeath) {
  std::optional<by_hand> timer(std::in_place);
  const timer_handle handle = timer->schedule_after(1h, nothing);
  timer.reset();
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  std::ostringstream out;
  out << handle;
  EXPECT_THAT(out.str(), HasSubstr("finished"));
}

TEST_P(DubboParity, TheTaskGetsItsOwnHandle) {
  by_hand timer;
  std::vector<timer_handle> inside;
  std::vector<timer_handle> outside;
  for (int i = 0; i < 3; ++i) {
    outside.push_back(
        timer.schedule_after(milliseconds(i + 1), [&](const timer_handle& self) { inside.push_back(self); }));
  }
  timer.advance_by(3ms);
  EXPECT_EQ(inside, outside);
}

// ---- Options, the worker, and time ----

TEST_P(DubboParity, ATickThatIsNotPositiveIsRefusedByName) {
  EXPECT_THAT(message_of([] { by_hand timer({.tick = 0ns}); }), HasSubstr("tick"));
  EXPECT_THAT(message_of([] { by_hand timer({.tick = -1ms}); }), HasSubstr("-1000000"));
  EXPECT_NO_THROW(by_hand({.tick = 1ns}));
}

TEST(DubboWheelParity, WheelSizesOutOfRangeAreRefusedWithValueAndRange) {
  constexpr std::uint32_t largest = 1U << 24U;
  for (const std::uint32_t size : {0U, 1U, largest + 1}) {
    EXPECT_THAT(message_of([&] { manual_timer_on<hashed_wheel> timer({.wheel_size = size}); }),
                AllOf(HasSubstr("wheel size " + std::to_string(size) + " "), HasSubstr("[2, 16777216]")));
  }
  EXPECT_NO_THROW(manual_timer_on<hashed_wheel>({.wheel_size = 2}));
}

TEST_P(DubboParity, TimeRunsFromTheCallAndWaitsForNoWorker) {
  by_hand timer({.tick = 1ms}, at(5h));
  timer.advance_by(1h);
  std::vector<time_point> ran;
  timer.schedule_after(10ms, [&] { ran.push_back(timer.now()); });
  timer.advance_by(1s);
  EXPECT_THAT(ran, ElementsAre(at(6h + 10ms)));
}

// ---- The order of the work within a tick ----

TEST_P(DubboParity, WhatWasCancelledBeforeTheTickNeverRuns) {
  by_hand timer({.tick = 100ms, .wheel_size = 4});
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

TEST_P(DubboParity, WhatWasAddedSinceTheLastTickAndIsDueRunsInThisTick) {
  by_hand timer({.tick = 100ms, .wheel_size = 4});
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

TEST(DubboWheelParity, FirstComeFirstServedWithinASlot) {
  manual_timer_on<hashed_wheel> timer({.tick = 1s, .wheel_size = 8});
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

TEST_P(DubboParity, MoreThanAHundredThousandAddedInOneTickAllRunInTheNext) {
  by_hand timer({.tick = 100ms, .wheel_size = 512});
  constexpr int many = 150'000;
  for (int i = 0; i < many; ++i) {
    timer.schedule_after(100ms, nothing);
  }
  EXPECT_EQ(timer.advance_by(99ms), 0U);
  EXPECT_EQ(timer.advance_by(1ms), static_cast<std::size_t>(many));
}

// ---- Periodic ----

TEST_P(DubboParity, FixedDelayCountsFromTheEndOfASlowTask) {
  std::deque<task> pool;
  by_hand timer({.executor = [&pool](task&& work) { pool.push_back(std::move(work)); }});
  timer.schedule_every(10ms, nothing, {.policy = fixed_delay});
  EXPECT_EQ(timer.advance_by(10ms), 1U);
  EXPECT_EQ(timer.advance_by(25ms), 0U) << "it has not ended, so that the next is not due";
  pool.front()();
  EXPECT_EQ(timer.advance_to(at(44ms)), 0U);
  EXPECT_EQ(timer.advance_to(at(45ms)), 1U);
}

TEST_P(DubboParity, ATaskThatSubmitsItselfAgainNeverPilesUp) {
  by_hand timer({.tick = 1s, .wheel_size = 12});
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

}  // namespace
}  // namespace timing_wheel::test

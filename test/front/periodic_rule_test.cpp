/// \file
/// Periodic timers: the user's own rule, and callbacks and rules that throw.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_periodic.hpp"
#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// ---- Throws ----

TEST(PeriodicThrow, ACallbackThatThrowsGoesOn) {
  for (const period_policy policy : every_policy) {
    std::vector<std::uint64_t> tags;
    manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
    timer.schedule_every(10ms, [] { throw std::runtime_error("asked for"); }, {.policy = policy, .tag = 17});
    EXPECT_EQ(timer.advance_by(35ms), 3U);
    EXPECT_THAT(tags, ElementsAre(17U, 17U, 17U));
    EXPECT_EQ(timer.stats().failed, 3U);
    EXPECT_EQ(timer.pending(), 1U);
  }
}

TEST(PeriodicThrow, OneThatCancelsItselfAndThrowsEnds) {
  manual_timer timer({.on_error = [](const std::exception_ptr&, std::uint64_t) {}});
  timer.schedule_every(10ms, [](const timer_handle& self) {
    self.cancel();
    throw std::runtime_error("asked for");
  });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(PeriodicThrow, ARuleThatThrowsEndsItsTimerAndIsReported) {
  live_captures captures;
  std::vector<std::uint64_t> tags;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t tag) { tags.push_back(tag); }});
  const timer_handle handle = timer.schedule_with(ten_ms(3, failing), [token = captures.make()] {}, {.tag = 17});
  EXPECT_EQ(timer.advance_by(1h), 3U);
  EXPECT_THAT(tags, ElementsAre(17U));
  EXPECT_EQ(timer.stats().failed, 1U);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_TRUE(conserved(timer));
}

TEST(PeriodicThrow, ARuleThatThrowsIsWrittenToStandardErrorIfNobodyAsked) {
  captured_stderr output;
  manual_timer timer;
  timer.schedule_with(ten_ms(1, failing), nothing);
  timer.advance_by(1h);
  EXPECT_THAT(output.text(), HasSubstr("no more deadlines"));
}

TEST(PeriodicThrow, ACallbackAndItsRuleThatBothThrowAreBothReported) {
  int reports = 0;
  manual_timer timer({.on_error = [&](const std::exception_ptr&, std::uint64_t) { ++reports; }});
  timer.schedule_with(ten_ms(1, failing), [] { throw std::logic_error("asked for"); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(reports, 2);
  EXPECT_EQ(timer.stats().failed, 2U);
}

TEST(PeriodicThrow, ARuleThatThrowsWhenScheduledThrowsToTheCaller) {
  live_captures captures;
  manual_timer timer;
  EXPECT_THROW(timer.schedule_with(ten_ms(0, failing), [token = captures.make()] {}), std::runtime_error);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().failed, 0U);
}

// ---- The user's own rule ----

TEST(PeriodicRule, IsGivenThePresentAndThenEachDeadline) {
  manual_timer timer({}, starting_at(3ms));
  std::vector<time_point> asked;
  timer.schedule_with(
      [&](time_point previous) {
        asked.push_back(previous);
        return previous + 10ms;
      },
      nothing);
  EXPECT_THAT(asked, ElementsAre(at(3ms)));
  timer.advance_by(30ms);
  EXPECT_THAT(asked, ElementsAre(at(3ms), at(13ms), at(23ms), at(33ms)));
}

TEST(PeriodicRule, IsGivenTheDeadlineAndNotTheTimeOfALateRun) {
  kept_tasks tasks;
  manual_timer timer({.executor = tasks.taking()});
  const timer_handle handle = timer.schedule_with(ten_ms(9, none), nothing);
  timer.advance_by(35ms);
  tasks.run();
  EXPECT_EQ(handle.deadline(), at(20ms));
}

TEST(PeriodicRule, RunsAtExactlyTheDeadlinesOfItsRule) {
  manual_timer timer;
  run_log log(timer);
  timer.schedule_with([](time_point previous) { return previous + previous.time_since_epoch() + 1ms; }, log.writing());
  timer.advance_to(at(40ms));
  EXPECT_THAT(log.times, ElementsAre(1ms, 3ms, 7ms, 15ms, 31ms));
}

TEST(PeriodicRule, ThatGivesNoneAtFirstSchedulesNothing) {
  live_captures captures;
  manual_timer timer;
  EXPECT_FALSE(timer.schedule_with(ten_ms(0, none), [token = captures.make()] {}));
  std::error_code error = timer_errc::stopped;
  EXPECT_FALSE(timer.schedule_with(
      ten_ms(0, none), [token = captures.make()] {}, {}, error));
  EXPECT_FALSE(error);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.stats().rejected, 0U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(PeriodicRule, ThatGivesNoneLaterEndsTheTimer) {
  live_captures captures;
  manual_timer timer;
  const timer_handle handle = timer.schedule_with(ten_ms(3, none), [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 3U);
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().failed, 0U);
}

TEST(PeriodicRule, ADeadlineInThePastRunsAtOnceAndNotInline) {
  manual_timer timer({}, starting_at(1h));
  std::vector<int> trace;
  int left = 3;
  timer.schedule_with([&](time_point) { return left-- > 0 ? std::optional(at(1min)) : std::nullopt; },
                      [&] {
                        trace.push_back(1);
                        EXPECT_EQ(timer.stats().running, 1U);
                      });
  EXPECT_THAT(trace, IsEmpty());
  EXPECT_EQ(timer.advance_by(1ms), 3U);
  EXPECT_THAT(trace, SizeIs(3));
}

TEST(PeriodicRule, ADeadlineAtTheEndOfTimeNeverComes) {
  manual_timer timer;
  int left = 1;
  const timer_handle handle = timer.schedule_with(
      [&](time_point previous) { return left-- > 0 ? previous + 10ms : time_point::max(); }, nothing);
  EXPECT_EQ(timer.advance_to(time_point::max()), 1U);
  EXPECT_EQ(handle.deadline(), time_point::max());
  EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
}

TEST(PeriodicRule, MayUseTheService) {
  manual_timer timer;
  int others = 0;
  timer.schedule_with(
      [&](time_point previous) {
        timer.schedule_after(1ms, [&] { ++others; });
        EXPECT_TRUE(conserved(timer));
        return previous + 10ms;
      },
      nothing);
  timer.advance_by(35ms);
  EXPECT_EQ(others, 4);
}

TEST(PeriodicRule, MayCancelItsTimer) {
  live_captures captures;
  manual_timer timer;
  timer_handle handle;
  cancel_result answer{};
  handle = timer.schedule_with(
      [&](time_point previous) {
        answer = handle.cancel();
        return previous + 10ms;
      },
      [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(answer, cancel_result::running);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(PeriodicRule, MayStopTheService) {
  manual_timer timer;
  int asked = 0;
  timer.schedule_with(
      [&](time_point previous) {
        if (++asked == 3) {
          EXPECT_THAT(timer.stop(), IsEmpty());
        }
        return previous + 10ms;
      },
      nothing);
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

TEST(PeriodicRule, MayOwnWhatCannotBeCopied) {
  live_captures captures;
  manual_timer timer;
  timer.schedule_with([step = std::make_unique<nanoseconds>(10ms),
                       token = captures.make()](time_point previous) { return std::optional(previous + *step); },
                      [token = captures.make()] {});
  EXPECT_EQ(timer.advance_by(35ms), 3U);
  EXPECT_EQ(captures.alive(), 2);
  timer.stop();
  EXPECT_EQ(captures.alive(), 0);
}

}  // namespace
}  // namespace timing_wheel::test

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
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_periodic.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;
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

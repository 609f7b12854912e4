/// \file
/// What docs/errors.md says of refusals and failures, as far as no other test holds it. Every message that is expected
/// here stands in that page to the letter.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_stderr.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/engine/heap_queue.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string& page() {
  static const std::string text = [] {
    std::ifstream file(TIMING_WHEEL_ERRORS_PAGE);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  return text;
}

/// `action` is refused with this code and this message, which the page shows.
template <class Action>
void expect_refusal(timer_errc code, const std::string& message, Action action) {
  const refusal answer = refusal_of(action);
  EXPECT_EQ(answer.code, code);
  EXPECT_EQ(answer.message, message);
  EXPECT_THAT(page(), HasSubstr('`' + message + '`'));
}

/// The message of the `Failure` that `action` throws, which the page shows.
template <class Failure, class Action>
void expect_failure(const std::string& message, Action action) {
  EXPECT_THAT(action, testing::ThrowsMessage<Failure>(message));
  EXPECT_THAT(page(), HasSubstr('`' + message + '`'));
}

std::optional<time_point> in_a_minute(time_point previous) { return previous + 1min; }

/// Its destructor may throw: `cancel` would have nowhere to throw to.
struct bad_at_its_end {
  ~bad_at_its_end() noexcept(false) {}  // NOLINT(modernize-use-equals-default)
  void operator()() const {}
};
static_assert(!timer_callback<bad_at_its_end>);

// ---- What the messages say ----

TEST(Errors, AMessageNamesTheOptionWithItsValueAndRange) {
  const auto expect = [](const std::string& message, const timer_options& options) {
    expect_refusal(timer_errc::invalid_option, message, [&] { const manual_timer timer(options); });
  };
  expect("tick 0 ns is not at least 1 ns: an option is out of its range", {.tick = 0ns});
  expect("wheel size 1 is not in [2, 16777216]: an option is out of its range", {.wheel_size = 1});
  expect("wheel size 16777217 is not in [2, 16777216]: an option is out of its range",
         {.wheel_sizes = {60, 60, 16777217}});
  expect("shards 1025 is not in [0, 1024]: an option is out of its range", {.shards = 1025});
}

TEST(Errors, AMessageOfACallNamesWhatIsWrong) {
  manual_timer timer({.max_pending = 1});
  const std::function<void()> none;
  expect_refusal(timer_errc::empty_callback, "the callback is empty", [&] { timer.schedule_after(1h, none); });
  expect_refusal(timer_errc::invalid_period, "0 ns is not at least 1 ns: the period is not positive",
                 [&] { timer.schedule_every(0s, nothing); });
  timer.schedule_after(1ms, [&] {
    expect_refusal(timer_errc::nested_advance, "advance_to or run_due is running already",
                   [&] { timer.advance_by(1ms); });
  });
  expect_refusal(timer_errc::too_many_pending, "1 pending, max_pending 1: too many timers are pending",
                 [&] { timer.schedule_after(1h, nothing); });
  timer.advance_by(1ms);
  timer.stop();
  expect_refusal(timer_errc::stopped, "the timer service is stopped", [&] { timer.schedule_after(1h, nothing); });
}

TEST(Errors, AnEngineNamesTheOptionToo) {
  expect_failure<std::invalid_argument>("wheel size 0 is not in [2, 16777216]",
                                        [] { const hierarchical_wheel wheel({.wheel_size = 0}); });
  expect_failure<std::invalid_argument>("start 18446744073709551615 is not in [0, 18446744073709551614]",
                                        [] { const hierarchical_wheel wheel({.start = never}); });
}

// ---- Options ----

TEST(Errors, TheWheelSizeIsNotLookedAtBesideSizesLevelByLevel) {
  manual_timer timer({.wheel_size = 0, .wheel_sizes = {60, 60, 24}});
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer.advance_by(1h), 1U);
}

// ---- Which of several refusals is told ----

TEST(Errors, ABadArgumentIsToldBeforeAStoppedService) {
  manual_timer timer;
  timer.stop();
  EXPECT_EQ(refusal_of([&] { timer.schedule_every(0s, std::function<void()>()); }).code, timer_errc::invalid_period);
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1s, std::function<void()>()); }).code, timer_errc::empty_callback);
  EXPECT_EQ(timer.stats().rejected, 0U);
}

TEST(Errors, AStoppedServiceIsToldBeforeAFullOne) {
  manual_timer timer({.max_pending = 0});
  timer.stop();
  EXPECT_EQ(refusal_of([&] { timer.schedule_after(1s, nothing); }).code, timer_errc::stopped);
  EXPECT_EQ(timer.stats().rejected, 1U);
}

TEST(Errors, ARuleIsAskedBeforeTheServiceRefuses) {
  manual_timer timer;
  timer.stop();
  int asked = 0;
  const auto next = [&](time_point previous) { return ++asked, in_a_minute(previous); };
  EXPECT_EQ(refusal_of([&] { timer.schedule_with(next, nothing); }).code, timer_errc::stopped);
  EXPECT_EQ(asked, 1);
}

// ---- What becomes of the callable ----

TEST(Errors, ARuleThatThrowsAtOnceGetsOutOfBothForms) {
  manual_timer timer;
  live_captures captures;
  std::error_code error = timer_errc::stopped;
  const auto failing = [](time_point /*previous*/) -> std::optional<time_point> { throw std::domain_error("a rule"); };
  EXPECT_THROW(timer.schedule_with(failing, [token = captures.make()] {}), std::domain_error);
  EXPECT_THROW(timer.schedule_with(
                   failing, [token = captures.make()] {}, {}, error),
               std::domain_error);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

// ---- No memory ----

TEST(Errors, StatsWithoutMemoryThrowsAndChangesNothing) {
  manual_timer timer;
  timer.schedule_after(1h, nothing);
  EXPECT_FALSE(succeeds_with(0, [&] { static_cast<void>(timer.stats()); }));
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.stats().pending, 1U);
}

TEST(Errors, AnExecutorWithoutMemoryIsNotMade) {
  EXPECT_FALSE(succeeds_with(0, [] { const executor made([](task&& work) { work(); }); }));
}

TEST(Errors, QuestionsAndCancelsNeedNoMemory) {
  manual_timer timer;
  const timer_handle handle = timer.schedule_after(1h, nothing, {.tag = 7});
  EXPECT_TRUE(succeeds_with(0, [&] {
    EXPECT_EQ(handle.status(), timer_status::pending);
    EXPECT_EQ(handle.tag(), 7U);
    EXPECT_EQ(handle.deadline(), at(1h));
    EXPECT_EQ(handle.remaining(), 1h);
    EXPECT_EQ(timer.pending(), 1U);
    EXPECT_FALSE(timer.stopped());
    EXPECT_EQ(handle.cancel(), cancel_result::cancelled);
  }));
}

// ---- What is thrown later ----

/// What a service without `on_error` writes has this line, which the page shows.
void expect_line(const std::string& line, const std::string& text) {
  EXPECT_THAT(text, HasSubstr(line + '\n'));
  EXPECT_THAT(page(), HasSubstr('`' + line + '`'));
}

[[noreturn]] void fail() { throw std::runtime_error("no route"); }

TEST(Errors, WithoutOnErrorALineSaysWhoThrewWhat) {
  captured_stderr output;
  manual_timer timer({.executor = [refusals = 1](task&& work) mutable { refusals-- > 0 ? fail() : work(); }});
  timer.schedule_after(1ms, fail, {.tag = 7});
  int asked = 0;
  const auto next = [&](time_point now) { return ++asked == 1 ? std::optional(now + 9ms) : throw 42; };
  timer.schedule_with(next, nothing, {.tag = 7});
  timer.advance_by(1s);
  const std::string text = output.text();
  expect_line("timing_wheel: a callback threw (tag 7): no route", text);
  expect_line("timing_wheel: the executor threw (tag 7): no route", text);
  expect_line("timing_wheel: the rule for the next deadline threw (tag 7): not a std::exception", text);
  EXPECT_EQ(timer.stats().failed, 2U) << "the executor is not counted there";
  EXPECT_EQ(timer.stats().refused, 1U);
}

TEST(Errors, AnOnErrorThatThrowsIsWrittenBesideWhatItWasGiven) {
  captured_stderr output;
  manual_timer timer({.on_error = [](const std::exception_ptr&, std::uint64_t) { throw std::runtime_error("full"); }});
  timer.schedule_after(1ms, fail, {.tag = 7});
  timer.advance_by(1ms);
  const std::string text = output.text();
  expect_line("timing_wheel: on_error threw (tag 7): full", text);
  expect_line("timing_wheel: a callback threw (tag 7): no route", text);
}

TEST(Errors, AReturnedCallableThrowsToItsCaller) {
  manual_timer timer;
  timer.schedule_after(1h, fail);
  EXPECT_THROW(timer.stop().at(0).callback(), std::runtime_error);
  EXPECT_EQ(timer.stats().failed, 0U);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// What can be a callback, and what it may do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "support/service_captures.hpp"
#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::SizeIs;
using testing::UnorderedElementsAre;

// ---- What a callback may do ----

TEST(Callback, CallbacksThatScheduleIntoTheirOwnTickDoNotNest) {
  manual_timer timer;
  int depth = 0;
  int deepest = 0;
  int left = 10'000;
  std::function<void()> again = [&] {
    deepest = std::max(deepest, ++depth);
    if (--left > 0) {
      timer.schedule_after(0ns, again);
    }
    --depth;
  };
  timer.schedule_after(1ms, again);
  EXPECT_EQ(timer.advance_by(1h), 10'000U);
  EXPECT_EQ(deepest, 1);
}

TEST(Callback, ACallbackDropsItsOwnHandle) {
  manual_timer timer;
  live_captures captures;
  auto handle = std::make_shared<timer_handle>();
  bool alive = false;
  *handle = timer.schedule_after(1ms, [&alive, &captures, handle, token = captures.make()]() mutable {
    handle.reset();
    alive = captures.alive() == 1;
  });
  handle.reset();
  timer.advance_by(1ms);
  EXPECT_TRUE(alive);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Callback, CapturesAreDestroyedBeforeTheNextCallbackBegins) {
  manual_timer timer;
  live_captures captures;
  std::int64_t alive = -1;
  timer.schedule_after(1ms, [token = captures.make()] {});
  timer.schedule_after(2ms, [&] { alive = captures.alive(); });
  timer.advance_by(2ms);
  EXPECT_EQ(alive, 0);
}

// ---- What can be called ----

TEST(Callback, MayTakeItsHandleByValue) {
  manual_timer timer;
  timer_handle given;
  const timer_handle made = timer.schedule_after(1ms, [&](timer_handle self) { given = std::move(self); });
  timer.advance_by(1ms);
  EXPECT_EQ(given, made);
}

struct either {
  std::vector<std::string>* calls;
  void operator()() const { calls->push_back("alone"); }
  void operator()(const timer_handle&) const { calls->push_back("with its handle"); }
};

TEST(Callback, IsCalledWithItsHandleIfBothArePossible) {
  manual_timer timer;
  std::vector<std::string> calls;
  std::stop_source stop;
  timer.schedule_after(1ms, either{&calls});
  timer.schedule_every(1ms, either{&calls});
  timer.schedule_with(next_10ms, either{&calls});
  timer.schedule_after(1ms, either{&calls}, {.stop = stop.get_token()});
  timer.schedule_every(1ms, either{&calls}, {.stop = stop.get_token()});
  timer.advance_by(1ms);
  EXPECT_THAT(calls, AllOf(SizeIs(4), Each("with its handle")));
}

int calls_of_a_function = 0;
void function() { ++calls_of_a_function; }
void function_with_handle(const timer_handle& self) { calls_of_a_function += static_cast<int>(self.tag().value()); }
int function_with_result() noexcept { return ++calls_of_a_function; }

TEST(Callback, MayBeAFunctionOrAPointerToOne) {
  calls_of_a_function = 0;
  manual_timer timer;
  timer.schedule_after(1ms, function);
  timer.schedule_after(1ms, &function);
  timer.schedule_after(1ms, function_with_result);
  timer.schedule_after(1ms, function_with_handle, {.tag = 100});
  timer.schedule_every(1ms, function_with_handle, {.policy = fixed_delay, .tag = 1000});
  timer.schedule_with(next_10ms, &function);
  timer.advance_by(1ms);
  EXPECT_EQ(calls_of_a_function, 1103);
}

TEST(Callback, MayBeAStdFunction) {
  manual_timer timer;
  int calls = 0;
  const std::function<void()> alone = [&] { ++calls; };
  const std::function<void(const timer_handle&)> with = [&](const timer_handle& self) { calls += self.tag() == 7U; };
  const std::function<std::optional<time_point>(time_point)> rule = next_10ms;
  timer.schedule_after(10ms, alone);
  timer.schedule_after(10ms, with, {.tag = 7});
  timer.schedule_every(10ms, alone);
  timer.schedule_every(10ms, with, {.policy = fixed_delay, .tag = 7, .stop = std::stop_token()});
  timer.schedule_with(rule, with, {.tag = 7});
  EXPECT_EQ(timer.advance_by(10ms), 5U);
  EXPECT_EQ(calls, 5);
}

TEST(Callback, MayChangeWhatItCaptured) {
  manual_timer timer;
  std::vector<int> seen;
  timer.schedule_every(1ms, [&seen, n = 0]() mutable { seen.push_back(++n); });
  timer.schedule_after(1ms, [&seen, n = 10]() mutable { seen.push_back(++n); }, {.stop = std::stop_token()});
  timer.advance_by(2ms);
  EXPECT_THAT(seen, UnorderedElementsAre(1, 2, 11));
}

// ---- What cannot ----

/// Schedules what `empty` gives in every way; each must be refused.
template <class Empty>
void expect_refused_everywhere(Empty empty) {
  manual_timer timer;
  std::stop_source stop;
  std::error_code error;
  const auto code_of = [](auto action) { return refusal_of(action).code; };
  for (const schedule_options& options : {schedule_options(), schedule_options{.stop = stop.get_token()}}) {
    EXPECT_EQ(code_of([&] { timer.schedule_after(1ms, empty(), options); }), timer_errc::empty_callback);
    EXPECT_EQ(code_of([&] { timer.schedule_at(at(1ms), empty(), options); }), timer_errc::empty_callback);
    EXPECT_EQ(code_of([&] { timer.schedule_with(next_10ms, empty(), options); }), timer_errc::empty_callback);
  }
  for (const std::stop_token& token : {std::stop_token(), stop.get_token()}) {
    EXPECT_EQ(code_of([&] { timer.schedule_every(1ms, empty(), {.stop = token}); }), timer_errc::empty_callback);
  }
  EXPECT_FALSE(timer.schedule_every(1ms, empty(), {.policy = fixed_delay}, error));
  EXPECT_EQ(error, timer_errc::empty_callback);
  EXPECT_EQ(timer.stats().scheduled, 0U);
  EXPECT_EQ(timer.advance_by(1s), 0U);
  EXPECT_TRUE(stop.request_stop());
}

TEST(Callback, RefusesWhatIsEmptyEverywhere) {
  expect_refused_everywhere([] { return std::function<void()>(); });
  expect_refused_everywhere([] { return std::function<void(const timer_handle&)>(); });
  expect_refused_everywhere([] { return static_cast<void (*)()>(nullptr); });
  expect_refused_everywhere([] { return static_cast<void (*)(const timer_handle&)>(nullptr); });
  expect_refused_everywhere([] { return task(); });
}

TEST(Callback, RefusesARuleThatIsEmpty) {
  manual_timer timer;
  using rule = std::optional<time_point>(time_point);
  EXPECT_EQ(refusal_of([&] { timer.schedule_with(std::function<rule>(), nothing); }).code, timer_errc::empty_callback);
  EXPECT_EQ(refusal_of([&] { timer.schedule_with(static_cast<rule*>(nullptr), nothing); }).code,
            timer_errc::empty_callback);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

// ---- Callables ----

// Throws when it is copied or moved for the `moves`-th time, counted from 0.
class awkward {
 public:
  awkward(live_captures& captures, int moves) : token_(captures.make()), captures_(&captures), moves_(moves) {}
  awkward(awkward&& other) : token_(other.captures_->make()), captures_(other.captures_), moves_(other.moves_ - 1) {
    if (other.moves_ == 0) {
      throw std::runtime_error("cannot be moved");
    }
  }
  void operator()() const {}

 private:
  live_captures::token token_;
  live_captures* captures_;
  int moves_;
};

TEST(Callable, AMoveThatThrowsSchedulesNothing) {
  for (const auto& [moves, periodic] : {std::pair(0, false), {0, true}, {1, false}, {2, false}, {3, false}}) {
    live_captures captures;
    manual_timer timer({.max_pending = 1});
    bool threw = false;
    try {
      periodic ? timer.schedule_every(1ms, awkward(captures, moves))
               : timer.schedule_after(1ms, awkward(captures, moves));
    } catch (const std::runtime_error&) {
      threw = true;
    }
    EXPECT_EQ(timer.stats().scheduled, threw ? 0U : 1U);
    EXPECT_EQ(timer.pending(), threw ? 0U : 1U);
    EXPECT_EQ(captures.alive(), threw ? 0 : 1);
    EXPECT_EQ(timer.advance_by(1ms), threw ? 0U : 1U);
    EXPECT_TRUE(moves > 0 || threw);
    EXPECT_TRUE(timer.schedule_after(1ms, nothing)) << "its place under the limit was given back";
  }
}

TEST(Callable, ACallableThatComparesWithAStringIsNotEmpty) {
  struct named {
    named(const char* text) : name(text == nullptr ? "" : text) {}  // NOLINT(google-explicit-constructor)
    bool operator==(const named&) const = default;
    void operator()() const {}
    std::string name;
  };
  manual_timer timer;
  timer.schedule_after(1ms, named(""));
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

// ---- Captured objects that call back ----

TEST(CapturedObject, CancelsASiblingThatIsDue) {
  manual_timer timer;
  recorder record(timer);
  timer_handle sibling;
  const auto callback = [&] { EXPECT_EQ(sibling.cancel(), cancel_result::cancelled); };
  timer.schedule_after(1ms, [captured = on_destruction(callback)] {});
  sibling = record.after(1ms, 1);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_TRUE(record.ran.empty());
}

TEST(CapturedObject, AChainOfCapturedHandlesIsCancelledFromOneEnd) {
  manual_timer timer;
  timer_handle head;
  for (int i = 0; i < 100; ++i) {
    const auto callback = [next = head] { next.cancel(); };
    head = timer.schedule_after(1h, [captured = on_destruction(callback)] {});
  }
  head.cancel();
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_EQ(timer.stats().cancelled, 100U);
}

}  // namespace
}  // namespace timing_wheel::test

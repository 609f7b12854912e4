/// \file
/// Limits of what coroutines await, in virtual time.

#include <gtest/gtest.h>

#include <chrono>
#include <coroutine>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <system_error>
#include <utility>
#include <vector>

#include "coroutine/coroutine_types.hpp"
#include "coroutines/task.hpp"
#include "support/allocation.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/coroutine.hpp"
#include "timing_wheel/timing_wheel.hpp"

// GCC 12 under the address sanitizer takes the constructor of std::stop_source for a use of what is not initialised.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// Something that a coroutine awaits, and that the test ends.
class event {
 public:
  struct awaiter {
    event* one;
    [[nodiscard]] bool await_ready() const noexcept { return one->is_over_; }
    void await_suspend(std::coroutine_handle<> waits) const noexcept { one->waits_ = waits; }
    int await_resume() const {
      if (one->failure_) {
        throw std::runtime_error("no route");
      }
      return one->value_;
    }
  };
  awaiter operator co_await() noexcept { return {this}; }

  void end(int value) {
    value_ = value;
    is_over_ = true;
    if (waits_) {
      std::exchange(waits_, {}).resume();
    }
  }
  void fail() {
    failure_ = true;
    end(0);
  }

 private:
  std::coroutine_handle<> waits_;
  int value_ = 0;
  bool is_over_ = false;
  bool failure_ = false;
};

/// What `with_timeout` answered.
struct answered {
  int times = 0;
  std::optional<int> value;
  std::error_code error;
  bool threw = false;
  std::stop_token stop;
};

/// Ignores its token, but for showing it.
started limit(timer& by, std::chrono::nanoseconds time, event& awaited, answered& answer,
              timeout_options options = {}) {
  try {
    answer.value = co_await with_timeout(
        by, time,
        [&](std::stop_token stop) -> event& {
          answer.stop = std::move(stop);
          return awaited;
        },
        options, answer.error);
  } catch (const std::runtime_error&) {
    answer.threw = true;
  }
  ++answer.times;
}

// ---- In time, and late ----

TEST(WithTimeout, ReturnsWhatEndedInTime) {
  manual_timer timer;
  event page;
  answered answer;
  answer.error = timer_errc::stopped;
  const started one = limit(timer, 5s, page, answer);
  EXPECT_EQ(timer.pending(), 1U);
  timer.advance_by(5s - 1ns);
  page.end(7);
  EXPECT_EQ(answer.times, 1);
  EXPECT_EQ(answer.value, 7);
  EXPECT_FALSE(answer.error);
  EXPECT_FALSE(answer.stop.stop_requested());
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(WithTimeout, RequestsAStopWhenTheTimeIsOverAndWaitsAllTheSame) {
  manual_timer timer;
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  timer.advance_by(5s - 1ns);
  EXPECT_FALSE(answer.stop.stop_requested());
  timer.advance_by(1ns);
  EXPECT_TRUE(answer.stop.stop_requested());
  timer.advance_by(1h);
  EXPECT_EQ(answer.times, 0) << "it ignores the token, and is waited for";
  page.end(7);
  EXPECT_EQ(answer.times, 1);
  EXPECT_EQ(answer.value, std::nullopt);
  EXPECT_FALSE(answer.error);
}

TEST(WithTimeout, MayEndItsLimitInAWindow) {
  manual_timer timer;
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer, {.window = 1s});
  timer.advance_by(5s);  // 5 s + 1 s has 5.120 s, a multiple of 1024 ticks
  EXPECT_FALSE(answer.stop.stop_requested());
  timer.advance_by(1s);
  EXPECT_TRUE(answer.stop.stop_requested());
  page.end(7);
}

TEST(WithTimeout, LetsOutWhatIsThrownInTime) {
  manual_timer timer;
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  page.fail();
  EXPECT_TRUE(answer.threw);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST(WithTimeout, DropsWhatIsThrownLate) {
  manual_timer timer;
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  timer.advance_by(5s);
  page.fail();
  EXPECT_EQ(answer.times, 1);
  EXPECT_FALSE(answer.threw);
  EXPECT_EQ(answer.value, std::nullopt);
}

TEST(WithTimeout, OfSomethingThatIsReadyDoesNotSuspend) {
  manual_timer timer;
  event page;
  page.end(7);
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  EXPECT_EQ(answer.value, 7);
  EXPECT_EQ(timer.pending(), 0U);
}

// ---- What can be awaited ----

example::task<int> slow_page(timer& by, std::stop_token stop) {
  const bool whole = co_await by.sleep_for(10s, {.stop = stop}) == sleep_result::elapsed;
  co_return whole ? 200 : 0;
}

started fetch(timer& by, std::chrono::nanoseconds time, answered& answer) {
  answer.value = co_await with_timeout(by, time, [&](const std::stop_token& stop) { return slow_page(by, stop); });
  ++answer.times;
}

TEST(WithTimeout, StopsATaskThatHeedsItsToken) {
  manual_timer timer;
  answered late;
  answered in_time;
  const started one = fetch(timer, 5s, late);
  const started other = fetch(timer, 15s, in_time);
  timer.advance_by(6s);
  EXPECT_EQ(late.times, 1);
  EXPECT_EQ(late.value, std::nullopt);
  timer.advance_by(6s);
  EXPECT_EQ(in_time.value, 200);
  EXPECT_EQ(timer.pending(), 0U);
}

struct nobody_awaits_me {
  int* value;
};
struct ready_with_a_reference {
  int* value;
  [[nodiscard]] bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<> /*who*/) const noexcept {}
  [[nodiscard]] int& await_resume() const noexcept { return *value; }
};
ready_with_a_reference operator co_await(nobody_awaits_me one) noexcept { return {one.value}; }

started await_other_kinds(timer& by, int& target, int*& found, bool& ended, std::unique_ptr<int>& moved) {
  found = co_await with_timeout(by, 1s, [&](const std::stop_token& /*stop*/) { return nobody_awaits_me{&target}; });
  ended = co_await with_timeout(by, 1s, [](const std::stop_token& /*stop*/) { return std::suspend_never(); });
  const auto make = [](std::stop_token /*stop*/) -> example::task<std::unique_ptr<int>> {
    co_return std::make_unique<int>(3);
  };
  moved = *co_await with_timeout(by, 1s, make);
}

TEST(WithTimeout, ReturnsReferencesAsPointersAndNothingAsTrueAndMovesTheRest) {
  manual_timer timer;
  int target = 0;
  int* found = nullptr;
  bool ended = false;
  std::unique_ptr<int> moved;
  const started one = await_other_kinds(timer, target, found, ended, moved);
  EXPECT_EQ(found, &target);
  EXPECT_TRUE(ended);
  ASSERT_NE(moved, nullptr);
  EXPECT_EQ(*moved, 3);
}

started nest(timer& by, event& awaited, answered& outer, answered& inner) {
  const auto make_inner = [&](std::stop_token stop) -> event& {
    inner.stop = std::move(stop);
    return awaited;
  };
  const auto make_outer = [&](std::stop_token stop) -> example::task<> {
    inner.value = co_await with_timeout(by, 10s, make_inner, {.stop = stop});
    ++inner.times;
  };
  outer.value = co_await with_timeout(by, 5s, make_outer) ? 1 : 0;
  ++outer.times;
}

TEST(WithTimeout, WithinAnotherIsAskedToStopByIt) {
  manual_timer timer;
  event page;
  answered outer;
  answered inner;
  const started one = nest(timer, page, outer, inner);
  timer.advance_by(5s);
  EXPECT_TRUE(inner.stop.stop_requested());
  page.end(7);
  EXPECT_EQ(inner.value, 7) << "its own time was not over";
  EXPECT_EQ(outer.times, 1);
  EXPECT_EQ(outer.value, 0);
}

// ---- Stop tokens ----

TEST(WithTimeout, PassesAStopOn) {
  manual_timer timer;
  std::stop_source stop;
  const std::stop_token token = stop.get_token();
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer, {.stop = token});
  EXPECT_FALSE(answer.stop.stop_requested());
  stop.request_stop();
  EXPECT_TRUE(answer.stop.stop_requested());
  page.end(7);
  EXPECT_EQ(answer.value, 7) << "whatever it makes of it";
}

started limit_with_a_temporary(timer& by, const std::stop_source& stop, event& awaited, answered& answer) {
  const auto make = [&](const std::stop_token& inner) -> event& {
    answer.stop = inner;
    return awaited;
  };
  answer.value = co_await with_timeout(by, 5s, make, {.stop = stop.get_token()});
  ++answer.times;
}

TEST(WithTimeout, TakesAStopTokenThatIsMadeInItsBraces) {
  manual_timer timer;
  event page;
  answered answer;
  started one;
  {
    std::stop_source stop;
    one = limit_with_a_temporary(timer, stop, page, answer);
    stop.request_stop();
  }
  EXPECT_TRUE(answer.stop.stop_requested());
  page.end(7);
  EXPECT_EQ(answer.times, 1);
  EXPECT_EQ(answer.value, 7);
}

TEST(WithTimeout, DoesNotRequestAStopOfWhatHasEnded) {
  manual_timer timer;
  std::stop_source stop;
  const std::stop_token token = stop.get_token();
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer, {.stop = token});
  page.end(7);
  stop.request_stop();
  timer.advance_by(1h);
  EXPECT_FALSE(answer.stop.stop_requested());
}

// ---- Refusals, and the end of the service ----

TEST(WithTimeout, ThatIsRefusedMakesNothing) {
  manual_timer timer;
  timer.stop();
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  EXPECT_EQ(answer.times, 1);
  EXPECT_EQ(answer.error, timer_errc::stopped);
  EXPECT_EQ(answer.value, std::nullopt);
  EXPECT_FALSE(answer.stop.stop_possible()) << "it was not called";
}

started limit_or_throw(timer& by, event& awaited, answered& answer) {
  try {
    answer.value = co_await with_timeout(by, 5s, [&](const std::stop_token& /*stop*/) -> event& { return awaited; });
  } catch (const timer_error& failure) {
    answer.error = failure.code();
  }
  ++answer.times;
}

TEST(WithTimeout, ThrowsARefusal) {
  manual_timer timer({.max_pending = 0});
  event page;
  answered answer;
  const started one = limit_or_throw(timer, page, answer);
  EXPECT_EQ(answer.error, timer_errc::too_many_pending);
}

TEST(WithTimeout, WhoseLimitIsDroppedRequestsAStopAndTellsAfterwards) {
  manual_timer timer;
  event page;
  event other_page;
  answered told;
  answered thrown;
  const started one = limit(timer, 5s, page, told);
  const started other = limit_or_throw(timer, other_page, thrown);
  timer.stop();
  EXPECT_TRUE(told.stop.stop_requested());
  EXPECT_EQ(told.times, 0);
  page.end(7);
  other_page.end(7);
  EXPECT_EQ(told.error, timer_errc::stopped);
  EXPECT_EQ(told.value, std::nullopt);
  EXPECT_EQ(thrown.error, timer_errc::stopped);
}

TEST(WithTimeout, IsLateWhenTheCallableThatStopReturnedIsCalled) {
  manual_timer timer;
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  std::vector<pending_task> left = timer.stop();
  ASSERT_EQ(left.size(), 1U);
  left.front().callback();
  EXPECT_TRUE(answer.stop.stop_requested());
  page.end(7);
  EXPECT_EQ(answer.value, std::nullopt);
  EXPECT_FALSE(answer.error);
}

TEST(WithTimeout, ThatEndsBeforeWhatStopReturnedIsDroppedIsInTime) {
  manual_timer timer;
  event page;
  answered answer;
  const started one = limit(timer, 5s, page, answer);
  std::vector<pending_task> left = timer.stop();
  page.end(7);
  left.clear();
  EXPECT_EQ(answer.value, 7);
  EXPECT_FALSE(answer.stop.stop_requested());
}

// ---- Cost and lifetime ----

TEST(WithTimeout, AllocatesTwiceBesideTheFrame) {
  manual_timer timer;
  event page;
  page.end(7);
  answered answer;
  const auto begin = [&] { const started one = limit(timer, 5s, page, answer); };
  begin();
  EXPECT_EQ(count_allocations(begin), 3U);
}

TEST(WithTimeout, WhoseCoroutineIsDestroyedLeavesNothing) {
  manual_timer timer;
  event page;
  answered answer;
  started one = limit(timer, 5s, page, answer);
  one.destroy();
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_FALSE(answer.stop.stop_requested());
  timer.advance_by(1h);
  EXPECT_EQ(answer.times, 0);
}

TEST(WithTimeout, ThatIsNotAwaitedDoesNothing) {
  manual_timer timer;
  bool made = false;
  {
    const auto unused = with_timeout(timer, 5s, [&](const std::stop_token& /*stop*/) {
      made = true;
      return std::suspend_never();
    });
  }
  EXPECT_FALSE(made);
  EXPECT_EQ(timer.stats().scheduled, 0U);
}

}  // namespace
}  // namespace timing_wheel::test

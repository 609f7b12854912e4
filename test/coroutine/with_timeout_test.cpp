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

class WithTimeout : public testing::Test {
 protected:
  manual_timer timer_;
  std::stop_source stop_;
  const std::stop_token token_ = stop_.get_token();
  event page_;
  answered answer_;
};

// ---- In time, and late ----

TEST_F(WithTimeout, ReturnsWhatEndedInTime) {
  answer_.error = timer_errc::stopped;
  const started one = limit(timer_, 5s, page_, answer_);
  EXPECT_EQ(timer_.pending(), 1U);
  timer_.advance_by(5s - 1ns);
  page_.end(7);
  EXPECT_EQ(answer_.times, 1);
  EXPECT_EQ(answer_.value, 7);
  EXPECT_FALSE(answer_.error);
  EXPECT_FALSE(answer_.stop.stop_requested());
  EXPECT_EQ(timer_.pending(), 0U);
}

TEST_F(WithTimeout, RequestsAStopWhenTheTimeIsOverAndWaitsAllTheSame) {
  const started one = limit(timer_, 5s, page_, answer_);
  timer_.advance_by(5s - 1ns);
  EXPECT_FALSE(answer_.stop.stop_requested());
  timer_.advance_by(1ns);
  EXPECT_TRUE(answer_.stop.stop_requested());
  timer_.advance_by(1h);
  EXPECT_EQ(answer_.times, 0) << "it ignores the token, and is waited for";
  page_.end(7);
  EXPECT_EQ(answer_.times, 1);
  EXPECT_EQ(answer_.value, std::nullopt);
  EXPECT_FALSE(answer_.error);
}

TEST_F(WithTimeout, MayEndItsLimitInAWindow) {
  const started one = limit(timer_, 5s, page_, answer_, {.window = 1s});
  timer_.advance_by(5s);  // 5 s + 1 s has 5.120 s, a multiple of 1024 ticks
  EXPECT_FALSE(answer_.stop.stop_requested());
  timer_.advance_by(1s);
  EXPECT_TRUE(answer_.stop.stop_requested());
  page_.end(7);
}

TEST_F(WithTimeout, LetsOutWhatIsThrownInTime) {
  const started one = limit(timer_, 5s, page_, answer_);
  page_.fail();
  EXPECT_TRUE(answer_.threw);
  EXPECT_EQ(timer_.pending(), 0U);
}

TEST_F(WithTimeout, DropsWhatIsThrownLate) {
  const started one = limit(timer_, 5s, page_, answer_);
  timer_.advance_by(5s);
  page_.fail();
  EXPECT_EQ(answer_.times, 1);
  EXPECT_FALSE(answer_.threw);
  EXPECT_EQ(answer_.value, std::nullopt);
}

TEST_F(WithTimeout, OfSomethingThatIsReadyDoesNotSuspend) {
  page_.end(7);
  const started one = limit(timer_, 5s, page_, answer_);
  EXPECT_EQ(answer_.value, 7);
  EXPECT_EQ(timer_.pending(), 0U);
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

TEST_F(WithTimeout, StopsATaskThatHeedsItsToken) {
  answered late;
  answered in_time;
  const started one = fetch(timer_, 5s, late);
  const started other = fetch(timer_, 15s, in_time);
  timer_.advance_by(6s);
  EXPECT_EQ(late.times, 1);
  EXPECT_EQ(late.value, std::nullopt);
  timer_.advance_by(6s);
  EXPECT_EQ(in_time.value, 200);
  EXPECT_EQ(timer_.pending(), 0U);
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

TEST_F(WithTimeout, ReturnsReferencesAsPointersAndNothingAsTrueAndMovesTheRest) {
  int target = 0;
  int* found = nullptr;
  bool ended = false;
  std::unique_ptr<int> moved;
  const started one = await_other_kinds(timer_, target, found, ended, moved);
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

TEST_F(WithTimeout, WithinAnotherIsAskedToStopByIt) {
  answered outer;
  answered inner;
  const started one = nest(timer_, page_, outer, inner);
  timer_.advance_by(5s);
  EXPECT_TRUE(inner.stop.stop_requested());
  page_.end(7);
  EXPECT_EQ(inner.value, 7) << "its own time was not over";
  EXPECT_EQ(outer.times, 1);
  EXPECT_EQ(outer.value, 0);
}

// ---- Stop tokens ----

TEST_F(WithTimeout, PassesAStopOn) {
  const started one = limit(timer_, 5s, page_, answer_, {.stop = token_});
  EXPECT_FALSE(answer_.stop.stop_requested());
  stop_.request_stop();
  EXPECT_TRUE(answer_.stop.stop_requested());
  page_.end(7);
  EXPECT_EQ(answer_.value, 7) << "whatever it makes of it";
}

started limit_with_a_temporary(timer& by, const std::stop_source& stop, event& awaited, answered& answer) {
  const auto make = [&](const std::stop_token& inner) -> event& {
    answer.stop = inner;
    return awaited;
  };
  answer.value = co_await with_timeout(by, 5s, make, {.stop = stop.get_token()});
  ++answer.times;
}

TEST_F(WithTimeout, TakesAStopTokenThatIsMadeInItsBraces) {
  started one;
  {
    std::stop_source stop;
    one = limit_with_a_temporary(timer_, stop, page_, answer_);
    stop.request_stop();
  }
  EXPECT_TRUE(answer_.stop.stop_requested());
  page_.end(7);
  EXPECT_EQ(answer_.times, 1);
  EXPECT_EQ(answer_.value, 7);
}

TEST_F(WithTimeout, DoesNotRequestAStopOfWhatHasEnded) {
  const started one = limit(timer_, 5s, page_, answer_, {.stop = token_});
  page_.end(7);
  stop_.request_stop();
  timer_.advance_by(1h);
  EXPECT_FALSE(answer_.stop.stop_requested());
}

// ---- Refusals, and the end of the service ----

TEST_F(WithTimeout, ThatIsRefusedMakesNothing) {
  timer_.stop();
  const started one = limit(timer_, 5s, page_, answer_);
  EXPECT_EQ(answer_.times, 1);
  EXPECT_EQ(answer_.error, timer_errc::stopped);
  EXPECT_EQ(answer_.value, std::nullopt);
  EXPECT_FALSE(answer_.stop.stop_possible()) << "it was not called";
}

started limit_or_throw(timer& by, event& awaited, answered& answer) {
  try {
    answer.value = co_await with_timeout(by, 5s, [&](const std::stop_token& /*stop*/) -> event& { return awaited; });
  } catch (const timer_error& failure) {
    answer.error = failure.code();
  }
  ++answer.times;
}

TEST_F(WithTimeout, ThrowsARefusal) {
  manual_timer timer({.max_pending = 0});
  const started one = limit_or_throw(timer, page_, answer_);
  EXPECT_EQ(answer_.error, timer_errc::too_many_pending);
}

TEST_F(WithTimeout, WhoseLimitIsDroppedRequestsAStopAndTellsAfterwards) {
  event other_page;
  answered told;
  answered thrown;
  const started one = limit(timer_, 5s, page_, told);
  const started other = limit_or_throw(timer_, other_page, thrown);
  timer_.stop();
  EXPECT_TRUE(told.stop.stop_requested());
  EXPECT_EQ(told.times, 0);
  page_.end(7);
  other_page.end(7);
  EXPECT_EQ(told.error, timer_errc::stopped);
  EXPECT_EQ(told.value, std::nullopt);
  EXPECT_EQ(thrown.error, timer_errc::stopped);
}

TEST_F(WithTimeout, IsLateWhenTheCallableThatStopReturnedIsCalled) {
  const started one = limit(timer_, 5s, page_, answer_);
  std::vector<pending_task> left = timer_.stop();
  ASSERT_EQ(left.size(), 1U);
  left.front().callback();
  EXPECT_TRUE(answer_.stop.stop_requested());
  page_.end(7);
  EXPECT_EQ(answer_.value, std::nullopt);
  EXPECT_FALSE(answer_.error);
}

TEST_F(WithTimeout, ThatEndsBeforeWhatStopReturnedIsDroppedIsInTime) {
  const started one = limit(timer_, 5s, page_, answer_);
  std::vector<pending_task> left = timer_.stop();
  page_.end(7);
  left.clear();
  EXPECT_EQ(answer_.value, 7);
  EXPECT_FALSE(answer_.stop.stop_requested());
}

// ---- Cost and lifetime ----

TEST_F(WithTimeout, AllocatesTwiceBesideTheFrame) {
  page_.end(7);
  const auto begin = [&] { const started one = limit(timer_, 5s, page_, answer_); };
  begin();
  EXPECT_EQ(count_allocations(begin), 3U);
}

TEST_F(WithTimeout, WhoseCoroutineIsDestroyedLeavesNothing) {
  started one = limit(timer_, 5s, page_, answer_);
  one.destroy();
  EXPECT_EQ(timer_.pending(), 0U);
  EXPECT_FALSE(answer_.stop.stop_requested());
  timer_.advance_by(1h);
  EXPECT_EQ(answer_.times, 0);
}

TEST_F(WithTimeout, ThatIsNotAwaitedDoesNothing) {
  bool made = false;
  {
    const auto unused = with_timeout(timer_, 5s, [&](const std::stop_token& /*stop*/) {
      made = true;
      return std::suspend_never();
    });
  }
  EXPECT_FALSE(made);
  EXPECT_EQ(timer_.stats().scheduled, 0U);
}

}  // namespace
}  // namespace timing_wheel::test

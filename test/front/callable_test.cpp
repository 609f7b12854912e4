/// \file
/// Callables and what they capture.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

// ---- Callables ----

template <std::size_t Size>
void expect_captures_intact() {
  manual_timer timer;
  live_captures captures;
  std::array<unsigned char, Size> content{};
  content.front() = 17;
  content.back() = 71;
  int sum = 0;
  const auto callback = [&](auto& out) {
    return [&out, content, token = captures.make()] { out += content.front() + content.back(); };
  };
  timer.schedule_after(1ms, callback(sum));
  timer.schedule_after(600ms, callback(sum));
  timer.schedule_after(1h, callback(sum)).cancel();
  EXPECT_EQ(captures.alive(), 2);
  timer.advance_by(1h);
  EXPECT_EQ(sum, 2 * (17 + 71));
  EXPECT_EQ(captures.alive(), 0);
}

TEST(Callable, KeepsCapturesOfAnySizeIntact) {
  expect_captures_intact<2>();
  expect_captures_intact<8>();
  expect_captures_intact<9>();
  expect_captures_intact<100>();
  expect_captures_intact<4096>();
}

TEST(Callable, AReturnedTaskCanBeScheduledElsewhere) {
  manual_timer one;
  manual_timer other;
  int runs = 0;
  one.schedule_after(1h, [&] { ++runs; });
  for (pending_task& left : one.stop()) {
    other.schedule_at(left.deadline, std::move(left.callback), {.tag = left.tag});
  }
  other.advance_by(1h);
  EXPECT_EQ(runs, 1);
}

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
  for (int moves = 0; moves < 4; ++moves) {
    live_captures captures;
    manual_timer timer({.max_pending = 1});
    bool threw = false;
    try {
      timer.schedule_after(1ms, awkward(captures, moves));
    } catch (const std::runtime_error&) {
      threw = true;
    }
    EXPECT_EQ(timer.stats().scheduled, threw ? 0U : 1U);
    EXPECT_EQ(timer.pending(), threw ? 0U : 1U);
    EXPECT_EQ(captures.alive(), threw ? 0 : 1);
    EXPECT_EQ(timer.advance_by(1ms), threw ? 0U : 1U);
    EXPECT_TRUE(moves > 0 || threw);
  }
}

// ---- Memory ----

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

/// What such an object does: all that takes a lock.
void use(manual_timer& timer) {
  std::error_code error;
  const timer_handle handle = timer.schedule_after(1h, nothing, {}, error);
  handle.reschedule_after(2h);
  handle.cancel();
  EXPECT_TRUE(conserved(timer));
  EXPECT_EQ(timer.pending(), timer.stats().pending);
}

TEST(CapturedObject, UsesTheServiceWhenItsTimerIsCancelled) {
  manual_timer timer;
  int uses = 0;
  const auto callback = [&] { ++uses, use(timer); };
  const timer_handle handle = timer.schedule_after(1h, [captured = on_destruction(callback)] {});
  handle.cancel();
  EXPECT_EQ(uses, 1);
}

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

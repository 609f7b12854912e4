/// \file
/// `scoped_timer`: cancels when it goes.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

TEST(ScopedTimer, CancelsWhenItIsDestroyed) {
  live_captures captures;
  manual_timer timer;
  {
    const scoped_timer scoped = timer.schedule_after(1ms, [token = captures.make()] {});
    EXPECT_EQ(scoped->status(), timer_status::pending);
    EXPECT_TRUE(scoped);
  }
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().cancelled, 1U);
  EXPECT_EQ(timer.advance_by(1h), 0U);
}

TEST(ScopedTimer, WithoutATimerDoesNothing) {
  scoped_timer empty;
  EXPECT_FALSE(empty);
  scoped_timer other = std::move(empty);
  empty = scoped_timer();
  EXPECT_FALSE(other.release());
}

TEST(ScopedTimer, AMoveTakesTheTimerWithIt) {
  manual_timer timer;
  std::optional<scoped_timer> first = timer.schedule_after(1ms, nothing);
  const timer_handle handle = first->get();
  const scoped_timer second = std::move(*first);
  first.reset();
  EXPECT_EQ(second.get(), handle);
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, AMoveAssignmentCancelsTheOldTimer) {
  live_captures captures;
  manual_timer timer;
  scoped_timer scoped = timer.schedule_after(1ms, [token = captures.make()] {});
  const timer_handle old = scoped.get();
  scoped = timer.schedule_after(1ms, nothing);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(old.status(), timer_status::finished);
  EXPECT_EQ(scoped->status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, AMoveToItselfKeepsTheTimer) {
  manual_timer timer;
  scoped_timer scoped = timer.schedule_after(1ms, nothing);
  scoped_timer& same = scoped;
  scoped = std::move(same);
  EXPECT_EQ(scoped->status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, ReleaseLetsTheTimerGoOn) {
  manual_timer timer;
  timer_handle handle;
  {
    scoped_timer scoped = timer.schedule_after(1ms, nothing);
    handle = scoped.release();
    EXPECT_FALSE(scoped);
  }
  EXPECT_EQ(handle.status(), timer_status::pending);
  EXPECT_EQ(timer.advance_by(1ms), 1U);
}

TEST(ScopedTimer, MayBeDestroyedInItsOwnCallback) {
  live_captures captures;
  manual_timer timer;
  std::optional<scoped_timer> scoped;
  scoped = timer.schedule_every(1ms, [&, token = captures.make()] { scoped.reset(); });
  EXPECT_EQ(timer.advance_by(1h), 1U);
  EXPECT_EQ(captures.alive(), 0);
}

TEST(ScopedTimer, MayBeAssignedInItsOwnCallback) {
  manual_timer timer;
  scoped_timer scoped;
  int second_runs = 0;
  scoped = timer.schedule_every(1ms, [&] { scoped = timer.schedule_after(1ms, [&] { ++second_runs; }); });
  EXPECT_EQ(timer.advance_by(1h), 2U);
  EXPECT_EQ(second_runs, 1);
}

TEST(ScopedTimer, MayBelongToTheCallableOfItsOwnTimer) {
  live_captures captures;
  manual_timer timer;
  const auto owner = std::make_shared<scoped_timer>();
  *owner = timer.schedule_after(1ms, [owner, token = captures.make()] {});
  timer.advance_by(1ms);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// The three answers of a cancel, and what it leaves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_record.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ElementsAre;

// ---- The three answers ----

TEST(CancelMany, CancelsWhatIsPendingOfAnyServiceAndCountsIt) {
  manual_timer timer({.shards = 3});
  manual_timer other;
  recorder record(timer);
  std::vector<timer_handle> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back(record.after(1s + i * 1us, i));
    if (i % 10 == 0) {
      all.emplace_back();
      all.push_back(other.schedule_after(1h, [] {}));
    }
  }
  all.push_back(record.after(1ms, 100));
  timer.advance_by(1ms);
  EXPECT_EQ(cancel_many(all), 110U);
  EXPECT_EQ(timer.pending() + other.pending(), 0U);
  EXPECT_EQ(timer.stats().cancelled, 100U);
  EXPECT_EQ(cancel_many(all), 0U);
  EXPECT_EQ(cancel_many({}), 0U);
  timer.advance_by(1h);
  EXPECT_THAT(record.ran, ElementsAre(100));
}

TEST(CancelMany, InACallbackLeavesThatRunningAndDestroysCapturesOutsideTheLock) {
  manual_timer timer;
  const auto schedule = [&] { timer.schedule_after(1h, [] {}); };
  std::vector<timer_handle> all;
  std::size_t cancelled = 0;
  all.push_back(timer.schedule_after(1ms, [&] { cancelled = cancel_many(all); }));
  for (int i = 0; i < 70; ++i) {
    all.push_back(timer.schedule_after(1s, [last = on_destruction(schedule)] {}));
  }
  EXPECT_EQ(timer.advance_by(1ms), 1U);
  EXPECT_EQ(cancelled, 70U);
  EXPECT_EQ(timer.pending(), 70U);
}

/// The first of `count` timers that are due at once cancels all others; of them, none may run.
void expect_that_the_first_cancels_all(int count, nanoseconds delay) {
  manual_timer timer;
  std::vector<timer_handle> handles;
  int runs = 0;
  int cancelled = 0;
  for (int i = 0; i < count; ++i) {
    handles.push_back(timer.schedule_after(delay, [&] {
      ++runs;
      for (const timer_handle& handle : handles) {
        cancelled += handle.cancel() == cancel_result::cancelled;
      }
    }));
  }
  EXPECT_EQ(timer.advance_by(delay + 1h), 1U);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(cancelled, count - 1);
  EXPECT_TRUE(conserved(timer));
}

TEST(Cancel, ACancelledSiblingNeverRunsHoweverManyAreDue) {
  for (const int count : {2, 64, 65, 255, 256, 257, 1000}) {
    expect_that_the_first_cancels_all(count, 1ms);
    expect_that_the_first_cancels_all(count, 700ms);
  }
}

}  // namespace
}  // namespace timing_wheel::test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_captures.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

class ScheduleMany : public testing::Test {
 protected:
  /// Timer i is due after i ms, and has the tag i.
  std::vector<pending_task> timers(std::uint64_t count) {
    std::vector<pending_task> made(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      made[i] = {at(i * 1ms), i, task([this, i, token = captures_.make()] { ran_.push_back(i); })};
    }
    return made;
  }

  static std::vector<std::uint64_t> numbers(std::uint64_t count) {
    std::vector<std::uint64_t> all(count);
    std::iota(all.begin(), all.end(), 0U);
    return all;
  }

  live_captures captures_;
  std::vector<std::uint64_t> ran_;
};

TEST_F(ScheduleMany, SchedulesEachAtItsDeadlineAndWritesAsManyHandlesAsThereIsRoomFor) {
  manual_timer timer;
  for (const std::size_t room : {0U, 31U, 32U, 33U, 70U, 100U, 130U}) {
    std::vector<pending_task> all = timers(100);
    const time_point begin = timer.now();
    for (pending_task& one : all) {
      one.deadline = begin + (one.deadline - at(0ms));
    }
    std::vector<timer_handle> handles(room);
    ASSERT_EQ(timer.schedule_many(all, handles), 100U);
    for (std::size_t i = 0; i < room; ++i) {
      ASSERT_EQ(static_cast<bool>(handles[i]), i < 100);
      ASSERT_EQ(handles[i].tag(), i < 100 ? std::optional(std::uint64_t{i}) : std::nullopt);
      ASSERT_TRUE(i >= 100 || handles[i].deadline() == all[i].deadline);
    }
    timer.advance_by(98ms);
    EXPECT_EQ(timer.pending(), 1U);
    timer.advance_by(1ms);
    EXPECT_EQ(ran_, numbers(100));
    EXPECT_EQ(captures_.alive(), 0);
    ran_.clear();
  }
}

TEST_F(ScheduleMany, EndsAtTheFirstThatIsRefusedAndLeavesTheRestWithTheCaller) {
  manual_timer timer({.max_pending = 40});
  std::vector<pending_task> all = timers(50);
  std::vector<timer_handle> handles(50);
  EXPECT_THROW(timer.schedule_many(all, handles), timer_error);
  EXPECT_EQ(timer.pending(), 40U);
  EXPECT_TRUE(handles[39]);
  EXPECT_FALSE(handles[40]);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(static_cast<bool>(all[i].callback), i >= 40);
  }
  std::error_code error;
  EXPECT_EQ(timer.schedule_many(std::span(all).subspan(40), {}, error), 0U);
  EXPECT_EQ(error, timer_errc::too_many_pending);
  timer.advance_by(100ms);
  EXPECT_EQ(timer.schedule_many(std::span(all).subspan(40), {}, error), 10U);
  EXPECT_FALSE(error);
  timer.advance_by(1ms);
  EXPECT_EQ(ran_, numbers(50));
}

TEST_F(ScheduleMany, WithoutMemoryHasScheduledThoseBefore) {
  bool enough = false;
  for (std::uint64_t left = 0; !enough; ++left) {
    manual_timer timer;
    std::vector<pending_task> all = timers(3'000);
    std::vector<timer_handle> handles(all.size());
    std::size_t done = 0;
    std::error_code error;
    ASSERT_TRUE(succeeds_with(left, [&] { done = timer.schedule_many(all, handles, error); }));
    enough = done == all.size();
    ASSERT_EQ(error, enough ? std::error_code() : std::make_error_code(std::errc::not_enough_memory));
    ASSERT_EQ(timer.pending(), done);
    ASSERT_EQ(captures_.alive(), 3'000);
    ASSERT_EQ(timer.schedule_many(std::span(all).subspan(done)), all.size() - done);
    timer.advance_by(3s);
    ASSERT_EQ(ran_, numbers(3'000)) << left;
    ran_.clear();
  }
}

TEST_F(ScheduleMany, TakesOverWhatAStopHasTakenOut) {
  manual_timer first;
  manual_timer next;
  for (pending_task& one : timers(70)) {
    first.schedule_at(one.deadline, std::move(one.callback), {.tag = one.tag});
  }
  first.schedule_every(10ms, [this] { ran_.push_back(70); });
  std::vector<pending_task> left = first.stop();
  std::error_code error;
  EXPECT_EQ(first.schedule_many(left, {}, error), 0U);
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_EQ(next.schedule_many(left), 71U);
  next.advance_by(1h);
  EXPECT_THAT(ran_, testing::UnorderedElementsAreArray(numbers(71))) << "each once, the periodic one too";
}

}  // namespace
}  // namespace timing_wheel::test

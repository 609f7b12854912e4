/// \file
/// Handles: what they tell, and what they outlive; their keys, text and hash.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include "shard/key_code.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// ---- Handles that are stale ----

void expect_stale(const timer_handle& handle) {
  EXPECT_EQ(handle.status(), timer_status::finished);
  EXPECT_EQ(handle.deadline(), std::nullopt);
  EXPECT_EQ(handle.remaining(), std::nullopt);
  EXPECT_EQ(handle.tag(), std::nullopt);
  EXPECT_FALSE(handle.reschedule(time_point(1ns)));
  EXPECT_FALSE(handle.reschedule_after(1ns));
  EXPECT_EQ(handle.cancel(), cancel_result::finished);
}

TEST(TimerHandle, AStaleHandleDoesNothingToTheTimerInTheSamePlace) {
  manual_timer timer;
  std::vector<timer_handle> stale;
  for (int i = 0; i < 1000; ++i) {
    stale.push_back(timer.schedule_after(1h, nothing, {.tag = 1}));
    stale.back().cancel();
  }
  const timer_handle live = timer.schedule_after(1h, nothing, {.tag = 2});
  for (const timer_handle& handle : stale) {
    expect_stale(handle);
  }
  EXPECT_EQ(live.tag(), 2U);
  EXPECT_EQ(live.deadline(), at(1h));
  EXPECT_EQ(timer.advance_by(1h), 1U);
}

TEST(TimerHandle, OutlivesTheService) {
  timer_handle pending;
  timer_handle fired;
  {
    manual_timer timer;
    fired = timer.schedule_after(1ms, nothing);
    pending = timer.schedule_after(1h, nothing);
    timer.advance_by(1ms);
  }
  expect_stale(pending);
  expect_stale(fired);
  EXPECT_NE(pending, fired);
  EXPECT_THAT(testing::PrintToString(pending), HasSubstr("finished"));
  const timer_handle copy = pending;
  EXPECT_EQ(copy, pending);
}

// ---- What a handle tells ----

static_assert(sizeof(timer_handle) <= 16);
static_assert(std::is_nothrow_default_constructible_v<timer_handle>);
static_assert(std::is_nothrow_copy_constructible_v<timer_handle>);
static_assert(std::is_nothrow_move_constructible_v<timer_handle>);
static_assert(std::is_nothrow_swappable_v<timer_handle>);
static_assert(!std::is_convertible_v<timer_handle, bool>);

TEST(TimerHandle, DefaultOneAnswersAsThatOfAFinishedTimer) {
  const timer_handle handle;
  EXPECT_FALSE(handle);
  expect_stale(handle);
}

TEST(TimerHandle, CopyRefersToTheSameTimer) {
  manual_timer timer;
  const timer_handle original = timer.schedule_after(1s, nothing, {.tag = 7});
  const timer_handle copy = original;
  EXPECT_EQ(copy, original);
  EXPECT_EQ(copy.tag(), 7U);
  EXPECT_EQ(copy.cancel(), cancel_result::cancelled);
  EXPECT_EQ(original.status(), timer_status::finished);
}

TEST(TimerHandle, MovedFromOneRefersToNoTimer) {
  manual_timer timer;
  timer_handle original = timer.schedule_after(1s, nothing);
  const timer_handle moved = std::move(original);
  EXPECT_FALSE(original);  // NOLINT(bugprone-use-after-move): defined
  EXPECT_EQ(original, timer_handle());
  EXPECT_EQ(original.cancel(), cancel_result::finished);
  EXPECT_EQ(moved.status(), timer_status::pending);
}

TEST(TimerHandle, AssignmentForgetsTheOldTimerAndDoesNotCancelIt) {
  manual_timer timer;
  int runs = 0;
  timer_handle handle = timer.schedule_after(1ms, [&] { ++runs; }, {.tag = 1});
  handle = timer.schedule_after(1h, nothing, {.tag = 2});
  EXPECT_EQ(handle.tag(), 2U);
  timer.advance_by(1ms);
  EXPECT_EQ(runs, 1);
}

TEST(TimerHandle, SurvivesAssignmentToItself) {
  manual_timer timer;
  timer_handle handle = timer.schedule_after(1s, nothing, {.tag = 7});
  timer_handle& same = handle;
  handle = same;
  EXPECT_EQ(handle.tag(), 7U);
  handle = std::move(same);
  EXPECT_EQ(handle.tag(), 7U);
}

TEST(TimerHandle, OnesOfDifferentTimersDiffer) {
  manual_timer timer;
  manual_timer other;
  const timer_handle old = timer.schedule_after(1s, nothing);
  EXPECT_NE(timer.schedule_after(1s, nothing), old);
  EXPECT_NE(other.schedule_after(1s, nothing), old);
  EXPECT_NE(timer_handle(), old);
  old.cancel();
  EXPECT_NE(timer.schedule_after(1s, nothing), old) << "in the same memory";
}

TEST(TimerStatus, PrintsItsNameAsACancelResultDoes) {
  std::ostringstream out;
  out << cancel_result::cancelled << ' ' << cancel_result::running << ' ' << cancel_result::finished << '\n'
      << timer_status::pending << ' ' << timer_status::running << ' ' << timer_status::finished;
  EXPECT_EQ(out.str(), "cancelled running finished\npending running finished");
  EXPECT_STREQ(to_string(cancel_result::running), "running");
  EXPECT_STREQ(to_string(timer_status::pending), "pending");
}

// ---- Keys ----

TEST(Key, CancelsItsTimerOnce) {
  manual_timer timer;
  bool ran = false;
  for (const auto cancel : {&timer::cancel, &timer::cancel_and_wait}) {
    const std::uint64_t key = timer.schedule_after(1ms, [&] { ran = true; }).key();
    EXPECT_EQ((timer.*cancel)(key), cancel_result::cancelled);
    EXPECT_EQ((timer.*cancel)(key), cancel_result::finished);
  }
  timer.advance_by(1s);
  EXPECT_FALSE(ran);
}

TEST(Key, DoesNotWaitForTheCallbackThatUsesIt) {
  manual_timer timer;
  std::vector<cancel_result> answers;
  const auto use_key = [&](const timer_handle& self) { answers.push_back(timer.cancel_and_wait(self.key())); };
  timer.schedule_after(1ms, use_key);
  timer.schedule_every(1ms, use_key);
  timer.advance_by(1s);
  EXPECT_EQ(answers, std::vector(2, cancel_result::running));
}

TEST(Key, OfAFinishedTimerWhosePlaceIsUsedAgainFitsNothing) {
  manual_timer timer;
  const std::uint64_t stale = timer.schedule_after(1ms, nothing).key();
  timer.advance_by(1ms);
  const timer_handle next = timer.schedule_after(1ms, nothing);
  EXPECT_NE(next.key(), stale);
  EXPECT_EQ(timer.cancel(stale), cancel_result::finished);
  EXPECT_EQ(next.status(), timer_status::pending);
}

TEST(Key, StaysTheSameOverTheRunsOfAPeriodicTimer) {
  manual_timer timer;
  std::set<std::uint64_t> keys;
  const timer_handle handle = timer.schedule_every(1ms, [&](const timer_handle& self) { keys.insert(self.key()); });
  timer.advance_by(10ms);
  EXPECT_EQ(keys, std::set{handle.key()});
  EXPECT_EQ(timer.cancel(handle.key()), cancel_result::cancelled);
}

TEST(Key, OfAnotherServiceFitsNothing) {
  constexpr std::size_t many = 20'000;
  manual_timer mine;
  manual_timer other;
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < many; ++i) {
    mine.schedule_after(1h, nothing);
    keys.push_back(other.schedule_after(1h, nothing).key());
  }
  for (const std::uint64_t key : keys) {
    ASSERT_EQ(mine.cancel(key), cancel_result::finished);
    ASSERT_EQ(mine.cancel_and_wait(key), cancel_result::finished);
  }
  EXPECT_EQ(mine.pending(), many);
}

TEST(Key, OfNoTimerIsZeroAndFitsNothing) {
  manual_timer timer;
  timer.schedule_after(1h, nothing);
  EXPECT_EQ(timer_handle().key(), 0U);
  EXPECT_EQ(timer.cancel(0), cancel_result::finished);
  EXPECT_EQ(timer.cancel(UINT64_MAX), cancel_result::finished);
  EXPECT_EQ(timer.cancel_and_wait(0), cancel_result::finished);
  EXPECT_EQ(timer.cancel_and_wait(UINT64_MAX), cancel_result::finished);
  EXPECT_EQ(timer.pending(), 1U);
}

TEST(KeyCode, GivesBackTheShardAndTheIdOfItsKeys) {
  const int here = 0;
  const detail::key_code code(&here, std::chrono::steady_clock::now());
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto shard = static_cast<std::uint32_t>(random() % 1'024);
    const detail::timer_id id{static_cast<std::uint32_t>(random() % (1U << detail::number_bits)),
                              static_cast<std::uint32_t>(1 + random() % ((1U << detail::generation_bits) - 1))};
    const auto [same_shard, same_id] = code.decoded(code.key_of(shard, id));
    ASSERT_EQ(same_shard, shard);
    ASSERT_EQ(same_id, id);
  }
}

// ---- Text and hash ----

TEST(HandleText, NamesTheShardThePlaceAndItsUse) {
  manual_timer timer;
  EXPECT_EQ(to_string(timer.schedule_after(1s, nothing)), "timer 0/0#1: pending, 1000 ms left");
  const timer_handle second = timer.schedule_after(2s, nothing);
  EXPECT_EQ(to_string(second), "timer 0/1#1: pending, 2000 ms left");
  second.cancel();
  EXPECT_EQ(to_string(second), "timer 0/1#1: finished");
  timer_handle third;
  std::string seen;
  third = timer.schedule_after(3s, [&] { seen = to_string(third); });
  EXPECT_EQ(to_string(third), "timer 0/1#2: pending, 3000 ms left");
  timer.advance_by(3s);
  EXPECT_EQ(seen, "timer 0/1#2: running, 0 ms left");
  EXPECT_THAT(to_string(timer.schedule_at(time_point::max(), nothing)), testing::HasSubstr("pending"));
}

TEST(HandleText, IsWhatIsPrinted) {
  manual_timer timer;
  std::ostringstream printed;
  const timer_handle handle = timer.schedule_after(1s, nothing);
  printed << handle;
  EXPECT_EQ(printed.str(), to_string(handle));
  EXPECT_EQ(to_string(timer_handle()), "no timer");
#if defined(__cpp_lib_format)
  EXPECT_EQ(std::format("{:.9}", handle), "timer 0/0");
#endif
}

TEST(HandleText, EqualHandlesHaveEqualHashes) {
  manual_timer timer;
  manual_timer other;
  const timer_handle handle = timer.schedule_after(1s, nothing);
  const timer_handle copy = handle;  // NOLINT(performance-unnecessary-copy-initialization): it is what is tested
  const std::hash<timer_handle> hash_of;
  EXPECT_EQ(hash_of(handle), hash_of(copy));
  std::unordered_set<timer_handle> all{handle, copy, other.schedule_after(1s, nothing), timer_handle()};
  EXPECT_EQ(all.size(), 3U);
  std::set<std::size_t> hashes;
  for (int i = 0; i < 1'000; ++i) {
    hashes.insert(hash_of(timer.schedule_after(1s, nothing)));
  }
  EXPECT_GT(hashes.size(), 990U);
}

// ---- One type ----

static_assert(std::is_base_of_v<timer, manual_timer>);
static_assert(std::is_base_of_v<timer, loop_timer>);
static_assert(std::has_virtual_destructor_v<timer>);

}  // namespace
}  // namespace timing_wheel::test

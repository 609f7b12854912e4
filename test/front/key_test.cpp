/// \file
/// Keys: a handle as a number; its text and its hash.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <set>
#include <sstream>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "shard/key_code.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

// ---- Keys ----

TEST(Key, CancelsItsTimerOnce) {
  manual_timer timer;
  bool ran = false;
  const std::uint64_t key = timer.schedule_after(1ms, [&] { ran = true; }).key();
  EXPECT_EQ(timer.cancel(key), cancel_result::cancelled);
  EXPECT_EQ(timer.cancel(key), cancel_result::finished);
  timer.advance_by(1s);
  EXPECT_FALSE(ran);
}

TEST(Key, OfARunningTimerSaysRunning) {
  manual_timer timer;
  cancel_result answer = cancel_result::finished;
  timer.schedule_after(1ms, [&](const timer_handle& self) { answer = timer.cancel(self.key()); });
  timer.advance_by(1ms);
  EXPECT_EQ(answer, cancel_result::running);
}

TEST(Key, CancelsItsTimerAndWaitsForNothingIfThatIsPending) {
  manual_timer timer;
  bool ran = false;
  const std::uint64_t key = timer.schedule_after(1ms, [&] { ran = true; }).key();
  EXPECT_EQ(timer.cancel_and_wait(key), cancel_result::cancelled);
  EXPECT_EQ(timer.cancel_and_wait(key), cancel_result::finished);
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

TEST(Key, IsUniqueOverShardsPlacesAndUses) {
  std::set<std::uint64_t> keys;
  manual_timer timer({.shards = 3});
  for (int round = 0; round < 50; ++round) {
    std::vector<timer_handle> handles(100);
    for (timer_handle& one : handles) {
      one = timer.schedule_after(1h, nothing);
      ASSERT_NE(one.key(), 0U);
      ASSERT_TRUE(keys.insert(one.key()).second);
    }
    for (const timer_handle& one : handles) {
      EXPECT_EQ(timer.cancel(one.key()), cancel_result::cancelled);
    }
  }
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
  EXPECT_EQ(to_string(timer.schedule_after(3s, nothing)), "timer 0/1#2: pending, 3000 ms left");
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

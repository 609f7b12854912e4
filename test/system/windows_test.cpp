#include "system/windows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "timing_wheel/detail/waiting.hpp"

#if !defined(NOMINMAX)  // libstdc++ does
#define NOMINMAX
#endif
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

namespace timing_wheel::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t page = 4096;

TEST(Windows, MemoryGrowsInPlaceAndIsZeroAgainAfterItWasTakenBack) {
  void* const begin = windows::map(page, 4 * page);
  ASSERT_NE(begin, nullptr);
  auto* const bytes = static_cast<unsigned char*>(begin);
  bytes[page - 1] = 1;
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(windows::extend(begin, page, 4 * page));
    EXPECT_EQ(bytes[4 * page - 1], 0);
    bytes[4 * page - 1] = 2;
    EXPECT_TRUE(windows::unmap(bytes + page, 3 * page));
  }
  EXPECT_EQ(bytes[page - 1], 1);
  EXPECT_TRUE(windows::unmap(begin, page));
}

TEST(Windows, MemoryDoesNotGrowBeyondItsRoom) {
  void* const first = windows::map(page, 16 * page);  // as much as Windows' addresses are apart
  void* const second = windows::map(page, 16 * page);
  EXPECT_FALSE(windows::extend(first, page, 17 * page));
  EXPECT_FALSE(windows::extend(second, page, 17 * page));
  EXPECT_TRUE(windows::extend(first, page, 16 * page));
  EXPECT_FALSE(windows::extend(first, 16 * page, 17 * page));
  EXPECT_TRUE(windows::unmap(first, 16 * page));
  EXPECT_TRUE(windows::unmap(second, page));
}

TEST(Windows, MemoryThatWasDiscardedCanBeWrittenAgainAndItsNeighboursStay) {
  auto* const bytes = static_cast<unsigned char*>(windows::map(3 * page, 3 * page));
  ASSERT_NE(bytes, nullptr);
  std::fill_n(bytes, 3 * page, static_cast<unsigned char>(7));
  EXPECT_TRUE(windows::discard(bytes + page, page));
  EXPECT_EQ(std::count(bytes, bytes + page, 7), page);
  EXPECT_EQ(std::count(bytes + 2 * page, bytes + 3 * page, 7), page);
  std::fill_n(bytes + page, page, static_cast<unsigned char>(8));
  EXPECT_EQ(std::count(bytes + page, bytes + 2 * page, 8), page);
  EXPECT_TRUE(windows::unmap(bytes, 3 * page));
  EXPECT_FALSE(windows::discard(bytes, page)) << "there is no memory any more";
}

TEST(Windows, AThreadBearsTheFirstFifteenLettersOfItsName) {
  const auto name_of = std::bit_cast<HRESULT(WINAPI*)(HANDLE, PWSTR*)>(
      GetProcAddress(GetModuleHandleW(L"kernelbase.dll"), "GetThreadDescription"));
  if (name_of == nullptr) {
    GTEST_SKIP() << "threads of this Windows have no names";
  }
  std::wstring seen;
  std::thread([&] {
    windows::name_this_thread("timing_wheel and more");
    if (PWSTR name = nullptr; SUCCEEDED(name_of(GetCurrentThread(), &name))) {
      seen = name;
      LocalFree(name);
    }
  }).join();
  EXPECT_EQ(seen, L"timing_wheel an");
}

TEST(Windows, AConditionIsNotMissedByTheThreadThatWaitsForIt) {
  constexpr int turns = 5'000;
  std::mutex mutex;
  windows::condition_of_one conditions[2];
  int turn = 0;
  const auto take_turns = [&](int mine) {
    for (int i = 0; i < turns; ++i) {
      {
        std::unique_lock lock(mutex);
        const auto is_mine = [&] { return turn % 2 == mine; };
        if (i % 2 == 0) {
          conditions[mine].wait(lock, is_mine);
        } else {
          conditions[mine].wait_until(lock, std::chrono::steady_clock::now() + 1h, is_mine);
        }
        ++turn;
      }
      conditions[1 - mine].notify_one();
    }
  };
  std::thread other(take_turns, 1);
  take_turns(0);
  other.join();
  EXPECT_EQ(turn, 2 * turns);
}

TEST(Windows, ASleepDoesNotEndBeforeItsTime) {
  std::mutex mutex;
  windows::condition_of_one condition;
  std::unique_lock lock(mutex);
  for (const std::chrono::nanoseconds length : {1ns, 100'000ns, 1'000'000ns, 20'000'000ns}) {
    const auto until = std::chrono::steady_clock::now() + length;
    condition.wait_until(lock, until, [] { return false; });
    EXPECT_GE(std::chrono::steady_clock::now(), until);
  }
}

// Which the std::atomic of libstdc++ fails within some ten thousand turns.
TEST(Windows, AWakeUpByAddressIsNotLost) {
  constexpr std::uint32_t turns = 100'000;
  std::atomic<std::uint32_t> turn{0};
  const auto take_turns = [&](std::uint32_t mine) {
    for (std::uint32_t i = mine; i < turns; i += 2) {
      for (std::uint32_t seen = turn.load(); seen != i; seen = turn.load()) {
        wait_while(turn, seen, std::memory_order_acquire);
      }
      turn.store(i + 1);
      i % 4 < 2 ? notify_all(turn) : notify_one(turn);
    }
  };
  std::thread other(take_turns, 1U);
  take_turns(0U);
  other.join();
  EXPECT_EQ(turn.load(), turns);
}

}  // namespace
}  // namespace timing_wheel::detail

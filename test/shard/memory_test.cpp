/// \file
/// What the service allocates, and what becomes of a call that finds no memory.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <vector>

#include "engine/system_page.hpp"
#include "support/allocation.hpp"
#include "support/build.hpp"
#include "support/service_captures.hpp"
#include "support/service_record.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- What it leaves ----

TEST(Memory, BytesCoverTheNodes) {
  live_captures captures;
  manual_timer timer;
  schedule_far(timer, captures, 10'000);
  EXPECT_GE(timer.stats().bytes, 10'000U * 64U);
}

#if defined(TIMING_WHEEL_HAS_MAPPINGS)
std::size_t resident_bytes() {
  std::size_t all = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * detail::system_page();
}

TEST(Memory, AServiceWithOneCheckTakesFewPages) {
  if (under_thread_sanitizer || under_address_sanitizer) {
    GTEST_SKIP() << "a sanitizer takes memory of its own";
  }
  constexpr std::size_t services = 200;
  for (const unsigned shards : {1U, 2U}) {
    const std::size_t before = resident_bytes();
    std::vector<std::unique_ptr<manual_timer>> all(services);
    for (auto& one : all) {
      one = std::make_unique<manual_timer>(timer_options{.shards = shards});
      one->schedule_after(std::chrono::minutes(30), nothing);
    }
    std::size_t pages = 6 + 4 * shards;  // of 4 KiB; the slots of a shard alone are 30
#if !defined(__GLIBC__)
    ++pages;  // the malloc of musl rounds sizes up by up to a fifth
#endif
    EXPECT_LE((resident_bytes() - before) / services, pages * std::max(std::size_t{4096}, detail::system_page()))
        << shards << " shards";
  }
}
#endif

// ---- Memory ----

TEST(Memory, AllocatesNothingAfterWarmUp) {
  manual_timer timer;
  const auto round = [&] {
    for (int i = 0; i < 1000; ++i) {
      const timer_handle handle = timer.schedule_after(i * 3ms, nothing);
      if (i % 3 == 0) {
        handle.reschedule_after(i * 1ms);
      } else if (i % 3 == 1) {
        handle.cancel();
      }
    }
    timer.advance_by(4s);
  };
  for (int warm_up = 0; warm_up < 10; ++warm_up) {
    round();
  }
  EXPECT_EQ(count_allocations(round), 0U);
}

TEST(Memory, TimersCancelledAfterAStepThatFoundNoMemoryLeaveNothingBehind) {
  for (std::uint64_t left = 0; left < 30; ++left) {
    int runs = 0;
    manual_timer timer({.wheel_size = 20});
    std::vector<timer_handle> handles;
    for (int i = 0; i < 1000; ++i) {
      handles.push_back(timer.schedule_after(400ms + (i % 400) * 1ms, [&runs] { ++runs; }));
    }
    succeeds_with(left, [&] { timer.advance_by(400ms); });
    for (const timer_handle& handle : handles) {
      handle.cancel();
      timer.schedule_after(1h, [&runs] { runs += 1'000'000; });
    }
    timer.advance_by(1s);
    EXPECT_LT(runs, 1'000'000);
    EXPECT_EQ(timer.stats().early, 0U);
    EXPECT_EQ(timer.pending(), 1000U);
  }
}

TEST(Memory, ConstructionWithoutMemoryLeavesNothingBehind) {
  const std::size_t before = allocations.live_bytes;
  std::uint64_t left = 0;
  for (bool enough = false; !enough; ++left) {
    enough = succeeds_with(left, [] { const manual_timer timer({.wheel_sizes = {60, 24}, .shards = 2}); });
    EXPECT_EQ(allocations.live_bytes, before) << left;
  }
  EXPECT_GT(left, 10U) << "memory was needed";
}

TEST(Memory, TheMemoryOfAServiceIsOfOperatorNewAloneWithoutHugePages) {
  constexpr std::size_t count = 500'000;
  manual_timer timer({.huge_pages = false, .shards = 1});
  const std::size_t before = allocations.live_bytes;
  for (std::size_t i = 0; i < count; ++i) {
    timer.schedule_after(std::chrono::minutes(30), [] {});
  }
  EXPECT_GE(allocations.live_bytes - before, count * 64);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// Periodic timers: refusals, counts and memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
#include "support/service_captures.hpp"
#include "support/service_periodic.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HasSubstr;

// ---- Refusals ----

TEST(PeriodicRefusal, RefusesAPeriodThatIsNotPositiveAndNamesIt) {
  manual_timer timer;
  for (const auto& [period, number] : {std::pair<nanoseconds, const char*>(0ns, "0"), {-5ns, "-5"}, {-7h, "-252"}}) {
    for (const period_policy policy : every_policy) {
      const refusal answer = refusal_of([&, p = period] { timer.schedule_every(p, nothing, policy); });
      EXPECT_EQ(answer.code, timer_errc::invalid_period);
      EXPECT_THAT(answer.message, HasSubstr(number));
    }
  }
}

TEST(PeriodicRefusal, AcceptsTheSmallestPeriod) {
  manual_timer timer({.tick = 1ns});
  EXPECT_TRUE(timer.schedule_every(1ns, nothing));
  EXPECT_TRUE(timer.schedule_every(std::chrono::duration<double, std::nano>(0.25), nothing));
  EXPECT_EQ(timer.advance_by(10ns), 20U);
}

TEST(PeriodicRefusal, TheErrorCodeIsClearedOnSuccess) {
  manual_timer timer;
  std::error_code error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_every(1ms, nothing, fixed_delay, error));
  EXPECT_FALSE(error);
  error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_with([](time_point now) { return now + 1ms; }, nothing, error));
  EXPECT_FALSE(error);
}

// ---- max_pending ----

// ---- Captures ----

TEST(PeriodicMemory, KeepsCapturesOfAHundredBytesIntact) {
  std::array<std::uint8_t, 100> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7);
  }
  manual_timer timer({.wheel_size = 4});
  int intact = 0;
  for (const period_policy policy : every_policy) {
    timer.schedule_every(
        3ms, [&intact, bytes, expected = bytes] { intact += bytes == expected; }, policy);
  }
  timer.advance_by(3s);
  EXPECT_EQ(intact, 3000);
}

// ---- Memory ----

TEST(PeriodicMemory, ArmsAgainWithoutAllocating) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    std::array<char, 100> large{};
    timer.schedule_every(3ms, nothing, policy);
    timer.schedule_every(
        7ms, [large] { static_cast<void>(large); }, policy);
    timer.schedule_with([](time_point previous) { return previous + 5ms; }, nothing);
    timer.advance_by(10s);
    EXPECT_EQ(count_allocations([&] { timer.advance_by(10s); }), 0U);
  }
}

/// Schedules with memory for `left` allocations. \returns whether there was enough.
template <class Schedule>
bool schedules_with(std::uint64_t left, Schedule schedule) {
  live_captures captures;
  manual_timer timer;
  std::array<char, 100> large{};
  const bool enough =
      succeeds_with(left, [&] { schedule(timer, [large, token = captures.make()] { static_cast<void>(large); }); });
  EXPECT_EQ(timer.stats().scheduled, enough ? 1U : 0U);
  EXPECT_EQ(timer.pending(), enough ? 1U : 0U);
  EXPECT_EQ(captures.alive(), enough ? 1 : 0);
  timer.schedule_every(10ms, nothing);
  EXPECT_EQ(timer.advance_by(10ms), enough ? 2U : 1U);
  EXPECT_TRUE(conserved(timer));
  return enough;
}

TEST(PeriodicMemory, SchedulingWithoutMemoryChangesNothing) {
  std::uint64_t left = 0;
  while (!schedules_with(left, [](manual_timer& timer, auto&& callback) {
    timer.schedule_every(10ms, std::forward<decltype(callback)>(callback));
  })) {
    ASSERT_LT(++left, 100U);
  }
  EXPECT_GT(left, 0U);
  left = 0;
  while (!schedules_with(left, [](manual_timer& timer, auto&& callback) {
    timer.schedule_with(ten_ms(9, none), std::forward<decltype(callback)>(callback));
  })) {
    ASSERT_LT(++left, 100U);
  }
}

TEST(PeriodicMemory, TheErrorCodeOverloadsReportThatThereIsNoMemory) {
  live_captures captures;
  manual_timer timer;
  std::array<char, 100> large{};
  std::error_code every;
  std::error_code with;
  {
    const scarce_memory limit(0);
    timer.schedule_every(
        10ms, [large, token = captures.make()] { static_cast<void>(large); }, fixed_delay, every);
    timer.schedule_with(
        ten_ms(9, none), [large, token = captures.make()] { static_cast<void>(large); }, with);
  }
  EXPECT_EQ(every, std::errc::not_enough_memory);
  EXPECT_EQ(with, std::errc::not_enough_memory);
  EXPECT_EQ(captures.alive(), 0);
}

/// A timer whose periods grow, so that to arm it again may need another wheel, with memory for `left` allocations until
/// it has run `scarce_runs` times. \returns whether that was enough.
bool arms_again_with(std::uint64_t left, int scarce_runs) {
  manual_timer timer({.tick = 1ms, .wheel_size = 4});
  int runs = 0;
  int early = 0;
  const timer_handle handle =
      timer.schedule_with([](time_point previous) { return previous + (previous.time_since_epoch() + 1ms) * 6; },
                          [&](const timer_handle& self) {
                            ++runs;
                            early += timer.now() < self.deadline().value();
                          });
  const auto run_until = [&](int wanted) {
    while (runs < wanted) {
      timer.advance_to(handle.deadline().value_or(timer.now()));
    }
  };
  const bool enough = succeeds_with(left, [&] { run_until(scarce_runs); });
  EXPECT_EQ(handle.status(), timer_status::pending) << "lost, with memory for " << left << " allocations";
  const int before = runs;
  for (int step = 0; step < 3 && handle.deadline(); ++step) {
    timer.advance_to(*handle.deadline() + 1ms);
  }
  EXPECT_GE(runs, before + 3) << "left " << left;
  EXPECT_EQ(early, 0);
  EXPECT_EQ(timer.stats().early, 0U);
  EXPECT_TRUE(conserved(timer));
  return enough;
}

TEST(PeriodicMemory, ArmingAgainWithoutMemoryLosesNoTimer) {
  std::uint64_t left = 0;
  while (!arms_again_with(left, 6)) {
    ASSERT_LT(++left, 1000U);
  }
  EXPECT_GT(left, 0U) << "nothing was tried";
}

/// Many periodic timers run with memory for `left` allocations only. \returns whether that was enough.
bool all_arm_again_with(std::uint64_t left, period_policy policy) {
  constexpr int count = 300;
  manual_timer timer({.tick = 1ms, .wheel_size = 4});
  std::vector<int> runs(count);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    timer.schedule_every(
        1ms * (1 + static_cast<int>(i) % 50), [&runs, i] { ++runs[i]; }, policy);
  }
  const bool enough = succeeds_with(left, [&] { timer.advance_by(200ms); });
  EXPECT_EQ(timer.pending(), runs.size()) << "left " << left;
  EXPECT_TRUE(conserved(timer));
  timer.advance_to(at(200ms));
  const std::vector<int> before = runs;
  timer.advance_by(60ms);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_GT(runs[i], before[i]) << "timer " << i << ", left " << left;
  }
  EXPECT_EQ(timer.stats().early, 0U);
  return enough;
}

TEST(PeriodicMemory, ManyArmAgainWithoutMemory) {
  for (const period_policy policy : every_policy) {
    for (std::uint64_t left = 0; !all_arm_again_with(left, policy) && left < 200 && !HasFailure(); ++left) {
    }
  }
}

}  // namespace
}  // namespace timing_wheel::test

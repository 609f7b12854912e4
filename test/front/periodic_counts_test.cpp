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

#include "support/allocation.hpp"
#include "support/service_audit.hpp"
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
      const refusal answer = refusal_of([&, p = period] { timer.schedule_every(p, nothing, {.policy = policy}); });
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
  EXPECT_TRUE(timer.schedule_every(1ms, nothing, {.policy = fixed_delay}, error));
  EXPECT_FALSE(error);
  error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_with([](time_point now) { return now + 1ms; }, nothing, {}, error));
  EXPECT_FALSE(error);
}

// ---- Captures ----

TEST(PeriodicMemory, KeepsCapturesOfAHundredBytesIntact) {
  std::array<std::uint8_t, 100> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7);
  }
  manual_timer timer({.wheel_size = 4});
  int intact = 0;
  for (const period_policy policy : every_policy) {
    timer.schedule_every(3ms, [&intact, bytes, expected = bytes] { intact += bytes == expected; }, {.policy = policy});
  }
  timer.advance_by(3s);
  EXPECT_EQ(intact, 3000);
}

// ---- Memory ----

TEST(PeriodicMemory, ArmsAgainWithoutAllocating) {
  for (const period_policy policy : every_policy) {
    manual_timer timer;
    std::array<char, 100> large{};
    timer.schedule_every(3ms, nothing, {.policy = policy});
    timer.schedule_every(7ms, [large] { static_cast<void>(large); }, {.policy = policy});
    timer.schedule_with([](time_point previous) { return previous + 5ms; }, nothing);
    timer.advance_by(10s);
    EXPECT_EQ(count_allocations([&] { timer.advance_by(10s); }), 0U);
  }
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

}  // namespace
}  // namespace timing_wheel::test

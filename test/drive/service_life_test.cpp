/// \file
/// Years of use, and their cost in operations, of the service.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "support/service_audit.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/uptimes.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

// ---- What can be read of each level ----

TEST(ServiceLife, EveryLevelCanBeReadAndAgreesWithTheClock) {
  manual_timer timer({.tick = 1s, .wheel_sizes = {60, 60, 24}});
  timer.schedule_after(20 * 24h, [] {});
  for (const nanoseconds step : {nanoseconds(1ns), nanoseconds(999ms), nanoseconds(3'599s), nanoseconds(77h)}) {
    timer.advance_by(step);
    const timer_stats stats = timer.stats();
    ASSERT_EQ(stats.levels.size(), 4U);
    expect_levels_agree(stats.levels, static_cast<tick>(timer.now().time_since_epoch() / 1s));
  }
}

// ---- The service ----

/// Timers of all lengths up to half an hour that arm themselves again; each run is held against its deadline.
class busy_service {
 public:
  busy_service(const timer_options& options, nanoseconds start)
      : tick_(options.tick), timer_(options, time_point(start)) {}

  void arm_fifty() {
    for (int i = 0; i < 50; ++i) {
      arm();
    }
  }

  void expect_all_on_time_until(time_point end) {
    timer_.advance_to(end);
    const timer_stats stats = timer_.stats();
    EXPECT_EQ(early_or_late_, 0U);
    EXPECT_EQ(stats.pending, 50U);
    EXPECT_EQ(stats.early, 0U);
    EXPECT_LT(stats.lateness.max(), tick_);
    EXPECT_GT(stats.fired, 1'000U);
    EXPECT_TRUE(conserved(stats));
  }

  [[nodiscard]] manual_timer& timer() { return timer_; }

 private:
  void arm() {
    const time_point deadline =
        timer_.now() + 1ns + random_.magnitude(bits_of_an_hour) * 1ms + random_.below(1'000) * 1us;
    timer_.schedule_at(deadline, [this, deadline] {
      early_or_late_ += timer_.now() < deadline || timer_.now() - deadline >= tick_ ? 1U : 0U;
      arm();
    });
  }

  nanoseconds tick_;
  manual_timer timer_;
  dice random_{1};
  std::uint64_t early_or_late_ = 0;
};

TEST(ServiceLife, BusyStaysExactThroughEachUptime) {
  for (const uptime& up : uptimes) {
    const nanoseconds length = saturating_nanoseconds(std::chrono::duration<tick, std::milli>(up.length));
    if (length == nanoseconds::max()) {
      continue;  // beyond the 292 years of a 64-bit count of nanoseconds; the next test goes there
    }
    for (const std::uint32_t n : {20U, 64U, 512U}) {
      SCOPED_TRACE(std::string(up.name) + ", wheel size " + std::to_string(n));
      busy_service busy({.tick = 1ms, .wheel_size = n}, 0ns);
      busy.timer().schedule_after(length, [] {});
      busy.timer().advance_by(length - 1h);
      busy.arm_fifty();
      busy.expect_all_on_time_until(time_point(length + 1h));
    }
  }
}

TEST(ServiceLife, BusyStaysExactUpToTheLastHourOfTime) {
  for (const nanoseconds tick_length : {nanoseconds(1ns), nanoseconds(1us), nanoseconds(1ms)}) {
    busy_service busy({.tick = tick_length}, nanoseconds::max() - 4h);
    busy.arm_fifty();
    busy.expect_all_on_time_until(time_point(nanoseconds::max() - 1h));
  }
}

TEST(ServiceLife, HourlyTimersOfAHundredYearsFireEachAtTheirHour) {
  constexpr std::uint64_t times = scaled(hours_of_a_century);
  manual_timer timer({.tick = 1ms});
  std::uint64_t runs = 0;
  struct hourly {
    manual_timer& timer;
    std::uint64_t& runs;
    void operator()() const {
      ++runs;
      ASSERT_EQ(timer.now(), time_point(runs * 1h));
      timer.schedule_after(1h, hourly(*this));
    }
  };
  timer.schedule_after(1h, hourly{timer, runs});
  EXPECT_EQ(timer.advance_by(std::chrono::hours(times)), times);
  EXPECT_EQ(runs, times);
  EXPECT_EQ(timer.stats().lateness.max(), 0ns);
  EXPECT_EQ(timer.pending(), 1U);
}

// ---- Cost, in operations ----

TEST(ServiceCost, ServiceMovesATimerLessOftenThanThereAreLevels) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  dice random(3);
  for (int i = 0; i < 10'000; ++i) {
    timer.schedule_after(random.between(1ms, 1h), [] {});
  }
  timer.advance_by(1h);
  const timer_stats stats = timer.stats();
  ASSERT_EQ(stats.fired, 10'000U);
  EXPECT_GE(stats.moves, 10'000U) << "it would not be a cascade";
  EXPECT_LE(stats.moves, 10'000U * (stats.levels.size() - 1));
}

TEST(ServiceCost, CancelledTimersAreNeverMoved) {
  manual_timer timer({.tick = 1ms, .wheel_size = 20});
  for (int i = 0; i < 10'000; ++i) {
    timer.schedule_after(1h + i * 1ms, [] {}).cancel();
  }
  timer.advance_by(2h);
  const timer_stats stats = timer.stats();
  EXPECT_EQ(stats.moves, 0U);
  EXPECT_EQ(stats.cancelled, 10'000U);
  for (const level_stats& level : stats.levels) {
    EXPECT_EQ(level.flushes, 0U);
  }
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// Years of use of the service, and the main job.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_random.hpp"
#include "support/service_scale.hpp"
#include "support/uptimes.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

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

// ---- The main job ----

// Each order is checked half an hour later; of those not cancelled by then, each runs once, at its
// deadline.
TEST(MainJob, AMillionChecksOfHalfAnHourHaveExactlyOneOutcomeEach) {
  const std::uint64_t orders = stress_rounds(1'000'000);
  manual_timer timer;
  std::vector<std::uint8_t> runs(orders);
  std::vector<timer_handle> checks(orders);
  std::uint64_t not_at_their_deadline = 0;
  for (std::uint64_t i = 0; i < orders; ++i) {
    timer.advance_by(10us);  // a million in ten seconds
    const time_point deadline = timer.now() + 30min;
    checks[i] = timer.schedule_after(30min, [&, i, deadline] {
      ++runs[i];
      not_at_their_deadline += timer.now() < deadline || timer.now() >= deadline + 1ms ? 1U : 0U;
    });
  }
  EXPECT_LT(timer.stats().bytes, orders * 80);
  timer.advance_by(15min);
  for (std::uint64_t i = 0; i < orders; ++i) {
    if (i % 20 != 0) {
      ASSERT_EQ(checks[i].cancel(), cancel_result::cancelled);
    }
  }
  timer.advance_by(1h);
  for (std::uint64_t i = 0; i < orders; ++i) {
    ASSERT_EQ(runs[i], i % 20 == 0 ? 1 : 0) << "check " << i;
  }
  EXPECT_EQ(not_at_their_deadline, 0U);
  EXPECT_EQ(timer.pending(), 0U);
  EXPECT_TRUE(conserved(timer));
}

}  // namespace
}  // namespace timing_wheel::test

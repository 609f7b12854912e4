/// \file
/// The main job.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "support/service_audit.hpp"
#include "support/service_scale.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

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

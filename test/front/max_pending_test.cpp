/// \file
/// The limit of what may be pending.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST(MaxPending, RefusesTheThirdOfTwoAndSaysTheNumbers) {
  manual_timer timer({.max_pending = 2});
  timer.schedule_after(1h, nothing);
  timer.schedule_after(1h, nothing);
  const refusal third = refusal_of([&] { timer.schedule_after(1h, nothing); });
  EXPECT_EQ(third.code, timer_errc::too_many_pending);
  EXPECT_THAT(third.message, HasSubstr("2"));
  EXPECT_EQ(timer.pending(), 2U);
  EXPECT_EQ(timer.stats().scheduled, 2U);
  EXPECT_EQ(timer.stats().rejected, 1U);
}

TEST(MaxPending, TheErrorCodeIsClearedOnSuccess) {
  manual_timer timer;
  std::error_code error = timer_errc::stopped;
  EXPECT_TRUE(timer.schedule_after(1h, nothing, {}, error));
  EXPECT_FALSE(error);
}

TEST(MaxPending, AfterACancelOneMoreIsAccepted) {
  manual_timer timer({.max_pending = 2});
  const timer_handle first = timer.schedule_after(1h, nothing);
  timer.schedule_after(1h, nothing);
  first.cancel();
  first.cancel();
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
}

TEST(MaxPending, AFailedCallableUsesUpNoPlace) {
  manual_timer timer({.max_pending = 1});
  EXPECT_THROW(timer.schedule_after(1h, std::function<void()>()), timer_error);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
}

TEST(MaxPending, TheLimitIsThatOfTheServiceNotOfAShard) {
  manual_timer timer({.shards = 8, .max_pending = 10});
  std::vector<std::jthread> adders;
  for (int i = 0; i < 8; ++i) {
    adders.emplace_back([&] {
      for (int k = 0; k < 10; ++k) {
        std::error_code error;
        timer.schedule_after(1h, nothing, {}, error);
      }
    });
  }
  adders.clear();
  EXPECT_EQ(timer.pending(), 10U);
  EXPECT_EQ(timer.stats().rejected, 70U);
}

}  // namespace
}  // namespace timing_wheel::test

/// \file
/// The limit of what may be pending.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/service_captures.hpp"
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

TEST(MaxPending, TheMessageCarriesTheCountAndTheLimit) {
  manual_timer timer({.max_pending = 1234});
  for (int i = 0; i < 1234; ++i) {
    timer.schedule_after(1h, nothing);
  }
  const std::string message = refusal_of([&] { timer.schedule_after(1h, nothing); }).message;
  const std::size_t first = message.find("1234");
  ASSERT_NE(first, std::string::npos) << message;
  EXPECT_NE(message.find("1234", first + 1), std::string::npos) << message;
}

TEST(MaxPending, TheErrorCodeOverloadsDoNotThrow) {
  live_captures captures;
  manual_timer timer({.max_pending = 0});
  std::error_code error;
  EXPECT_FALSE(timer.schedule_after(
      1h, [token = captures.make()] {}, {}, error));
  EXPECT_EQ(error, timer_errc::too_many_pending);
  error.clear();
  EXPECT_FALSE(timer.schedule_at(
      at(1h), [token = captures.make()] {}, {}, error));
  EXPECT_EQ(error, timer_errc::too_many_pending);
  error.clear();
  EXPECT_FALSE(timer.schedule_at(
      at(1h), [token = captures.make()] {}, {.tag = 3}, error));
  EXPECT_EQ(error, timer_errc::too_many_pending);
  EXPECT_EQ(captures.alive(), 0);
  EXPECT_EQ(timer.stats().rejected, 3U);
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

TEST(MaxPending, AfterAFireOneMoreIsAccepted) {
  manual_timer timer({.max_pending = 2});
  timer.schedule_after(1ms, nothing);
  timer.schedule_after(1h, nothing);
  timer.advance_by(1ms);
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
  EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
}

TEST(MaxPending, ACallbackMayTakeItsOwnPlace) {
  manual_timer timer({.max_pending = 1});
  timer.schedule_after(1ms, [&] { timer.schedule_after(1ms, nothing); });
  EXPECT_EQ(timer.advance_by(2ms), 2U);
  EXPECT_EQ(timer.stats().rejected, 0U);
}

TEST(MaxPending, RefusalsDoNotUseUpPlaces) {
  manual_timer timer({.max_pending = 1});
  const timer_handle handle = timer.schedule_after(1h, nothing);
  for (int i = 0; i < 100; ++i) {
    EXPECT_THROW(timer.schedule_after(1h, nothing), timer_error);
  }
  handle.cancel();
  EXPECT_NO_THROW(timer.schedule_after(1h, nothing));
}

TEST(MaxPending, RescheduleWorksAtTheLimit) {
  manual_timer timer({.max_pending = 1});
  const timer_handle handle = timer.schedule_after(1h, nothing);
  EXPECT_TRUE(handle.reschedule_after(1ms));
  EXPECT_EQ(timer.advance_by(1ms), 1U);
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

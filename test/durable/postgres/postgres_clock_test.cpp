#include "durable/postgres/clock.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <optional>

namespace timing_wheel::durable::postgres {
namespace {

using namespace std::chrono_literals;

instant wall() { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }

TEST(ServerClock, IsUnknownBeforeTheFirstAnswer) {
  server_clock clock;
  EXPECT_FALSE(clock.now().has_value());
  EXPECT_FALSE(clock.go_on());
}

TEST(ServerClock, RunsOnFromAnAnswer) {
  server_clock clock;
  const instant shown = wall() + 1h;
  clock.saw(shown);
  ASSERT_TRUE(clock.now().has_value());
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() < begin + 5ms) {
  }
  EXPECT_GE(*clock.now(), shown + 5ms);
}

TEST(ServerClock, ASlowAnswerDoesNotSetItBack) {
  server_clock clock;
  clock.saw(wall());
  const instant before = clock.last_guess();
  clock.saw(wall() - 900ms);
  EXPECT_GE(clock.last_guess(), before);
}

TEST(ServerClock, IsNeverBehindWhatWasShown) {
  server_clock clock;
  clock.saw(wall() - 900ms);
  const instant shown = wall() + 200ms;
  clock.saw(shown);
  EXPECT_GE(clock.last_guess(), shown);
}

TEST(ServerClock, FollowsAServerWhoseClockIsAnother) {
  server_clock clock;
  clock.saw(wall());
  clock.saw(wall() - 1h);
  EXPECT_LT(clock.last_guess(), wall() - 59min);
  clock.saw(wall() + 1h);
  EXPECT_GT(clock.last_guess(), wall() + 59min);
}

std::chrono::nanoseconds set_clock{};  // what the next shows
std::chrono::nanoseconds shown_clock() noexcept { return set_clock; }

TEST(ServerClock, HasGoneOnWhileTheMachineWasSuspended) {
  set_clock = 10min;
  server_clock clock(shown_clock);
  const instant shown = wall();
  clock.saw(shown);
  set_clock += 50s;
  EXPECT_EQ(clock.now(), shown + 50s);
  set_clock += 1h;
  EXPECT_EQ(clock.now(), std::nullopt);  // the server is asked
  EXPECT_EQ(clock.last_guess(), shown + 50s + 1h);
}

TEST(ServerClock, CountsTheTimeSinceTheStartOfTheMachine) {
  const auto read = [] {
    std::timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto before = read();
  const auto between = time_since_boot();
  EXPECT_LE(before, between);
  EXPECT_LE(between, read());
}

TEST(ServerClock, GoesOnWhileTheServerIsAway) {
  server_clock clock;
  clock.saw(wall());
  EXPECT_TRUE(clock.go_on());
  EXPECT_TRUE(clock.now().has_value());
}

}  // namespace
}  // namespace timing_wheel::durable::postgres

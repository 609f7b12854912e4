#include "durable/postgres/clock.hpp"

#include <gtest/gtest.h>

#include <chrono>

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

TEST(ServerClock, GoesOnWhileTheServerIsAway) {
  server_clock clock;
  clock.saw(wall());
  EXPECT_TRUE(clock.go_on());
  EXPECT_TRUE(clock.now().has_value());
}

}  // namespace
}  // namespace timing_wheel::durable::postgres

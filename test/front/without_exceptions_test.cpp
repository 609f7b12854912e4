// Compiled with -fno-exceptions, as some users do; the library and GoogleTest are not.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

TEST(WithoutExceptionsDeathTest, ARefusalThatIsThrownEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  manual_timer timer({.max_pending = 0});
  const auto schedule = [&] { timer.schedule_after(1h, [] {}); };
  // On a thread of its own, since the caller of this function would catch it.
  EXPECT_EXIT(std::thread(schedule).join(), testing::KilledBySignal(SIGABRT), "0 pending, max_pending 0");
}

}  // namespace
}  // namespace timing_wheel::test

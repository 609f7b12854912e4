// A thread that stands still between two reads of clocks. `clock_gettime` of this program stands before that of the
// system.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds standstill{30};

// How many more reads of a clock, by this thread, are followed by a pause.
thread_local int pauses_left = 0;

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of the system are reserved
extern "C" int clock_gettime(clockid_t clock, timespec* shown) noexcept {
  using read = int (*)(clockid_t, timespec*);
  static const auto next = reinterpret_cast<read>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = next(clock, shown);
  if (pauses_left > 0) {
    --pauses_left;
    std::this_thread::sleep_for(standstill);
  }
  return result;
}

namespace timing_wheel::test {
namespace {

/// Schedules for `delay` from now by the wall clock, with a pause after each of the first `pauses` reads of a clock.
/// \returns by how much it ran after the wall clock showed the deadline; negative if early.
std::chrono::nanoseconds lateness_on_the_wall(std::chrono::milliseconds delay, int pauses) {
  std::atomic<bool> ran{false};
  std::chrono::system_clock::time_point ran_at;
  timer service({.tick = 1ms});
  const auto deadline = std::chrono::system_clock::now() + delay;
  pauses_left = pauses;
  service.schedule_at(deadline, [&] {
    ran_at = std::chrono::system_clock::now();
    ran = true;
  });
  EXPECT_EQ(pauses_left, 0) << "scheduling reads fewer clocks than the test thinks";
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
  return ran_at - deadline;
}

TEST(WallClock, APauseBetweenTheReadsOfTheClocksMakesNoTimerEarly) { EXPECT_GE(lateness_on_the_wall(100ms, 1), 0ns); }

TEST(WallClock, APauseAfterEachReadMakesNoTimerEarly) { EXPECT_GE(lateness_on_the_wall(100ms, 2), 0ns); }

TEST(WallClock, WithoutAPauseTheTimerIsOnTime) {
  const std::chrono::nanoseconds late = lateness_on_the_wall(20ms, 0);
  EXPECT_GE(late, 0ns);
  EXPECT_LT(late, patience);
}

}  // namespace
}  // namespace timing_wheel::test

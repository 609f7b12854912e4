// What the sleeper's announcement says, and who takes it back.

#include "system/sleeper.hpp"

#include <gtest/gtest.h>

namespace timing_wheel::detail {
namespace {

TEST(Sleeper, WaitsPastWhatIsBeforeItsAnnouncementOnly) {
  sleeper one;
  EXPECT_FALSE(one.waits_past(0)) << "it is awake";
  one.announce(10);
  EXPECT_TRUE(one.waits_past(9));
  EXPECT_FALSE(one.waits_past(10));
}

TEST(Sleeper, AnAnswerTakesTheAnnouncementBackOnce) {
  sleeper one;
  one.announce(10);
  EXPECT_TRUE(one.answer_for(9));
  EXPECT_FALSE(one.answer_for(8)) << "somebody has told it already";
  EXPECT_FALSE(one.waits_past(0));
}

TEST(Sleeper, AnAnswerForWhatIsNotEarlierLeavesTheAnnouncement) {
  sleeper one;
  one.announce(10);
  EXPECT_FALSE(one.answer_for(10));
  EXPECT_FALSE(one.answer_for(20));
  EXPECT_TRUE(one.waits_past(9));
}

TEST(Sleeper, ANudgeLeavesTheAnnouncementAndAWakeTakesItBack) {
  sleeper one;
  one.announce(10);
  one.nudge();
  EXPECT_TRUE(one.waits_past(9));
  one.wake();
  EXPECT_FALSE(one.waits_past(9));
}

TEST(Sleeper, AWakeBeforeItSleepsKeepsItAwake) {
  sleeper one;
  one.announce(never);
  one.wake();
  EXPECT_FALSE(one.sleep(time_point::max()));
  EXPECT_EQ(one.wakeups(), 1U);
  EXPECT_EQ(one.earlier_wakeups(), 1U);
}

TEST(Sleeper, ARetractionForgetsTheWakesThatTheAnnouncementHasCaused) {
  sleeper one;
  one.announce(10);
  one.wake();
  one.retract();
  EXPECT_TRUE(one.sleep(time_point::min())) << "nobody has woken it since";
  EXPECT_EQ(one.earlier_wakeups(), 0U);
}

}  // namespace
}  // namespace timing_wheel::detail

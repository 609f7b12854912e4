#include "system/sleeper.hpp"

#include <gtest/gtest.h>

namespace timing_wheel::detail {
namespace {

TEST(Sleeper, WaitsPastNothingBeforeItHasAnnounced) {
  sleeper s;
  EXPECT_FALSE(s.waits_past(0));
  EXPECT_FALSE(s.waits_past(1));
  EXPECT_FALSE(s.answer_for(1));
}

TEST(Sleeper, WaitsPastWhatIsEarlierThanItsAnnouncement) {
  sleeper s;
  s.announce(10);
  EXPECT_TRUE(s.waits_past(9));
  EXPECT_FALSE(s.waits_past(10));
  s.announce(never);
  EXPECT_TRUE(s.waits_past(10));
}

TEST(Sleeper, IsAnsweredByOneOfThoseWhoAreEarlier) {
  sleeper s;
  s.announce(10);
  EXPECT_TRUE(s.answer_for(9));
  EXPECT_FALSE(s.answer_for(8));
  EXPECT_FALSE(s.waits_past(8));
}

// The adder of 12 has seen an announcement of 20. Before it answers, the loop announces 10.
TEST(Sleeper, AnAnswerToAnOldAnnouncementLeavesTheNewOne) {
  sleeper s;
  s.announce(20);
  ASSERT_TRUE(s.waits_past(12));
  s.announce(10);
  EXPECT_FALSE(s.answer_for(12));
  EXPECT_TRUE(s.waits_past(9));
}

TEST(Sleeper, DoesNotSleepAfterAWakeUpAndThenNothingIsAnnounced) {
  sleeper s;
  s.announce(never);
  s.wake();
  EXPECT_FALSE(s.waits_past(0));
  EXPECT_FALSE(s.sleep(time_point::max()));
  EXPECT_EQ(s.earlier_wakeups(), 1U);
}

TEST(Sleeper, ANudgeLeavesWhatIsAnnounced) {
  sleeper s;
  s.announce(10);
  s.nudge();
  EXPECT_TRUE(s.waits_past(9));
  EXPECT_FALSE(s.sleep(time_point::max()));
  EXPECT_FALSE(s.waits_past(9));
}

TEST(Sleeper, SleepsToTheEndIfNobodyWakesIt) {
  sleeper s;
  s.announce(1);
  EXPECT_TRUE(s.sleep(time_point()));
  EXPECT_EQ(s.wakeups(), 1U);
  EXPECT_EQ(s.earlier_wakeups(), 0U);
}

TEST(Sleeper, TakesBackItsAnnouncementAndTheWakeUpsItHasCaused) {
  sleeper s;
  s.announce(10);
  s.wake();
  s.retract();
  EXPECT_FALSE(s.waits_past(9));
  EXPECT_TRUE(s.sleep(time_point()));
}

}  // namespace
}  // namespace timing_wheel::detail

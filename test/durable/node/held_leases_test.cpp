#include "durable/node/held_leases.hpp"

#include "durable/node/store_contact.hpp"
#include "durable/support/store_calls.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr instant origin{1000h};

class HeldLeases : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  std::stop_token hold(std::int64_t id, std::int64_t fence, std::chrono::microseconds at = 0s) {
    leases_.reserve(1);
    leases_.hold(id, fence, origin + at);
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    leases_.attach(id, std::move(stop));
    return token;
  }
  std::vector<std::int64_t> due(std::chrono::microseconds now) {
    asked_ = leases_.due(origin + now, 100);
    std::vector<std::int64_t> ids;
    for (const ticket& one : asked_) {
      ids.push_back(one.id);
    }
    return ids;
  }

  held_leases leases_{30s};
  std::vector<ticket> asked_;
};

TEST_F(HeldLeases, ALeaseIsExtendedAtEachThirdOfIt) {
  EXPECT_EQ(leases_.next_event(), instant::max());
  hold(1, 7);
  EXPECT_EQ(leases_.next_event(), origin + 10s);
  EXPECT_THAT(due(9999ms), IsEmpty());
  ASSERT_THAT(due(10s), ElementsAre(1));
  asked_[0].still_ours = true;
  EXPECT_THAT(leases_.extended(asked_, origin + 10s), IsEmpty());
  EXPECT_EQ(leases_.next_event(), origin + 20s);
  EXPECT_TRUE(leases_.may_begin(1, 7, origin + 22s));
  EXPECT_FALSE(leases_.may_begin(1, 7, origin + 23s));  // an extension is overdue
}

TEST_F(HeldLeases, ItIsHeldUntilTheEndIsWritten) {
  hold(1, 7);
  EXPECT_THAT(due(10s), ElementsAre(1));
  leases_.drop(1);
  EXPECT_EQ(leases_.next_event(), instant::max());
  asked_[0].still_ours = false;  // the answer comes after the end
  EXPECT_THAT(leases_.extended(asked_, origin + 10s), IsEmpty());
}

TEST_F(HeldLeases, AnotherClaimOfTheRowIsNoLostOne) {
  hold(1, 7);
  ASSERT_THAT(due(10s), ElementsAre(1));
  leases_.drop(1);
  const std::stop_token token = hold(1, 8, 10s);
  EXPECT_THAT(leases_.extended(asked_, origin + 10s), IsEmpty());
  EXPECT_FALSE(token.stop_requested());
  EXPECT_EQ(leases_.next_event(), origin + 20s);
  EXPECT_FALSE(leases_.may_begin(1, 7, origin + 11s));
}

TEST_F(HeldLeases, ALostOneIsAskedToStopAndNotExtendedAnyMore) {
  const std::stop_token token = hold(1, 7);
  ASSERT_THAT(due(10s), ElementsAre(1));
  EXPECT_THAT(leases_.extended(asked_, origin + 10s), ElementsAre(1));
  EXPECT_TRUE(token.stop_requested());
  EXPECT_EQ(leases_.next_event(), instant::max());
}

TEST_F(HeldLeases, ALockedOneIsTriedAgainSoonAndTheOthersAreExtended) {
  const std::stop_token token = hold(1, 7);
  hold(2, 8);
  ASSERT_THAT(due(10s), ElementsAre(1, 2));
  asked_[0].locked = true;
  asked_[1].still_ours = true;
  EXPECT_THAT(leases_.extended(asked_, origin + 10s), IsEmpty());
  EXPECT_FALSE(token.stop_requested());
  EXPECT_EQ(leases_.next_event(), origin + 10s + 250ms);
  EXPECT_THAT(due(10s + 250ms), ElementsAre(1));
}

TEST_F(HeldLeases, WhileTheStoreFailsAllAreTriedAgainSoon) {
  hold(1, 7);
  leases_.failed(origin + 10s);
  EXPECT_EQ(leases_.next_event(), origin + 10s + 250ms);
  ASSERT_THAT(due(50s), ElementsAre(1));  // ended long ago in the row, and still nobody else's
  asked_[0].still_ours = true;
  EXPECT_THAT(leases_.extended(asked_, origin + 50s), IsEmpty());
  EXPECT_EQ(leases_.next_event(), origin + 60s);
}

TEST_F(HeldLeases, StopsAllThatRun) {
  const std::stop_token one = hold(1, 7);
  const std::stop_token other = hold(2, 8);
  leases_.stop_all();
  EXPECT_TRUE(one.stop_requested());
  EXPECT_TRUE(other.stop_requested());
}

// ---- store_contact

class StoreContact : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  // Answers at once, each half second, until `to`.
  void works(std::chrono::microseconds from, std::chrono::microseconds to, bool writing = true) {
    for (auto at = from; at <= to; at += 500ms) {
      contact_.answered(origin + at, writing);
    }
  }
  bool takes_over(std::chrono::microseconds at) { return contact_.limit(origin + at) != instant::min(); }

  store_contact contact_{30s, 250ms};
};

TEST_F(StoreContact, ANewNodeWaitsForHalfALease) {
  EXPECT_FALSE(takes_over(0s));
  works(0s, 14s);
  EXPECT_FALSE(takes_over(14s));
  EXPECT_EQ(contact_.from(), origin + 15s);
  works(14500ms, 15s);
  EXPECT_TRUE(takes_over(15s));
  EXPECT_EQ(contact_.limit(origin + 15s), origin + 17500ms);
}

TEST_F(StoreContact, SoDoesOneWhoseStoreHasFailed) {
  works(0s, 20s);
  ASSERT_TRUE(takes_over(20s));
  contact_.failed(false);
  EXPECT_FALSE(takes_over(20s));
  EXPECT_EQ(contact_.from(), instant::max());
  works(20s, 34s);
  EXPECT_FALSE(takes_over(34s));
  works(34500ms, 35s);
  EXPECT_TRUE(takes_over(35s));
}

TEST_F(StoreContact, AWriteThatFailedIsMadeGoodByAWriteOnly) {
  works(0s, 20s);
  contact_.failed(true);
  contact_.failed(false);
  works(20s, 60s, false);
  EXPECT_EQ(contact_.from(), instant::max());
  works(60s, 60s);
  EXPECT_EQ(contact_.from(), origin + 75s);
}

TEST_F(StoreContact, AnAnswerThatTookHalfALeaseIsAnOutage) {
  works(0s, 20s);
  contact_.answered(origin + 26s, true);
  EXPECT_TRUE(takes_over(26s));
  contact_.answered(origin + 41001ms, true);
  EXPECT_EQ(contact_.from(), origin + 41001ms + 15s);
}

TEST_F(StoreContact, SoIsAClockThatJumps) {
  works(0s, 20s);
  works(1h, 1h);
  EXPECT_EQ(contact_.from(), origin + 1h + 15s);
  works(0s, 0s);
  EXPECT_EQ(contact_.from(), origin + 15s);
}

TEST_F(StoreContact, WhoHasOnlyReadTriesAWriteFirst) {
  works(0s, 20s);
  works(20s, 40s, false);
  EXPECT_FALSE(takes_over(40s));
  works(40s, 40s);
  EXPECT_EQ(contact_.from(), origin + 40s + 500ms);
  works(40500ms, 40500ms);
  EXPECT_TRUE(takes_over(40500ms));
}

TEST_F(StoreContact, ATransactionOfItsOwnIsNoSilenceThoughOthersMayHaveWaitedForIt) {
  works(0s, 20s);
  contact_.was_busy(40s, origin + 60s, true);
  works(60s, 60s);
  EXPECT_FALSE(takes_over(60s));
  EXPECT_TRUE(takes_over(60s + 500ms));
  contact_.was_busy(1s, origin + 61s, true);
  EXPECT_TRUE(takes_over(61s));
}

TEST_F(StoreContact, AClockThatJumpsDuringOneIsSeen) {
  works(0s, 20s);
  contact_.was_busy(1s, origin + 1h, true);
  EXPECT_FALSE(takes_over(1h));
  works(1h, 1h);
  EXPECT_EQ(contact_.from(), origin + 1h + 15s);
  contact_.was_busy(1s, origin + 21s, true);
  works(21s, 21s);
  EXPECT_EQ(contact_.from(), origin + 36s);
}

}  // namespace
}  // namespace timing_wheel::durable

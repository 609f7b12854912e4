#include "timing_wheel/detail/bucket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "support/allocation.hpp"

namespace timing_wheel::test {
namespace {

using detail::bucket;
using detail::bucket_store;
using detail::chunk;
using detail::entry;
using detail::entry_place;

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;
using slots = std::vector<timer_number>;

slots first_slots(timer_number count) {
  slots all(count);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// A bucket with a store of its own.
class Bucket : public ::testing::Test {
 protected:
  void add(timer_number s) { add_to(bucket_, s); }
  void add_to(bucket& b, timer_number s) {
    store_.cover(s);
    b.push_back(store_, {1'000 + s, s});
  }
  void add_first(timer_number count) {
    for (timer_number s = 0; s < count; ++s) {
      add(s);
    }
  }

  /// Takes out up to `count` from the front, as a flush does.
  slots poll(std::uint32_t count) {
    slots polled;
    while (count > 0 && !bucket_.empty()) {
      const auto run = bucket_.front_run();
      const auto taken = run.first(std::min<std::size_t>(count, run.size()));
      for (const entry& e : taken) {
        EXPECT_EQ(e.deadline_low, 1'000 + e.which);
        polled.push_back(e.which);
        store_.unlink(e.which);
      }
      bucket_.drop_front(store_, static_cast<std::uint32_t>(taken.size()));
      count -= static_cast<std::uint32_t>(taken.size());
    }
    return polled;
  }
  slots clear() { return poll(UINT32_MAX); }

  slots content() const {
    slots all;
    bucket_.for_each([&](const entry& e) { all.push_back(e.which); });
    return all;
  }
  void expect_content(const slots& expected) const {
    EXPECT_EQ(bucket_.size(), expected.size());
    EXPECT_EQ(bucket_.empty(), expected.empty());
    EXPECT_THAT(content(), UnorderedElementsAreArray(expected));
    EXPECT_TRUE(bucket_.invariants_hold(store_));
  }

  bucket_store store_;
  bucket bucket_;
};

TEST_F(Bucket, IsEmptyAtFirst) { expect_content({}); }

TEST_F(Bucket, PollsInTheOrderInWhichTheyWereAdded) {
  for (const timer_number s : {5U, 1U, 9U, 3U}) {
    add(s);
  }
  expect_content({5, 1, 9, 3});
  EXPECT_THAT(poll(1), ElementsAre(5));
  EXPECT_THAT(poll(2), ElementsAre(1, 9));
  expect_content({3});
  EXPECT_THAT(clear(), ElementsAre(3));
  expect_content({});
}

TEST_F(Bucket, ErasesTheOnlyElement) {
  add(8);
  bucket_.erase(store_, 8);
  expect_content({});
  EXPECT_FALSE(store_.linked(8));
  add(8);
  expect_content({8});
}

TEST_F(Bucket, ErasesHeadMiddleAndTail) {
  for (const timer_number victim : {0U, 2U, 4U}) {
    clear();
    add_first(5);
    bucket_.erase(store_, victim);
    slots rest = first_slots(5);
    std::erase(rest, victim);
    expect_content(rest);
    EXPECT_FALSE(store_.linked(victim));
  }
}

TEST_F(Bucket, ErasedTimerIsReplacedByTheLastOne) {
  for (const timer_number s : {7U, 8U, 9U}) {
    add(s);
  }
  bucket_.erase(store_, 7);
  EXPECT_THAT(clear(), ElementsAre(9, 8));
}

TEST_F(Bucket, ErasesAnyElementAcrossChunkBorders) {
  for (const timer_number count : {1U, 2U, 63U, 64U, 65U, 127U, 128U, 129U}) {
    for (timer_number victim = 0; victim < count; ++victim) {
      add_first(count);
      bucket_.erase(store_, victim);
      slots rest = first_slots(count);
      std::erase(rest, victim);
      expect_content(rest);
      EXPECT_THAT(clear(), UnorderedElementsAreArray(rest));
      ASSERT_FALSE(HasFailure()) << victim << " of " << count;
    }
  }
}

TEST_F(Bucket, ErasesEverythingFromEitherEnd) {
  for (const timer_number count : {63U, 64U, 65U, 128U, 200U}) {
    for (const bool from_front : {true, false}) {
      add_first(count);
      for (timer_number i = 0; i < count; ++i) {
        bucket_.erase(store_, from_front ? i : count - 1 - i);
        ASSERT_EQ(bucket_.size(), count - 1 - i);
        ASSERT_TRUE(bucket_.invariants_hold(store_)) << i << " of " << count;
      }
      expect_content({});
    }
  }
}

TEST_F(Bucket, ClearGivesOnlyLiveOnes) {
  add_first(300);
  slots live;
  for (timer_number s = 0; s < 300; ++s) {
    if (s % 3 == 0) {
      bucket_.erase(store_, s);
    } else {
      live.push_back(s);
    }
  }
  expect_content(live);
  EXPECT_THAT(clear(), UnorderedElementsAreArray(live));
  expect_content({});
}

TEST_F(Bucket, FrontRunEndsAtTheChunkBorder) {
  for (const timer_number count : {1U, 63U, 64U, 65U, 128U, 130U}) {
    add_first(count);
    EXPECT_EQ(bucket_.front_run().size(), std::min(count, chunk::capacity));
    poll(10);
    if (count > 10) {
      EXPECT_EQ(bucket_.front_run().size(), std::min(count, chunk::capacity) - 10);
    }
    clear();
  }
}

TEST_F(Bucket, PollsAllInOrderWhateverTheStep) {
  for (const timer_number count : {63U, 64U, 65U, 128U, 200U}) {
    for (std::uint32_t step = 1; step <= 130; ++step) {
      add_first(count);
      slots polled;
      while (!bucket_.empty()) {
        const slots some = poll(step);
        polled.insert(polled.end(), some.begin(), some.end());
        ASSERT_TRUE(bucket_.invariants_hold(store_)) << "steps of " << step << " of " << count;
      }
      ASSERT_EQ(polled, first_slots(count));
    }
  }
}

TEST_F(Bucket, ErasesAnyElementAfterAPartialDrain) {
  for (const timer_number count : {2U, 64U, 65U, 129U}) {
    for (const std::uint32_t drained : {1U, 63U, 64U, 65U, 128U}) {
      for (timer_number victim = drained; victim < count; ++victim) {
        add_first(count);
        poll(drained);
        bucket_.erase(store_, victim);
        slots rest = first_slots(count);
        rest.erase(rest.begin(), rest.begin() + drained);
        std::erase(rest, victim);
        expect_content(rest);
        EXPECT_THAT(clear(), UnorderedElementsAreArray(rest));
        ASSERT_FALSE(HasFailure()) << victim << " of " << count << " after " << drained;
      }
    }
  }
}

TEST_F(Bucket, TakesNewOnesAfterAPartialDrain) {
  for (const std::uint32_t drained : {1U, 63U, 64U, 65U, 100U}) {
    add_first(100);
    poll(drained);
    for (timer_number s = 500; s < 600; ++s) {
      add(s);
    }
    slots expected = first_slots(100);
    expected.erase(expected.begin(), expected.begin() + drained);
    for (timer_number s = 500; s < 600; ++s) {
      expected.push_back(s);
    }
    EXPECT_EQ(content(), expected);
    EXPECT_EQ(clear(), expected);
  }
}

TEST_F(Bucket, RandomAddsErasesAndPollsAgreeWithASet) {
  std::mt19937 random(9);
  std::set<timer_number> expected;
  for (int step = 0; step < 30'000; ++step) {
    const auto s = static_cast<timer_number>(random() % 400);
    ASSERT_EQ(store_.linked(s), expected.count(s) != 0);
    if (random() % 40 == 0) {
      for (const timer_number polled : poll(static_cast<std::uint32_t>(random() % 100))) {
        ASSERT_EQ(expected.erase(polled), 1U);
      }
    } else if (expected.insert(s).second) {
      add(s);
    } else if (random() % 4 == 0) {
      bucket_.erase(store_, s);
      expected.erase(s);
    }
    ASSERT_EQ(bucket_.size(), expected.size());
    ASSERT_TRUE(bucket_.invariants_hold(store_));
  }
  expect_content(slots(expected.begin(), expected.end()));
}

TEST_F(Bucket, TwoBucketsOfOneStoreDoNotMix) {
  bucket other;
  for (timer_number s = 0; s < 200; ++s) {
    add_to(s % 2 == 0 ? bucket_ : other, s);
  }
  for (timer_number s = 0; s < 200; s += 4) {
    bucket_.erase(store_, s);
    EXPECT_EQ(store_.owner(store_.place(s + 1)), &other);
  }
  EXPECT_EQ(bucket_.size(), 50U);
  EXPECT_EQ(other.size(), 100U);
  EXPECT_TRUE(bucket_.invariants_hold(store_));
  EXPECT_TRUE(other.invariants_hold(store_));
}

TEST_F(Bucket, InvariantsDoNotHoldInTheStoreOfAnother) {
  bucket_store other_store;
  bucket other;
  other_store.cover(3);
  other.push_back(other_store, {1'003, 3});
  add(3);
  EXPECT_FALSE(bucket_.invariants_hold(other_store));
  EXPECT_FALSE(other.invariants_hold(store_));
}

TEST_F(Bucket, InvariantsDoNotHoldWhileTheStoreHasLostAnEntry) {
  add_first(3);
  const entry_place place = store_.place(1);
  store_.unlink(1);
  EXPECT_FALSE(bucket_.invariants_hold(store_));
  store_.set_place(1, store_.place(2));
  EXPECT_FALSE(bucket_.invariants_hold(store_));
  store_.set_place(1, place);
  EXPECT_TRUE(bucket_.invariants_hold(store_));
}

TEST_F(Bucket, TakesTheChunksOfAnotherInOrder) {
  bucket other;
  add_first(150);
  for (const timer_number left : {86U, 22U, 0U}) {
    ASSERT_TRUE(other.splice_front_chunk(store_, bucket_));
    EXPECT_EQ(bucket_.size(), left);
    EXPECT_TRUE(bucket_.invariants_hold(store_));
    EXPECT_TRUE(other.invariants_hold(store_));
  }
  slots moved;
  other.for_each([&](const entry& e) { moved.push_back(e.which); });
  EXPECT_EQ(moved, first_slots(150));
}

TEST_F(Bucket, TakesNoChunkWhereThatWouldLeaveAGap) {
  bucket other;
  add_to(other, 1'000);
  add_first(100);
  EXPECT_FALSE(other.splice_front_chunk(store_, bucket_)) << "behind a chunk that is not full";
  for (timer_number s = 1'001; s < 1'064; ++s) {
    add_to(other, s);
  }
  poll(1);
  EXPECT_FALSE(other.splice_front_chunk(store_, bucket_)) << "a chunk that is partly emptied";
  EXPECT_EQ(bucket_.size(), 99U);
  EXPECT_EQ(other.size(), 64U);
}

TEST_F(Bucket, TakesAChunkThatIsPartlyEmptiedIntoAnEmptyOne) {
  bucket other;
  add_first(70);
  poll(3);
  ASSERT_TRUE(other.splice_front_chunk(store_, bucket_));
  EXPECT_EQ(other.size(), 61U);
  EXPECT_EQ(other.front_run().front().which, 3U);
  other.erase(store_, 40);
  add_to(other, 40);
  EXPECT_TRUE(other.invariants_hold(store_));
  EXPECT_TRUE(bucket_.invariants_hold(store_));
}

TEST_F(Bucket, DeadlineIsRestoredFromItsLowerHalf) {
  constexpr tick two_to_32 = tick{1} << 32U;
  for (const tick expiration : {tick{0}, tick{5}, two_to_32 - 1, two_to_32, 7 * two_to_32 - 3, never - two_to_32}) {
    bucket_.set_expiration(expiration);
    for (const tick after : {tick{0}, tick{1}, tick{1} << 31U, two_to_32 - 2, two_to_32 - 1}) {
      const tick deadline = expiration + after;
      EXPECT_EQ(bucket_.deadline_of({static_cast<std::uint32_t>(deadline), 0}), deadline) << "from " << expiration;
    }
  }
}

TEST_F(Bucket, KeepsItsExpirationAndNumber) {
  bucket_.set_expiration(never);
  bucket_.set_number(UINT32_MAX);
  add_first(70);
  clear();
  EXPECT_EQ(bucket_.expiration(), never);
  EXPECT_EQ(bucket_.number(), UINT32_MAX);
}

TEST_F(Bucket, PushThatFindsNoMemoryChangesNothing) {
  timer_number pending = 64 * 64;  // takes all chunks of a page
  add_first(pending);
  bool succeeded = false;
  for (std::uint64_t left = 0; !succeeded; ++left) {
    store_.cover(pending);
    succeeded = succeeds_with(left, [&] { bucket_.push_back(store_, {1'000 + pending, pending}); });
    EXPECT_EQ(store_.linked(pending), succeeded);
    expect_content(first_slots(pending + (succeeded ? 1 : 0)));
    EXPECT_TRUE(left > 0 || !succeeded);
  }
  EXPECT_EQ(clear(), first_slots(pending + 1));
}

TEST_F(Bucket, PushRepeatedAfterAFailureHoardsNoMemory) {
  const timer_number pending = 5 * 64 * 64;  // takes all chunks of five pages
  add_first(pending);
  store_.cover(pending);
  const std::size_t bytes = store_.bytes();
  bool succeeded = false;
  for (int attempt = 0; attempt < 20 && !succeeded; ++attempt) {
    succeeded = succeeds_with(1, [&] { bucket_.push_back(store_, {1'000 + pending, pending}); });
  }
  EXPECT_TRUE(succeeded);
  EXPECT_LE(store_.bytes(), bytes + bytes / 4);
}

TEST_F(Bucket, CoverThatFindsNoMemoryChangesNothing) {
  ASSERT_FALSE(succeeds_with(0, [&] { store_.cover(100); }));
  EXPECT_FALSE(store_.linked(100));
  store_.cover(100);
  EXPECT_FALSE(store_.linked(100));
  add(100);
  expect_content({100});
}

TEST_F(Bucket, ChunksAreUsedAgain) {
  add_first(10'000);
  clear();
  const std::size_t bytes = store_.bytes();
  for (int round = 0; round < 10; ++round) {
    EXPECT_EQ(count_allocations([&] { add_first(10'000); }), 0U);
    for (timer_number s = 0; s < 10'000; ++s) {
      bucket_.erase(store_, s);
    }
  }
  EXPECT_EQ(store_.bytes(), bytes);
}

TEST_F(Bucket, ChunkThatFallsEmptyGoesBackAtOnce) {
  add_first(64 * 64);  // a page of chunks
  for (timer_number s = 0; s < 64; ++s) {
    bucket_.erase(store_, s);
  }
  bucket other;
  EXPECT_EQ(count_allocations([&] { add_to(other, 0); }), 0U);
}

TEST_F(Bucket, PolledChunkGoesBackAtOnce) {
  add_first(64 * 64);
  poll(64);
  bucket other;
  EXPECT_EQ(count_allocations([&] { add_to(other, 0); }), 0U);
}

}  // namespace
}  // namespace timing_wheel::test

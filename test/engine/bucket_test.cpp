#include "timing_wheel/detail/engine/bucket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
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

using ::testing::UnorderedElementsAreArray;
using timer_numbers = std::vector<timer_number>;

timer_numbers first_numbers(timer_number count) {
  timer_numbers all(count);
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
  timer_numbers poll(std::uint32_t count) {
    timer_numbers polled;
    std::size_t left = count;
    while (left > 0 && !bucket_.empty()) {
      bucket_.flush_front(store_, left, [&](const entry& e) {
        EXPECT_EQ(e.deadline_low, 1'000 + e.which);
        polled.push_back(e.which);
        store_.unlink(e.which);
      });
    }
    return polled;
  }
  timer_numbers clear() { return poll(UINT32_MAX); }
  /// \returns the bucket if it is empty after that.
  const bucket* erase(timer_number s) {
    const detail::entry_place p = store_.place(s);
    return bucket::erase(store_, s, p) ? bucket::close_gaps(store_, p) : nullptr;
  }
  void erase_range(timer_number from, timer_number to) {
    for (timer_number s = from; s < to; ++s) {
      erase(s);
    }
  }

  timer_numbers content() const {
    timer_numbers all;
    bucket_.for_each(store_, [&](const entry& e) { all.push_back(e.which); });
    return all;
  }
  void expect_content(const timer_numbers& expected) const {
    EXPECT_EQ(bucket_.size(store_), expected.size());
    EXPECT_EQ(bucket_.empty(), expected.empty());
    EXPECT_THAT(content(), UnorderedElementsAreArray(expected));
    EXPECT_TRUE(bucket_.invariants_hold(store_));
  }

  /// How many chunks the bucket has.
  std::size_t chunks() const {
    std::set<const void*> found;
    bucket_.for_each(store_, [&](const entry& e) { found.insert(&store_.chunk_of(store_.place(e.which))); });
    return found.size();
  }
  /// The size of the one chunk that the bucket has.
  std::size_t bytes_per_chunk() const {
    EXPECT_EQ(chunks(), 1U);
    std::size_t bytes = 0;
    bucket_.for_each(store_, [&](const entry& e) {
      bytes = store_.chunk_of(store_.place(e.which)).is_small() ? sizeof(detail::chunk_of_room<chunk::small_capacity>)
                                                                : sizeof(detail::chunk_of_room<chunk::capacity>);
    });
    return bytes;
  }

  static constexpr timer_number small = chunk::small_capacity;
  static constexpr timer_number full = chunk::capacity;

  bucket_store store_;
  bucket bucket_{};
};

TEST_F(Bucket, KeepsTheOrderOfWhatAnEraseLeaves) {
  add_first(130);
  erase_range(20, 25);
  erase_range(70, 75);
  timer_numbers rest = first_numbers(130);
  std::erase_if(rest, [](timer_number s) { return (s >= 20 && s < 25) || (s >= 70 && s < 75); });
  EXPECT_EQ(clear(), rest);
}

TEST_F(Bucket, EraseTellsWhenTheBucketHasFallenEmpty) {
  add_first(2);
  EXPECT_EQ(erase(0), nullptr);
  EXPECT_EQ(erase(1), &bucket_);
  EXPECT_TRUE(bucket_.empty());
}

TEST_F(Bucket, TwoSparseNeighboursBecomeOne) {
  add_first(small + 2 * full);
  poll(small);
  EXPECT_EQ(chunks(), 2U);
  erase_range(small, small + 31);
  erase_range(small + full, small + full + 32);
  EXPECT_EQ(chunks(), 2U) << "33 and 32 do not fit into one";
  erase(small + 31);
  EXPECT_EQ(chunks(), 1U);
  EXPECT_TRUE(bucket_.invariants_hold(store_));
  EXPECT_EQ(bucket_.size(store_), full);
}

TEST_F(Bucket, ASparseChunkAndTheSmallOneBeforeItBecomeOne) {
  add_first(small + 2 * full);
  erase_range(small, small + 16);
  EXPECT_EQ(chunks(), 2U) << "48 and 12 fit";
  EXPECT_TRUE(bucket_.invariants_hold(store_));
}

TEST_F(Bucket, TheLastChunkIsFilledOnWhereAHalfOfItIsDead) {
  add_first(small + full - 1);
  erase_range(small, small + 32);
  const std::size_t before = chunks();
  add(small + full - 1);
  add(small + full);
  EXPECT_EQ(chunks(), before);
  EXPECT_TRUE(bucket_.invariants_hold(store_));
}

TEST_F(Bucket, GoesBackToASmallChunkWhereFewAreLeft) {
  add_first(small + full);
  erase_range(0, small + full - 5);
  ASSERT_EQ(bytes_per_chunk(), sizeof(detail::chunk_of_room<chunk::capacity>));
  add(500);
  EXPECT_EQ(bytes_per_chunk(), sizeof(detail::chunk_of_room<chunk::small_capacity>));
  expect_content({small + full - 5, small + full - 4, small + full - 3, small + full - 2, small + full - 1, 500});
}

// Whatever survives of what comes and goes: every chunk but the ends and its neighbour hold fifty.
TEST_F(Bucket, ChunksStayFullWhicheverEntriesSurvive) {
  for (const timer_number every : {2U, 3U, 7U, 16U, 17U, 63U, 64U, 65U}) {
    constexpr timer_number count = 6'000;
    timer_numbers kept;
    for (timer_number s = 0; s < count; ++s) {
      add(s);
      if (s % every == 0) {
        kept.push_back(s);
      } else {
        erase(s);
      }
    }
    EXPECT_TRUE(bucket_.invariants_hold(store_)) << every;
    EXPECT_LE(chunks(), kept.size() / 25 + 3) << every;
    EXPECT_THAT(clear(), UnorderedElementsAreArray(kept));
  }
}

TEST_F(Bucket, ChunksStayFullInWhicheverOrderEntriesAreErased) {
  for (const timer_number every : {2U, 3U, 7U, 16U, 17U, 63U, 64U, 65U}) {
    constexpr timer_number count = 6'000;
    add_first(count);
    std::size_t left = count;
    for (timer_number first = 0; first + 1 < every; ++first) {
      for (timer_number s = first; s < count; s += every, --left) {
        erase(s);
      }
      ASSERT_TRUE(bucket_.invariants_hold(store_)) << every;
      ASSERT_LE(chunks(), left / 25 + 3) << every;
    }
    EXPECT_EQ(clear().size(), left);
  }
}

TEST_F(Bucket, FrontRunEndsAtTheChunkBorder) {
  for (const timer_number count : {1U, small - 1, small, small + 1, small + full}) {
    add_first(count);
    EXPECT_EQ(bucket_.front_run(store_).size(), std::min(count, small));
    EXPECT_EQ(bucket_.front_count(store_), std::min(count, small));
    poll(5);
    if (count > 5) {
      EXPECT_EQ(bucket_.front_run(store_).size(), std::min(count, small) - 5);
    }
    clear();
  }
}

TEST_F(Bucket, FrontRunHasTheGapsBetweenLiveEntries) {
  add_first(6);
  for (const timer_number s : {0U, 2U, 5U}) {
    erase(s);
  }
  EXPECT_EQ(bucket_.front_count(store_), 3U);
  const auto run = bucket_.front_run(store_);
  ASSERT_EQ(run.size(), 4U);
  EXPECT_EQ(run.front().which, 1U);
  EXPECT_EQ(run.back().which, 4U);
}

TEST_F(Bucket, WhatWasVisitedHasLeftWhenAVisitThrows) {
  add_first(5);
  std::size_t budget = 4;
  const auto visit = [&](const entry& e) {
    if (e.which == 2) {
      throw std::bad_alloc();
    }
    store_.unlink(e.which);
  };
  EXPECT_THROW(bucket_.flush_front(store_, budget, visit), std::bad_alloc);
  EXPECT_EQ(budget, 2U);
  expect_content({2, 3, 4});
}

TEST_F(Bucket, PollsAllInOrderWhateverTheStep) {
  for (const timer_number count : {63U, 64U, 65U, 128U, 200U}) {
    for (std::uint32_t step = 1; step <= 130; ++step) {
      add_first(count);
      timer_numbers polled;
      while (!bucket_.empty()) {
        const timer_numbers some = poll(step);
        polled.insert(polled.end(), some.begin(), some.end());
        ASSERT_TRUE(bucket_.invariants_hold(store_)) << "steps of " << step << " of " << count;
      }
      ASSERT_EQ(polled, first_numbers(count));
    }
  }
}

TEST_F(Bucket, ErasesAnyElementAfterAPartialDrain) {
  for (const timer_number count : {1U, 2U, 63U, 64U, 65U, 127U, 128U, 129U}) {
    for (const std::uint32_t drained : {0U, 1U, 63U, 64U, 65U, 128U}) {
      for (timer_number victim = drained; victim < count; ++victim) {
        add_first(count);
        poll(drained);
        erase(victim);
        timer_numbers rest = first_numbers(count);
        rest.erase(rest.begin(), rest.begin() + drained);
        std::erase(rest, victim);
        expect_content(rest);
        EXPECT_THAT(clear(), UnorderedElementsAreArray(rest));
        ASSERT_FALSE(HasFailure()) << victim << " of " << count << " after " << drained;
      }
    }
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
      erase(s);
      expected.erase(s);
    }
    ASSERT_EQ(bucket_.size(store_), expected.size());
    ASSERT_TRUE(bucket_.invariants_hold(store_));
  }
  expect_content(timer_numbers(expected.begin(), expected.end()));
}

TEST_F(Bucket, TwoBucketsOfOneStoreDoNotMix) {
  bucket other{};
  for (timer_number s = 0; s < 200; ++s) {
    add_to(s % 2 == 0 ? bucket_ : other, s);
  }
  for (timer_number s = 0; s < 200; s += 4) {
    erase(s);
    EXPECT_EQ(store_.owner(store_.place(s + 1)), &other);
  }
  EXPECT_EQ(bucket_.size(store_), 50U);
  EXPECT_EQ(other.size(store_), 100U);
  EXPECT_TRUE(bucket_.invariants_hold(store_));
  EXPECT_TRUE(other.invariants_hold(store_));
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
  bucket other{};
  add_first(small + 2 * full + 10);
  poll(small);
  for (const timer_number left : {full + 10, 10U, 0U}) {
    ASSERT_TRUE(other.splice_front_chunk(store_, bucket_));
    EXPECT_EQ(bucket_.size(store_), left);
    EXPECT_TRUE(bucket_.invariants_hold(store_));
    EXPECT_TRUE(other.invariants_hold(store_));
  }
  timer_numbers moved;
  other.for_each(store_, [&](const entry& e) { moved.push_back(e.which); });
  timer_numbers expected = first_numbers(small + 2 * full + 10);
  expected.erase(expected.begin(), expected.begin() + small);
  EXPECT_EQ(moved, expected);
}

TEST_F(Bucket, TakesNoChunkWhoseEntriesFitBehindItsOwn) {
  bucket other{};
  add_to(other, 1'000);
  add_first(small + full);
  EXPECT_FALSE(other.splice_front_chunk(store_, bucket_)) << "1 and 12";
  EXPECT_EQ(bucket_.size(store_), small + full);
  EXPECT_EQ(other.size(store_), 1U);
}

TEST_F(Bucket, TakesAChunkWithGapsAndFillsItOn) {
  bucket other{};
  add_first(small);
  poll(3);
  erase(5);
  ASSERT_TRUE(other.splice_front_chunk(store_, bucket_));
  EXPECT_EQ(other.size(store_), small - 4);
  EXPECT_EQ(other.front_run(store_).front().which, 3U);
  erase(7);
  add_to(other, 7);
  EXPECT_TRUE(other.invariants_hold(store_));
  EXPECT_TRUE(bucket_.invariants_hold(store_));
  add(500);
  expect_content({500});
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
  timer_number pending = small + 64 * full;  // takes all chunks of a page
  add_first(pending);
  bool succeeded = false;
  for (std::uint64_t left = 0; !succeeded; ++left) {
    store_.cover(pending);
    succeeded = succeeds_with(left, [&] { bucket_.push_back(store_, {1'000 + pending, pending}); });
    EXPECT_EQ(store_.linked(pending), succeeded);
    expect_content(first_numbers(pending + (succeeded ? 1 : 0)));
    EXPECT_TRUE(left > 0 || !succeeded);
  }
  EXPECT_EQ(clear(), first_numbers(pending + 1));
}

TEST_F(Bucket, PushRepeatedAfterAFailureHoardsNoMemory) {
  const timer_number pending = small + 5 * 64 * full;  // takes all large chunks of five pages
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

TEST_F(Bucket, ASpareChunkOfEitherKindTakesNoMemory) {
  for (int i = 0; i < 1'000; ++i) {
    store_.keep_spare();
    ASSERT_EQ(count_allocations([&] { static_cast<void>(store_.acquire(i % 3 == 0)); }), 0U) << i;
  }
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
      erase(s);
    }
  }
  EXPECT_EQ(store_.bytes(), bytes);
}

TEST_F(Bucket, ChunkThatFallsEmptyGoesBackAtOnce) {
  add_first(small + 64 * full);  // a page of chunks
  poll(small);
  erase_range(small, small + full);
  EXPECT_EQ(count_allocations([&] {
              for (timer_number s = small; s < small + full; ++s) {
                add(s);
              }
            }),
            0U);
}

TEST_F(Bucket, PolledChunkGoesBackAtOnce) {
  add_first(small + 64 * full);
  poll(small + full);
  EXPECT_EQ(count_allocations([&] {
              for (timer_number s = 0; s < full; ++s) {
                add(s);
              }
            }),
            0U);
}

}  // namespace
}  // namespace timing_wheel::test

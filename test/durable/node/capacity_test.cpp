#include "durable/node/capacity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "durable/node/run_queue.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr instant at_first{1'000'000s};

std::unique_ptr<leased_run> run_of(std::int64_t id, std::uint32_t kind = 0, instant due = at_first) {
  return std::make_unique<leased_run>(claimed{.id = id, .kind = kind, .key = {}, .payload = {}},
                                      job({"kind", "key", "payload", due, 1, id}, std::stop_token()));
}

// The ids of what is over, which goes away.
std::vector<std::int64_t> ended(run_queue& runs) {
  std::vector<std::int64_t> ids;
  run_list over = runs.take_ended();
  over.clear_and_dispose([&](leased_run* one) {
    ids.push_back(one->id);
    std::default_delete<leased_run>()(one);
  });
  return ids;
}

class RunQueue : public testing::Test {
 protected:
  void push(std::int64_t id, std::chrono::milliseconds at = 0ms, std::uint32_t kind = 0) {
    asked_ += runs_.push(run_of(id, kind, at_first - at), at_first + at) ? 1 : 0;
  }
  run_queue runs_{2};
  int asked_ = 0;
};

TEST_F(RunQueue, TheRunThatHasWaitedLongestBegins) {
  push(1);
  push(2, 1ms);
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(runs_.begin(at_first + 5ms)->id, 1);
  leased_run* const second = runs_.begin(at_first + 6ms);
  EXPECT_EQ(second->id, 2);
  EXPECT_EQ(runs_.running(), 2U);
  EXPECT_EQ(runs_.look(at_first + 5ms, 0us, std::array<std::chrono::microseconds, 2>{}, 0us).young, 1U);
  runs_.end(*second);
  EXPECT_EQ(runs_.running(), 1U);
  EXPECT_FALSE(runs_.empty());
  EXPECT_THAT(ended(runs_), ElementsAre(2));
}

TEST_F(RunQueue, WhatHasWaitedForTooLongIsOverAndTheThreadThatComesForItTakesTheNext) {
  push(1);
  push(2, 10ms);
  runs_.end_late(at_first + 10ms);
  EXPECT_THAT(ended(runs_), ElementsAre(1));
  push(3, 20ms);
  EXPECT_EQ(asked_, 2) << "one of the threads on their way is for it";
  EXPECT_EQ(runs_.begin(at_first)->id, 2);
  EXPECT_EQ(runs_.begin(at_first)->id, 3);
  EXPECT_EQ(runs_.first(), instant::max());
}

TEST_F(RunQueue, AThreadThatComesForWhatIsOverFindsNothing) {
  push(1);
  runs_.end_late(instant::max());
  EXPECT_EQ(runs_.begin(at_first), nullptr);
  EXPECT_EQ(runs_.running(), 0U);
  push(2);
  EXPECT_EQ(asked_, 2);
}

TEST_F(RunQueue, AThreadThatDoesNotComeEndsTheLastRunUnlessAnotherComesForIt) {
  push(1);
  push(2, 1ms);
  runs_.drop();
  EXPECT_THAT(ended(runs_), ElementsAre(2));
  runs_.end_late(instant::max());
  runs_.drop();
  EXPECT_THAT(ended(runs_), ElementsAre(1));
  EXPECT_TRUE(runs_.empty());
}

TEST_F(RunQueue, ARunPastItsLimitIsToBeAskedToStopAndHalfAsLongLaterGivenUp) {
  constexpr std::array<std::chrono::microseconds, 2> limits{10ms, std::chrono::microseconds::max()};
  push(1);
  push(2, 0ms, 1);
  EXPECT_EQ(runs_.next_limit(limits), instant::max());
  leased_run* const slow = runs_.begin(at_first);
  leased_run* const unlimited = runs_.begin(at_first);
  EXPECT_EQ(runs_.next_limit(limits), at_first + 10ms);
  EXPECT_THAT(runs_.past_limit(limits, at_first + 10ms - 1us), IsEmpty());
  const std::vector<slow_run> first = runs_.past_limit(limits, at_first + 10ms);
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].id, 1);
  EXPECT_EQ(first[0].key, "key");
  EXPECT_FALSE(first[0].given_up);
  EXPECT_EQ(runs_.next_limit(limits), at_first + 15ms);
  EXPECT_EQ(runs_.lost(), 0U);
  EXPECT_TRUE(runs_.past_limit(limits, at_first + 20ms).at(0).given_up);
  EXPECT_EQ(runs_.next_limit(limits), instant::max());
  EXPECT_EQ(runs_.running(), 1U);
  EXPECT_EQ(runs_.lost(), 1U);
  std::array<std::size_t, 2> lost{7, 7};
  runs_.count_lost(lost);
  EXPECT_THAT(lost, ElementsAre(1, 0));
  EXPECT_FALSE(runs_.is_written_off(*slow));
  EXPECT_EQ(runs_.unfinished(at_first + 30ms).size(), 2U);
  EXPECT_EQ(runs_.end(*unlimited), nullptr);
  EXPECT_THAT(ended(runs_), ElementsAre(2));
  EXPECT_TRUE(runs_.empty()) << "nobody waits for what was given up";
  EXPECT_EQ(runs_.take_given_up().at(0).id, 1);
  EXPECT_THAT(runs_.take_given_up(), IsEmpty());
  EXPECT_TRUE(runs_.is_written_off(*slow));
  EXPECT_EQ(runs_.end(*slow).get(), slow);
  EXPECT_THAT(ended(runs_), IsEmpty());
  EXPECT_EQ(runs_.lost(), 0U);
}

// Between the two, the node has not written that it was given up.
TEST_F(RunQueue, ARunThatReturnsJustAfterItWasGivenUpEndsAsAnyOther) {
  constexpr std::array<std::chrono::microseconds, 2> limits{10ms, 10ms};
  push(1);
  leased_run* const slow = runs_.begin(at_first);
  EXPECT_FALSE(runs_.past_limit(limits, at_first + 20ms).at(0).given_up);
  EXPECT_TRUE(runs_.past_limit(limits, at_first + 20ms).at(0).given_up);
  EXPECT_EQ(runs_.end(*slow), nullptr);
  EXPECT_THAT(runs_.take_given_up(), IsEmpty());
  EXPECT_THAT(ended(runs_), ElementsAre(1));
}

TEST_F(RunQueue, CountsByKind) {
  push(1, 3ms);
  push(2, 4ms, 1);
  push(3, 5ms, 1);
  static_cast<void>(runs_.begin(at_first + 9ms));
  std::array<std::size_t, 2> waiting{};
  std::array<std::size_t, 2> running{};
  std::array<instant, 2> oldest{};
  std::array<instant, 2> since{};
  runs_.count(waiting, running, oldest, since);
  EXPECT_THAT(since, ElementsAre(at_first + 9ms, instant::max()));
  EXPECT_THAT(waiting, ElementsAre(0, 2));
  EXPECT_THAT(running, ElementsAre(1, 0));
  EXPECT_THAT(oldest, ElementsAre(instant::max(), at_first - 5ms));
  const run_queue::state all = runs_.look(at_first, 0us, std::array<std::chrono::microseconds, 2>{1ms, 3ms}, 2ms);
  EXPECT_EQ(all.work, 6ms);
  EXPECT_EQ(all.asked, 2U);
  EXPECT_EQ(all.waiting, 2U);
  EXPECT_EQ(all.running, 1U);
  const std::vector<ticket> late = runs_.forbid_late(at_first + 5ms);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].id, 2);
  EXPECT_EQ(late[0].fence, 2);
  EXPECT_FALSE(runs_.begin(at_first)->may_begin);
  EXPECT_TRUE(runs_.begin(at_first)->may_begin);
}

// A run begins on a thread, or is taken back; both never, and each once.
TEST_F(RunQueue, ARunThatIsTakenBackByOneThreadIsNotBegunByAnother) {
  constexpr std::int64_t count = 5000;
  std::vector<std::int64_t> over;
  std::atomic<bool> done{false};
  std::jthread worker([&] {
    while (!done.load()) {
      if (runs_.first() == instant::max()) {
        continue;
      }
      if (leased_run* const mine = runs_.begin(at_first); mine != nullptr) {
        EXPECT_FALSE(std::exchange(mine->ran, true));
        runs_.end(*mine);
      }
      static_cast<void>(runs_.push(run_of(count + 1), at_first));  // a thread on its way, for the next look
      runs_.end_late(instant::max());
    }
  });
  for (std::int64_t id = 1; id <= count; ++id) {
    static_cast<void>(runs_.push(run_of(id), at_first));
    runs_.end_late(instant::max());
    std::ranges::copy(ended(runs_), std::back_inserter(over));
  }
  done = true;
  worker.join();
  std::ranges::copy(ended(runs_), std::back_inserter(over));
  std::erase_if(over, [](std::int64_t one) { return one > count; });
  std::sort(over.begin(), over.end());
  ASSERT_EQ(over.size(), static_cast<std::size_t>(count));
  EXPECT_EQ(std::adjacent_find(over.begin(), over.end()), over.end());
}

class Capacity : public testing::Test {
 protected:
  // How many rows of a kind may be asked for.
  std::size_t room(capacity& of, std::uint32_t kind = 0, std::size_t rows = 500) {
    allowance left = of.now(runs_, at_first, rows);
    std::size_t count = 0;
    while (left.admit(kind, 0)) {
      ++count;
    }
    return count;
  }
  void push(std::size_t count, std::uint32_t kind = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<void>(runs_.push(run_of(static_cast<std::int64_t>(i), kind), at_first));
    }
  }
  void begin(std::size_t count, instant since) {
    push(count);
    for (std::size_t i = 0; i < count; ++i) {
      running_.push_back(runs_.begin(since));
    }
  }
  run_queue runs_{2};
  std::vector<leased_run*> running_;
};

TEST_F(Capacity, OfAKindThatHasNotRunEachFreeThreadGetsOne) {
  capacity four(2, 4);
  EXPECT_EQ(room(four), 4U);
  begin(1, at_first - 1h);
  EXPECT_EQ(room(four), 3U);
  push(2);
  EXPECT_EQ(room(four), 1U);
  push(2);
  EXPECT_EQ(room(four), 0U);
}

TEST_F(Capacity, BeyondThatAsMuchAsTheThreadsDoInTwoRoundTrips) {
  capacity two(2, 2);
  two.ran(0, 1ms);
  EXPECT_EQ(room(two), 4U) << "2 threads * 2 ms / 1 ms";
  EXPECT_EQ(room(two, 1), 2U) << "another kind";
  push(3);
  EXPECT_EQ(room(two), 1U);
  two.ran(1, 10ms);
  EXPECT_EQ(room(two, 1), 1U) << "it begins soon";
  two.ran(1, 100ms);
  two.ran(1, 100ms);
  EXPECT_EQ(room(two, 1), 0U);
}

TEST_F(Capacity, ATrivialHandlerGetsAWholeBatchAndALongerTripMore) {
  capacity two(2, 2);
  two.ran(0, 0us);
  EXPECT_EQ(room(two, 0, 5000), 2000U);
  for (int i = 0; i < 100; ++i) {
    two.took(10ms);
  }
  EXPECT_GT(room(two, 0, 50'000), 19'700U);
  EXPECT_LT(room(two, 0, 50'000), 20'100U);
  EXPECT_EQ(room(two), 500U);
}

TEST_F(Capacity, TripsOfAllLengthsNeedMoreThanOnesOfTheSameLength) {
  capacity same(2, 2);
  capacity mixed(2, 2);
  for (int i = 0; i < 100; ++i) {
    same.took(5ms);
    mixed.took(i % 2 == 0 ? 1ms : 9ms);
  }
  same.ran(0, 1ms);
  mixed.ran(0, 1ms);
  EXPECT_LE(room(same), 21U) << "2 threads * 2 * 5 ms, and one that is short";
  EXPECT_GT(room(mixed), 32U);
}

TEST_F(Capacity, OneSlowRunTellsLittleAndTwoThatAllAreSlow) {
  capacity two(2, 2);
  for (int i = 0; i < 1000; ++i) {
    two.ran(0, 4us);
  }
  EXPECT_EQ(room(two, 0, 5000), 1000U);
  two.ran(0, 1ms);
  EXPECT_GT(room(two, 0, 5000), 300U);
  two.ran(0, 1ms);
  EXPECT_EQ(room(two, 0, 5000), 4U);
  two.ran(0, 4us);
  EXPECT_GT(room(two, 0, 5000), 150U);
  for (int i = 0; i < 1000; ++i) {
    two.ran(0, 4us);
  }
  EXPECT_GT(room(two, 0, 5000), 600U);
}

TEST_F(Capacity, AThreadThatHangsCountsForNothing) {
  capacity two(2, 2);
  two.ran(0, 5us);
  begin(1, at_first - 10s);
  EXPECT_EQ(room(two), 400U);
  begin(1, at_first - 10s);
  EXPECT_EQ(room(two), 0U);
}

TEST_F(Capacity, AThreadThatWillSoonBeFreeCounts) {
  capacity two(2, 2);
  two.ran(0, 100us);
  begin(2, at_first - 1ms);
  EXPECT_EQ(room(two), 40U);
}

TEST_F(Capacity, TheNextOneWaitsWhereAShortRunWillSoonBeOver) {
  capacity two(2, 2);
  two.ran(0, 10ms);
  two.ran(1, 30ms);
  begin(2, at_first - 5ms);
  EXPECT_EQ(room(two), 2U);
  EXPECT_EQ(room(two, 1), 0U) << "it would wait for long";
  push(1);
  EXPECT_EQ(room(two), 1U);
}

TEST_F(Capacity, NoneWaitsForARunThatTakesTwiceAsLongAsOthers) {
  capacity two(2, 2);
  two.ran(0, 10ms);
  begin(1, at_first - 20ms);
  begin(1, at_first - 21ms);
  EXPECT_EQ(room(two), 1U);
  capacity unknown(2, std::nullopt);
  unknown.ran(0, 10ms);
  unknown.was_late(2, at_first);
  EXPECT_EQ(room(unknown), 0U) << "nobody knows how many threads there are";
}

TEST_F(Capacity, AnExecutorThatBeginsAllAtOnceGetsTwiceAsMuch) {
  capacity unknown(2, std::nullopt);
  EXPECT_EQ(room(unknown), 1U);
  begin(1, at_first - 1h);
  EXPECT_EQ(room(unknown), 1U);
  begin(1, at_first - 1h);
  EXPECT_EQ(room(unknown), 2U);
  push(2);
  EXPECT_EQ(room(unknown), 0U);
}

TEST_F(Capacity, ARunThatWaitedShowsHowManyThreadsAnExecutorHas) {
  capacity unknown(2, std::nullopt);
  begin(8, at_first - 1h);
  EXPECT_EQ(room(unknown), 8U);
  unknown.was_late(8, at_first - 999ms);
  EXPECT_EQ(room(unknown), 0U);
  unknown.was_late(8, at_first - 1s);
  EXPECT_EQ(room(unknown), 8U) << "a second is over";
}

TEST_F(Capacity, ARunThatWaitedBesideOthersHalvesTheGuess) {
  capacity unknown(2, std::nullopt);
  begin(8, at_first - 1h);
  EXPECT_EQ(room(unknown), 8U);
  while (runs_.running() != 0) {
    runs_.end(*running_.back());
    running_.pop_back();
  }
  static_cast<void>(ended(runs_));
  unknown.was_late(0, at_first);
  EXPECT_EQ(room(unknown), 8U) << "of 16";
}

TEST_F(Capacity, WhileAThreadIsOnItsWayForWhatHasGoneBackNothingIsClaimed) {
  capacity two(2, 2);
  two.ran(0, 5us);
  push(1);
  EXPECT_GT(room(two), 0U);
  runs_.end_late(instant::max());
  EXPECT_EQ(room(two), 0U);
  EXPECT_EQ(runs_.begin(at_first), nullptr);
  EXPECT_GT(room(two), 0U);
}

TEST_F(Capacity, ARunMayWaitForEightRoundTrips) {
  capacity two(2, 2);
  EXPECT_EQ(two.patience(), 100ms);
  for (int i = 0; i < 100; ++i) {
    two.took(30ms);
  }
  EXPECT_NEAR(static_cast<double>(two.patience().count()), 240'000, 5000);
  for (int i = 0; i < 100; ++i) {
    two.took(10s);
  }
  EXPECT_LE(two.patience(), 500ms);
}

TEST(Allowance, CountsBytesButTheFirstRowAlwaysPasses) {
  allowance left{.rows = 10, .bytes = 100};
  EXPECT_TRUE(left.admit(0, 0));
  EXPECT_FALSE(left.took_bytes);
  EXPECT_TRUE(left.fits(500, true));
  EXPECT_TRUE(left.admit(0, 500));
  EXPECT_TRUE(left.took_bytes);
  EXPECT_FALSE(left.fits(1, false));
  EXPECT_TRUE(left.fits(0, false));
  left = {.rows = 10, .bytes = 100};
  EXPECT_TRUE(left.admit(0, 60));
  EXPECT_FALSE(left.fits(60, false));
  EXPECT_TRUE(left.fits(40, false));
}

}  // namespace
}  // namespace timing_wheel::durable

// A place goes to the driver or to whoever withdraws it, and each step is told once.

#include "core/offers.hpp"
#include "support/meeting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace timing_wheel::test {
namespace {

using detail::offers;
using detail::timer_node;
using testing::Each;
using testing::ElementsAre;

constexpr unsigned all = offers::size;

constexpr time_point moment_of(unsigned place) { return time_point(std::chrono::nanoseconds(place + 1)); }

/// A full offered.
struct filled_window {
  filled_window() {
    offered.clear(all);
    for (unsigned place = 0; place < all; ++place) {
      offered.put(place, {place, 1}, nodes[place]);
    }
  }

  std::array<timer_node, all> nodes{};
  offers offered;
};

TEST(Offers, TellsEachStepOnceInWhateverOrderItIsAsked) {
  filled_window it;
  ASSERT_TRUE(it.offered.begin(0, moment_of(0), offers::nowhere));
  ASSERT_TRUE(it.offered.begin(1, moment_of(1), 0));
  const offers::steps first = it.offered.news();
  EXPECT_EQ(first.begun, 0b11U);
  EXPECT_EQ(first.ended, 0b1U);
  it.offered.end(1);
  const offers::steps second = it.offered.news();
  EXPECT_EQ(second.begun, 0U);
  EXPECT_EQ(second.ended, 0b10U);
  const offers::steps third = it.offered.news();
  EXPECT_EQ(third.begun | third.ended, 0U);
  EXPECT_EQ(it.offered.id_of(1).number, 1U);
  EXPECT_EQ(&it.offered.node_of(1), &it.nodes[1]);
  EXPECT_EQ(it.offered.begun_at(1), moment_of(1));
}

TEST(Offers, WhatIsWithdrawnDoesNotBeginAndIsNoNews) {
  filled_window it;
  EXPECT_TRUE(it.offered.withdraw(0));
  EXPECT_FALSE(it.offered.withdraw(0)) << "it is withdrawn";
  EXPECT_FALSE(it.offered.begin(0, moment_of(0), offers::nowhere));
  ASSERT_TRUE(it.offered.begin(1, moment_of(1), offers::nowhere));
  EXPECT_FALSE(it.offered.withdraw(1)) << "it has begun";
  EXPECT_EQ(it.offered.news().begun, 0b10U);
}

TEST(Offers, ARunIsNotOverBecauseTheNextWasWithdrawn) {
  filled_window it;
  ASSERT_TRUE(it.offered.begin(0, moment_of(0), offers::nowhere));
  EXPECT_TRUE(it.offered.withdraw(1));
  EXPECT_FALSE(it.offered.begin(1, moment_of(1), 0));
  EXPECT_EQ(it.offered.news().ended, 0U);
}

TEST(Offers, WithdrawsAllThatHaveNotBegun) {
  filled_window it;
  for (unsigned place = 0; place < all - 2; ++place) {
    ASSERT_TRUE(it.offered.begin(place, moment_of(place), offers::nowhere));
  }
  std::vector<timer_number> withdrawn;
  it.offered.withdraw_all([&](detail::timer_id id, timer_node& /*node*/) { withdrawn.push_back(id.number); });
  EXPECT_THAT(withdrawn, ElementsAre(all - 2, all - 1));
}

TEST(Offers, APlaceWithoutATimerNeitherBeginsNorIsWithdrawn) {
  offers offered;
  offered.clear(1);
  offered.put_none(0);
  EXPECT_FALSE(offered.begin(0, moment_of(0), offers::nowhere));
  EXPECT_FALSE(offered.withdraw(0));
  EXPECT_EQ(offered.news().begun, 0U);
}

// The driver begins place after place, while another thread withdraws some and asks for news. What each of them does
// with a timer is in plain memory, for the thread sanitizer.
TEST(Offers, EachTimerHasOneOwnerWhenDriverAndWithdrawalRace) {
  constexpr int rounds = 2'000;
  filled_window it;
  std::array<int, all> owners{};
  std::array<int, all> told{};
  barrier together(2);
  std::thread driver([&] {
    for (int round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      unsigned ended = offers::nowhere;
      for (unsigned place = 0; place < all; ++place) {
        if (it.offered.begin(place, moment_of(place), ended)) {
          ++owners[place];
          it.nodes[place].tag += 1;
          ended = place;
        }
      }
      together.arrive_and_wait();
      if (ended != offers::nowhere) {
        it.offered.end(ended);
      }
      together.arrive_and_wait();
    }
  });
  const auto hear = [&](offers::steps news) {
    offers::for_each(news.ended, [&](unsigned place) {
      ++told[place];
      it.nodes[place].tag += 1;  // the driver is done with it
    });
  };
  std::uint64_t withdrawn = 0;
  for (int round = 0; round < rounds; ++round) {
    it.offered.clear(all);
    for (unsigned place = 0; place < all; ++place) {
      it.offered.put(place, {place, 1}, it.nodes[place]);
      it.nodes[place].tag = 0;
    }
    owners.fill(0);
    told.fill(0);
    together.arrive_and_wait();
    const auto step = static_cast<unsigned>(round % 7) + 1;
    for (unsigned i = 0; i < all; i += step) {
      const unsigned place = round % 2 == 0 ? i : all - 1 - i;
      if (it.offered.withdraw(place)) {
        ++withdrawn;
        ++owners[place];
        it.nodes[place].tag += 2;
      }
      hear(it.offered.news());
    }
    together.arrive_and_wait();
    together.arrive_and_wait();
    hear(it.offered.news());
    EXPECT_THAT(owners, Each(1));
    for (const timer_node& node : it.nodes) {
      EXPECT_EQ(node.tag, 2U) << "each run is begun and ended, or withdrawn";
    }
  }
  driver.join();
  EXPECT_NE(withdrawn, 0U);
  EXPECT_NE(withdrawn, std::uint64_t{rounds} * all);
}

}  // namespace
}  // namespace timing_wheel::test

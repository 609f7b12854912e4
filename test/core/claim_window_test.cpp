// A place goes to the driver or to whoever withdraws it, and each step is told once.

#include "core/claim_window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace timing_wheel::test {
namespace {

using detail::claim_window;
using detail::timer_node;
using testing::Each;
using testing::ElementsAre;

constexpr unsigned all = claim_window::size;

constexpr time_point moment_of(unsigned place) { return time_point(std::chrono::nanoseconds(place + 1)); }

/// A full window.
struct filled_window {
  filled_window() {
    window.clear(all);
    for (unsigned place = 0; place < all; ++place) {
      window.put(place, {place, 1}, nodes[place]);
    }
  }

  std::array<timer_node, all> nodes{};
  claim_window window;
};

TEST(ClaimWindow, TellsEachStepOnceInWhateverOrderItIsAsked) {
  filled_window it;
  ASSERT_TRUE(it.window.begin(0, moment_of(0), claim_window::nowhere));
  ASSERT_TRUE(it.window.begin(1, moment_of(1), 0));
  const claim_window::steps first = it.window.news();
  EXPECT_EQ(first.begun, 0b11U);
  EXPECT_EQ(first.ended, 0b1U);
  it.window.end(1);
  const claim_window::steps second = it.window.news();
  EXPECT_EQ(second.begun, 0U);
  EXPECT_EQ(second.ended, 0b10U);
  const claim_window::steps third = it.window.news();
  EXPECT_EQ(third.begun | third.ended, 0U);
  EXPECT_EQ(it.window.id_of(1).number, 1U);
  EXPECT_EQ(&it.window.node_of(1), &it.nodes[1]);
  EXPECT_EQ(it.window.begun_at(1), moment_of(1));
}

TEST(ClaimWindow, WhatIsWithdrawnDoesNotBeginAndIsNoNews) {
  filled_window it;
  EXPECT_TRUE(it.window.withdraw(0));
  EXPECT_FALSE(it.window.withdraw(0)) << "it is withdrawn";
  EXPECT_FALSE(it.window.begin(0, moment_of(0), claim_window::nowhere));
  ASSERT_TRUE(it.window.begin(1, moment_of(1), claim_window::nowhere));
  EXPECT_FALSE(it.window.withdraw(1)) << "it has begun";
  EXPECT_EQ(it.window.news().begun, 0b10U);
}

TEST(ClaimWindow, ARunIsNotOverBecauseTheNextWasWithdrawn) {
  filled_window it;
  ASSERT_TRUE(it.window.begin(0, moment_of(0), claim_window::nowhere));
  EXPECT_TRUE(it.window.withdraw(1));
  EXPECT_FALSE(it.window.begin(1, moment_of(1), 0));
  EXPECT_EQ(it.window.news().ended, 0U);
}

TEST(ClaimWindow, WithdrawsAllThatHaveNotBegun) {
  filled_window it;
  for (unsigned place = 0; place < all - 2; ++place) {
    ASSERT_TRUE(it.window.begin(place, moment_of(place), claim_window::nowhere));
  }
  std::vector<timer_number> withdrawn;
  it.window.withdraw_all([&](detail::timer_id id, timer_node& /*node*/) { withdrawn.push_back(id.number); });
  EXPECT_THAT(withdrawn, ElementsAre(all - 2, all - 1));
}

TEST(ClaimWindow, APlaceWithoutATimerNeitherBeginsNorIsWithdrawn) {
  claim_window window;
  window.clear(1);
  window.put_none(0);
  EXPECT_FALSE(window.begin(0, moment_of(0), claim_window::nowhere));
  EXPECT_FALSE(window.withdraw(0));
  EXPECT_EQ(window.news().begun, 0U);
}

// The driver begins place after place, while another thread withdraws some and asks for news. What each of them does
// with a timer is in plain memory, for the thread sanitizer.
TEST(ClaimWindow, EachTimerHasOneOwnerWhenDriverAndWithdrawalRace) {
  constexpr int rounds = 2'000;
  filled_window it;
  std::array<int, all> owners{};
  std::array<int, all> told{};
  std::barrier together(2);
  std::thread driver([&] {
    for (int round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      unsigned ended = claim_window::nowhere;
      for (unsigned place = 0; place < all; ++place) {
        if (it.window.begin(place, moment_of(place), ended)) {
          ++owners[place];
          it.nodes[place].tag += 1;
          ended = place;
        }
      }
      together.arrive_and_wait();
      if (ended != claim_window::nowhere) {
        it.window.end(ended);
      }
      together.arrive_and_wait();
    }
  });
  const auto hear = [&](claim_window::steps news) {
    claim_window::for_each(news.ended, [&](unsigned place) {
      ++told[place];
      it.nodes[place].tag += 1;  // the driver is done with it
    });
  };
  std::uint64_t withdrawn = 0;
  for (int round = 0; round < rounds; ++round) {
    it.window.clear(all);
    for (unsigned place = 0; place < all; ++place) {
      it.window.put(place, {place, 1}, it.nodes[place]);
      it.nodes[place].tag = 0;
    }
    owners.fill(0);
    told.fill(0);
    together.arrive_and_wait();
    const auto step = static_cast<unsigned>(round % 7) + 1;
    for (unsigned i = 0; i < all; i += step) {
      const unsigned place = round % 2 == 0 ? i : all - 1 - i;
      if (it.window.withdraw(place)) {
        ++withdrawn;
        ++owners[place];
        it.nodes[place].tag += 2;
      }
      hear(it.window.news());
    }
    together.arrive_and_wait();
    together.arrive_and_wait();
    hear(it.window.news());
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

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::IsEmpty;
using testing::Le;
using testing::SizeIs;

using parts = std::vector<std::vector<std::int16_t>>;

class PostgresShares : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  [[nodiscard]] std::vector<std::int16_t> turn(const std::string& node, std::chrono::milliseconds hold = 1h) {
    return store.take_shares(node, hold).value();
  }
  // Lets each have so many turns, one after another. Those of the last round.
  parts rounds(const std::vector<std::string>& nodes, int count) {
    parts last;
    for (int round = 0; round < count; ++round) {
      last.clear();
      std::transform(nodes.begin(), nodes.end(), std::back_inserter(last),
                     [&](const std::string& each) { return turn(each); });
    }
    return last;
  }
  static std::vector<std::size_t> sizes(const parts& all) {
    std::vector<std::size_t> some;
    std::transform(all.begin(), all.end(), std::back_inserter(some), [](const auto& each) { return each.size(); });
    return some;
  }
  // How many have an owner, none of them two.
  static std::size_t owned(const parts& all) {
    std::set<std::int16_t> each;
    std::size_t count = 0;
    for (const auto& one : all) {
      each.insert(one.begin(), one.end());
      count += one.size();
    }
    EXPECT_EQ(each.size(), count);
    return count;
  }
  // Which version of each row there is, locks included.
  [[nodiscard]] std::string rows_of_shares() const {
    return user.ask("SELECT string_agg(concat(ctid,' ',xmin,' ',xmax),',' ORDER BY share) FROM " + table("share"));
  }
  [[nodiscard]] std::string epochs() const { return user.ask("SELECT sum(epoch) FROM " + table("share")); }
};

TEST_F(PostgresShares, OneNodeHasThemAll) {
  EXPECT_THAT(turn("a"), SizeIs(64));
  EXPECT_THAT(turn("a"), SizeIs(64));
}

TEST_F(PostgresShares, EachThatJoinsGetsItsPart) {
  rounds({"a"}, 1);
  const parts two = rounds({"a", "b"}, 3);
  EXPECT_THAT(sizes(two), Each(32));
  EXPECT_EQ(owned(two), 64U);
  const parts five = rounds({"a", "b", "c", "d", "e"}, 3);
  EXPECT_THAT(sizes(five), Each(AllOf(Ge(12U), Le(13U))));
  EXPECT_EQ(owned(five), 64U);
}

TEST_F(PostgresShares, OneThatLeavesGivesThemBackAtOnce) {
  rounds({"a", "b"}, 3);
  EXPECT_THAT(*store.take_shares("b", 1h, true), IsEmpty());
  EXPECT_THAT(turn("a"), SizeIs(64));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("node")), "1");
}

TEST_F(PostgresShares, WhatADeadNodeHadIsTakenWhenItsHoldIsOver) {
  rounds({"a", "b"}, 3);
  static_cast<void>(turn("b", 100ms));
  EXPECT_THAT(turn("a"), SizeIs(32));
  std::this_thread::sleep_for(150ms);
  EXPECT_THAT(turn("a"), SizeIs(64));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("node")), "1");
}

TEST_F(PostgresShares, OneThatComesBackFromTheDeadGetsAPartAgain) {
  rounds({"a", "b"}, 3);
  static_cast<void>(turn("b", 1ms));
  std::this_thread::sleep_for(20ms);
  static_cast<void>(turn("a"));
  const parts both = rounds({"b", "a"}, 3);
  EXPECT_EQ(owned(both), 64U);
  EXPECT_THAT(sizes(both), Each(32));
}

TEST_F(PostgresShares, MoreNodesThanShares) {
  std::vector<std::string> nodes;
  for (int number = 0; number < 70; ++number) {
    nodes.push_back("n" + std::to_string(number));
  }
  const parts all = rounds(nodes, 3);
  EXPECT_EQ(owned(all), 64U);
  EXPECT_THAT(sizes(all), Each(Le(1U)));
}

TEST_F(PostgresShares, AreEvenedOutToOneMoreOrLess) {
  std::vector<std::string> nodes;
  for (const std::size_t count : {8U, 9U, 33U, 40U}) {
    while (nodes.size() < count) {
      nodes.push_back("n" + std::to_string(nodes.size()));
    }
    const parts all = rounds(nodes, 3);
    EXPECT_EQ(owned(all), 64U) << count;
    EXPECT_THAT(sizes(all), Each(AllOf(Ge(64 / count), Le((64 + count - 1) / count)))) << count;
    const std::string settled = rows_of_shares();
    EXPECT_EQ(rounds(nodes, 1), all) << count;
    EXPECT_EQ(rows_of_shares(), settled) << "a turn without a change writes no share";
  }
}

TEST_F(PostgresShares, OneThatJoinsTakesFromThoseWhoHaveMoreAndTheEpochSaysSo) {
  std::vector<std::string> nodes{"b", "c", "d", "e", "f", "g", "h", "i"};
  rounds(nodes, 3);
  const long long before = user.count("SELECT sum(epoch) FROM " + table("share"));
  const parts settled = rounds(nodes, 1);
  nodes.insert(nodes.begin(), "a");
  const parts all = rounds(nodes, 3);
  EXPECT_EQ(owned(all), 64U);
  EXPECT_THAT(sizes(all), Each(AllOf(Ge(7U), Le(8U))));
  EXPECT_THAT(all.front(), SizeIs(8));
  std::size_t kept = 0;
  for (std::size_t node = 0; node < settled.size(); ++node) {
    kept += static_cast<std::size_t>(std::count_if(settled[node].begin(), settled[node].end(), [&](std::int16_t share) {
      return std::binary_search(all[node + 1].begin(), all[node + 1].end(), share);
    }));
  }
  EXPECT_EQ(kept, 56U) << "no more moves than has to";
  // Given up once, and taken once.
  EXPECT_EQ(user.count("SELECT sum(epoch) FROM " + table("share")) - before, 16);
}

TEST_F(PostgresShares, AnEpochRisesWithEachChangeOfTheOwnerAndOnlyThen) {
  static_cast<void>(turn("a"));
  EXPECT_EQ(epochs(), "64");
  static_cast<void>(turn("a"));
  static_cast<void>(turn("a"));
  EXPECT_EQ(epochs(), "64");
  static_cast<void>(turn("b"));
  static_cast<void>(turn("a"));  // gives 32 up
  EXPECT_EQ(epochs(), "96");
  static_cast<void>(turn("b"));
  EXPECT_EQ(epochs(), "128");
}

TEST_F(PostgresShares, ATurnIsOneStatement) {
  static_cast<void>(turn("a"));
  const std::uint64_t before = store.counts().statements;
  static_cast<void>(turn("a"));
  EXPECT_EQ(store.counts().statements, before + 1);
}

TEST_F(PostgresShares, NodesThatComeAtATimeAgreeInTheEnd) {
  constexpr int count = 6;
  parts last(count);
  for (int round = 0; round < 8; ++round) {
    std::vector<std::thread> threads;
    for (int number = 0; number < count; ++number) {
      threads.emplace_back(
          [&, number] { last[static_cast<std::size_t>(number)] = turn("n" + std::to_string(number)); });
    }
    std::for_each(threads.begin(), threads.end(), [](std::thread& thread) { thread.join(); });
  }
  EXPECT_EQ(owned(last), 64U);
  EXPECT_THAT(sizes(last), Each(Le(11U)));
}

TEST_F(PostgresShares, ThatTwoBelieveToOwnOneDoesNoHarm) {
  put(store, "a");
  const std::vector<std::int16_t> believed = turn("a");
  user.execute("UPDATE " + table("share") + " SET owner='b'; INSERT INTO " + table("node") + " VALUES('b',9e18)");
  std::vector<std::vector<claimed>> got(2);
  std::vector<std::thread> threads;
  for (std::vector<claimed>& each : got) {
    threads.emplace_back([&] {
      std::vector<upcoming> found;
      store.read_ahead({.until = instant::max(), .limit = 10, .kinds = kinds, .shares = believed}, found);
      store.transact([&](store_transaction& open) { open.claim(found, open.now() + 1h, each); });
    });
  }
  std::for_each(threads.begin(), threads.end(), [](std::thread& thread) { thread.join(); });
  EXPECT_EQ(got[0].size() + got[1].size(), 1U);
  EXPECT_THAT(turn("a"), IsEmpty());
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include "durable/support/forwarding_store.hpp"
#include "durable/support/postgres_case.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

using names = std::vector<std::string>;
using parts = std::vector<std::vector<std::int16_t>>;

struct member {
  std::string name;
  names kinds = test::kinds;
};

class PostgresShares : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  [[nodiscard]] std::vector<std::int16_t> turn(const std::string& node, std::chrono::milliseconds hold = 1h) {
    return turn(member{node}, hold);
  }
  [[nodiscard]] std::vector<std::int16_t> turn(const member& node, std::chrono::milliseconds hold = 1h) {
    return store.renew_shares(node.name, node.kinds, hold).value();
  }
  // Lets each have so many turns, one after another. Those of the last round.
  template <class Node>
  parts rounds(const std::vector<Node>& nodes, int count) {
    parts last;
    for (int round = 0; round < count; ++round) {
      last.clear();
      std::transform(nodes.begin(), nodes.end(), std::back_inserter(last),
                     [&](const Node& each) { return turn(each); });
    }
    return last;
  }
  parts rounds(std::initializer_list<const char*> nodes, int count) {
    return rounds(names(nodes.begin(), nodes.end()), count);
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
};

TEST_F(PostgresShares, NodesAreListedWithTheirKindsAndShares) {
  const names with_commas = {"a,b", "c\\", "17 kinds"};
  names many;
  for (int number = 0; number < 100; ++number) {
    many.push_back("kind " + std::to_string(number));
  }
  const instant before = store.now();
  static_cast<void>(turn(member{"one", with_commas}, 1h));
  static_cast<void>(turn(member{"two", many}, 1h));
  const std::vector<node_info> nodes = store.nodes().value();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_EQ(nodes[0].name, "one");
  EXPECT_THAT(nodes[0].kinds, testing::UnorderedElementsAreArray(with_commas));
  EXPECT_GE(nodes[0].until, before + 1h);
  EXPECT_EQ(nodes[0].shares, 64U);
  EXPECT_EQ(nodes[1].name, "two");
  EXPECT_THAT(nodes[1].kinds, IsEmpty()) << "too many to be named";
}

TEST_F(PostgresShares, WhatADeadNodeHadIsTakenWhenItsHoldIsOverUntilItComesBackAndLeaves) {
  rounds({"a", "b"}, 3);
  static_cast<void>(turn("b", 2s));
  EXPECT_THAT(turn("a"), SizeIs(32));
  EXPECT_TRUE(wait_until([&] { return turn("a").size() == 64; }));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("node")), "2") << "an operator sees it for a day";
  const parts both = rounds({"b", "a"}, 3);
  EXPECT_EQ(owned(both), 64U);
  EXPECT_THAT(sizes(both), Each(32));
  EXPECT_THAT(*store.renew_shares("b", kinds, 1h, true), IsEmpty());
  EXPECT_THAT(turn("a"), SizeIs(64));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("node")), "1");
}

TEST_F(PostgresShares, TheRowOfADeadNodeGoesAfterADay) {
  static_cast<void>(turn("dead"));
  for (const char* ago : {"86395e6", "86405e6"}) {
    user.execute("UPDATE " + table("node") + " SET until=extract(epoch FROM now())*1e6-" + ago + " WHERE name='dead'");
    static_cast<void>(turn("a"));
    EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("node")), ago == std::string("86395e6") ? "2" : "1");
  }
}

TEST_F(PostgresShares, AreEvenedOutToOneMoreOrLess) {
  std::vector<std::string> nodes;
  for (const std::size_t count : {1U, 2U, 5U, 8U, 9U, 33U, 40U, 70U}) {
    while (nodes.size() < count) {
      nodes.push_back("n" + std::to_string(nodes.size()));
    }
    const parts all = rounds(nodes, 3);
    EXPECT_EQ(owned(all), 64U) << count;
    EXPECT_THAT(sizes(all), Each(AllOf(Ge(64 / count), Le((64 + count - 1) / count)))) << count;
    const std::string settled = rows_of_shares();
    const std::uint64_t before = store.counts().statements;
    EXPECT_EQ(rounds(nodes, 1), all) << count;
    EXPECT_EQ(store.counts().statements, before + count) << "a turn is one statement";
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

TEST_F(PostgresShares, NodesThatComeAtATimeAgreeInTheEnd) {
  constexpr int count = 6;
  parts last(count);
  for (int round = 0; round < 8; ++round) {
    on_threads(count, [&](int number) { last[static_cast<std::size_t>(number)] = turn("n" + std::to_string(number)); });
  }
  EXPECT_EQ(owned(last), 64U);
  EXPECT_THAT(sizes(last), Each(Le(11U)));
}

TEST_F(PostgresShares, ThatTwoBelieveToOwnOneDoesNoHarm) {
  put(store, "a");
  const std::vector<std::int16_t> believed = turn("a");
  user.execute("UPDATE " + table("share") + " SET owner='b'; INSERT INTO " + table("node") +
               " VALUES('close,other','b',9e18)");
  std::vector<std::vector<claimed>> got(2);
  on_threads(2, [&](int number) {
    std::vector<upcoming> found;
    store.read_ahead({.until = instant::max(), .limit = 10, .kinds = kinds, .shares = believed}, found);
    store.transact([&](store_transaction& open) { open.claim(found, open.now() + 1h, got[std::size_t(number)]); });
  });
  EXPECT_EQ(got[0].size() + got[1].size(), 1U);
  EXPECT_THAT(turn("a"), IsEmpty());
}

// ---- nodes that serve different kinds

TEST_F(PostgresShares, ThoseOfTheSameKindsInAnyOrderDivideThem) {
  const parts three = rounds(std::vector<member>{{"a", {"x", "y"}}, {"b", {"y", "x", "y"}}, {"c", {"y"}}}, 3);
  EXPECT_THAT(sizes(three), ElementsAre(32, 32, 64));
  EXPECT_EQ(owned({three[0], three[1]}), 64U);
}

TEST_F(PostgresShares, SetsAreToldApartWhateverTheirNames) {
  const std::vector<member> all{
      {"a", {"x", "y"}}, {"b", {"x,y"}}, {"c", {"x\\", "y"}}, {"d", {"x\\,y"}}, {"e", {"xy"}}};
  EXPECT_THAT(sizes(rounds(all, 3)), Each(64));
}

// Longer than what fits into an index.
TEST_F(PostgresShares, ASetMayHaveAnyNumberOfKinds) {
  names many;
  for (std::uint32_t number = 0; number < 300; ++number) {
    std::string kind;
    for (std::uint32_t at = 1; at < 64; ++at) {  // what does not shrink when it is compressed
      kind.push_back(static_cast<char>('0' + ((number * 64 + at) * 2654435761U >> 16U) % 75));
    }
    many.push_back(kind);
  }
  names others = many;
  others.back().front() = ' ';
  const parts all = rounds(std::vector<member>{{"a", many}, {"b", many}, {"c", others}}, 3);
  EXPECT_THAT(sizes(all), ElementsAre(32, 32, 64));
}

TEST_F(PostgresShares, OneNameMayServeTwoSets) {
  const std::vector<member> all{{"a", {"x"}}, {"a", {"y"}}, {"b", {"y"}}};
  EXPECT_THAT(sizes(rounds(all, 3)), ElementsAre(64, 32, 32));
  EXPECT_THAT(*store.renew_shares("a", all[1].kinds, 1h, true), IsEmpty());
  EXPECT_THAT(sizes(rounds(std::vector<member>{all[0], all[2]}, 1)), ElementsAre(64, 64));
}

TEST_F(PostgresShares, ASetComesAndGoesWithoutAChangeForOthers) {
  const member first{"a", {"x"}};
  const member second{"b", {"x", "y"}};
  static_cast<void>(turn(first));
  const std::string settled = user.ask("SELECT sum(epoch) FROM " + table("share") + " WHERE kinds='x'");
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(turn(second), SizeIs(64));
    EXPECT_THAT(turn(first), SizeIs(64));
    EXPECT_THAT(*store.renew_shares("b", second.kinds, 1h, true), IsEmpty());
    EXPECT_EQ(user.ask("SELECT string_agg(name,',') FROM " + table("node")), "a");
    EXPECT_EQ(user.ask("SELECT count(owner) FROM " + table("share") + " WHERE kinds='x,y'"), "0");
  }
  EXPECT_EQ(user.ask("SELECT sum(epoch) FROM " + table("share") + " WHERE kinds='x'"), settled);
}

TEST_F(PostgresShares, TheDeadOfAnySetAreForgotten) {
  static_cast<void>(turn(member{"a", {"x"}}));
  user.execute("UPDATE " + table("node") + " SET until=1");
  EXPECT_THAT(turn(member{"b", {"y"}}), SizeIs(64));
  EXPECT_EQ(user.ask("SELECT string_agg(name,',') FROM " + table("node")), "b");
  EXPECT_THAT(turn(member{"c", {"x"}}), SizeIs(64));
}

TEST_F(PostgresShares, RowsThatWereDeletedAreMadeAgain) {
  static_cast<void>(turn("a"));
  const std::uint64_t before = store.counts().statements;
  for (const char* which : {"share<10", "true"}) {
    user.execute("DELETE FROM " + table("share") + " WHERE " + which);
    EXPECT_THAT(turn("a"), SizeIs(64)) << which;
  }
  EXPECT_EQ(store.counts().statements, before + 6);
  EXPECT_THAT(turn("a"), SizeIs(64));
  EXPECT_EQ(store.counts().statements, before + 7);
}

// Counts the rows that a node read only since nobody else had done so for a second.
class watched_store final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;

  std::atomic<int> reads = 0;
  std::atomic<int> rows_of_others = 0;

  void read_ahead(const read_range& which, std::vector<upcoming>& found) override {
    const std::size_t before = found.size();
    forwarding_store::read_ahead(which, found);
    reads += static_cast<int>(found.size() - before);
    rows_of_others += static_cast<int>(
        std::count_if(found.begin() + static_cast<std::ptrdiff_t>(before), found.end(), [&](const upcoming& each) {
          return which.shares && std::count(which.shares->begin(), which.shares->end(), each.id & 63) == 0;
        }));
  }
};

// A node of these kinds, and what it has run.
class served {
 public:
  served(const std::string& schema, const names& kinds) : real_(server().conninfo(), options_in(schema)) {
    for (const std::string& kind : kinds) {
      checks.on(kind, [this](transaction& /*open*/, const job& check) {
        const std::scoped_lock lock(mutex_);
        ++runs_[check.kind() + check.key()];
      });
    }
    checks.start();
  }

  [[nodiscard]] std::map<std::string, int> runs() const {
    const std::scoped_lock lock(mutex_);
    return runs_;
  }
  [[nodiscard]] bool has(std::size_t shares) const {
    return wait_until([&] { return checks.stats().shares == shares; });
  }

 private:
  postgres_store real_;
  mutable std::mutex mutex_;
  std::map<std::string, int> runs_;

 public:
  watched_store store{real_};
  scheduler checks{store, {.look_ahead = 200ms, .poll = 50ms}};
};

// So many of a kind, written as if by another process, some of them due later. \returns whether all of them have ended.
bool run_all(store& in, const std::string& kind, int count) {
  std::vector<request> all;
  for (int number = 0; number < count; ++number) {
    all.push_back({.kind = kind, .key = std::to_string(number), .payload = {}, .due = number * 5ms});
  }
  put(in, all);
  return wait_until([&] { return rows_of(in, kind).empty(); });
}

TEST_F(PostgresShares, NoCheckWaitsForItsSecondSinceAnotherNodeServesOtherKinds) {
  const served first(schema, {"x"});
  const served second(schema, {"y"});
  ASSERT_TRUE(first.has(64));
  ASSERT_TRUE(second.has(64));
  ASSERT_TRUE(run_all(store, "y", 200));
  EXPECT_THAT(first.runs(), IsEmpty());
  EXPECT_EQ(first.store.reads, 0);
  EXPECT_THAT(second.runs(), SizeIs(200));
  EXPECT_GE(second.store.reads, 200);
  EXPECT_EQ(second.store.rows_of_others, 0);
}

TEST_F(PostgresShares, WhatTwoSetsHaveInCommonRunsOnce) {
  const served both(schema, {"x", "y"});
  const served one(schema, {"y"});
  ASSERT_TRUE(both.has(64));
  ASSERT_TRUE(one.has(64));
  ASSERT_TRUE(run_all(store, "y", 200));
  std::map<std::string, int> all = both.runs();
  for (const auto& [key, count] : one.runs()) {
    all[key] += count;
  }
  EXPECT_THAT(all, SizeIs(200));
  EXPECT_THAT(all, Each(Pair(testing::_, 1)));
  EXPECT_EQ(both.store.rows_of_others + one.store.rows_of_others, 0);
}

}  // namespace
}  // namespace timing_wheel::durable::test

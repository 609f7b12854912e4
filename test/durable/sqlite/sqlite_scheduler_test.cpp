// The scheduler on a file, in virtual time.

#include "durable/support/fake_clocks.hpp"
#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteScheduler : public testing::Test {
 public:
  SqliteScheduler() { store.migrate(); }

  void pass(std::chrono::milliseconds time, std::chrono::milliseconds step = 1ms) {
    for (auto passed = 0ms; passed < time; passed += step) {
      fake_clocks::pass(step);
      timer.advance_by(step);
    }
  }
  void notes(scheduler& by, const std::string& kind) {
    by.on(kind, [this](const job& what) { ran.push_back(what.key()); });
  }

  fake_clocks clocks;
  scratch_folder folder;
  sqlite_store store{folder.file()};
  users_database user{folder.file()};
  manual_timer timer;
  std::vector<std::string> ran;
};

// SQLite itself does so if the disk is full, for instance.
TEST_F(SqliteScheduler, AHandlerThatLosesTheTransactionDoublesNoEffectOfAnother) {
  user.run("CREATE TABLE effect(key TEXT)");
  scheduler checks(store, timer, {.on_failure = [](const failure&) {}});
  checks.on("close", [this](transaction& open, const job& what) {
    const bool loses = what.key() == "a" && ran.empty();
    ran.push_back(what.key());
    const std::string sql = loses ? "ROLLBACK" : "INSERT INTO effect VALUES('" + what.key() + "')";
    sqlite3_exec(sqlite_connection(open), sql.c_str(), nullptr, nullptr, nullptr);
  });
  checks.start();
  for (const char* key : {"a", "b"}) {
    checks.schedule(asked(key, 10ms));
  }
  pass(10s, 10ms);
  EXPECT_FALSE(store.find("close", "a") || store.find("close", "b"));
  EXPECT_EQ(ran.size(), 3U) << "the second handler is not called without a transaction";
  user.run("CREATE UNIQUE INDEX once ON effect(key)");
}

TEST_F(SqliteScheduler, AHandlerThatCommitsLosesNoCheckOfItsTransaction) {
  scheduler checks(store, timer, {.on_failure = [](const failure&) {}});
  checks.on("close", [this](transaction& open, const job& what) {
    if (ran.empty()) {
      EXPECT_NE(sqlite3_exec(sqlite_connection(open), "COMMIT", nullptr, nullptr, nullptr), SQLITE_OK);
    }
    ran.push_back(what.key());
  });
  checks.start();
  for (const char* key : {"a", "b", "c"}) {
    checks.schedule(asked(key, 10ms));
  }
  pass(10s, 10ms);
  EXPECT_EQ(store.count({}, 9), 0U);
  EXPECT_THAT(ran, testing::IsSupersetOf({"a", "b", "c"}));
}

TEST_F(SqliteScheduler, ATransactionalCheckWhoseEndIsRefusedKeepsNoOther) {
  user.run("CREATE TRIGGER no BEFORE INSERT ON timing_wheel_dead BEGIN SELECT RAISE(ABORT,'no'); END");
  scheduler checks(store, timer, {.on_failure = [](const failure&) {}});
  int bad = 0;
  checks.on("close",
            [&](transaction& /*open*/, const job& what) {
              if (what.key() == "bad") {
                ++bad;
                throw std::runtime_error("bad");
              }
              ran.push_back(what.key());
            },
            {.max_attempts = 1});
  checks.start();
  checks.schedule(asked("bad", 10ms));
  checks.schedule(asked("good", 20ms));
  pass(5s, 10ms);
  EXPECT_THAT(ran, ElementsAre("good"));
  EXPECT_EQ(bad, 3);
  user.run("DROP TRIGGER no");
  pass(10s, 10ms);
  EXPECT_THAT(store.list_dead(9), testing::SizeIs(1));
}

// A statement that a handler has not stepped to its end.
TEST_F(SqliteScheduler, WhatAHandlerLeavesRunningHoldsNothing) {
  user.run("CREATE TABLE effect(key TEXT); INSERT INTO effect VALUES('x'),('y')");
  for (const char* const left : {"SELECT key FROM effect", "INSERT INTO effect VALUES('z') RETURNING key"}) {
    ran.clear();
    sqlite3_stmt* kept = nullptr;
    {
      scheduler checks(store, timer);
      checks.on("close", [&](transaction& open, const job& what) {
        if (kept == nullptr) {
          sqlite3_prepare_v2(sqlite_connection(open), left, -1, &kept, nullptr);
        }
        sqlite3_reset(kept);
        EXPECT_EQ(sqlite3_step(kept), SQLITE_ROW);
        ran.push_back(what.key());
      });
      checks.start();
      checks.schedule(asked("a", 10ms));
      checks.schedule(asked("b", 10ms));
      pass(1s, 10ms);
      EXPECT_EQ(user.run("INSERT INTO effect VALUES('other')"), SQLITE_OK);
      EXPECT_TRUE(checks.schedule(asked("c", 10ms)).inserted);
      pass(1s, 10ms);
      sqlite3_finalize(kept);
    }
    EXPECT_THAT(ran, ElementsAre("a", "b", "c")) << left;
    EXPECT_EQ(store.count({}, 9), 0U);
  }
}

TEST_F(SqliteScheduler, ACheckThatATriggerIgnoresIsRefused) {
  user.run("CREATE TRIGGER no BEFORE INSERT ON timing_wheel_check BEGIN SELECT RAISE(IGNORE); END");
  EXPECT_EQ(error_of([&] { put(store, "a"); }).code, sqlite_code(SQLITE_CONSTRAINT_TRIGGER));
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked("a")); }).code, sqlite_code(SQLITE_CONSTRAINT_TRIGGER));
}

TEST_F(SqliteScheduler, ACommitFarBehindTheScanIsSeenWithinASweep) {
  scheduler checks(store, timer, {.look_ahead = 1s, .poll = 250ms, .sweep = 10s});
  notes(checks, "close");
  checks.start();
  pass(1s);
  user.run("BEGIN IMMEDIATE");
  schedule(user.get(), asked("a", 100ms));
  pass(5s);
  user.run("COMMIT");
  const instant committed = store.now();
  pass(1s);
  EXPECT_THAT(ran, IsEmpty());  // it is behind the look-ahead
  while (ran.empty() && store.now() < committed + 1min) {
    pass(50ms);
  }
  EXPECT_LE(store.now(), committed + 10s + 250ms + 50ms);
}

TEST_F(SqliteScheduler, AClockThatIsSetBackMakesNothingEarlyAndNothingIsLost) {
  scheduler checks(store, timer);
  notes(checks, "close");
  checks.start();
  checks.schedule(asked("known", 500ms));
  checks.schedule(asked("far", 20min));
  pass(300ms);
  fake_clocks::wall -= 1h;
  store.adopt_wall_clock();
  pass(59min, 100ms);
  EXPECT_THAT(ran, IsEmpty());
  checks.schedule(asked("new", 10ms));
  pass(10s);
  EXPECT_THAT(ran, ElementsAre("new"));
  pass(1min, 100ms);
  EXPECT_THAT(ran, ElementsAre("new", "known"));
  pass(20min, 100ms);
  EXPECT_THAT(ran, ElementsAre("new", "known", "far"));
  EXPECT_EQ(checks.stats().early, 0U);
}

TEST_F(SqliteScheduler, OfTwoKindsWithABacklogNeitherStarves) {
  scheduler checks(store, timer, {.batch = 50, .max_claimed = 50, .max_known = 400, .transaction_time = 1h});
  std::vector<char> order;
  int done = 0;
  checks.on("leased", [&](const job& /*what*/) { order.push_back('l'); });
  checks.on("transactional", [&](transaction& /*open*/, const job& /*what*/) { order.push_back('t'); });
  checks.on("new", [&](const job& /*what*/) { done = static_cast<int>(order.size()); });
  for (const char* kind : {"leased", "transactional"}) {
    std::vector<request> all;
    for (int number = 0; number < 5000; ++number) {
      all.push_back({.kind = kind, .key = std::to_string(number), .due = std::chrono::milliseconds(number % 100)});
    }
    checks.schedule(all);
  }
  fake_clocks::pass(1h);
  checks.schedule({.kind = "new", .key = "n", .due = {}});
  checks.start();
  pass(2s);
  ASSERT_THAT(order, SizeIs(10'000));
  // Each has its share of every thousand, as long as both have something.
  for (std::size_t from = 0; from + 1000 < 8000; from += 1000) {
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(from);
    EXPECT_GE(std::count(begin, begin + 1000, 'l'), 50) << from;
    EXPECT_GE(std::count(begin, begin + 1000, 't'), 50) << from;
  }
  EXPECT_GT(done, 0);
  EXPECT_LT(done, 3000);  // what is new does not wait for the backlog's end
}

}  // namespace
}  // namespace timing_wheel::durable::test

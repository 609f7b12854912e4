// Nodes in processes of their own, on one file.

#include <csignal>
#include <cstdlib>
#include <semaphore>

#include "durable/support/sqlite_case.hpp"
#include "durable/support/worker.hpp"
#include "support/build.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::AnyOf;
using testing::ContainerEq;

class SqliteNodes : public testing::Test {
 public:
  [[nodiscard]] worker node(const std::string& name, const std::string& environment = {}) const {
    return {folder.file(), "node", name, environment};
  }
  // Another process may be in the middle of making the tables.
  sqlite_store& store() {
    if (!store_) {
      store_ = std::make_unique<sqlite_store>(folder.file());
      store_->migrate();
    }
    return *store_;
  }
  void schedule(const std::string& kind, const std::string& key, due_time due = {}, const std::string& payload = {}) {
    put(store(), request{.kind = kind, .key = key, .payload = payload, .due = due});
  }
  bool wait_until_empty() {
    return wait_until([this] { return keys_in(store()).empty(); }, 30s);
  }

  scratch_folder folder;

 private:
  std::unique_ptr<sqlite_store> store_;
};

// ---- a clock that is an hour off

std::chrono::microseconds steady_now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch());
}

std::string hour_off(const std::string& offset) {
  return "LD_PRELOAD=" TIMING_WHEEL_LIBFAKETIME " FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME=" + offset;
}

class SqliteWrongClock : public SqliteNodes, public testing::WithParamInterface<const char*> {
 public:
  void SetUp() override {
    if (timing_wheel::test::under_address_sanitizer || timing_wheel::test::under_thread_sanitizer) {
      GTEST_SKIP() << "libfaketime and the sanitizers both want to be loaded first";
    }
    if (!std::filesystem::exists(TIMING_WHEEL_LIBFAKETIME)) {
      GTEST_SKIP() << "it needs libfaketime (Debian: faketime)";
    }
  }

  // Checks that are due one after the other, and when, by the clock that all processes share.
  void schedule_timed(int count) {
    for (int number = 0; number < count; ++number) {
      const auto delay = std::chrono::milliseconds(300 + (number * 7));
      const std::string key = "k" + std::to_string(number);
      due_after[key] = steady_now() + delay;
      schedule("timed", key, delay);
      due_before[key] = steady_now() + delay;
    }
  }
  // Ends it.
  void judge(worker& node) {
    node.end();
    for (const std::string& line : node.told()) {
      const std::string key = line.substr(0, line.find(' '));
      const std::chrono::microseconds when(std::stoll(line.substr(line.find(' ') + 1)));
      EXPECT_GE(when, due_after.at(key) - 1ms) << key;   // a millisecond for the two clocks' rounding
      EXPECT_LE(when, due_before.at(key) + 20s) << key;  // a busy machine; an hour would be late
      ++ran[key];
    }
  }

  std::map<std::string, std::chrono::microseconds> due_after;   // not earlier
  std::map<std::string, std::chrono::microseconds> due_before;  // not later
  std::map<std::string, int> ran;
};

TEST_P(SqliteWrongClock, OfOneNodeMakesNothingEarlyOrLate) {
  store();
  worker right = node("right");
  worker wrong = node("wrong", hour_off(GetParam()));
  schedule_timed(60);
  EXPECT_TRUE(wait_until_empty());
  judge(right);
  judge(wrong);
  EXPECT_THAT(ran, SizeIs(60));
}

TEST_P(SqliteWrongClock, OfTheFirstNodeMakesNothingEarlyOrLate) {
  worker wrong = node("wrong", hour_off(GetParam()));
  ASSERT_TRUE(wait_until([this] {
    users_database user(folder.file());
    return user.ask("SELECT count(*) FROM timing_wheel_clock") == "1";
  }));
  EXPECT_GT(std::chrono::abs(store().clock_difference()), 59min);  // the library that is loaded first does its work
  worker right = node("right");
  schedule_timed(60);
  EXPECT_TRUE(wait_until_empty());
  judge(right);
  judge(wrong);
  EXPECT_THAT(ran, SizeIs(60));
}

INSTANTIATE_TEST_SUITE_P(ByAnHour, SqliteWrongClock, testing::Values("+3600", "-3600"),
                         [](const auto& offset) { return offset.param[0] == '+' ? "Ahead" : "Behind"; });

// ---- an upgrade

// `./dev upgrade` names the worker of the last release, which makes the tables.
TEST_F(SqliteNodes, OfTwoReleasesShareAFile) {
  const char* const old_worker = std::getenv("TIMING_WHEEL_OLD_WORKER");
  if (old_worker == nullptr) {
    GTEST_SKIP() << "TIMING_WHEEL_OLD_WORKER names no program";
  }
  std::vector<std::string> by_old_ones;
  const auto begin_old = [&](int number) {
    return std::make_unique<worker>(folder.file(), "node", "old" + std::to_string(number), "", old_worker);
  };
  const auto end_old = [&](worker& old) {
    old.end();
    const auto told = old.told();
    by_old_ones.insert(by_old_ones.end(), told.begin(), told.end());
  };
  auto old = begin_old(0);
  ASSERT_TRUE(wait_until([&] {  // or this process would make the tables
    users_database look(folder.file());
    return look.ask("SELECT version FROM timing_wheel_schema") == "2";
  }));
  worker mine = node("new");
  constexpr int count = 2000;
  for (int number = 0; number < count; ++number) {
    schedule("good", std::to_string(number), 20ms);
    std::this_thread::sleep_for(2ms);
    if (number % 400 == 399) {
      end_old(*old);
      old = begin_old(number);
    }
  }
  EXPECT_TRUE(wait_until_empty());
  mine.end();
  end_old(*old);
  std::vector<std::string> all = mine.told();
  EXPECT_GT(all.size(), 100U);
  EXPECT_GT(by_old_ones.size(), 100U);
  all.insert(all.end(), by_old_ones.begin(), by_old_ones.end());
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), std::size_t{count}) << "none is lost";
}

// ---- a handler that kills its process

TEST_F(SqliteNodes, WhatIsClaimedBesideAPoisonCheckRuns) {
  schedule("mixed", "p", 0ms, "poison");
  std::set<std::string> all;
  for (int number = 0; number < 20; ++number) {
    const std::string key = "g" + std::to_string(number);
    all.insert(key);
    schedule("mixed", key);
  }
  std::multiset<std::string> ran;
  for (int kills = 0; kills < 3; ++kills) {
    worker killed = node("killed" + std::to_string(kills));
    EXPECT_EQ(killed.wait(), -SIGKILL);
    const auto told = killed.told();
    ran.insert(told.begin(), told.end());
  }
  worker last = node("last");
  EXPECT_TRUE(wait_until_empty());
  last.end();
  const auto told = last.told();
  ran.insert(told.begin(), told.end());
  EXPECT_THAT(std::set(ran.begin(), ran.end()), ContainerEq(all));
  const auto dead = store().list_dead(30);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].key, "p");
  EXPECT_THAT(dead[0].error, HasSubstr("none of 3 runs was done; one or more ended without a word"));
}

// ---- a node that is stopped for longer than its lease

TEST_F(SqliteNodes, OneThatIsStoppedPastItsLeaseLosesItToAnotherAndIsToldSo) {
  schedule("slow", "s");
  worker stopped = node("stopped");
  ASSERT_TRUE(stopped.stops());
  worker other = node("other");
  EXPECT_TRUE(wait_until_empty());
  stopped.go_on();
  EXPECT_TRUE(wait_until([&] { return stopped.told().size() == 2; }));
  stopped.end();
  other.end();
  ASSERT_THAT(other.told(), SizeIs(1));
  ASSERT_THAT(stopped.told(), ElementsAre(HasSubstr("begins"), "lost a lease"));
  EXPECT_GT(std::stoll(other.told()[0].substr(7)), std::stoll(stopped.told()[0].substr(7)));  // the fence rose
}

// ---- a node that is stopped in a transaction

// Five wait at once, also for each other, and a scheduler has calls of its own. Each has one busy timeout, and not one
// after the other.
TEST_F(SqliteNodes, OneThatIsStoppedInATransactionKeepsNoCallLongerThanItsBusyTimeout) {
  if (timing_wheel::test::under_thread_sanitizer) {
    GTEST_SKIP() << "the thread sanitizer does not see the count of an exception that threads share";
  }
  // A machine may stand still for as long.
  constexpr std::chrono::seconds timeout = timing_wheel::test::under_address_sanitizer ? 6s : 3s;
  schedule("frozen", "f");
  sqlite_store elsewhere(folder.file(), {.busy_timeout = timeout});
  scheduler checks(elsewhere, {.on_failure = [](const failure& /*what*/) {}});
  checks.on("other", [](const job& /*what*/) {});
  checks.schedule({.kind = "other", .key = "due", .due = 100ms});
  checks.start();
  worker stopped = node("frozen");
  ASSERT_TRUE(stopped.stops());
  const auto is_refused = [&](int number) {
    const auto begin = std::chrono::steady_clock::now();
    const std::string key = std::to_string(number);
    const caught said = error_of([&] {
      if (number % 2 == 0) {
        checks.schedule({.kind = "other", .key = key, .due = 1h});
      } else {
        put(elsewhere, key, 1h);
      }
    });
    EXPECT_EQ(said.code.value() & 0xff, SQLITE_BUSY);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2 * timeout);
  };
  on_threads(5, [&](int number) {
    std::this_thread::sleep_for(number * timeout / 10);  // the next group comes while one waits
    is_refused(number);
  });
  stopped.end();
  checks.schedule({.kind = "other", .key = "after", .due = 1h});
}

TEST_F(SqliteNodes, AStopWaitsFiveSecondsForAFileThatIsLockedAndTellsWhatItLeaves) {
  users_database user(folder.file());
  scheduler checks(store(), {.on_failure = [](const failure& /*what*/) {}});
  std::binary_semaphore ended(0);
  checks.on("locks", [&](const job& /*what*/) {
    user.run("BEGIN IMMEDIATE");
    ended.release();
  });
  checks.start();
  checks.schedule({.kind = "locks", .key = "a", .due = 0s});
  ended.acquire();
  const auto begin = std::chrono::steady_clock::now();
  const stop_result left = checks.stop(begin + 1min);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_TRUE(left.finished);
  EXPECT_EQ(left.unwritten, 1U);
  user.run("ROLLBACK");
}

// ---- processes that schedule, take and claim

class SqliteProcess : public SqliteCase {
 public:
  /// So many at a time, of one command; each must end well.
  std::vector<worker> together(int count, const char* command) {
    std::vector<worker> all;
    for (int number = 0; number < count; ++number) {
      all.emplace_back(folder.file(), command, std::string(1, static_cast<char>('a' + number)));
    }
    for (worker& each : all) {
      EXPECT_EQ(each.wait(), 0);
    }
    return all;
  }

  void fill(int count) {
    store.transact([&](store_transaction& open) {
      for (int key = 0; key < count; ++key) {
        open.schedule(asked(std::to_string(key)));
      }
    });
  }
};

class SqliteProcesses : public SqliteProcess, public testing::WithParamInterface<int> {};

TEST_P(SqliteProcesses, TakeEachCheckOnce) {
  fill(500);
  std::size_t told = 0;
  for (const worker& each : together(GetParam(), "take")) {
    told += each.told().size();
  }
  EXPECT_EQ(told, 500U);
  EXPECT_THAT(rows_of(store, "done"), SizeIs(500));
}

TEST_P(SqliteProcesses, CompleteEachCheckOnce) {
  fill(200);
  together(GetParam(), "claim");
  EXPECT_THAT(rows_of(store, "close"), IsEmpty());
  EXPECT_THAT(rows_of(store, "done"), SizeIs(200));
}

INSTANTIATE_TEST_SUITE_P(Of, SqliteProcesses, testing::Values(2, 4), testing::PrintToStringParamName());

TEST_F(SqliteProcess, AFailureAfterTheCommitLeavesItCommitted) {
  worker failing(folder.file(), "schedule", "n", "TIMING_WHEEL_FAIL_POINT=sqlite.after_commit:throw:3");
  EXPECT_EQ(failing.wait(), 1);
  EXPECT_THAT(keys_in(store), AnyOf(SizeIs(2), SizeIs(3)));
}

TEST_F(SqliteProcess, AnAnswerThatWasLostIsAskedForAgainWithoutHarm) {
  worker killed(folder.file(), "schedule", "n", "TIMING_WHEEL_FAIL_POINT=sqlite.after_commit:kill:5");
  ASSERT_EQ(killed.wait(), -SIGKILL);
  const std::size_t committed = keys_in(store).size();
  EXPECT_GT(committed, killed.told().size());  // the last answer was lost
  worker again(folder.file(), "schedule", "n");
  EXPECT_EQ(again.wait(), 0);
  EXPECT_THAT(keys_in(store), SizeIs(100));
}

}  // namespace
}  // namespace timing_wheel::durable::test

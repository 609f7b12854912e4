// What is of PostgreSQL in its store: several transactions at a time, connections, the handler's own statements, and
// what is counted. For what every store promises see store_test.cpp.

#include "timing_wheel/durable/postgres_store.hpp"

#include "durable/postgres/values.hpp"
#include "durable/support/postgres_case.hpp"
#include "support/in_child.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresStore : public PostgresCase {};  // NOLINT(readability-identifier-naming): a suite

TEST_F(PostgresStore, TwoTransactionsAtATimeLeaveOutWhatTheOtherHas) {
  put(store, "a");
  put(store, "b");
  const auto wanted = all_rows(store);
  std::vector<claimed> mine;
  std::vector<claimed> others;
  store.transact([&](store_transaction& open) {
    open.claim({wanted.data(), 1}, open.now() + 1h, mine);
    std::async(std::launch::async, [&] {
      store.transact([&](store_transaction& other) { other.consume(wanted, others); });
    }).get();
  });
  ASSERT_THAT(mine, SizeIs(1));
  ASSERT_THAT(others, SizeIs(1));
  EXPECT_EQ(mine[0].key, "a");
  EXPECT_EQ(others[0].key, "b");
}

// In one statement, on a connection that has just been used.
class PostgresAppend : public PostgresStore {  // NOLINT(readability-identifier-naming): a suite
 public:
  PostgresAppend() { put(store, "warm", 1h); }
  [[nodiscard]] bool append(const std::vector<request>& all) {
    ops.clear();
    for (const request& each : all) {
      ops.push_back({&each});
    }
    return store.append_at_once({.lock_wait = 5ms}, ops);
  }
  std::vector<append_op> ops;
};

TEST_F(PostgresAppend, WritesChecksWithTheirDeadlines) {
  const instant now = store.now();
  const std::vector<request> all = {asked("a", 1h, "payload"), asked("b", now + 2h), asked("c", -1h),
                                    asked("d", instant::max()), asked("e", std::chrono::hours::max())};
  store_counts before;
  ASSERT_TRUE(wait_until([&] {
    static_cast<void>(store.find("close", "warm"));  // a connection that was idle for a second is not trusted
    before = store.counts();
    return append(all);
  }));
  EXPECT_EQ(store.counts().statements - before.statements, 1U);
  EXPECT_EQ(store.counts().commits - before.commits, 1U);
  for (const append_op& each : ops) {
    EXPECT_TRUE(each.result.inserted);
    const stored_check found = store.find("close", each.asked->key).value();
    EXPECT_EQ(found.id, each.id);
    EXPECT_EQ(found.due, each.result.due);
    EXPECT_EQ(found.payload, each.asked->payload);
  }
  EXPECT_GE(ops[0].result.due, now + 1h);
  EXPECT_LE(ops[0].result.due, store.now() + 1h + 1s);
  EXPECT_EQ(ops[1].result.due, now + 2h);
  EXPECT_GE(ops[2].result.due, now);
  EXPECT_LE(ops[2].result.due, store.now() + 1s);
  EXPECT_EQ(ops[3].result.due, instant::max());
  EXPECT_GT(ops[4].result.due, now + std::chrono::years(290));
}

TEST_F(PostgresAppend, WritesNothingWhereAKeyIsTaken) {
  EXPECT_FALSE(append({asked("a", 1h), asked("warm", 1h)}));
  EXPECT_FALSE(store.find("close", "a"));
  EXPECT_FALSE(append({asked("a", 1h)})) << "it is not tried at once again";
  for (int times = 0; times < 16; ++times) {
    static_cast<void>(append({asked("a", 1h)}));
  }
  EXPECT_TRUE(store.find("close", "a"));
}

TEST_F(PostgresAppend, WaitsForNoKeyThatAnOpenTransactionHas) {
  user.execute("BEGIN");
  EXPECT_TRUE(schedule(user.get(), asked("a"), target).inserted);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(append({asked("a")}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  user.execute("ROLLBACK");
  EXPECT_FALSE(store.find("close", "a"));
}

TEST_F(PostgresAppend, LeavesTablesOfANewerVersionAlone) {
  user.execute("UPDATE " + table("version") + " SET version=7");
  EXPECT_FALSE(append({asked("a")}));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("check")), "1");
}

TEST_F(PostgresAppend, IsLeftToATransactionWhereTheConnectionWasIdle) {
  std::this_thread::sleep_for(1100ms);
  EXPECT_FALSE(append({asked("a")}));
  EXPECT_TRUE(wait_until([&] {
    static_cast<void>(store.find("close", "a"));
    return append({asked("a")});  // unless the machine stands still in between
  }));
}

// Ends and claims, in one statement.
class PostgresRound : public PostgresStore {  // NOLINT(readability-identifier-naming): a suite
 public:
  // "running" is claimed, the others are free.
  PostgresRound() {
    put(store, "running");
    const std::vector<upcoming> first = all_rows(store);
    store.transact([&](store_transaction& open) { open.claim(first, open.now() + 1h, running); });
    put(store, "next");
    put(store, "spare");
    done = {{running.at(0).id, running[0].fence}};
    for (const upcoming& row : all_rows(store)) {
      if (row.id != running[0].id) {
        wanted.push_back(row);
      }
    }
  }
  [[nodiscard]] bool round(std::size_t most, const transaction_limits& limits = {.lock_wait = 5ms}) {
    static_cast<void>(store.find("close", "running"));  // a connection that was idle for a second is not trusted
    asked = {.done = done, .wanted = wanted, .most = most, .lease = 1h, .got = {}, .looked_at = 0};
    const store_counts before = store.counts();
    const bool written = store.complete_and_claim_at_once(limits, asked);
    statements = store.counts().statements - before.statements;
    commits = store.counts().commits - before.commits;
    return written;
  }
  [[nodiscard]] std::string leased() {
    return user.ask("SELECT string_agg(encode(key,'escape'),' ' ORDER BY id) FROM " + table("check") +
                    " WHERE lease IS NOT NULL");
  }
  std::vector<claimed> running;
  std::vector<ticket> done;
  std::vector<upcoming> wanted;
  lease_round asked;
  std::uint64_t statements = 0;
  std::uint64_t commits = 0;
};

TEST_F(PostgresRound, EndsAndClaimsInOneStatement) {
  const instant begin = store.now();
  ASSERT_TRUE(wait_until([&] { return round(1); }));
  EXPECT_EQ(statements, 1U);
  EXPECT_EQ(commits, 1U);
  EXPECT_TRUE(done[0].still_ours);
  EXPECT_FALSE(store.find("close", "running"));
  ASSERT_THAT(asked.got, SizeIs(1));
  EXPECT_EQ(asked.got[0].key, "next");
  EXPECT_EQ(asked.got[0].id, wanted[0].id);
  EXPECT_EQ(asked.got[0].attempt, 1);
  EXPECT_GT(asked.got[0].fence, running[0].fence);
  EXPECT_FALSE(asked.got[0].orphaned);
  EXPECT_EQ(asked.looked_at, 1U);
  EXPECT_EQ(leased(), "next");
  const instant until = all_rows(store).at(0).lease;
  EXPECT_GE(until, begin + 1h);
  EXPECT_LE(until, store.now() + 1h);
}

TEST_F(PostgresRound, ClaimsASpareForWhatIsGone) {
  user.execute("DELETE FROM " + table("check") + " WHERE key='next'");
  ASSERT_TRUE(wait_until([&] { return round(1); }));
  ASSERT_THAT(asked.got, SizeIs(1));
  EXPECT_EQ(asked.got[0].key, "spare");
  EXPECT_EQ(asked.looked_at, 2U);
}

TEST_F(PostgresRound, ClaimsNothingThatIsNotDueOrThatAnotherHas) {
  user.execute("UPDATE " + table("check") + " SET due=due+3600000000 WHERE key='next';UPDATE " + table("check") +
               " SET lease=" + std::to_string((store.now() + 1h).time_since_epoch().count()) + " WHERE key='spare'");
  ASSERT_TRUE(wait_until([&] { return round(2); }));
  EXPECT_THAT(asked.got, IsEmpty());
  EXPECT_EQ(asked.looked_at, 2U);
}

TEST_F(PostgresRound, ClaimsAnOrphanUnlessItIsTooLateForThat) {
  user.execute("UPDATE " + table("check") + " SET lease=2 WHERE key='next'");
  ASSERT_TRUE(wait_until([&] { return round(2, {.orphans_until = store.now() - 1h}); }));
  ASSERT_THAT(asked.got, SizeIs(1));
  EXPECT_EQ(asked.got[0].key, "spare");
  ASSERT_TRUE(wait_until([&] { return round(2, {.orphans_until = store.now() + 1h}); }));
  ASSERT_THAT(asked.got, SizeIs(1));
  EXPECT_TRUE(asked.got[0].orphaned);
}

TEST_F(PostgresRound, TellsThatALeaseIsLost) {
  --done[0].fence;
  ASSERT_TRUE(wait_until([&] { return round(0); }));
  EXPECT_FALSE(done[0].still_ours);
  EXPECT_EQ(leased(), "running");
}

TEST_F(PostgresRound, WritesNothingWhereARowIsLocked) {
  user.execute("BEGIN");
  user.execute("SELECT 1 FROM " + table("check") + " WHERE key='running' FOR UPDATE");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(round(1));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  user.execute("ROLLBACK");
  EXPECT_EQ(leased(), "running");
  EXPECT_FALSE(round(1)) << "it is not tried at once again";
}

TEST_F(PostgresRound, LeavesTablesOfANewerVersionAlone) {
  user.execute("UPDATE " + table("version") + " SET version=7");
  EXPECT_FALSE(round(1));
  EXPECT_EQ(leased(), "running");
}

// As `pg_dump --data-only` leaves it, restored into tables that were made.
TEST_F(PostgresRound, ASecondRowOfTheVersionChangesNothing) {
  user.execute("INSERT INTO " + table("version") + " SELECT * FROM " + table("version"));
  ASSERT_TRUE(round(1));
  EXPECT_EQ(leased(), "next");
  const request late = test::asked("late");
  append_op op{&late};
  EXPECT_TRUE(store.append_at_once({.lock_wait = 5ms}, {&op, 1}));
  EXPECT_TRUE(put(store, "more").inserted);
  postgres_store other(server().conninfo(), prepared(false));
  EXPECT_TRUE(put(other, "plain").inserted);
  EXPECT_TRUE(schedule(user.get(), test::asked("mine"), target).inserted);
  EXPECT_THAT(all_rows(store), SizeIs(6));
  user.execute("DELETE FROM " + table("version"));
  EXPECT_EQ(error_of([&] { all_rows(store); }).code, make_error_code(errc::no_schema));
}

TEST_F(PostgresStore, ListsOfTheSameKeysInAnyOrderDoNotLockEachOtherUp) {
  std::atomic<int> inserted = 0;
  on_threads(4, [&](int number) {
    for (int round = 0; round < 20; ++round) {
      std::vector<request> all;
      for (int key = 0; key < 50; ++key) {
        all.push_back(asked(std::to_string((number % 2 == 0 ? key : 49 - key) + 100 * round)));
      }
      for (const append_op& op : put(store, all)) {
        inserted += op.result.inserted ? 1 : 0;
      }
    }
  });
  EXPECT_EQ(inserted, 1000);
}

TEST_F(PostgresStore, ACheckThatGoesWhileItIsScheduledAnewIsWritten) {
  put(store, "a");
  const auto wanted = all_rows(store);
  std::future<scheduled> again;
  store.transact([&](store_transaction& open) {
    std::vector<claimed> got;
    open.consume(wanted, got);
    again = std::async(std::launch::async, [&] { return put(store, asked("a", 1h, "new")); });
    std::this_thread::sleep_for(30ms);
  });
  EXPECT_TRUE(again.get().inserted);
  EXPECT_EQ(store.find("close", "a")->payload, "new");
}

TEST_F(PostgresStore, RefusesATransactionWithinAnother) {
  store.transact([&](store_transaction& open) {
    open.schedule(asked("a"));
    EXPECT_EQ(sqlstate(error_of([&] { put(store, "b"); })), "25001");
    EXPECT_FALSE(store.find("close", "a"));
  });
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
}

TEST_F(PostgresStore, AHandlersStatementsArePlannedAsTheServerDoes) {
  put(store, "a");
  const auto wanted = all_rows(store);
  for (const bool prepare : {true, false}) {
    postgres_store each(server().conninfo(), prepared(prepare));
    each.transact([&](store_transaction& open) { EXPECT_EQ(ask(open, "SHOW enable_seqscan"), "on"); });
    each.transact([&](store_transaction& open) {
      std::vector<claimed> got;
      open.consume(wanted, got);
      open.savepoint();
      EXPECT_EQ(ask(open, "SHOW enable_seqscan") + ask(open, "SHOW enable_hashjoin"), "onon");
      EXPECT_EQ(ask(open, "SHOW plan_cache_mode"), "auto");
      open.rollback_to_savepoint();
      EXPECT_EQ(ask(open, "SHOW enable_seqscan"), "on");
      open.put_back(got.at(0), "close", open.now(), 1);
    });
  }
}

TEST_F(PostgresStore, PartsFollowEachOther) {
  store.transact([&](store_transaction& open) {
    for (const char* key : {"a", "b", "c"}) {
      open.savepoint();
      ask(open, "SELECT 1/0");
      open.rollback_to_savepoint();
      open.savepoint();
      open.schedule(asked(key));
      open.release_savepoint();
    }
    open.schedule(asked("d"));
    open.savepoint();
    open.schedule(asked("e"));
    open.rollback_to_savepoint();
  });
  EXPECT_THAT(keys_in(store), ElementsAre("a", "b", "c", "d"));
}

TEST_F(PostgresStore, SaysSoIfAHandlerEndedOrBrokeTheTransaction) {
  const auto after = [&](const char* sql) {
    return sqlstate(error_of([&] {
      store.transact([&](store_transaction& open) {
        open.schedule(asked("x"));
        ask(open, sql);
      });
    }));
  };
  EXPECT_EQ(after("ROLLBACK"), "25P01");
  EXPECT_EQ(after("SELECT 1/0"), "25P02");
  EXPECT_FALSE(store.find("close", "x"));
  EXPECT_EQ(after("COMMIT"), "25P01");
  EXPECT_TRUE(put(store, "a").inserted);
}

// At the first run of its check.
TEST_F(PostgresStore, AHandlerThatEndsTheTransactionLosesNoOtherCheckAndDoublesNone) {
  const std::string effects = table("effects");
  user.execute("CREATE TABLE " + effects + "(id text)");
  for (const char* sql : {"COMMIT", "ROLLBACK", "ROLLBACK; BEGIN"}) {
    std::atomic<bool> ended_first = false;
    std::atomic<bool> ended_second = false;
    scheduler checks(store, {.poll = 20ms});
    checks.on("close", [&](transaction& open, const job& what) {
      const std::string insert = "INSERT INTO " + effects + " VALUES ('" + std::string(what.key()) + "')";
      ask(open, insert);
      if ((what.key() == "bb" && !ended_first.exchange(true)) || (what.key() == "dd" && !ended_second.exchange(true))) {
        ask(open, sql);
        ask(open, insert);
      }
      return done;
    });
    put(store, std::vector{asked("a"), asked("bb"), asked("c"), asked("dd"), asked("e")});
    checks.start();
    const std::string others = "SELECT string_agg(id, ' ' ORDER BY id) FROM " + effects + " WHERE length(id) = 1";
    EXPECT_TRUE(wait_until([&] { return keys_in(store).empty() && user.ask(others) == "a c e"; })) << sql;
    checks.stop();
    EXPECT_TRUE(ended_first && ended_second) << sql;
    EXPECT_EQ(user.ask(others), "a c e") << sql;
    user.execute("TRUNCATE " + effects);
  }
}

TEST_F(PostgresStore, AHandlerThatOverlooksAFailedStatementHasNotDoneItsCheck) {
  user.execute("CREATE TABLE " + table("orders") + "(id text UNIQUE)");
  const auto work = [&](transaction& open, const job& what) {
    const std::string id = "'" + what.kind() + what.key() + "'";
    ask(open, what.key() == "bad" ? "SELECT 1/0" : "INSERT INTO " + table("orders") + " VALUES(" + id + ")");
  };
  scheduler checks(store, {.poll = 20ms});
  const handler_options twice{.max_attempts = 2, .backoff = {.first = 1ms}};
  checks.on("close", work, twice);
  checks.on(
      "other",
      [&](transaction& open, std::span<const job> jobs) {
        std::for_each(jobs.begin(), jobs.end(), [&](const job& each) { work(open, each); });
      },
      twice);
  std::vector<request> all;
  for (const std::string& kind : kinds) {
    for (const char* key : {"a", "bad", "c"}) {
      all.push_back({.kind = kind, .key = key, .payload = {}, .due = {}});
    }
  }
  checks.schedule(all);
  checks.start();
  EXPECT_TRUE(wait_until([&] { return all_rows(store).empty(); }));
  EXPECT_THAT(store.list_dead(10), SizeIs(2));
  EXPECT_EQ(user.count("SELECT count(*) FROM " + table("orders")), 4);
  EXPECT_EQ(checks.stats().retried, 2U);
  EXPECT_EQ(checks.stats().failures, 0U) << "of the store";
}

TEST_F(PostgresStore, ItsTransactionsCommitDurablyAndEndInTime) {
  user.execute("ALTER DATABASE postgres SET synchronous_commit=off");
  for (const bool prepare : {true, false}) {
    postgres_options some = prepared(prepare);
    some.transaction_timeout = 7s;
    some.statement_timeout = 6s;
    postgres_store each(server().conninfo(), some);
    each.transact([&](store_transaction& open) {
      EXPECT_EQ(ask(open, "SHOW synchronous_commit"), "on");
      EXPECT_EQ(ask(open, "SHOW idle_in_transaction_session_timeout"), "7s");
      EXPECT_EQ(ask(open, "SHOW statement_timeout"), "6s");
      EXPECT_EQ(ask(open, "SHOW transaction_isolation"), "read committed");
    });
  }
  user.execute("ALTER DATABASE postgres RESET synchronous_commit");
}

TEST_F(PostgresStore, ATransactionMayBringLimitsOfItsOwn) {
  std::vector<std::string> shown;
  const auto look = [&](store_transaction& open) {
    shown.push_back(ask(open, "SHOW idle_in_transaction_session_timeout") + " " + ask(open, "SHOW lock_timeout"));
  };
  store.transact_within({.idle = 7s}, look);
  store.transact_within({.lock_wait = 50ms, .idle = std::chrono::milliseconds::max()}, look);
  store.transact_within({}, look);
  EXPECT_THAT(shown, ElementsAre("7s 0", "1000000s 50ms", "30s 0"));
  for (const transaction_limits& none : {transaction_limits{.lock_wait = 0ms}, transaction_limits{.idle = 0ms}}) {
    EXPECT_EQ(error_of([&] { store.transact_within(none, look); }).code, timer_errc::invalid_option);
  }
}

TEST_F(PostgresStore, TheClockIsTheServersAndNeverAheadOfIt) {
  for (int turn = 0; turn < 100; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    const instant shown = store.now();
    const instant servers(
        std::chrono::microseconds(user.count("SELECT (extract(epoch FROM clock_timestamp())*1000000)::bigint")));
    EXPECT_LE(shown, servers);
    EXPECT_LT(servers - shown, 1s + (std::chrono::steady_clock::now() - begin));
  }
}

TEST_F(PostgresStore, AsksForTheClockOnceASecondAtMost) {
  static_cast<void>(store.now());
  const auto begin = std::chrono::steady_clock::now();
  const store_counts before = store.counts();
  for (int turn = 0; turn < 1000; ++turn) {
    static_cast<void>(store.now());
  }
  const auto seconds = std::chrono::floor<std::chrono::seconds>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LE(store.counts().statements - before.statements, 1U + static_cast<std::uint64_t>(seconds));
}

TEST_F(PostgresStore, CountsWhatItDoes) {
  put(store, "a");
  const store_counts before = store.counts();
  put(store, "b");
  const store_counts written = store.counts();
  EXPECT_EQ(written.statements - before.statements, 4U);  // BEGIN, its limits, INSERT, COMMIT
  EXPECT_EQ(written.commits - before.commits, 1U);
  all_rows(store);
  EXPECT_EQ(store.counts().rows_read - written.rows_read, 2U);
  const std::uint64_t statements = store.counts().statements;
  all_rows(store);
  EXPECT_EQ(store.counts().statements, statements + 1);
  store.transact([](store_transaction&) {});
  EXPECT_EQ(store.counts().commits, written.commits);
}

TEST_F(PostgresStore, AListOfManyBytesIsWrittenInParts) {
  constexpr std::size_t megabyte = std::size_t{1} << 20;
  std::vector<request> all;
  for (int key = 0; key < 40; ++key) {
    all.push_back(asked(std::to_string(key), 1h, std::string(megabyte, static_cast<char>('A' + key))));
  }
  postgres_options some = options;
  some.limits.payload = megabyte;
  postgres_store wide(server().conninfo(), some);
  put(wide, "first");
  const store_counts before = wide.counts();
  const auto ops = put(wide, all);
  EXPECT_EQ(wide.counts().statements - before.statements, 6U);  // BEGIN, its limits, three times INSERT, COMMIT
  EXPECT_EQ(wide.counts().commits - before.commits, 1U);
  EXPECT_TRUE(std::all_of(ops.begin(), ops.end(), [](const append_op& op) { return op.result.inserted; }));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("check") + " WHERE length(payload)=1048576"), "40");
  EXPECT_EQ(wide.find("close", "39")->payload, all.back().payload);
  user.execute("DELETE FROM " + table("check"));
  all.push_back(asked("0", 1h));  // of one name: the second sees the first, which is in another part
  const auto again = put(wide, all);
  EXPECT_FALSE(again.back().result.inserted);
}

TEST_F(PostgresStore, ALengthThatCannotBeSentIsRefused) {
  const std::string_view huge("", std::size_t{1} << 31);  // nobody reads it
  EXPECT_EQ(error_of([&] { postgres::parameters().bind(huge); }).code, postgres::code_of("54000"));
  EXPECT_EQ(error_of([&] { postgres::array(postgres::element::bytea).add(huge); }).code, postgres::code_of("54000"));
}

TEST_F(PostgresStore, ThreadsShareFewConnections) {
  postgres_options few = options;
  few.connections = 2;
  postgres_store narrow(server().conninfo() + " application_name=" + schema, few);
  on_threads(8, [&](int number) {
    for (int round = 0; round < 20; ++round) {
      put(narrow, std::to_string(number) + "." + std::to_string(round));
      static_cast<void>(narrow.find("close", "x"));
    }
  });
  EXPECT_THAT(all_rows(narrow), SizeIs(160));
  EXPECT_LE(user.count("SELECT count(*) FROM pg_stat_activity WHERE application_name='" + schema + "'"), 2);
}

// A new session takes ten times as long for its first looks, which a console repeats each second.
TEST_F(PostgresStore, LooksKeepTheirSession) {
  postgres_options one = options;
  one.connections = 1;
  postgres_store looking(server().conninfo() + " application_name=" + schema, one);
  const auto session = [&] {
    return user.ask("SELECT string_agg(pid::text,',') FROM pg_stat_activity WHERE application_name='" + schema + "'");
  };
  static_cast<void>(looking.find("close", "x"));
  const std::string first = session();
  static_cast<void>(looking.plan_migration());
  static_cast<void>(looking.count_kinds(10, true));
  EXPECT_EQ(session(), first);
}

TEST_F(PostgresStore, SaysSoIfItWaitsForAConnectionThatItHoldsItself) {
  postgres_options one = options;
  one.connections = 1;
  one.connect_timeout = 2s;
  one.statement_timeout = 100ms;
  postgres_store narrow(server().conninfo(), one);
  narrow.transact([&](store_transaction&) {
    const caught waited = error_of([&] { static_cast<void>(narrow.find("close", "a")); });
    EXPECT_EQ(sqlstate(waited), "53300");
    EXPECT_THAT(waited.words, HasSubstr("each of 1 connections was in use for 2100 ms"));
  });
}

TEST_F(PostgresStore, AChildOfForkIsRefusedAndLeavesTheParentAlone) {
  put(store, "a");
  const auto child = timing_wheel::test::in_child([&] {
    const bool refused = error_of([&] { put(store, "b"); }).code == timer_errc::forked &&
                         error_of([&] { all_rows(store); }).code == timer_errc::forked &&
                         error_of([&] { static_cast<void>(store.now()); }).code == timer_errc::forked;
    return refused ? 0 : 1;
  });
  EXPECT_EQ(child, (timing_wheel::test::child_end{true, 0}));
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
}

TEST_F(PostgresStore, ReadsRowsOfItsSharesAndThoseThatAreOverdue) {
  std::vector<request> all;
  for (int key = 0; key < 640; ++key) {
    all.push_back(asked(std::to_string(key), instant(std::chrono::microseconds(key + 1))));
  }
  put(store, all);
  const std::vector<std::int16_t> mine = {3, 17};
  const auto read = [&](instant overdue) {
    std::vector<upcoming> found;
    store.read_ahead({.until = instant::max(), .limit = 1000, .kinds = kinds, .shares = mine, .overdue = overdue},
                     found);
    return found;
  };
  const auto found = read(instant::min());
  EXPECT_THAT(found, SizeIs(20));
  for (const upcoming& row : found) {
    EXPECT_TRUE(row.id % 64 == 3 || row.id % 64 == 17);
  }
  const auto rows = all_rows(store);
  const auto ours = std::count_if(rows.begin(), rows.end(), [](const upcoming& row) {
    return row.due < instant(321us) || row.id % 64 == 3 || row.id % 64 == 17;
  });
  EXPECT_THAT(read(instant(321us)), SizeIs(ours));
  EXPECT_THAT(read(instant::max()), SizeIs(640));
}

TEST_F(PostgresStore, ReadsNothingOfNoShares) {
  put(store, "a");
  std::vector<upcoming> found;
  store.read_ahead({.until = instant::max(), .limit = 10, .kinds = kinds, .shares = std::span<const std::int16_t>()},
                   found);
  EXPECT_THAT(found, IsEmpty());
}

TEST_F(PostgresStore, RefusesOptionsOutOfTheirRange) {
  const auto opening = [&](auto change) {
    postgres_options some = options;
    change(some);
    return error_of([&] { postgres_store refused(server().conninfo(), some); });
  };
  const caught none = opening([](postgres_options& some) { some.connections = 0; });
  EXPECT_EQ(none.code, timer_errc::invalid_option);
  EXPECT_THAT(none.words, HasSubstr("connections is 0; it must be in [1, 64]"));
  EXPECT_EQ(opening([](postgres_options& some) { some.connections = 65; }).code, timer_errc::invalid_option);
  constexpr std::chrono::milliseconds longest = 1'000'000s;
  postgres_options patient = options;
  for (const auto option : {&postgres_options::connect_timeout, &postgres_options::statement_timeout,
                            &postgres_options::transaction_timeout}) {
    for (const std::chrono::milliseconds wrong :
         {std::chrono::milliseconds::min(), -1ms, 0ms, longest + 1ms, std::chrono::milliseconds::max()}) {
      const caught refused = opening([&](postgres_options& some) { some.*option = wrong; });
      EXPECT_EQ(refused.code, timer_errc::invalid_option);
      EXPECT_THAT(refused.words,
                  HasSubstr(" is " + std::to_string(wrong.count()) + " ms; it must be in [1 ms, 1000000000 ms]"));
    }
    patient.*option = longest;
  }
  postgres_store in_no_hurry(server().conninfo(), patient);
  EXPECT_TRUE(put(in_no_hurry, "a").inserted);
  EXPECT_EQ(opening([](postgres_options& some) { some.schema = ""; }).code, timer_errc::invalid_option);
  EXPECT_EQ(opening([](postgres_options& some) { some.schema = std::string(64, 's'); }).code,
            timer_errc::invalid_option);
}

TEST_F(PostgresStore, TheAuditOfADatabaseOfAnotherEncodingHasEachByte) {
  server().execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
  {
    postgres_store latin(server().conninfo() + " dbname=latin");
    latin.migrate();
    latin.transact([](store_transaction& open) {
      open.record({.by = "Zo\u00eb", .action = "cancel", .kind = "close", .subject = "key \U0001f642", .count = 1});
    });
    const audit_entry written = latin.audit(1).at(0);
    EXPECT_EQ(written.by, "Zo\\xc3\\xab");
    EXPECT_EQ(written.subject, "key \\xf0\\x9f\\x99\\x82");
  }
  server().execute("DROP DATABASE latin");
}

TEST(PostgresCategory, NamesTheFiveCharacters) {
  const int code = ((((4 * 36 + 0) * 36 + 25) * 36 + 0) * 36) + 1;  // 40P01
  EXPECT_EQ(postgres_category().message(code), "SQLSTATE 40P01");
  EXPECT_STREQ(postgres_category().name(), "postgres");
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include "durable/postgres/schema.hpp"

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresSchema : public PostgresCase {};  // NOLINT(readability-identifier-naming): a suite

TEST(PostgresSchemaless, AnyNameWillDo) {
  const std::string name = R"(Our "checks"; 'DROP' @ $body$ home)";
  postgres_store store(server().conninfo(), options_in(name));
  store.migrate();
  store.migrate();
  put(store, "a");
  EXPECT_THAT(claim(store), SizeIs(1));
  const sql_session user(server().conninfo());
  EXPECT_TRUE(schedule(user.get(), asked("b"), {.schema = name}).inserted);
}

TEST(PostgresSchemaless, TheSchemaMayBeThereAndMigrationIsARightOfItsOwn) {
  const std::string schema = new_schema();
  server().execute("CREATE ROLE " + schema + "_owner LOGIN; CREATE ROLE " + schema + "_other LOGIN; CREATE SCHEMA " +
                   schema + " AUTHORIZATION " + schema + "_owner");
  postgres_store other(server().conninfo() + " user=" + schema + "_other", options_in(schema));
  EXPECT_EQ(sqlstate(error_of([&] { other.migrate(); })), "42501");
  postgres_store owner(server().conninfo() + " user=" + schema + "_owner", options_in(schema));
  owner.migrate();
  EXPECT_TRUE(put(owner, "a").inserted);
}

TEST_F(PostgresSchema, TheTableRefusesWrongRows) {
  for (const char* wrong :
       {"(1,'','k','')", "(1,'close','','')", "(NULL,'close','k','')", "(1,'close',NULL,'')", "(1,'close','k',NULL)"}) {
    EXPECT_THROW(user.execute("INSERT INTO " + table("check") + "(due,kind,key,payload) VALUES" + wrong),
                 std::runtime_error)
        << wrong;
  }
  put(store, "a");
  for (const char* wrong : {"fence=-1", "attempt=-1", "id=-1"}) {
    EXPECT_THROW(user.execute("UPDATE " + table("check") + " SET " + wrong), std::runtime_error) << wrong;
  }
}

// In version 1 the column counted the claims of a row, and a job saw `id * 65536` more.
TEST_F(PostgresSchema, TheFencesOfVersion1GoOnToRise) {
  put(store, "a");
  put(store, "b");
  claim(store);
  user.execute("DROP VIEW " + table("running") + "; ALTER TABLE " + table("check") +
               " ALTER COLUMN fence TYPE integer USING 3; DROP SEQUENCE " + table("fence") + "; UPDATE " +
               table("version") + " SET version=1");
  postgres_store newer(server().conninfo(), options);
  EXPECT_EQ(error_of([&] { put(newer, "c"); }).code, make_error_code(errc::no_schema));
  EXPECT_FALSE(newer.plan_migration().additive);
  newer.migrate();
  newer.migrate();
  std::int64_t last = 0;
  for (const upcoming& row : all_rows(newer)) {
    last = std::max(last, row.id);
  }
  EXPECT_EQ(user.count("SELECT max(fence) FROM " + table("check")), last * 65536 + 3);
  user.execute("UPDATE " + table("check") + " SET lease=NULL");
  for (const claimed& one : claim(newer)) {
    EXPECT_GT(one.fence, (last + 1) * 65536);
  }
}

// Where a check is written anew, a constraint sleeps for longer than a statement may take, and than an answer may.
TEST_F(PostgresSchema, AMigrationThatWritesAllChecksAnewTakesAsLongAsItTakes) {
  put(store, "a");
  user.execute("DROP VIEW " + table("running") + "; ALTER TABLE " + table("check") +
               " ALTER COLUMN fence TYPE integer, ADD CHECK(CASE WHEN fence>=65536 THEN pg_sleep(2) IS NOT NULL END); "
               "DROP SEQUENCE " +
               table("fence") + "; UPDATE " + table("version") + " SET version=1");
  postgres_options hasty = options;
  hasty.statement_timeout = 500ms;
  postgres_store newer(server().conninfo(), hasty);
  newer.migrate();
  EXPECT_TRUE(put(newer, "b").inserted);
}

class PostgresNameInTheWay : public testing::TestWithParam<const char*> {};  // NOLINT(readability-identifier-naming)

TEST_P(PostgresNameInTheWay, IsToldByMigrate) {
  const std::string name = GetParam();
  const std::string schema = new_schema();
  server().execute("CREATE SCHEMA " + schema + "; CREATE TABLE " + schema + "." + name + "(what text)");
  postgres_store store(server().conninfo(), options_in(schema));
  const caught found = error_of([&] { store.migrate(); });
  EXPECT_THAT(found.words, HasSubstr("\"" + name + "\" already exists"));
  EXPECT_THAT(found.words, HasSubstr("rename it, or give the checks a schema of their own"));
  EXPECT_EQ(store.plan_migration().from, "") << "nothing was made";
  server().execute("ALTER TABLE " + schema + "." + name + " RENAME TO mine");
  store.migrate();
  EXPECT_EQ(store.plan_migration().from, "2.7");
}
INSTANTIATE_TEST_SUITE_P(Of, PostgresNameInTheWay, testing::Values("audit", "due", "overview", "running"),
                         [](const auto& of) { return of.param; });

TEST_F(PostgresSchema, APartOfAMigrationIsToldFromAStrangersThing) {
  user.execute("DROP FUNCTION " + table("end_drain") + "(text); DROP TABLE " + table("drained_node") +
               "; DELETE FROM " + table("addition") + " WHERE number>=4; DROP VIEW " + table("running") + "," +
               table("retrying") + "," + table("dead_check") + "; DROP TABLE " + table("long_run") + "," +
               table("failed_run") + "," + table("run_count"));
  const caught found = error_of([&] { store.migrate(); });
  EXPECT_THAT(found.words, HasSubstr("own function " + table("drain") + "(text), which its table addition does not"));
  EXPECT_THAT(found.words, Not(HasSubstr("another's")));
  user.execute("DROP FUNCTION " + table("drain"));
  store.migrate();
  EXPECT_EQ(store.plan_migration().from, "2.7");
}

class PostgresAdditions : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  PostgresAdditions() { user.execute("SET search_path=" + schema + ";" + drop_additions + "RESET search_path"); }
  void expect_that_all_works() {
    EXPECT_TRUE(put(store, "a").inserted);
    EXPECT_THAT(all_rows(store), SizeIs(1));
    EXPECT_TRUE(complete(store, claim(store).at(0)));
    EXPECT_THAT(store.renew_shares("me", kinds, 1h).value(), SizeIs(64));
  }
};

TEST_F(PostgresAdditions, AKindIsPausedOnlyWhereTheyAre) {
  std::vector<std::string> paused;
  const auto read = [&] {
    std::vector<upcoming> found;
    paused.clear();
    store.read_ahead({.until = store.now() + 1h, .limit = 10, .kinds = kinds, .paused = &paused}, found);
    return paused.size();
  };
  EXPECT_EQ(read(), 0U);
  EXPECT_EQ(error_of([&] { store.pause("close"); }).code, make_error_code(errc::no_schema));
  EXPECT_EQ(error_of([&] { store.resume("close"); }).code, make_error_code(errc::no_schema));
  EXPECT_THAT(store.paused_kinds(), testing::IsEmpty());
  EXPECT_THAT(store.audit(1), testing::IsEmpty());
  EXPECT_THAT(store.drained_nodes(), testing::IsEmpty());
  store.tell_long_runs("me", {});
  EXPECT_THAT(store.long_runs(), testing::IsEmpty());
  store.tell_failed_runs("me", {});
  EXPECT_THAT(store.failed_runs(std::vector<std::int64_t>{1}), testing::IsEmpty());
  store.tell_runs("me", {});
  EXPECT_EQ(store.runs_of_last_minute(), std::nullopt);
  EXPECT_EQ(error_of([&] { store.drain("me"); }).code, make_error_code(errc::no_schema));
  EXPECT_EQ(error_of([&] { store.transact([](store_transaction& open) { open.record({}); }); }).code,
            make_error_code(errc::no_schema));
  store.migrate();
  EXPECT_TRUE(store.pause("close"));
  EXPECT_EQ(read(), 1U) << "the first that sees the table";
  EXPECT_EQ(read(), 1U);
  user.execute("DROP TABLE " + table("paused_kind") + " CASCADE");
  EXPECT_THROW(read(), timer_error) << "who has dropped it?";
  EXPECT_EQ(read(), 0U) << "as before";
}

TEST_F(PostgresAdditions, HoldUpNobodyWhileTheyAreMade) {
  const migration_plan plan = store.plan_migration();
  EXPECT_TRUE(plan.additive);
  ASSERT_EQ(plan.statements.back(), "COMMIT");
  for (auto each = plan.statements.begin(); each != plan.statements.end() - 1; ++each) {
    user.execute(*each);
  }
  expect_that_all_works();
  user.execute("COMMIT");
  EXPECT_EQ(store.plan_migration().from, "2.7");
}

TEST_F(PostgresAdditions, WaitForNoTransactionOfAUser) {
  put(store, "b");
  user.execute("BEGIN");
  EXPECT_TRUE(schedule(user.get(), asked("a"), target).inserted);
  user.execute("SELECT * FROM " + table("check") + "," + table("version") + " FOR UPDATE");
  store.migrate();
  EXPECT_EQ(store.plan_migration().from, "2.7");
  user.execute("COMMIT");
}

// The functions run with the rights of the role that makes them.
TEST_F(PostgresAdditions, AreMadeByTheOwnerOfTheTablesOnly) {
  const std::string role = schema + "_other";
  user.execute("CREATE ROLE " + role + " LOGIN; GRANT ALL ON SCHEMA " + schema + " TO " + role + "; GRANT SELECT ON " +
               table("version") + " TO " + role);
  postgres_store other(server().conninfo() + " user=" + role, options);
  other.migrate();
  EXPECT_EQ(other.plan_migration().from, "2.0");
  store.migrate();
  EXPECT_EQ(other.plan_migration().from, "2.7");
}

TEST_F(PostgresAdditions, MayBeMadeBySeveralAtATime) {
  on_threads(6, [&](int) {
    postgres_store own(server().conninfo(), options);
    own.migrate();
    EXPECT_EQ(own.plan_migration().from, "2.7");
  });
}

class PostgresFunctions : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  [[nodiscard]] std::string call(const std::string& what) const { return user.ask("SELECT " + schema + "." + what); }
};

TEST_F(PostgresFunctions, ScheduleMoveAndCancel) {
  EXPECT_EQ(call("schedule('close','a','2 units',interval '30 minutes')"), "t");
  EXPECT_EQ(call("schedule('close','a','3 units',interval '1 hour')"), "f");
  EXPECT_EQ(store.find("close", "a")->payload, "2 units");
  EXPECT_GT(store.find("close", "a")->due, store.now() + 29min);
  EXPECT_LT(store.find("close", "a")->due, store.now() + 31min);
  EXPECT_EQ(call("reschedule('close','a',interval '1 hour')"), "moved");
  EXPECT_GT(store.find("close", "a")->due, store.now() + 59min);
  EXPECT_EQ(call("cancel('close','a')"), "cancelled");
  EXPECT_EQ(call("cancel('close','a')"), "finished");
  EXPECT_EQ(call("reschedule('close','a',interval '1 hour')"), "finished");
  user.execute("CREATE TEMPORARY TABLE orders(kind text COLLATE \"POSIX\"); INSERT INTO orders VALUES('close')");
  EXPECT_EQ(user.ask("SELECT " + schema + ".cancel(kind,'a') FROM orders"), "finished");
  put(store, "b");
  claim(store);
  EXPECT_EQ(call("cancel('close','b')"), "running");
  EXPECT_EQ(call("reschedule('close','b',interval '1 hour')"), "running");
  EXPECT_THROW(static_cast<void>(call("schedule('close','','',interval '1 hour')")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(call("schedule('close','c','',NULL)")), std::runtime_error);
}

TEST_F(PostgresFunctions, PauseAndResumeAKind) {
  EXPECT_EQ(call("pause('close')"), "t");
  EXPECT_EQ(call("pause('close')"), "f");
  ASSERT_THAT(store.paused_kinds(), testing::SizeIs(1));
  EXPECT_LE(store.paused_kinds().at(0).since, store.now());
  EXPECT_EQ(call("resume('close')"), "t");
  EXPECT_EQ(call("resume('close')"), "f");
  EXPECT_THROW(static_cast<void>(call("pause('')")), std::runtime_error);
}

TEST_F(PostgresFunctions, ReviveTheDeadUnlessTheKeyIsTaken) {
  put(store, asked("a", instant(), "2 units"));
  EXPECT_TRUE(bury(store, claim(store).at(0), "no"));
  const std::string revive = "revive_dead(" + std::to_string(store.list_dead(1).at(0).id) + ")";
  put(store, asked("a", 1h));
  EXPECT_EQ(call(revive), "f");
  EXPECT_EQ(call("cancel('close','a')"), "cancelled");
  EXPECT_EQ(call(revive), "t");
  EXPECT_EQ(call(revive), "f");
  EXPECT_THAT(store.list_dead(1), IsEmpty());
  EXPECT_EQ(claim(store).at(0).payload, "2 units");
}

// As what the command line changes; what changes nothing has none.
TEST_F(PostgresFunctions, WhatOperatorsChangeHasALineOfTheAudit) {
  for (const char* key : {"a", "b"}) {
    put(store, key);
    EXPECT_TRUE(bury(store, claim(store).at(0), "no"));
  }
  const std::vector<dead_check> dead = store.list_dead(2);
  const std::string first = std::to_string(dead.at(0).id);
  const std::string second = std::to_string(dead.at(1).id);
  for (const std::string& each :
       {std::string("pause('close')"), std::string("resume('close')"), std::string("drain('me')"),
        std::string("end_drain('me')"), "revive_dead(" + first + ")", "delete_dead(" + second + ")"}) {
    EXPECT_EQ(call(each), "t") << each;
    EXPECT_EQ(call(each), "f") << each;
  }
  std::string lines;
  std::vector<audit_entry> all = store.audit(99);
  std::reverse(all.begin(), all.end());
  for (const audit_entry& each : all) {
    lines.append(each.action).append(" ").append(each.kind).append(" ").append(each.subject).append("\n");
    EXPECT_EQ(each.by, user.ask("SELECT session_user") + " (SQL)");
    EXPECT_EQ(each.count, 1U);
  }
  EXPECT_EQ(lines, "pause close \nresume close \ndrain  node me\nend drain  node me\nretry close dead " + first +
                       "\ndelete close dead " + second + '\n');
}

// One check in each state.
TEST_F(PostgresFunctions, ViewsShowWhatTheLibraryCounts) {
  for (const auto& [key, lease] : {std::pair("dies", 1h), {"held", 1h}, {"lost", -1h}}) {
    put(store, key);
    if (const claimed one = claim(store, lease).at(0); one.key == "dies") {
      bury(store, one, "no");
    }
  }
  put(store, "late");
  put(store, "later", 1h);
  put(store, request{.kind = "other", .key = "a", .payload = {}, .due = 1h});
  store.pause("other");
  store.pause("third");
  std::string counted;
  for (const kind_counts& of : store.count_kinds()) {
    counted += of.kind + (of.paused ? " paused" : "") + (of.oldest_waiting ? " waits" : "");
    for (const std::size_t count : {of.pending, of.due, of.waiting, of.running, of.suspect, of.retrying, of.dead}) {
      counted += " " + std::to_string(count);
    }
    counted += ";";
  }
  EXPECT_EQ(user.ask("SELECT string_agg(concat(kind,CASE WHEN paused THEN ' paused' END,"
                     "CASE WHEN oldest_waiting<=now() THEN ' waits' END,' ',concat_ws(' ',pending,due,waiting,running,"
                     "suspect,retrying,dead),';'),'' ORDER BY kind) FROM " +
                     table("overview")),
            counted);
  EXPECT_EQ(counted, "close waits 2 3 2 1 1 0 1;other paused 1 0 0 0 0 0 0;third paused 0 0 0 0 0 0 0;");
  EXPECT_EQ(user.ask("SELECT string_agg(key,' ' ORDER BY key) FROM " + table("due")), "held late lost");
  EXPECT_EQ(user.ask("SELECT key||' '||error FROM " + table("dead_check") + " WHERE died<=now()"), "dies no");
  for (const upcoming& row : test::rows_of(store, "close")) {
    const failed_run failed{.node = {}, .id = row.id, .attempt = 1, .error = "no stock", .told = {}};
    store.tell_failed_runs("me", {&failed, 1});
  }
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("retrying")), "0");
  user.execute("UPDATE " + table("check") + " SET attempt=1 WHERE key='late'");
  EXPECT_EQ(user.ask("SELECT concat_ws(' ',key,attempt,node,error) FROM " + table("retrying")), "late 1 me no stock");
}

TEST_F(PostgresFunctions, AListThatLocksLeavesOutWhatOthersHaveLocked) {
  for (const char* key : {"a", "b"}) {
    put(store, key, 1h);
  }
  user.execute("BEGIN; SELECT FROM " + table("check") + " WHERE key='a' FOR UPDATE");
  store.transact([&](store_transaction& open) {
    const std::vector<stored_check> mine = open.list({.limit = 9});
    ASSERT_THAT(mine, testing::SizeIs(1));
    EXPECT_EQ(mine[0].key, "b");
    EXPECT_THAT(store.list({.limit = 9}), testing::SizeIs(2)) << "one that locks nothing waits for none";
    const sql_session other(server().conninfo());
    EXPECT_EQ(other.ask("SELECT count(*) FROM (SELECT FROM " + table("check") + " FOR UPDATE SKIP LOCKED) x"), "0");
  });
  user.execute("COMMIT");
}

TEST_F(PostgresFunctions, NeedTheirOwnRightAndNoneOnTheTables) {
  const std::string role = schema + "_shop";
  user.execute("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + role +
               "; GRANT EXECUTE ON FUNCTION " + table("schedule") + " TO " + role);
  const sql_session shop(server().conninfo() + " user=" + role);
  EXPECT_EQ(shop.ask("SELECT " + table("schedule") + "('close','a','',interval '1 hour')"), "t");
  EXPECT_THROW(shop.execute("SELECT " + table("cancel") + "('close','a')"), std::runtime_error);
  EXPECT_THROW(shop.execute("SELECT count(*) FROM " + table("check")), std::runtime_error);
}

// As a user's call in C++: the row of a check that runs stays free for its end, however long the transaction is open.
TEST_F(PostgresFunctions, ACancelThatLosesItsRaceKeepsNoLock) {
  put(store, "a");
  const sql_session claims(server().conninfo());
  claims.execute("BEGIN; UPDATE " + table("check") + " SET lease=1");
  user.execute("BEGIN");
  auto answer = std::async(std::launch::async, [&] { return call("cancel('close','a')"); });
  wait_until([&] { return server().ask("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"; });
  claims.execute("COMMIT");
  EXPECT_EQ(answer.get(), "running");
  claims.execute("SELECT * FROM " + table("check") + " FOR UPDATE NOWAIT");
  user.execute("COMMIT");
}

}  // namespace
}  // namespace timing_wheel::durable::test

// The SQL that docs/postgres.md gives to other languages and to administrators, on the tables that the library makes.

#include <regex>

#include "durable/support/postgres_case.hpp"
#include "durable/support/sql_of_page.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresPage : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  [[nodiscard]] std::string here(const std::string& sql, const std::string& role = "nobody") const {
    const std::string text = std::regex_replace(sql, std::regex("timing_wheel"), schema);
    return std::regex_replace(text, std::regex("TO (worker|shop)$"), "TO " + role);
  }

  // \returns how many rows it changed.
  int run(const std::string& sql) const {
    PGresult* answer = PQexec(user.get(), here(sql).c_str());
    EXPECT_EQ(PQresultStatus(answer), PGRES_COMMAND_OK) << PQerrorMessage(user.get());
    const int changed = std::stoi(PQcmdTuples(answer));
    PQclear(answer);
    return changed;
  }

  // A role with what a block of the page grants.
  void grant(const std::string& role, const std::vector<std::string>& grants) const {
    user.execute("CREATE ROLE " + role + " LOGIN");
    for (const std::string& each : grants) {
      user.execute(here(each, role));
    }
  }

  const std::vector<std::vector<std::string>> blocks = blocks_of_sql(TIMING_WHEEL_POSTGRES_PAGE);
};

TEST_F(PostgresPage, ItsFunctionsScheduleCancelAndReschedule) {
  ASSERT_EQ(blocks[2].size(), 11U);
  grant(schema + "_shop", {blocks[2][0], blocks[2][1]});
  const sql_session shop(server().conninfo() + " user=" + schema + "_shop");
  EXPECT_EQ(shop.ask(here(blocks[2][2])), "t");
  EXPECT_EQ(shop.ask(here(blocks[2][3])), "moved");
  EXPECT_EQ(shop.ask(here(blocks[2][4])), "cancelled");
  EXPECT_EQ(user.ask(here(blocks[2][5])), "f");
  EXPECT_EQ(user.ask(here(blocks[2][6])), "f");
  EXPECT_EQ(user.ask(here(blocks[2][7])), "t");
  EXPECT_EQ(user.ask(here(blocks[2][8])), "t");
  EXPECT_EQ(user.ask(here(blocks[2][9])), "t");
  EXPECT_EQ(user.ask(here(blocks[2][10])), "t");
}

TEST_F(PostgresPage, ItsStatementsScheduleCancelAndReschedule) {
  ASSERT_EQ(blocks.size(), 7U);
  ASSERT_EQ(blocks[3].size(), 3U);
  const std::string& schedule = blocks[3][0];
  const std::string& cancel = blocks[3][1];
  const std::string& reschedule = blocks[3][2];
  EXPECT_EQ(run(schedule), 1);
  const auto found = store.find("verify", "order-17");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload, "2 units");
  EXPECT_GT(found->due, store.now() + 29min);
  EXPECT_EQ(run(schedule), 0);
  EXPECT_EQ(run(reschedule), 1);
  EXPECT_GT(store.find("verify", "order-17")->due, store.now() + 59min);
  EXPECT_EQ(run(cancel), 1);
  EXPECT_FALSE(store.find("verify", "order-17"));
  EXPECT_EQ(run(cancel), 0);
}

TEST_F(PostgresPage, ItsStatementsLeaveARunningCheckAlone) {
  EXPECT_EQ(run(blocks[3][0]), 1);
  user.execute("UPDATE " + table("check") + " SET fence=fence+1,attempt=1,lease=1");  // one that ended long ago
  EXPECT_EQ(run(blocks[3][1]), 0);
  EXPECT_EQ(run(blocks[3][2]), 0);
}

TEST_F(PostgresPage, ItsStatementsShowAnOperatorWhatWaits) {
  ASSERT_EQ(blocks.size(), 7U);
  ASSERT_EQ(blocks[4].size(), 9U);
  ASSERT_EQ(blocks[5].size(), 1U);
  const auto ask = [&](std::size_t which) { return user.rows(here(blocks[4][which])); };
  EXPECT_EQ(ask(0).at(0).at(0), "0");
  EXPECT_TRUE(ask(1).empty());
  put(store, asked("dead", instant()));
  EXPECT_TRUE(bury(store, claim(store).at(0), "no such order"));
  put(store, asked("lost", instant()));
  claim(store);
  user.execute("UPDATE " + table("check") + " SET lease=1");
  EXPECT_EQ(ask(0).at(0).at(0), "0");
  put(store, asked("later", 1h));
  EXPECT_EQ(ask(0).at(0).at(0), "0");
  put(store, asked("waits", store.now() - 60s));
  EXPECT_NEAR(std::stod(ask(0).at(0).at(0)), 60, 30);
  const auto waiting = ask(1);
  ASSERT_EQ(waiting.size(), 1U);
  EXPECT_EQ(waiting[0][1], "1");
  EXPECT_NEAR(std::stod(waiting[0][2]), 60, 30);
  ASSERT_EQ(ask(2).size(), 1U);
  EXPECT_EQ(ask(2)[0][1], "1");
  ASSERT_EQ(ask(3).size(), 1U);
  EXPECT_EQ(ask(3)[0][2], "dead");
  EXPECT_EQ(ask(3)[0][4], "no such order");
  ASSERT_EQ(ask(4).size(), 1U);
  EXPECT_GT(std::stoll(ask(4)[0][1]), 0);
  EXPECT_FALSE(ask(5).empty());
  static_cast<void>(store.renew_shares("me", kinds, 1h));
  ASSERT_EQ(ask(6).size(), 1U);
  EXPECT_EQ(ask(6)[0][0], "close,other");
  EXPECT_EQ(ask(6)[0][1], "me");
  EXPECT_EQ(ask(6)[0][3], "t");
  EXPECT_EQ(ask(6)[0][4], "64");
  EXPECT_EQ(run(blocks[5][0]), 0);
  static_cast<void>(store.renew_shares("me", kinds, 1h, true));
  EXPECT_EQ(run(blocks[5][0]), 64);
  EXPECT_EQ(store.renew_shares("me", kinds, 1h)->size(), 64U);
}

TEST_F(PostgresPage, ItsStatementsCloseWhatABackupWithoutPrivilegesOpens) {
  user.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA " + schema + " TO PUBLIC; REVOKE SELECT ON " +
               table("paused_kind") + "," + table("addition") + " FROM PUBLIC");
  for (const std::string& each : blocks[6]) {
    user.execute(here(each));
  }
  EXPECT_EQ(user.ask("SELECT has_function_privilege('public','" + schema + ".cancel(text,text)','EXECUTE')"), "f");
  EXPECT_EQ(user.ask("SELECT has_table_privilege('public','" + table("addition") + "','SELECT')"), "t");
}

TEST_F(PostgresPage, ItsStatementsNameAKindThatNobodyServes) {
  const auto unserved = [&] { return user.rows(here(blocks[4][7])); };
  put(store, asked("later", 1h));
  EXPECT_TRUE(unserved().empty());
  put(store, asked("a", instant()));
  ASSERT_EQ(unserved().size(), 1U);
  EXPECT_EQ(unserved()[0][0], "close");
  EXPECT_EQ(unserved()[0][1], "1");
  static_cast<void>(store.renew_shares("me", kinds, 1h));
  EXPECT_TRUE(unserved().empty());
  static_cast<void>(store.renew_shares("me", kinds, 1h, true));
  EXPECT_EQ(unserved().size(), 1U);
}

TEST_F(PostgresPage, ItsStatementsNameTheTransactionThatHasLockedACheck) {
  put(store, asked("a", instant()));
  put(store, asked("b", instant()));
  const auto locked = [&] { return user.rows(here(blocks[4][8])); };
  EXPECT_TRUE(locked().empty());
  const sql_session other(server().conninfo());
  other.execute("BEGIN");
  other.execute("SELECT * FROM " + table("check") + " WHERE key='b' FOR UPDATE");
  const auto found = locked();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0][1], "b");
  EXPECT_EQ(found[0][2], std::to_string(PQbackendPID(other.get())));
  EXPECT_EQ(found[0][3], "idle in transaction");
  other.execute("ROLLBACK");
  EXPECT_TRUE(locked().empty());
}

TEST_F(PostgresPage, ARoleWithItsGrantsRuns) {
  grant(schema + "_worker", blocks[0]);
  postgres_store worker(server().conninfo() + " user=" + schema + "_worker", options);
  worker.migrate();  // there is nothing to do
  user.execute("DROP TABLE " + table("addition"));
  worker.migrate();  // it may not make what is missing, and does not need it
  put(worker, "a");
  put(worker, asked("a", 1h));
  const auto held = claim(worker).at(0);
  EXPECT_TRUE(extend(worker, held, 1h));
  EXPECT_TRUE(retry(worker, held, instant(), 0));
  EXPECT_TRUE(bury(worker, claim(worker).at(0), "no"));
  EXPECT_TRUE(worker.revive_dead(worker.list_dead(1).at(0).id));
  EXPECT_EQ(move(worker, "a", instant()), reschedule_result::moved);
  EXPECT_TRUE(complete(worker, claim(worker).at(0)));
  put(worker, "b");
  const auto wanted = all_rows(worker);
  worker.transact([&](store_transaction& open) {
    std::vector<claimed> got;
    open.consume(wanted, got);
    open.put_back(got.at(0), "close", open.now(), 1);
  });
  EXPECT_EQ(cancel(worker, "b"), cancel_result::cancelled);
  EXPECT_EQ(worker.renew_shares("me", kinds, 1s)->size(), 64U);
  EXPECT_TRUE(worker.renew_shares("me", kinds, 1s, true)->empty());
  store.drain("me");
  worker.tell_drained("me", 1);
  EXPECT_EQ(worker.drained_nodes().at(0).held, 1U);
  put(worker, "long");
  const auto runs_long = claim(worker).at(0);
  std::vector<long_run> told(1);
  told[0].id = runs_long.id;
  told[0].fence = runs_long.fence;
  worker.tell_long_runs("me", told);
  EXPECT_EQ(worker.long_runs().at(0).key, "long");
  retry(worker, runs_long, store.now() + 1h, 1);
  const failed_run failed{.node = {}, .id = runs_long.id, .attempt = 1, .error = "no", .told = {}};
  worker.tell_failed_runs("me", {&failed, 1});
  EXPECT_THAT(worker.failed_runs({&failed.id, 1}), testing::SizeIs(1));
  worker.tell_failed_runs("me", {});
}

TEST_F(PostgresPage, ARoleThatMaySchedulesInItsOwnTransactions) {
  grant(schema + "_shop", blocks[1]);
  const sql_session shop(server().conninfo() + " user=" + schema + "_shop");
  const request again = replacing(asked("a", 2h));
  EXPECT_TRUE(schedule(shop.get(), asked("a", 1h), target).inserted);
  EXPECT_TRUE(schedule(shop.get(), again, target).replaced);
  EXPECT_EQ(durable::reschedule(shop.get(), "close", "a", 1h, target), reschedule_result::moved);
  EXPECT_EQ(durable::cancel(shop.get(), "close", "a", target), cancel_result::cancelled);
  EXPECT_THROW(shop.execute("SELECT * FROM " + table("dead")), std::runtime_error);
}

}  // namespace
}  // namespace timing_wheel::durable::test

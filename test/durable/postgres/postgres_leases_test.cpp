// What a lease survives: locks of users, transactions that last, and a server that is away.

#include <csignal>
#include <list>

#include "durable/support/long_jobs.hpp"
#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresLeases : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 protected:
  static constexpr std::chrono::milliseconds lease = 2s;  // a thread of a busy machine may stand still for a part of it

  PostgresLeases() { options_.statement_timeout = 6 * lease; }

  [[nodiscard]] long_jobs::store_maker store_on(const private_postgres& which) const {
    return [this, &which] { return std::make_unique<postgres_store>(which.conninfo(), options_); };
  }

  postgres_options options_ = options;
};

// ---- locks of users' open transactions, on rows of jobs that run

using lock_of_a_user = void (*)(const sql_session& user, const std::string& schema, const std::string& key);
const lock_of_a_user locks_of_users[] = {
    [](const sql_session& user, const std::string& schema, const std::string& key) {
      user.execute("SELECT 1 FROM " + schema + ".check WHERE kind='long' AND key='" + key + "' FOR UPDATE");
    },
    [](const sql_session& user, const std::string& schema, const std::string& key) {  // a foreign key
      user.execute("INSERT INTO " + schema + ".orders SELECT id FROM " + schema + ".check WHERE kind='long' AND key='" +
                   key + "'");
    },
    [](const sql_session& user, const std::string& schema, const std::string& key) {
      EXPECT_EQ(durable::cancel(user.get(), "long", key, {.schema = schema}), cancel_result::running);
    },
    [](const sql_session& user, const std::string& schema,
       const std::string& key) {  // of a row that nobody else sees
      EXPECT_TRUE(schedule(user.get(), asked("new " + key, 1h), {.schema = schema}).inserted);
    },
};

class PostgresLockedRow : public PostgresLeases {};  // NOLINT(readability-identifier-naming): a suite

// Each holds up nothing but its own row: no end, no claim, and no lease of another job.
TEST_F(PostgresLockedRow, HoldsUpNothingElse) {
  long_jobs jobs(store_on(server()), lease);
  std::atomic<int> quick = 0;
  const auto add_quick = [&](scheduler& checks) { checks.on("quick", [&](const job&) { ++quick; }); };
  jobs.add_node(add_quick);
  jobs.add_node(add_quick);
  ASSERT_TRUE(jobs.begin(10));
  user.execute("CREATE TABLE " + table("orders") + "(check_id bigint REFERENCES " + table("check") +
               "(id) ON DELETE CASCADE)");
  std::list<sql_session> users;
  for (const lock_of_a_user lock : locks_of_users) {
    sql_session& each = users.emplace_back(server().conninfo());
    each.execute("BEGIN");
    lock(each, schema, std::to_string(users.size() - 1));
  }
  for (int number = 0; number < 20; ++number) {
    put(store, request{.kind = "quick", .key = std::to_string(number), .payload = {}, .due = {}});
    std::this_thread::sleep_for(lease / 5);  // four leases in all
  }
  EXPECT_TRUE(wait_until([&] { return quick == 20; }));
  EXPECT_TRUE(wait_until([&] { return rows_of(store, "quick").empty(); })) << "their ends are written";
  for (const sql_session& each : users) {
    each.execute("ROLLBACK");
  }
  auto runs = jobs.finish();
  EXPECT_EQ(runs.erase("0") + runs.erase("1") + runs.erase("2"), 3U);  // the rows that were locked
  expect_one_run_each(runs, 7);
}

// The server locks the row of a statement that has waited before it looks whether the row is still what was asked for.
TEST_F(PostgresLeases, ACallThatLosesItsRaceLetsTheRowGo) {
  const auto lost_race_of = [&](const auto& call) {
    put(store, "a");
    const std::vector<upcoming> rows = all_rows(store);
    std::vector<claimed> got;
    user.execute("BEGIN");
    std::thread racing;
    store.transact([&](store_transaction& open) {
      open.claim(rows, open.now() + 1h, got);
      racing = std::thread([&] { call(); });
      wait_until([] { return server().ask("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"; });
    });
    racing.join();
    ASSERT_THAT(got, SizeIs(1));
    ticket of{got[0].id, got[0].fence};
    store.transact_within({.lock_wait = 1ms}, [&](store_transaction& open) { open.complete({&of, 1}); });
    EXPECT_TRUE(of.still_ours);
    user.execute("COMMIT");
  };
  lost_race_of([&] { EXPECT_EQ(durable::cancel(user.get(), "close", "a", target), cancel_result::running); });
  lost_race_of([&] {
    EXPECT_EQ(durable::reschedule(user.get(), "close", "a", due_time(1h), target), reschedule_result::running);
  });
  lost_race_of([&] {
    const request again = replacing(asked("a", 1h));
    const scheduled result = schedule(user.get(), again, target);
    EXPECT_FALSE(result.inserted || result.replaced);
  });
}

// ---- handlers that last

TEST_F(PostgresLeases, ATransactionalHandlerKeepsNoLeaseFromBeingExtended) {
  expect_that_a_transactional_handler_doubles_no_run(store_on(server()), lease, 2 * lease);
}

// ---- a server that is away

class PostgresOutage : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  PostgresOutage() { postgres_store(own_.conninfo(), options_).migrate(); }

  [[nodiscard]] long_jobs::store_maker stores() const {
    return [this] { return std::make_unique<postgres_store>(own_.conninfo(), options_); };
  }
  void stop_and_start() {
    own_.stop(private_postgres::shutdown::immediate);
    std::this_thread::sleep_for(2 * lease);
    own_.start();
  }
  // All its processes stand still: statements that were sent before are done afterwards.
  void freeze() {
    own_.signal_all(SIGSTOP);
    std::this_thread::sleep_for(2 * lease);
    own_.signal_all(SIGCONT);
  }

  static constexpr std::chrono::milliseconds lease = 2s;
  private_postgres own_;
  postgres_options options_ = options_in("timing_wheel");
};

TEST_F(PostgresOutage, ThatEndsWithARestartDoublesNoRun) {
  expect_that_an_outage_doubles_no_run(stores(), lease, [this] { stop_and_start(); });
}
TEST_F(PostgresOutage, InWhichTheServerStandsStillDoublesNoRun) {
  expect_that_an_outage_doubles_no_run(stores(), lease, [this] { freeze(); });
}
TEST_F(PostgresOutage, ADeathInItIsSeen) {
  expect_that_a_death_in_an_outage_is_seen(stores(), lease, [this] { stop_and_start(); });
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include <csignal>
#include <iostream>

#include "durable/node/failures.hpp"
#include "durable/support/child_process.hpp"
#include "durable/support/lost_commits.hpp"
#include "durable/support/postgres_case.hpp"
#include "durable/support/postgres_ledger.hpp"

namespace timing_wheel::durable::test {
namespace {

using timing_wheel::test::lost_commits;
using timing_wheel::test::private_postgres;
using loss = lost_commits::loss;
using steady = std::chrono::steady_clock;

class PostgresFaults : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  static void SetUpTestSuite() {
    server = std::make_unique<private_postgres>(
        timing_wheel::test::private_postgres_options{.settings = {{"shared_preload_libraries", "pg_stat_statements"}}});
  }
  static void TearDownTestSuite() { server.reset(); }

  PostgresFaults() { make_ledger(server->conninfo()); }

  static std::string lossy_conninfo() { return server->conninfo() + lost_commits::lossy; }
  static std::string runs_of(const std::string& id) {
    return server->ask("SELECT count(*) FROM run WHERE id='" + id + "'");
  }
  // Waits until no check is left. \returns whether none is.
  static bool wait_for_end(std::chrono::seconds most = 60s) {
    const sql_session own(server->conninfo());
    return wait_until([&] { return own.ask("SELECT count(*) FROM timing_wheel.check") == "0"; }, most);
  }

  static inline std::unique_ptr<private_postgres> server;
};

/// A node in a process of its own. \param environment NAME=VALUE, with blanks between.
rig::child_process node_process(std::chrono::milliseconds lease, const std::string& environment = {},
                                const std::string& program = TIMING_WHEEL_POSTGRES_NODE) {
  return rig::child_process({"/bin/sh", "-c", "exec env " + environment + " " + program + " \"$@\"", "postgres_node",
                             PostgresFaults::server->conninfo(), std::to_string(lease.count())});
}

// ---- the server

TEST_F(PostgresFaults, KillsOfBackendsLoseNothing) {
  std::vector<std::string> promised;
  {
    node here(server->conninfo());
    std::jthread killer([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        std::this_thread::sleep_for(40ms);
        server->kill_backends();
      }
    });
    promised = schedule_all(here.checks, 300, 5ms);
    killer.request_stop();
    killer.join();
    EXPECT_TRUE(wait_for_end());
    EXPECT_GT(here.checks.stats().failures, 0U);
  }
  judge(server->conninfo(), promised);
}

TEST_F(PostgresFaults, AnImmediateShutdownUnderLoadLosesNothing) {
  std::vector<std::string> promised;
  {
    node one(server->conninfo());
    node other(server->conninfo());
    std::thread work([&] { promised = schedule_all(one.checks, 300, 5ms); });
    for (int times = 0; times < 3; ++times) {
      std::this_thread::sleep_for(300ms);
      times == 1 ? server->kill() : server->stop(private_postgres::shutdown::immediate);
      server->start();
    }
    work.join();
    EXPECT_TRUE(wait_for_end());
  }
  judge(server->conninfo(), promised);
}

// ---- an upgrade

// `./dev upgrade` names the node of the last release.
TEST_F(PostgresFaults, NodesOfTwoReleasesShareAStoreThatIsMigratedMeanwhile) {
  const char* const old_node = std::getenv("TIMING_WHEEL_OLD_NODE");
  if (old_node == nullptr) {
    GTEST_SKIP() << "TIMING_WHEEL_OLD_NODE names no program";
  }
  server->execute(
      "ALTER TABLE run ALTER worker SET DEFAULT 0, ALTER number SET DEFAULT 0;"
      "ALTER TABLE run ADD COLUMN program text DEFAULT current_setting('application_name');"
      "SET search_path=timing_wheel;" +
      std::string(drop_additions));
  const auto runs_by_old_ones = [](bool old) {
    return std::stoi(
        server->ask(std::string("SELECT count(*) FROM run WHERE (program='old')=") + (old ? "true" : "false")));
  };
  std::vector<std::string> promised;
  {
    node here(server->conninfo());
    std::thread work([&] { promised = schedule_all(here.checks, 3000, 2ms); });
    int by_old_ones = 0;
    for (int times = 0; times < 4; ++times) {
      rig::child_process old = node_process(500ms, "PGAPPNAME=old", old_node);
      std::this_thread::sleep_for(1s);
      if (times == 1) {
        here.store.migrate();
        EXPECT_EQ(here.store.plan_migration().from, "2.7");
        by_old_ones = runs_by_old_ones(true);
      }
      EXPECT_TRUE(old.kill());
    }
    rig::child_process old = node_process(500ms, "PGAPPNAME=old", old_node);
    work.join();
    EXPECT_TRUE(wait_for_end());
    wait_until([&] { return server->ask("SELECT count(*) FROM timing_wheel.node") == "2"; }, 15s);
    EXPECT_GT(runs_by_old_ones(true), by_old_ones + 100);
    EXPECT_GT(runs_by_old_ones(false), 100);
    EXPECT_TRUE(old.finish());
  }
  judge(server->conninfo(), promised);
}

// ---- the network

TEST_F(PostgresFaults, AScheduleWhoseAnswerWasLostMayBeRepeated) {
  postgres_store store(lossy_conninfo());
  scheduler checks(store);
  for (const loss what : {loss::of_commit, loss::of_answer}) {
    const std::string key = what == loss::of_commit ? "commit" : "answer";
    const request wanted{.kind = "transactional", .key = key, .due = 1h};
    lost_commits::plan(what);
    EXPECT_THROW(checks.schedule(wanted), timer_error);
    EXPECT_EQ(checks.schedule(wanted).inserted, what == loss::of_commit);
    EXPECT_EQ(server->ask("SELECT count(*) FROM timing_wheel.check WHERE key='" + key + "'"), "1");
  }
}

TEST_F(PostgresFaults, EachCommitOfACheckMayBeLostOrItsAnswer) {
  node here(lossy_conninfo(), 300ms, server->conninfo());
  postgres_store beside(server->conninfo());
  scheduler other(beside);
  std::vector<std::string> promised;
  int losses = lost_commits::count();
  for (const loss what : {loss::of_commit, loss::of_answer}) {
    for (const std::string& kind : ledger_kinds) {
      for (int nth = 1; nth <= 3; ++nth) {
        lost_commits::plan(what, nth);
        for (++losses; lost_commits::count() < losses && promised.size() < 1000;) {
          const std::string key = std::to_string(promised.size());
          other.schedule({.kind = kind, .key = key, .due = 20ms});
          promised.push_back(key);
          wait_until([&] { return runs_of(key) != "0"; }, 15s);
        }
      }
    }
  }
  EXPECT_TRUE(wait_for_end());
  EXPECT_EQ(lost_commits::count(), losses);
  judge(server->conninfo(), promised);
}

// ---- the node

TEST_F(PostgresFaults, ANodeThatWasStoppedInATransactionHoldsNothingUp) {
  postgres_store store(server->conninfo());
  scheduler own(store);
  // It waits for this lock, within its transaction, and is stopped there.
  sql_session blocking(server->conninfo());
  blocking.execute("BEGIN");
  blocking.execute("LOCK TABLE run IN SHARE ROW EXCLUSIVE MODE");
  rig::child_process first = node_process(500ms);
  own.schedule({.kind = "transactional", .key = "a", .due = 0ms});
  wait_until([] { return server->ask("SELECT count(*) FROM pg_locks WHERE NOT granted") != "0"; });
  first.send(SIGSTOP);
  blocking.execute("COMMIT");
  const auto begin = steady::now();
  {
    node second(server->conninfo());
    EXPECT_TRUE(wait_for_end());
  }
  EXPECT_THAT(steady::now() - begin, Le(2500ms));
  first.send(SIGCONT);
  std::this_thread::sleep_for(200ms);
  EXPECT_TRUE(first.finish());
  judge(server->conninfo(), {"a"});
}

// The store's own limit is an hour: what ends the transaction is the lease.
TEST_F(PostgresFaults, AHandlerThatStallsPastTheLeaseIsUndoneAndRunsElsewhere) {
  postgres_store store(server->conninfo(), {.transaction_timeout = 1h});
  std::string told;
  std::promise<void> wrote;
  std::promise<void> go_on;
  scheduler first(store, {.poll = 20ms, .lease = 300ms, .on_failure = [&](const failure& what) {
                            told += text_of(what.error) + "\n";
                          }});
  first.on("transactional", [&](transaction& open, const job& what) {
    write_run(open, what);
    wrote.set_value();
    go_on.get_future().wait();
  });
  first.start();
  first.schedule({.kind = "transactional", .key = "a", .due = 0ms});
  wrote.get_future().wait();
  EXPECT_EQ(runs_of("a"), "0") << "not committed";
  node second(server->conninfo());
  EXPECT_TRUE(wait_for_end());
  second.checks.stop();
  go_on.set_value();
  first.stop();
  EXPECT_THAT(told, HasSubstr("idle-in-transaction timeout"));
  EXPECT_EQ(first.stats().done, 0U);
  EXPECT_EQ(second.checks.stats().done, 1U);
  judge(server->conninfo(), {"a"});
}

class PostgresClock : public PostgresFaults, public testing::WithParamInterface<const char*> {};

TEST_P(PostgresClock, OfANodeThatIsWrongChangesNothing) {
  const char* const library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
  if (!std::filesystem::exists(library)) {
    GTEST_SKIP() << "there is no " << library << ": install Debian's package libfaketime";
  }
  if (std::string(TIMING_WHEEL_SANITIZER) == "1") {
    GTEST_SKIP() << "a sanitizer must be the first library";
  }
  rig::child_process wrong = node_process(
      1s, std::string("LD_PRELOAD=") + library + " FAKETIME=" + GetParam() + " FAKETIME_DONT_FAKE_MONOTONIC=1");
  postgres_store store(server->conninfo());
  scheduler own(store);
  const auto promised = schedule_all(own, 20, 30ms, 700ms);
  EXPECT_TRUE(wait_for_end(20s));
  EXPECT_TRUE(wrong.finish());
  EXPECT_THAT(sql_session(server->conninfo()).count("SELECT max(at-due)/1000 FROM run"), Le(1000));
  judge(server->conninfo(), promised);
}

INSTANTIATE_TEST_SUITE_P(By, PostgresClock, testing::Values("+1h", "-1h"), [](const auto& offset) {
  return std::string(offset.param[0] == '+' ? "AnHourAhead" : "AnHourBehind");
});

// ---- dead rows

// The environment may ask for more; ./dev durable-torture --snapshot does.
int asked_for(const char* name, int otherwise) {
  const char* const asked = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return asked == nullptr ? otherwise : std::stoi(asked);
}

/// Pages that the server has looked at since the last reset, and statements, for the table of the checks.
struct looks {
  double pages = 0;
  double statements = 0;
};

looks looks_of(const sql_session& own) {
  const auto row = own.rows(
      "SELECT coalesce(sum(shared_blks_hit+shared_blks_read),0),sum(calls) FROM pg_stat_statements "
      "WHERE query ILIKE '%timing_wheel%check%' AND query NOT ILIKE '%count(*)%'");
  return {std::stod(row.at(0).at(0)), std::stod(row.at(0).at(1))};
}

/// Of seconds of light work: pages for each statement.
double pages_a_statement(const sql_session& own, node& here, const std::string& prefix, int seconds = 1) {
  own.execute("SELECT pg_stat_statements_reset()");
  const auto begin = steady::now();
  for (int number = 0; steady::now() < begin + std::chrono::seconds(seconds); ++number) {
    here.checks.schedule({.kind = "transactional", .key = prefix + std::to_string(number), .due = 300ms});
    std::this_thread::sleep_for(10ms);
  }
  std::this_thread::sleep_for(500ms);
  const looks all = looks_of(own);
  return all.pages / all.statements;
}

/// How late the checks of a prefix were, in milliseconds.
struct lateness {
  double middle = 0;
  double p99 = 0;
  double most = 0;
  std::string text;
};

lateness lateness_of(const sql_session& own, const std::string& prefix) {
  const std::string part = "round((percentile_cont(";
  const std::string of_it = ") WITHIN GROUP (ORDER BY at-due)/1e3)::numeric,2),";
  const auto row = own.rows("SELECT count(*)," + part + "0.5" + of_it + part + "0.99" + of_it +
                            "round(max(at-due)/1e3,2) FROM run WHERE id LIKE '" + prefix + "%'")
                       .at(0);
  return {std::stod(row.at(1)), std::stod(row.at(2)), std::stod(row.at(3)),
          "p50 " + row.at(1) + " ms, p99 " + row.at(2) + " ms, max " + row.at(3) + " ms, of " + row.at(0)};
}

TEST_F(PostgresFaults, ASnapshotThatIsHeldWhileRowsDieDoesNotSlowLooksDown) {
  const int rows = asked_for("TIMING_WHEEL_DEAD_ROWS", 30'000);
  const int seconds = asked_for("TIMING_WHEEL_SNAPSHOT_SECONDS", 1);
  const bool is_long = seconds >= 60;
  const sql_session own(server->conninfo());
  own.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
  // Who takes over the shares of the dead looks from the beginning once: there are to be none.
  own.execute("DELETE FROM timing_wheel.node");
  own.execute("UPDATE timing_wheel.share SET owner=NULL");
  node here(server->conninfo(), 30s);
  const double clean = pages_a_statement(own, here, "clean", std::min(seconds, 60));
  const sql_session holding(server->conninfo());
  holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
  EXPECT_EQ(holding.ask("SELECT count(*) FROM timing_wheel.check"), "0");
  const due_time long_ago = here.store.now() - 1h;  // what has just died is read again for two seconds
  for (int done = 0; done < rows;) {
    std::vector<request> some;
    for (; some.size() < 500 && done < rows; ++done) {
      some.push_back({.kind = "nothing", .key = std::to_string(done), .due = long_ago});
    }
    here.checks.schedule(some);
  }
  own.execute("DELETE FROM timing_wheel.check WHERE kind='nothing'");
  std::this_thread::sleep_for(300ms);
  const double dead = pages_a_statement(own, here, "dead", seconds);
  // Twice a minute a sweep steps over all that is dead.
  EXPECT_LT(dead, clean * (is_long ? 3 : 2) + 2) << clean << " pages a statement without them";

  // They are in the way of one who begins at the beginning.
  own.execute("SELECT pg_stat_statements_reset()");
  std::vector<upcoming> found;
  here.store.read_ahead({.until = here.store.now(), .limit = 500, .kinds = ledger_kinds}, found);
  EXPECT_GT(looks_of(own).pages, rows / 200);
  holding.execute("COMMIT");
  if (is_long) {
    own.execute("VACUUM timing_wheel.check");
    pages_a_statement(own, here, "again", 60);
  }
  EXPECT_TRUE(wait_for_end());

  const lateness before = lateness_of(own, "clean");
  const lateness with = lateness_of(own, "dead");
  std::cout << rows << " dead rows, " << seconds << " s: " << dead << " pages a statement, without them " << clean
            << "\nbefore: " << before.text << "\nwith:   " << with.text << "\n";
  if (is_long) {  // else one pause of the machine would decide
    const lateness after = lateness_of(own, "again");
    std::cout << "after:  " << after.text << "\np99 by minute, ms:";
    for (const auto& minute :
         own.rows("SELECT round((percentile_cont(0.99) WITHIN GROUP (ORDER BY at-due)/1e3)::numeric,2) FROM run "
                  "WHERE id LIKE 'dead%' GROUP BY due/60000000 ORDER BY due/60000000")) {
      std::cout << ' ' << minute.front();
    }
    std::cout << '\n';
    EXPECT_LE(with.p99, 2 * std::max(before.p99, after.p99));
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test

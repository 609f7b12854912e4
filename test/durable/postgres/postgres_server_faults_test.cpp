// What jobs, leases and fences survive when something is wrong with the server itself: its disk is full, its standby
// has to take over, its clock is set.

#include <array>
#include <csignal>
#include <iostream>

#include "durable/support/long_jobs.hpp"
#include "durable/support/private_postgres.hpp"
#include "durable/support/scratch_folder.hpp"
#include "durable/support/small_disk.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::test {
namespace {

using timing_wheel::test::private_postgres;
using timing_wheel::test::private_postgres_options;
using timing_wheel::test::scratch_folder;
using timing_wheel::test::sql_session;

long_jobs::store_maker stores_on(const std::string& conninfo) {
  return [conninfo] {
    return std::make_unique<postgres_store>(conninfo, postgres_options{.connect_timeout = 2s, .statement_timeout = 3s});
  };
}

// ---- its disk

/// What a caller was told.
struct answers {
  std::vector<std::string> acknowledged;
  std::string refusal;  // the first
};

answers schedule_until_refused(scheduler& checks) {
  answers told;
  for (int number = 0; number < 10'000 && told.refusal.empty(); ++number) {
    const std::string key = std::to_string(number);
    std::string payload(20'000, 'x');  // which the server cannot make shorter
    for (std::size_t at = 0; at < payload.size(); ++at) {
      payload[at] = static_cast<char>((at * 2654435761U + static_cast<std::size_t>(number) * 40503U) >> 7U);
    }
    told.refusal = error_of([&] {
                     checks.schedule({.kind = "kept", .key = key, .payload = payload, .due = 1h});
                     told.acknowledged.push_back(key);
                   }).words;
  }
  return told;
}

class PostgresFullDisk : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  void SetUp() override {
    if (!disk_.is_there()) {
      GTEST_SKIP() << "no right to mount a small file system: it takes CAP_SYS_ADMIN, as root of a machine has";
    }
  }
  // 20 jobs run while the disk is full for three leases. `end` comes when there is room again.
  template <class End>
  static answers run_while_full(private_postgres& server, const std::filesystem::path& full, const End& end) {
    const auto stores = stores_on(server.conninfo());
    postgres_store(server.conninfo()).migrate();
    const std::unique_ptr<store> beside = stores();
    scheduler caller(*beside);
    answers told;
    expect_that_an_outage_doubles_no_run(stores, lease, [&] {
      {
        const filler all(full, 1 << 20);
        told = schedule_until_refused(caller);
        std::this_thread::sleep_for(3 * lease);
      }
      end();
    });
    EXPECT_TRUE(caller.schedule({.kind = "kept", .key = "after", .due = 1h}).inserted);
    const sql_session own(server.conninfo());
    std::set<std::string> there;
    for (const auto& row : own.rows("SELECT encode(key,'escape') FROM timing_wheel.check")) {
      there.insert(row.front());
    }
    EXPECT_FALSE(told.acknowledged.empty());
    EXPECT_THAT(there, testing::IsSupersetOf(told.acknowledged));
    EXPECT_EQ(own.ask("SELECT count(*) FROM timing_wheel.dead"), "0");
    std::cout << told.acknowledged.size() << " acknowledged, then: " << told.refusal << '\n';
    return told;
  }

  static constexpr std::chrono::milliseconds lease = 2s;
  small_disk disk_{"size=160m"};
};

// The server says so, and lives.
TEST_F(PostgresFullDisk, OfTheTablesDoublesNoRunAndItGoesOnWhenThereIsRoom) {
  const scratch_folder log;
  std::filesystem::permissions(log.path(), std::filesystem::perms::all);
  private_postgres server({.wal = log.path() / "wal", .parent = disk_.path()});
  const answers told = run_while_full(server, disk_.path(), [] {});
  EXPECT_THAT(told.refusal, AllOf(HasSubstr("No space left on device"), HasSubstr("53100")));
  EXPECT_TRUE(server.running());
}

// The server ends, and somebody has to start it.
TEST_F(PostgresFullDisk, OfTheLogDoublesNoRunAndItGoesOnAfterARestart) {
  private_postgres server({.settings = {{"max_wal_size", "32MB"}}, .wal = disk_.path() / "wal"});
  const answers told = run_while_full(server, disk_.path(), [&] {
    server.stop(private_postgres::shutdown::immediate);
    server.start();
  });
  EXPECT_THAT(told.refusal, Not(IsEmpty()));
}

// ---- its standby

/// A server, and its synchronous standby.
TEST(PostgresStart, AProgramMayBeginBeforeItsServer) {
  private_postgres server;
  const std::string conninfo = server.conninfo();
  {
    postgres_store store(conninfo);
    store.migrate();
    store.transact([](store_transaction& open) { open.schedule({.kind = "work", .key = "a", .due = 0s}); });
  }
  server.stop();
  EXPECT_THROW(postgres_store(conninfo, {.connect_timeout = 100ms}), timer_error);
  postgres_store store(conninfo, {.connect_timeout = 100ms, .connect_at_once = false});
  std::atomic<int> runs{0};
  std::atomic<int> failures{0};
  scheduler checks(store, {.wait_for_store = true, .on_failure = [&](const failure& /*what*/) { ++failures; }});
  checks.on("work", [&](const job& /*what*/) { ++runs; });
  checks.start();
  EXPECT_FALSE(checks.stats().serving);
  EXPECT_TRUE(wait_until([&] { return failures.load() >= 2; }));
  server.start();
  EXPECT_TRUE(wait_until([&] { return runs.load() == 1; }));
  EXPECT_TRUE(checks.stats().serving);
}

class PostgresFailover : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  PostgresFailover() {
    postgres_store(primary_.conninfo()).migrate();
    primary_.execute("CREATE TABLE effect(key text PRIMARY KEY)");
    primary_.wait_for_standby();
  }
  [[nodiscard]] std::string conninfo() const {
    return "host=" + primary_.host() + "," + standby_->host() + " port=" + std::to_string(primary_.port()) + "," +
           std::to_string(standby_->port()) + " user=postgres dbname=postgres target_session_attrs=read-write";
  }
  void fail_over() {
    primary_.kill();
    std::this_thread::sleep_for(300ms);
    standby_->promote();
  }

  private_postgres primary_;
  std::unique_ptr<private_postgres> standby_ = primary_.standby();
};

TEST_F(PostgresFailover, AStandbyTellsAnOperatorWhatThereIs) {
  // An answer says that the standby has applied the log up to here, the tables among it.
  postgres_store store(primary_.conninfo() + " options='-c synchronous_commit=remote_apply'");
  store.transact([](store_transaction& open) { open.schedule({.kind = "work", .key = "a", .due = 1h}); });
  postgres_store reader(standby_->conninfo());
  EXPECT_EQ(reader.count({}, 10), 1U);
  EXPECT_EQ(reader.list({.limit = 10}).at(0).key, "a");
  EXPECT_EQ(reader.count_kinds().at(0).pending, 1U);
  EXPECT_TRUE(reader.nodes().value().empty());
  EXPECT_TRUE(reader.list_dead(10).empty() && reader.audit(10).empty() && reader.drained_nodes().empty());
  int read = 0;
  reader.read_all([&](stored_check&& /*check*/) { ++read; }, [](dead_check&& /*check*/) {});
  EXPECT_EQ(read, 1);
  EXPECT_THROW(reader.pause("work"), timer_error);
}

/// A kind of leased checks that run again and again, and what fences their runs had, by key and in their order.
class beats {
 public:
  void serve(scheduler& checks) {
    checks.on("beat",
              [this](const job& what) {
                const std::scoped_lock lock(mutex_);
                fences_[what.key()].push_back(what.fence());
                return retry_after(20ms);
              },
              {.max_attempts = 1'000'000});
  }
  [[nodiscard]] std::map<std::string, std::vector<std::int64_t>> fences() const {
    const std::scoped_lock lock(mutex_);
    return fences_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<std::int64_t>> fences_;
};

/// Transactional checks with an effect each; every third is cancelled. What was not answered may be either.
struct ledger_of_a_caller {
  std::set<std::string> promised;
  std::set<std::string> cancelled;

  void go_on(scheduler& checks, const std::atomic<bool>& over) {
    for (int number = 0; !over; ++number, std::this_thread::sleep_for(5ms)) {
      const std::string key = std::to_string(number);
      try {
        checks.schedule({.kind = "once", .key = key, .payload = {}, .due = 150ms});
        if (number % 3 != 0) {
          promised.insert(key);
        } else if (checks.cancel("once", key) == cancel_result::cancelled) {
          cancelled.insert(key);
        }
      } catch (const timer_error&) {  // NOLINT(bugprone-empty-catch): nothing was promised
      }
    }
  }
};

void run_once(transaction& open, const job& what) {
  const std::array<const char*, 1> key{what.key().c_str()};
  const std::unique_ptr<PGresult, decltype(&PQclear)> done(
      PQexecParams(postgres_connection(open), "INSERT INTO effect VALUES($1)", 1, nullptr, key.data(), nullptr, nullptr,
                   0),
      &PQclear);
  if (PQresultStatus(done.get()) != PGRES_COMMAND_OK) {
    throw std::runtime_error(PQerrorMessage(postgres_connection(open)));
  }
}

TEST_F(PostgresFailover, LosesNothingThatWasAnsweredDoublesNoRunAndLetsNoFenceFall) {
  long_jobs jobs(stores_on(conninfo()), 2s);
  beats beating;
  const auto add_kinds = [&](scheduler& checks) {
    checks.on("once", run_once);
    beating.serve(checks);
  };
  scheduler& caller = *jobs.add_node(add_kinds).checks;
  jobs.add_node(add_kinds);
  ASSERT_TRUE(jobs.begin(10));
  for (const char* key : {"a", "b", "c"}) {
    caller.schedule({.kind = "beat", .key = key, .payload = {}, .due = {}});
  }
  ledger_of_a_caller told;
  std::atomic<bool> over = false;
  std::thread calling([&] { told.go_on(caller, over); });
  std::this_thread::sleep_for(700ms);
  EXPECT_TRUE(wait_until([&] { return !beating.fences()["a"].empty(); }));
  const auto before = beating.fences();
  fail_over();
  const sql_session own(standby_->conninfo());
  EXPECT_TRUE(wait_until([&] { return beating.fences()["a"].size() > before.at("a").size() + 20; }));
  over = true;
  calling.join();
  EXPECT_TRUE(wait_until([&] { return own.ask("SELECT count(*) FROM timing_wheel.check WHERE kind='once'") == "0"; }));
  expect_one_run_each(jobs.finish(), 10);

  std::set<std::string> ran;
  for (const auto& row : own.rows("SELECT key FROM effect")) {
    ran.insert(row.front());
  }
  EXPECT_THAT(ran, testing::IsSupersetOf(told.promised));
  for (const std::string& key : told.cancelled) {
    EXPECT_FALSE(ran.contains(key)) << key;
  }
  std::set<std::int64_t> drawn;
  for (const auto& [key, fences] : beating.fences()) {
    EXPECT_TRUE(std::adjacent_find(fences.begin(), fences.end(), std::greater_equal<>()) == fences.end()) << key;
    drawn.insert(fences.begin(), fences.end());
  }
  EXPECT_EQ(own.ask("SELECT count(*) FROM timing_wheel.dead"), "0");
  std::cout << told.promised.size() << " promised, " << told.cancelled.size() << " cancelled, " << drawn.size()
            << " beats\n";
}

// If the wait for the standby is given up, the server answers COMMIT with no more than a warning; and then the check is
// there for all who look.
TEST_F(PostgresFailover, WhatMayNotBeOnTheStandbyIsNotAnswered) {
  postgres_store store(conninfo(), {.statement_timeout = 1s});
  scheduler checks(store);
  const auto refusal = [&checks] {
    return error_of([&] { checks.schedule({.kind = "once", .key = "a", .payload = {}, .due = 1h}); }).words;
  };
  standby_->signal_all(SIGSTOP);
  auto first = std::async(std::launch::async, refusal);
  EXPECT_TRUE(wait_until([&] {
    return primary_.ask("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event='SyncRep'") == "1";
  }));
  EXPECT_THAT(first.get(), AllOf(HasSubstr("committing"), HasSubstr("synchronous replication"), HasSubstr("40003")));
  EXPECT_EQ(primary_.ask("SELECT count(*) FROM timing_wheel.check"), "1");
  EXPECT_THAT(refusal(), HasSubstr("no answer"));
  standby_->signal_all(SIGCONT);
  EXPECT_THAT(refusal(), IsEmpty());
  fail_over();
  EXPECT_EQ(standby_->ask("SELECT count(*) FROM timing_wheel.check"), "1");
}

// ---- its clock

constexpr const char* faketime = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

/// The clock of a server, which a test sets.
class adjustable_clock {
 public:
  adjustable_clock() {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
    set("+0");
  }
  /// By so much from the machine's: "+1h".
  void set(const char* offset) const {
    std::ofstream(folder_.file("new")) << offset << '\n';
    std::filesystem::rename(folder_.file("new"), folder_.file("offset"));
  }
  [[nodiscard]] private_postgres_options options() const {
    return {.environment = {{"LD_PRELOAD", faketime},
                            {"FAKETIME_TIMESTAMP_FILE", folder_.file("offset")},
                            {"FAKETIME_NO_CACHE", "1"},
                            {"FAKETIME_DONT_FAKE_MONOTONIC", "1"}}};
  }

 private:
  scratch_folder folder_;
};

class PostgresSetClock : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(faketime)) {
      GTEST_SKIP() << "there is no " << faketime << ": install Debian's package libfaketime";
    }
    server_ = std::make_unique<private_postgres>(clock_.options());
    postgres_store(server_->conninfo()).migrate();
  }
  [[nodiscard]] long_jobs::store_maker stores() const { return stores_on(server_->conninfo()); }

  adjustable_clock clock_;
  std::unique_ptr<private_postgres> server_;
  static constexpr std::chrono::milliseconds lease = 2s;
};

TEST_F(PostgresSetClock, ForwardAndBackDoublesNoRun) {
  expect_that_an_outage_doubles_no_run(stores(), lease, [this] {
    for (const char* each : {"+1h", "+0", "-1h"}) {
      clock_.set(each);
      std::this_thread::sleep_for(lease);
    }
  });
}

// One that is busy with transactions of its own does not take that for the time that has passed.
TEST_F(PostgresSetClock, ForwardWhileANodeIsBusyDoublesNoRun) {
  long_jobs jobs(stores(), 2 * lease);
  jobs.add_node();
  ASSERT_TRUE(jobs.begin(10));
  scheduler& busy = *jobs.add_node([](scheduler& checks) {
                           checks.on("slow", [](transaction& /*open*/, const job& /*what*/) {
                             std::this_thread::sleep_for(100ms);  // real time: the lease is the server's
                           });
                         })
                         .checks;
  std::jthread calling([&](const std::stop_token& over) {  // its answers have the clock that was set
    for (int number = 0; !over.stop_requested(); ++number, std::this_thread::sleep_for(20ms)) {
      busy.schedule({.kind = "slow", .key = std::to_string(number), .payload = {}, .due = {}});
    }
  });
  std::this_thread::sleep_for(2 * lease);  // until it may take leases over
  for (const char* each : {"+1h", "+2h", "+3h"}) {
    clock_.set(each);
    std::this_thread::sleep_for(2 * lease);
  }
  calling.request_stop();
  calling.join();
  expect_one_run_each(jobs.finish(), 10);
  EXPECT_EQ(jobs.lost_leases(), 0U);
}

TEST_F(PostgresSetClock, ForwardADeathIsSeen) {
  expect_that_a_death_in_an_outage_is_seen(stores(), lease, [this] { clock_.set("+1h"); });
}

TEST_F(PostgresSetClock, DecidesWhatIsDue) {
  long_jobs jobs(stores(), lease);
  std::mutex mutex;
  std::set<std::string> ran;
  scheduler& checks = *jobs.add_node([&](scheduler& some) {
                             some.on("once", [&](const job& what) {
                               const std::scoped_lock lock(mutex);
                               ran.insert(what.key());
                             });
                           })
                           .checks;
  const auto has_run = [&](const std::string& key) {
    const std::scoped_lock lock(mutex);
    return ran.contains(key);
  };
  const auto schedule = [&](const char* key, std::chrono::milliseconds due) {
    checks.schedule({.kind = "once", .key = key, .payload = {}, .due = due});
  };
  constexpr auto less_than_a_sweep = 10s;
  schedule("before", 2s);  // time for the clock to be set
  clock_.set("-1h");
  std::this_thread::sleep_for(lease);
  schedule("back", 200ms);
  EXPECT_TRUE(wait_until([&] { return has_run("back"); }, less_than_a_sweep));
  EXPECT_FALSE(has_run("before"));
  clock_.set("+0");
  EXPECT_TRUE(wait_until([&] { return has_run("before"); }, less_than_a_sweep));
  schedule("far", 1h);
  clock_.set("+1h");
  EXPECT_TRUE(wait_until([&] { return has_run("far"); }, less_than_a_sweep));
  EXPECT_EQ(checks.stats().failures, 0U);
}

}  // namespace
}  // namespace timing_wheel::durable::test

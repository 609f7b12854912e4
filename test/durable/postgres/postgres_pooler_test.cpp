// Behind PgBouncer in transaction mode: each transaction may have another connection of the server's.

#include <unistd.h>

#include <optional>

#include "durable/support/child_process.hpp"
#include "durable/support/postgres_case.hpp"
#include "durable/support/scratch_folder.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

constexpr const char* program = "/usr/sbin/pgbouncer";

/// A pooler of our own with two connections to the server, by a socket in a folder.
class pooler {
 public:
  /// \param more lines of its settings.
  explicit pooler(const std::string& more = {}) {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
    std::ofstream(folder_.file("pgbouncer.ini"))
        << "[databases]\n* = host=" << server().host() << " port=" << server().port() << " user=postgres\n"
        << "[pgbouncer]\nlisten_addr=\nlisten_port=6432\nunix_socket_dir=" << folder_.path().string()
        << "\nauth_type=any\npool_mode=transaction\ndefault_pool_size=2\nserver_round_robin=1\n"
        << more;
    std::vector<std::string> words = {program, "-q", folder_.file("pgbouncer.ini")};
    if (getuid() == 0) {
      words.insert(words.begin() + 1, {"-u", "postgres"});
    }
    process_.emplace(std::move(words));
    wait_until([this] { return PQping(conninfo().c_str()) == PQPING_OK; });  // its socket is there before it listens
  }

  [[nodiscard]] std::string conninfo() const {
    return "host=" + folder_.path().string() + " port=6432 dbname=postgres user=postgres";
  }

 private:
  timing_wheel::test::scratch_folder folder_;
  std::optional<rig::child_process> process_;
};

class PostgresPooler : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  PostgresPooler() {
    if (std::filesystem::exists(program)) {
      between.emplace();
    }
  }
  void SetUp() override {
    if (!between) {
      GTEST_SKIP() << "no " << program;
    }
  }

  std::optional<pooler> between;
};

TEST_F(PostgresPooler, EverythingWorksWithoutPreparedStatements) {
  postgres_store pooled(between->conninfo(), prepared(false));
  const sql_session busy(between->conninfo());
  pooled.migrate();
  on_threads(3, [&](int number) {
    for (int round = 0; round < 30; ++round) {
      put(pooled, std::to_string(number) + "." + std::to_string(round));
      static_cast<void>(pooled.find("close", "x"));
      static_cast<void>(pooled.renew_shares("n" + std::to_string(number), kinds, 1s));
    }
  });
  const auto held = claim(pooled);
  EXPECT_THAT(held, SizeIs(90));
  for (const claimed& each : held) {
    EXPECT_TRUE(complete(pooled, each));
  }
  EXPECT_THAT(all_rows(pooled), IsEmpty());
  EXPECT_EQ(busy.ask("SHOW enable_seqscan") + busy.ask("SHOW statement_timeout"), "on0") << "nothing stays behind";
  EXPECT_EQ(busy.ask("SELECT count(*) FROM pg_prepared_statements"), "0");
}

TEST_F(PostgresPooler, ATransactionalHandlerHasTheLeaseAsItsLimitAndNobodyElse) {
  postgres_store pooled(between->conninfo(), prepared(false));
  scheduler checks(pooled, {.lease = 4s});
  std::promise<std::string> limit;
  checks.on("close", [&](transaction& open, const job& /*what*/) {
    limit.set_value(ask(open, "SHOW idle_in_transaction_session_timeout"));
  });
  checks.start();
  checks.schedule(asked("a", 0ms));
  EXPECT_EQ(limit.get_future().get(), "4s");
  checks.stop();
  const sql_session first(between->conninfo());
  const sql_session second(between->conninfo());
  for (const sql_session* each : {&first, &second}) {
    each->execute("BEGIN");
    EXPECT_EQ(each->ask("SHOW idle_in_transaction_session_timeout"), "0");
  }
}

#ifdef TIMING_WHEEL_DESK
TEST_F(PostgresPooler, AnOperatorsCommandWorks) {
  put(store, "a", 1h);
  const std::string words =
      " cancel '" + between->conninfo() + "' --kind close --yes --schema " + schema + " >/dev/null";
  EXPECT_EQ(::system((TIMING_WHEEL_DESK + words).c_str()), 0);
  EXPECT_EQ(store.count({}, 1), 0U);
}
#endif

// What is set in a session would be there for all whose turn comes after.
TEST_F(PostgresPooler, PreparedStatementsAreRefusedAtOnceAndNothingIsSet) {
  postgres_options patient = options;
  patient.connect_timeout = 1h;  // so long if it were repeated
  const caught found = error_of([&] { const postgres_store pooled(between->conninfo(), patient); });
  EXPECT_EQ(sqlstate(found), "08P01") << found.words;
  EXPECT_THAT(found.words, HasSubstr("unsupported startup parameter"));
  EXPECT_THAT(found.words, HasSubstr("set postgres_options::prepare to false"));
}

TEST_F(PostgresPooler, OneThatDropsOptionsIsRefusedTooAndNothingIsSet) {
  const pooler careless("ignore_startup_parameters=options\n");
  const caught found = error_of([&] { const postgres_store pooled(careless.conninfo(), options); });
  EXPECT_EQ(sqlstate(found), "08P01") << found.words;
  EXPECT_THAT(found.words, HasSubstr("set postgres_options::prepare to false"));
  const sql_session first(careless.conninfo());
  const sql_session second(careless.conninfo());
  for (const sql_session* each : {&first, &second}) {
    each->execute("BEGIN");
    EXPECT_EQ(each->ask("SHOW enable_seqscan") + each->ask("SHOW statement_timeout"), "on0");
  }
}

TEST_F(PostgresPooler, UsersTransactionsNeedNothing) {
  const sql_session shop(between->conninfo());
  shop.execute("BEGIN");
  EXPECT_TRUE(schedule(shop.get(), asked("a", 1h), target).inserted);
  shop.execute("COMMIT");
  EXPECT_EQ(durable::cancel(shop.get(), "close", "a", target), cancel_result::cancelled);
}

}  // namespace
}  // namespace timing_wheel::durable::test

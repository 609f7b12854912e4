// Behind PgBouncer in transaction mode: each transaction may have another connection of the server's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "durable/support/postgres_case.hpp"
#include "durable/support/scratch_folder.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* program = "/usr/sbin/pgbouncer";

/// A pooler of our own with two connections to the server, by a socket in a folder.
class pooler {
 public:
  pooler() {
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
    std::ofstream(folder_.file("pgbouncer.ini"))
        << "[databases]\n* = host=" << server().host() << " port=" << server().port() << " user=postgres\n"
        << "[pgbouncer]\nlisten_addr=\nlisten_port=6432\nunix_socket_dir=" << folder_.path().string()
        << "\nauth_type=any\npool_mode=transaction\ndefault_pool_size=2\nserver_round_robin=1\n";
    start();
    for (int turn = 0; turn < 500 && !std::filesystem::exists(folder_.path() / ".s.PGSQL.6432"); ++turn) {
      std::this_thread::sleep_for(10ms);
    }
  }
  pooler(const pooler&) = delete;
  pooler& operator=(const pooler&) = delete;
  ~pooler() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  [[nodiscard]] std::string conninfo() const {
    return "host=" + folder_.path().string() + " port=6432 dbname=postgres user=postgres";
  }

 private:
  void start() {
    child_ = fork();
    if (child_ == 0) {
      const std::string settings = folder_.file("pgbouncer.ini");
      if (getuid() == 0) {
        execl(program, program, "-q", "-u", "postgres", settings.c_str(), nullptr);
      } else {
        execl(program, program, "-q", settings.c_str(), nullptr);
      }
      _exit(127);
    }
  }

  timing_wheel::test::scratch_folder folder_;
  pid_t child_ = -1;
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
  postgres_options some = options;
  some.prepare = false;
  postgres_store pooled(between->conninfo(), some);
  const postgres_session busy(between->conninfo());
  pooled.migrate();
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 30; ++round) {
        put(pooled, std::to_string(number) + "." + std::to_string(round));
        static_cast<void>(pooled.find("close", "x"));
        static_cast<void>(pooled.take_shares("n" + std::to_string(number), 1s));
      }
    });
  }
  for (std::thread& each : threads) {
    each.join();
  }
  const auto held = claim(pooled);
  EXPECT_THAT(held, SizeIs(90));
  for (const claimed& each : held) {
    EXPECT_TRUE(complete(pooled, each));
  }
  EXPECT_THAT(all_rows(pooled), IsEmpty());
  EXPECT_EQ(busy.ask("SHOW enable_seqscan") + busy.ask("SHOW statement_timeout"), "on0") << "nothing stays behind";
  EXPECT_EQ(busy.ask("SELECT count(*) FROM pg_prepared_statements"), "0");
}

TEST_F(PostgresPooler, PreparedStatementsAreAnErrorThatSaysWhatToDo) {
  postgres_options one = options;
  one.connections = 1;
  const postgres_session first(between->conninfo());
  const postgres_session second(between->conninfo());
  first.execute("BEGIN");
  postgres_store pooled(between->conninfo(), one);
  static_cast<void>(pooled.find("close", "a"));  // prepared on the other connection of the server
  second.execute("BEGIN");
  first.execute("COMMIT");
  const caught found = error_of([&] { static_cast<void>(pooled.find("close", "a")); });
  second.execute("COMMIT");
  EXPECT_EQ(sqlstate(found), "26000") << found.words;
  EXPECT_THAT(found.words, HasSubstr("set postgres_options::prepare to false"));
}

TEST_F(PostgresPooler, UsersTransactionsNeedNothing) {
  const postgres_session shop(between->conninfo());
  shop.execute("BEGIN");
  EXPECT_TRUE(schedule(shop.get(), asked("a", 1h), target).inserted);
  shop.execute("COMMIT");
  EXPECT_EQ(durable::cancel(shop.get(), "close", "a", target), cancel_result::cancelled);
}

}  // namespace
}  // namespace timing_wheel::durable::test

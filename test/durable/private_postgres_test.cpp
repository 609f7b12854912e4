#include "durable/support/private_postgres.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "durable/support/scratch_folder.hpp"
#include "durable/support/store_calls.hpp"

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
using durable::test::wait_until;
using testing::Ge;
using testing::HasSubstr;

TEST(PrivatePostgres, RunsAndIsGoneWithTheObject) {
  std::filesystem::path folder;
  pid_t process = 0;
  {
    const private_postgres server;
    folder = server.folder();
    process = server.process();
    EXPECT_EQ(server.ask("SELECT 40+2"), "42");
    EXPECT_THAT(std::stoi(server.ask("SHOW server_version_num")), Ge(130000));
    EXPECT_LT(server.socket().size(), 100U);
    EXPECT_TRUE(std::filesystem::exists(server.socket()));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(process) + "/cwd"));
}

// A backend sees a moment later that its server is gone.
bool ends(const postgres_session& open) {
  return wait_until(
      [&] { return !durable::test::error_of<std::runtime_error>([&] { open.execute("SELECT 1"); }).words.empty(); });
}

TEST(PrivatePostgres, KeepsWhatWasCommittedThroughEachEnd) {
  private_postgres server;
  server.execute("CREATE TABLE kept(n int)");
  int count = 0;
  const auto check = [&] {
    server.execute("INSERT INTO kept VALUES(1)");
    EXPECT_EQ(server.ask("SELECT count(*) FROM kept"), std::to_string(++count));
  };
  check();
  server.restart();
  check();
  server.restart(private_postgres::shutdown::immediate);
  check();
  const postgres_session open(server.conninfo());
  server.kill();
  EXPECT_FALSE(server.running());
  EXPECT_TRUE(ends(open));
  server.start();
  check();
}

TEST(PrivatePostgres, TakesSettingsAndListensWhereAsked) {
  private_postgres server({.settings = {{"max_connections", "13"}, {"application_name", "it's"}}, .loopback = true});
  const postgres_session by_port(server.loopback_conninfo());
  EXPECT_EQ(by_port.ask("SHOW max_connections"), "13");
  EXPECT_EQ(by_port.ask("SHOW application_name"), "it's");
  server.set("work_mem", "7MB");
  EXPECT_EQ(server.ask("SHOW work_mem"), "7MB");
}

TEST(PrivatePostgres, EndsTheConnectionsOfOthers) {
  const private_postgres server;
  const postgres_session one(server.conninfo());
  const postgres_session other(server.conninfo());
  EXPECT_EQ(server.kill_backends(), 2);
  EXPECT_THROW(one.execute("SELECT 1"), std::runtime_error);
}

TEST(PrivatePostgres, AStandbyHasEachCommitAndTakesOver) {
  private_postgres primary;
  primary.execute("CREATE TABLE kept(n int)");
  const auto standby = primary.standby("second");
  primary.replicate_to("second");
  primary.execute("INSERT INTO kept VALUES(1)");
  primary.kill();
  standby->promote();
  EXPECT_EQ(standby->ask("SELECT count(*) FROM kept"), "1");
  standby->execute("INSERT INTO kept VALUES(2)");
}

// The folder of a process that is killed.
TEST(PrivatePostgres, IsGoneWithAProcessThatIsKilled) {
  const scratch_folder told;
  const pid_t child = fork();
  if (child == 0) {
    const private_postgres server;
    std::ofstream(told.file("new")) << server.folder().string();
    std::filesystem::rename(told.file("new"), told.file("folder"));
    std::this_thread::sleep_for(60s);
    _exit(1);
  }
  ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(told.file("folder")); }, 60s));
  std::string folder;
  std::getline(std::ifstream(told.file("folder")), folder);
  ASSERT_TRUE(std::filesystem::exists(folder));
  pid_t server = 0;
  std::ifstream(folder + "/data/postmaster.pid") >> server;
  ASSERT_GT(server, 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(wait_until([&] { return !std::filesystem::exists(folder); }, 60s));
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(server) + "/cwd/PG_VERSION"));
}

TEST(PrivatePostgres, SaysWhatWentWrong) {
  const auto start = [] { const private_postgres server({.settings = {{"no_such_setting", "1"}}}); };
  EXPECT_THAT(durable::test::error_of<std::runtime_error>(start).words, HasSubstr("no_such_setting"));
}

}  // namespace
}  // namespace timing_wheel::test

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

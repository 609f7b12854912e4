#include "durable_server.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "common/program.hpp"

namespace order_compensation {
namespace {

namespace fs = std::filesystem;

constexpr const char* its_user = "postgres";
/// With the name of the socket a path has to stay below 108 bytes.
constexpr std::size_t longest_folder = 85;
/// The server's settings, a connection string and the shell that pg_ctl asks each mean something else by these.
constexpr const char* not_in_a_folder = "'\",\\$`";

/// Debian's place; the newest version.
fs::path find_programs() {
  fs::path best;
  double newest = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/usr/lib/postgresql", none)) {
    const double version = std::strtod(entry.path().filename().c_str(), nullptr);
    if (version > newest && fs::exists(entry.path() / "bin" / "initdb")) {
      newest = version;
      best = entry.path() / "bin";
    }
  }
  if (best.empty()) {
    throw common::usage_error(
        "--store postgres: no server in /usr/lib/postgresql; install the package postgresql, or name a server with "
        "--store postgres:CONNINFO");
  }
  return best;
}

}  // namespace

private_server::private_server() : programs_(find_programs()) {
  make_folder();
  try {
    make_server();
  } catch (...) {
    if (guard_) {
      static_cast<void>(guard_->finish());  // there will be no destructor
    } else {
      std::error_code ignored;
      fs::remove_all(folder_, ignored);
    }
    throw;
  }
}

void private_server::make_server() {
  // The guard is there before there is something to clean up.
  // What was just being made may come after it.
  const std::string clean_up =
      "read _; \"$@\" >/dev/null 2>&1; [ -e \"$0/keep\" ] && exit; "
      "for _ in 1 2 3 4 5 6 7 8 9; do rm -rf \"$0\"; [ -e \"$0\" ] || exit 0; sleep 0.3; done";
  std::vector<std::string> words{"/bin/sh", "-c", clean_up, folder_};
  std::vector<std::string> stop =
      as_its_user({programs_ / "pg_ctl", "stop", "-m", "immediate", "-D", folder_ / "data"});
  std::move(stop.begin(), stop.end(), std::back_inserter(words));
  guard_.emplace(std::move(words));
  run("initdb", {"--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C",
                 "--pgdata=" + (folder_ / "data").string()});
  // What it has written survives its kills, because the system goes on; a sync would only be for a loss of power. With
  // them, each start after a kill syncs a thousand files first.
  std::ofstream(folder_ / "data" / "postgresql.conf", std::ios::app)
      << "fsync=off\nlisten_addresses=''\nunix_socket_directories='" << folder_.string() << "'\n";
  start();
}

private_server::~private_server() { static_cast<void>(guard_->finish()); }

std::string private_server::conninfo() const { return "host='" + folder_.string() + "' user=postgres dbname=postgres"; }

void private_server::kill_and_start() {
  run("pg_ctl", {"stop", "-m", "immediate", "-D", folder_ / "data"});
  start();
}

void private_server::keep() { std::ofstream(folder_ / "keep") << '\n'; }

void private_server::make_folder() {
  const fs::path beside = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& parent : {beside, fs::temp_directory_path()}) {
    std::string name = parent / "postgres.XXXXXX";
    if (name.size() > longest_folder || name.find_first_of(not_in_a_folder) != std::string::npos ||
        mkdtemp(name.data()) == nullptr) {
      continue;
    }
    folder_ = name;
    const passwd* const user = geteuid() == 0 ? getpwnam(its_user) : nullptr;  // NOLINT(concurrency-mt-unsafe)
    const bool given = user == nullptr || chown(name.c_str(), user->pw_uid, user->pw_gid) == 0;
    if (given && succeeds({"/bin/sh", "-c", R"(cd "$0/.")", name})) {
      return;
    }
    fs::remove_all(folder_);
  }
  throw common::failure("no folder for a server");
}

void private_server::start() const {
  run("pg_ctl", {"start", "-w", "-D", folder_ / "data", "-l", folder_ / "server.log"});
}

std::vector<std::string> private_server::as_its_user(std::vector<std::string> command) const {
  if (geteuid() == 0) {
    command.insert(command.begin(), {"/usr/sbin/runuser", "-u", its_user, "--"});
  }
  return command;
}

bool private_server::succeeds(std::vector<std::string> command) const {
  std::vector<std::string> words{"/bin/sh", "-c", R"(cd / && exec "$@" >>"$0" 2>&1)", folder_ / "log"};
  command = as_its_user(std::move(command));
  std::move(command.begin(), command.end(), std::back_inserter(words));
  return child_process(std::move(words)).finish();
}

void private_server::run(const char* program, std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), programs_ / program);
  if (!succeeds(std::move(arguments))) {
    std::ifstream log(folder_ / "log");
    throw common::failure(std::string(program) + ": " +
                          std::string(std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()));
  }
}

}  // namespace order_compensation

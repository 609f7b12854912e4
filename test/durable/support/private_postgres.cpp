#include "durable/support/private_postgres.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;
namespace files = std::filesystem;

constexpr std::string_view prefix = "timing_wheel.pg.";
constexpr std::size_t longest_folder = 85;  // with the socket's name it has to stay below 108
constexpr auto patience = 60s;

[[noreturn]] void fail(const std::string& what, int error) {
  throw std::system_error(error, std::generic_category(), what);
}

bool has_server(const files::path& folder) {
  return files::exists(folder / "initdb") && files::exists(folder / "pg_ctl");
}

// The newest server of this machine, unless the environment names another.
files::path find_programs() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it
  if (const char* chosen = std::getenv("TIMING_WHEEL_TEST_POSTGRES"); chosen != nullptr && *chosen != '\0') {
    return has_server(chosen) ? chosen
                              : throw std::runtime_error(std::string("TIMING_WHEEL_TEST_POSTGRES is ") + chosen +
                                                         ": no folder with initdb and pg_ctl");
  }
  std::map<int, files::path> by_version;
  std::error_code none;
  for (const auto& entry : files::directory_iterator("/usr/lib/postgresql", none)) {
    if (has_server(entry.path() / "bin")) {
      by_version[std::atoi(entry.path().filename().c_str())] = entry.path() / "bin";
    }
  }
  if (!by_version.empty()) {
    return by_version.rbegin()->second;
  }
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  std::istringstream all(path == nullptr ? "" : path);
  for (std::string folder; std::getline(all, folder, ':');) {
    if (has_server(folder)) {
      return folder;
    }
  }
  throw std::runtime_error(
      "no PostgreSQL server to test with in /usr/lib/postgresql/*/bin or PATH: install Debian's package postgresql "
      "(apt-get install postgresql), or configure with -DTIMING_WHEEL_POSTGRES=OFF");
}

// The server refuses to run as root.
std::pair<uid_t, gid_t> find_user() {
  if (geteuid() != 0) {
    return {geteuid(), getegid()};
  }
  for (const char* name : {"postgres", "nobody"}) {
    if (const passwd* found = getpwnam(name)) {  // NOLINT(concurrency-mt-unsafe): nobody else asks
      return {found->pw_uid, found->pw_gid};
    }
  }
  throw std::runtime_error("PostgreSQL does not run as root, and there is no user postgres or nobody");
}

bool others_may_enter(files::path folder) {
  for (; !folder.empty(); folder = folder.parent_path()) {
    struct stat found {};
    if (stat(folder.c_str(), &found) != 0 || (found.st_mode & S_IXOTH) == 0) {
      return false;
    }
    if (folder == folder.root_path()) {
      break;
    }
  }
  return true;
}

files::path find_parent(bool as_other_user) {
  const files::path build = TIMING_WHEEL_PRIVATE_POSTGRES_FOLDER;
  std::error_code none;
  files::create_directories(build, none);
  const bool short_enough = build.string().size() + 1 + prefix.size() + 6 <= longest_folder;
  const bool allowed = !as_other_user || others_may_enter(build);
  return short_enough && allowed && access(build.c_str(), W_OK) == 0 ? build : files::temp_directory_path();
}

bool is_in(const std::string& process, const files::path& folder) {
  std::error_code none;
  return files::read_symlink("/proc/" + process + "/cwd", none) == folder / "data";
}

// The server whose data are there, if one runs: not by a name, but by what it has written down itself.
pid_t server_of(const files::path& folder) {
  pid_t process = 0;
  std::ifstream(folder / "data" / "postmaster.pid") >> process;
  return process > 0 && is_in(std::to_string(process), folder) ? process : 0;
}

int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);  // NOLINT(cppcoreguidelines-pro-type-reinterpret-cast)
  const bool bound = probe >= 0 && bind(probe, any, size) == 0 && getsockname(probe, any, &size) == 0;
  close(probe);
  if (!bound) {
    throw std::runtime_error("no free port on 127.0.0.1");
  }
  return ntohs(address.sin_port);
}

// As a value of a setting; so for a shell, which has other rules for what is within.
std::string in_quotes(std::string_view value, std::string_view quote = "''") {
  std::string text = "'";
  for (const char each : value) {
    each == '\'' ? text.append(quote) : text.append(1, each);
  }
  return text + "'";
}
std::string word(std::string_view value) { return in_quotes(value, R"('\'')") + " "; }

template <class Ready>
bool wait_until(Ready ready, std::chrono::seconds most = patience) {
  for (const auto end = std::chrono::steady_clock::now() + most; !ready(); std::this_thread::sleep_for(10ms)) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
  }
  return true;
}

}  // namespace

// ---- sql_session

sql_session::sql_session(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {
  if (PQstatus(connection_) != CONNECTION_OK) {
    const std::string words = PQerrorMessage(connection_);
    PQfinish(connection_);
    throw std::runtime_error(words);
  }
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
}

sql_session::~sql_session() { PQfinish(connection_); }

std::vector<std::vector<std::string>> sql_session::rows(const std::string& sql) const {
  const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection_, sql.c_str()), &PQclear);
  const ExecStatusType status = PQresultStatus(result.get());
  if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
    throw std::runtime_error(sql + ": " + PQerrorMessage(connection_));
  }
  std::vector<std::vector<std::string>> all;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    auto& values = all.emplace_back();
    for (int column = 0; column < PQnfields(result.get()); ++column) {
      values.emplace_back(PQgetvalue(result.get(), row, column));
    }
  }
  return all;
}

std::string sql_session::ask(const std::string& sql) const {
  const auto all = rows(sql);
  return all.empty() || all.front().empty() ? "" : all.front().front();
}

// ---- private_postgres

private_postgres::private_postgres(const private_postgres_options& options) : private_postgres(options, nullptr) {}

private_postgres::private_postgres(const private_postgres_options& options, const private_postgres* primary)
    : programs_(find_programs()), loopback_(options.loopback) {
  std::tie(user_, group_) = find_user();
  for (const auto& [name, value] : options.environment) {
    environment_ += word(std::string(name).append("=").append(value));
  }
  make_folder(options.parent.empty() ? find_parent(user_ != geteuid()) : options.parent);
  watch();
  try {
    port_ = loopback_ ? free_port() : port_;
    fill(options, primary);
    start();
  } catch (...) {
    pclose(life_);  // the watcher removes the folder
    throw;
  }
}

private_postgres::~private_postgres() {
  stop(shutdown::immediate);
  std::error_code ignored;
  files::remove_all(folder_, ignored);
  pclose(life_);
}

void private_postgres::make_folder(const files::path& parent) {
  std::string name = (parent / (std::string(prefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    fail("no folder " + name, errno);
  }
  folder_ = files::canonical(name);
  if (folder_.string().size() > longest_folder) {
    files::remove(folder_);
    throw std::runtime_error("the path is too long for a socket: " + name);
  }
  const std::ofstream made(folder_ / "log");
  if (chown(folder_.c_str(), user_, group_) != 0 || chown((folder_ / "log").c_str(), user_, group_) != 0) {
    fail("cannot have " + folder_.string(), errno);
  }
}

// Leaves a process behind that waits for the end of this one, however it comes, stops the server and removes the
// folder. It is nobody's child, so that whatever kills all children of a test does not kill it; and it keeps nothing
// open that a reader of the test's output waits for.
void private_postgres::watch() {
  const std::string script =
      "trap '' HUP INT TERM; read _; cd / || exit; "
      "read P <\"$0/data/postmaster.pid\" && "
      "[ \"$(readlink /proc/$P/cwd)\" = \"$0/data\" ] && kill -QUIT $P && sleep 0.3; "
      "rm -rf \"$0\"";
  const std::string command =
      "exec 3<&0; setsid sh -c " + word(script) + word(folder_.string()) + "<&3 3<&- >/dev/null 2>&1 &";
  life_ = popen(command.c_str(), "we");  // NOLINT(cert-env33-c): of what is written here
  if (life_ == nullptr) {
    fail("no process to watch", errno);
  }
}

void private_postgres::fill(const private_postgres_options& options, const private_postgres* primary) {
  if (primary == nullptr) {
    run("initdb --no-sync --auth=trust --username=postgres --encoding=UTF8 --locale=C",
        "--pgdata=" + word(data().string()) + (options.wal.empty() ? "" : "--waldir=" + word(options.wal.string())));
    configure(options, "");
  } else {
    const std::string from = primary->conninfo() + " application_name=standby";
    run("pg_basebackup --no-sync --checkpoint=fast --write-recovery-conf --wal-method=stream",
        "--dbname=" + word(from) + "--pgdata=" + word(data().string()));
    configure(options, from);
  }
}

void private_postgres::configure(const private_postgres_options& options, const std::string& primary_conninfo) {
  std::ofstream lines(data() / "postgresql.conf", std::ios::app);
  lines << "listen_addresses=" << in_quotes(loopback_ ? "127.0.0.1" : "") << '\n'
        << "port=" << port_ << '\n'
        << "unix_socket_directories=" << in_quotes(folder_.string()) << '\n'
        << "fsync=off\nmax_connections=100\nshared_buffers=64MB\nlog_min_messages=warning\n"
        << "max_wal_senders=4\nwal_level=replica\n";
  for (const auto& [name, value] : options.settings) {
    lines << name << '=' << in_quotes(value) << '\n';
  }
  if (!primary_conninfo.empty()) {  // the last one holds: this file's own are overridden by the other's
    std::ofstream(data() / "postgresql.auto.conf") << "primary_conninfo=" << in_quotes(primary_conninfo) << '\n';
  }
}

void private_postgres::run(const std::string& program, const std::string& arguments) const {
  std::string command = "cd " + word(folder_.string()) + "&& exec ";
  if (user_ != geteuid()) {
    command += "setpriv --clear-groups --reuid=" + std::to_string(user_) + " --regid=" + std::to_string(group_) + " ";
  }
  command += "env " + environment_ + programs_.string() + "/" + program + " " + arguments + " </dev/null >>log 2>&1";
  if (std::system(command.c_str()) != 0) {  // NOLINT(cert-env33-c,concurrency-mt-unsafe): of what is written here
    throw std::runtime_error(program.substr(0, program.find(" -")) + " of " + programs_.string() + " failed: " + log());
  }
}

void private_postgres::control(const std::string& what) const {
  run("pg_ctl " + what, "-w -t 60 -D " + word(data().string()));
}

void private_postgres::start() {
  if (!running()) {
    kill_orphans();
    // One that was killed leaves these behind, and its number may be that of another process, or of itself, unburied.
    std::error_code none;
    files::remove(data() / "postmaster.pid", none);
    files::remove(socket() + ".lock", none);
    control("start -l log");
  }
}

void private_postgres::stop(shutdown how) {
  try {
    if (running()) {
      control(how == shutdown::fast ? "stop -m fast" : "stop -m immediate");
    }
  } catch (const std::runtime_error&) {
    if (running()) {  // else it has ended by itself
      throw;
    }
  }
  wait_until([this] { return !signal_all(0); });  // its file goes before it does
}

void private_postgres::kill() {
  if (running()) {
    ::kill(process(), SIGKILL);
  }
  kill_orphans();
}

pid_t private_postgres::process() const { return server_of(folder_); }

// Each of the server's processes is in the folder of its data.
bool private_postgres::signal_all(int signal) const {
  bool some = false;
  std::error_code none;
  for (const auto& entry : files::directory_iterator("/proc", none)) {
    if (const std::string name = entry.path().filename().string(); is_in(name, folder_)) {
      some = true;
      ::kill(std::atoi(name.c_str()), signal);
    }
  }
  return some;
}

// A process that was busy dying when its server was killed may never come to its end, and keeps the shared memory.
void private_postgres::kill_orphans() const {
  if (!wait_until([this] { return !signal_all(SIGKILL); })) {
    throw std::runtime_error("processes of a server that has ended do not end: " + log());
  }
}

std::unique_ptr<private_postgres> private_postgres::standby() {
  return std::unique_ptr<private_postgres>(new private_postgres({}, this));
}

void private_postgres::wait_for_standby() {
  const sql_session own(conninfo());
  const auto wait_for = [&](const std::string& state) {
    if (!wait_until([&] { return own.ask("SELECT count(*) FROM pg_stat_replication WHERE " + state) != "0"; })) {
      throw std::runtime_error("there is no standby with " + state + ": " + log());
    }
  };
  wait_for("state='streaming'");
  set("synchronous_standby_names", "standby");
  wait_for("sync_state='sync'");
}

void private_postgres::promote() {
  if (ask("SELECT pg_promote(true,60)") != "t") {
    throw std::runtime_error("the standby was not promoted: " + log());
  }
}

void private_postgres::set(const std::string& name, const std::string& value) {
  const sql_session own(conninfo());
  own.execute("ALTER SYSTEM SET " + name + "=" + in_quotes(value));
  reload();
}

// The server reads its files, and then tells its processes to. It takes no connection between.
void private_postgres::reload() {
  const sql_session own(conninfo());
  const std::string before = own.ask("SELECT pg_conf_load_time()");
  own.execute("SELECT pg_reload_conf()");
  if (!wait_until([&] { return own.ask("SELECT pg_conf_load_time()") != before; })) {
    throw std::runtime_error("the server does not read its files again: " + log());
  }
}

std::string private_postgres::conninfo() const {
  return "host=" + folder_.string() + " port=" + std::to_string(port_) + " user=postgres dbname=postgres";
}

std::string private_postgres::loopback_conninfo() const {
  if (!loopback_) {
    throw std::runtime_error("this server does not listen on a port");
  }
  return "host=127.0.0.1 port=" + std::to_string(port_) + " user=postgres dbname=postgres";
}

std::string private_postgres::log() const {
  std::ifstream file(folder_ / "log");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

int private_postgres::kill_backends() const {
  return static_cast<int>(sql_session(conninfo())
                              .count("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                     "WHERE backend_type='client backend' AND pid<>pg_backend_pid()"));
}

}  // namespace timing_wheel::test

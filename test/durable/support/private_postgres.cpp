#include "durable/support/private_postgres.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
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

// The newest server of this machine, unless the environment names another.
files::path find_programs() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it
  if (const char* chosen = std::getenv("TIMING_WHEEL_TEST_POSTGRES"); chosen != nullptr && *chosen != '\0') {
    if (!files::exists(files::path(chosen) / "initdb") || !files::exists(files::path(chosen) / "postgres")) {
      throw std::runtime_error(std::string("TIMING_WHEEL_TEST_POSTGRES is ") + chosen +
                               ": no folder with initdb and postgres");
    }
    return chosen;
  }
  files::path best;
  int newest = 0;
  std::error_code none;
  for (const auto& entry : files::directory_iterator("/usr/lib/postgresql", none)) {
    const std::string name = entry.path().filename().string();
    int version = 0;
    std::from_chars(name.data(), name.data() + name.size(), version);
    if (version > newest && files::exists(entry.path() / "bin" / "initdb")) {
      newest = version;
      best = entry.path() / "bin";
    }
  }
  if (!best.empty()) {
    return best;
  }
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody changes it
  std::istringstream all(path == nullptr ? "" : path);
  for (std::string folder; std::getline(all, folder, ':');) {
    if (files::exists(files::path(folder) / "initdb") && files::exists(files::path(folder) / "postgres")) {
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

// The server whose data are there, if one runs: not by a name, but by what it has written down itself.
pid_t server_of(const files::path& folder) {
  pid_t process = 0;
  std::ifstream(folder / "data" / "postmaster.pid") >> process;
  std::error_code none;
  const files::path where = "/proc/" + std::to_string(process) + "/cwd";
  return process > 0 && files::read_symlink(where, none) == folder / "data" ? process : 0;
}

// The server of those data and its processes: each of them is in that folder.
std::vector<pid_t> processes_of(const files::path& folder) {
  std::vector<pid_t> all;
  std::error_code none;
  for (const auto& entry : files::directory_iterator("/proc", none)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    std::from_chars(name.data(), name.data() + name.size(), process);
    if (process > 0 && files::read_symlink(entry.path() / "cwd", none) == folder / "data") {
      all.push_back(process);
    }
  }
  return all;
}

// What a process has left that died with its watcher: its lock is free.
void remove_stale(const files::path& parent) {
  std::error_code none;
  for (const auto& entry : files::directory_iterator(parent, none)) {
    if (!entry.path().filename().string().starts_with(prefix)) {
      continue;
    }
    const int lock = open((entry.path() / "lock").c_str(), O_RDWR | O_CLOEXEC);
    if (lock < 0) {
      continue;
    }
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
      if (const pid_t left = server_of(entry.path()); left > 0) {
        ::kill(left, SIGQUIT);
        std::this_thread::sleep_for(200ms);
      }
      files::remove_all(entry.path(), none);
    }
    close(lock);
  }
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

std::string in_quotes(std::string_view value) {
  std::string text = "'";
  for (const char each : value) {
    text.append(each == '\'' ? 2 : 1, each);
  }
  return text + "'";
}

// This process's own, and the others.
std::vector<std::string> environment_with(const std::vector<std::pair<std::string, std::string>>& others) {
  std::vector<std::string> all;
  for (char** each = environ; *each != nullptr; ++each) {
    all.emplace_back(*each);
  }
  for (const auto& [name, value] : others) {
    all.push_back(std::string(name).append("=").append(value));
  }
  return all;
}

// As `execve` takes them.
std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& each : words) {
    pointers.push_back(each.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

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

// ---- postgres_session

postgres_session::postgres_session(const std::string& conninfo) : connection_(PQconnectdb(conninfo.c_str())) {
  if (PQstatus(connection_) != CONNECTION_OK) {
    const std::string words = PQerrorMessage(connection_);
    PQfinish(connection_);
    throw std::runtime_error(words);
  }
  PQsetNoticeProcessor(
      connection_, [](void*, const char*) {}, nullptr);
}

postgres_session::~postgres_session() { PQfinish(connection_); }

std::vector<std::vector<std::string>> postgres_session::rows(const std::string& sql) const {
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

std::string postgres_session::ask(const std::string& sql) const {
  const auto all = rows(sql);
  return all.empty() || all.front().empty() ? "" : all.front().front();
}

// ---- private_postgres

private_postgres::private_postgres(const private_postgres_options& options)
    : private_postgres(options, copy_of{nullptr, {}}) {}

private_postgres::private_postgres(const private_postgres_options& options, const copy_of& what)
    : programs_(find_programs()), environment_(environment_with(options.environment)), loopback_(options.loopback) {
  std::tie(user_, group_) = find_user();
  make_folder(options.parent.empty() ? find_parent(user_ != geteuid()) : options.parent);
  watch();
  try {
    if (loopback_) {
      port_ = free_port();
    }
    if (what.primary == nullptr) {
      std::vector<std::string> command = {"initdb",
                                          "--no-sync",
                                          "--auth=trust",
                                          "--username=postgres",
                                          "--encoding=UTF8",
                                          "--locale=C",
                                          "--pgdata=" + data().string()};
      if (!options.wal.empty()) {
        command.push_back("--waldir=" + options.wal.string());
      }
      run(command);
      configure(options, "");
    } else {
      const std::string from = what.primary->conninfo() + " application_name=" + what.name;
      run({"pg_basebackup", "--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--wal-method=stream",
           "--dbname=" + from, "--pgdata=" + data().string()});
      configure(options, from);
    }
    start();
  } catch (...) {
    if (process_ > 0) {
      stop(shutdown::immediate);
    }
    close(life_);  // the watcher removes the folder
    close(lock_);
    throw;
  }
}

private_postgres::~private_postgres() {
  if (process_ > 0) {
    stop(shutdown::immediate);
  }
  std::error_code ignored;
  files::remove_all(folder_, ignored);
  close(life_);
  close(lock_);
}

void private_postgres::make_folder(const files::path& parent) {
  remove_stale(parent);
  std::string name = (parent / (std::string(prefix) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) {
    fail("no folder " + name, errno);
  }
  folder_ = files::canonical(name);
  if (folder_.string().size() > longest_folder) {
    files::remove(folder_);
    throw std::runtime_error("the path is too long for a socket: " + name);
  }
  lock_ = open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0 || flock(lock_, LOCK_EX | LOCK_NB) != 0 || chown(folder_.c_str(), user_, group_) != 0) {
    fail("cannot have " + folder_.string(), errno);
  }
}

// Leaves a process behind that waits for the end of this one, however it comes, stops the server and removes the
// folder. It is nobody's child, so that who kills all children of a test does not kill it.
void private_postgres::watch() {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) {
    fail("no pipe", errno);
  }
  const std::string script =
      "trap '' HUP INT TERM; read _; cd / || exit; exec >/dev/null 2>&1; "
      "read P <\"$0/data/postmaster.pid\" && "
      "[ \"$(readlink /proc/$P/cwd)\" = \"$0/data\" ] && kill -QUIT $P && sleep 0.3; "
      "rm -rf \"$0\"";
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() == 0) {
      if (dup2(ends[0], STDIN_FILENO) >= 0) {
        const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(nothing, STDOUT_FILENO);  // else who reads the test's output waits for this process
        dup2(nothing, STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", script.c_str(), folder_.c_str(), nullptr);
      }
    }
    _exit(0);
  }
  close(ends[0]);
  life_ = ends[1];
  if (child < 0) {
    fail("no process to watch", errno);
  }
  waitpid(child, nullptr, 0);
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

pid_t private_postgres::spawn(const std::vector<std::string>& command) const {
  const std::string program = (programs_ / command.front()).string();
  const std::string log = (folder_ / "log").string();
  const std::string start_in = files::exists(data()) ? data().string() : folder_.string();
  std::vector<std::string> words = command;
  words.front() = program;  // a program of PostgreSQL looks for others where it is itself, or else in PATH
  const std::vector<char*> arguments = pointers_to(words);
  std::vector<std::string> variables = environment_;
  const std::vector<char*> environment = pointers_to(variables);
  const pid_t child = fork();
  if (child == 0) {  // only what a child of a process with threads may do
    const bool other = user_ != geteuid();
    if (other && (setgroups(0, nullptr) != 0 || setgid(group_) != 0 || setuid(user_) != 0)) {
      _exit(126);
    }
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (in < 0 || out < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0 || chdir(start_in.c_str()) != 0) {
      _exit(126);
    }
    setsid();  // a Ctrl-C of the terminal is for the test
    execve(program.c_str(), arguments.data(), environment.data());
    _exit(127);
  }
  if (child < 0) {
    fail("no process for " + program, errno);
  }
  return child;
}

void private_postgres::run(const std::vector<std::string>& command) const {
  const pid_t child = spawn(command);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) {
    throw std::runtime_error(command.front() + " of " + programs_.string() + " failed: " + log());
  }
}

void private_postgres::start() {
  if (process_ > 0) {
    return;
  }
  kill_orphans();
  // One that was killed leaves this behind, and the kernel may have given its number to another process.
  std::error_code none;
  files::remove(data() / "postmaster.pid", none);
  process_ = spawn({"postgres", "-D", data().string()});
  wait_until_ready();
}

void private_postgres::wait_until_ready() {
  const std::string where = conninfo();
  const bool ready = wait_until([&] {
    int status = 0;
    if (waitpid(process_, &status, WNOHANG) == process_) {
      process_ = 0;
      throw std::runtime_error("the private PostgreSQL server ended: " + log());
    }
    return PQping(where.c_str()) == PQPING_OK;
  });
  if (!ready) {
    throw std::runtime_error("the private PostgreSQL server does not answer: " + log());
  }
}

void private_postgres::wait_for_end() {
  const bool ended = wait_until([&] { return waitpid(process_, nullptr, WNOHANG) != 0; });
  if (!ended) {
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  process_ = 0;
}

void private_postgres::stop(shutdown how) {
  if (process_ > 0) {
    ::kill(process_, how == shutdown::fast ? SIGINT : SIGQUIT);
    wait_for_end();
  }
}

void private_postgres::restart(shutdown how) {
  stop(how);
  start();
}

void private_postgres::kill() {
  if (process_ > 0) {
    ::kill(process_, SIGKILL);
    wait_for_end();
  }
  kill_orphans();
}

void private_postgres::signal_all(int signal) const {
  for (const pid_t each : processes_of(folder_)) {
    ::kill(each, signal);
  }
}

// A process that was busy dying when its server was killed may never come to its end, and keeps the shared memory.
void private_postgres::kill_orphans() {
  const bool gone = wait_until([this] {
    const std::vector<pid_t> left = processes_of(folder_);
    for (const pid_t each : left) {
      ::kill(each, SIGKILL);
    }
    return left.empty();
  });
  if (!gone) {
    throw std::runtime_error("processes of a server that has ended do not end: " + log());
  }
}

std::unique_ptr<private_postgres> private_postgres::standby(const std::string& name,
                                                            const private_postgres_options& options) {
  return std::unique_ptr<private_postgres>(new private_postgres(options, copy_of{this, name}));
}

void private_postgres::replicate_to(const std::string& name) {
  const postgres_session own(conninfo());
  const auto connected = [&] {
    return own.count("SELECT count(*) FROM pg_stat_replication WHERE state='streaming' AND application_name=" +
                     in_quotes(name)) > 0;
  };
  if (!name.empty() && !wait_until(connected)) {
    throw std::runtime_error("the standby " + name + " does not come: " + log());
  }
  set("synchronous_standby_names", name);
  const auto synchronous = [&] {
    return own.count("SELECT count(*) FROM pg_stat_replication WHERE sync_state='sync'") > 0;
  };
  if (!name.empty() && !wait_until(synchronous)) {
    throw std::runtime_error("the standby " + name + " does not become synchronous: " + log());
  }
}

void private_postgres::promote() {
  if (ask("SELECT pg_promote(true,60)") != "t") {
    throw std::runtime_error("the standby was not promoted: " + log());
  }
}

void private_postgres::set(const std::string& name, const std::string& value) {
  const postgres_session own(conninfo());
  own.execute("ALTER SYSTEM SET " + name + "=" + in_quotes(value));
  reload();
}

// The server reads its files, and then tells its processes to. It takes no connection between.
void private_postgres::reload() {
  const postgres_session own(conninfo());
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
  return static_cast<int>(postgres_session(conninfo())
                              .count("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                                     "WHERE backend_type='client backend' AND pid<>pg_backend_pid()"));
}

}  // namespace timing_wheel::test

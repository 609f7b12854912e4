#pragma once

#include <libpq-fe.h>
#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A PostgreSQL server of a test's own, and short calls on it. No service of the system is touched.

namespace timing_wheel::test {

/// A connection, for what a test does beside the store.
class sql_session {
 public:
  /// \throws std::runtime_error with the server's words.
  explicit sql_session(const std::string& conninfo);
  sql_session(const sql_session&) = delete;
  sql_session& operator=(const sql_session&) = delete;
  ~sql_session();

  [[nodiscard]] PGconn* get() const { return connection_; }
  /// The server's process for it.
  [[nodiscard]] pid_t backend() const { return PQbackendPID(connection_); }

  /// Any number of statements. \returns the rows of the last one, as text; NULL is an empty one.
  /// \throws std::runtime_error with the statement and the server's words.
  std::vector<std::vector<std::string>> rows(const std::string& sql) const;
  /// The same, for what has no rows of interest.
  void execute(const std::string& sql) const { rows(sql); }
  /// The first value of the first row; empty if there is none.
  [[nodiscard]] std::string ask(const std::string& sql) const;
  /// The same as a number.
  [[nodiscard]] long long count(const std::string& sql) const { return std::stoll(ask(sql)); }

 private:
  PGconn* connection_;
};

/// How a private server is made. TIMING_WHEEL_TEST_POSTGRES may name the folder of another server's programs.
struct private_postgres_options {
  /// Lines for postgresql.conf: name and value, without quotes.
  std::vector<std::pair<std::string, std::string>> settings = {};
  /// Variables of the environment of its programs.
  std::vector<std::pair<std::string, std::string>> environment = {};
  /// Where its log of changes (WAL) is kept: a folder that it makes. Empty: within `data()`.
  std::filesystem::path wal = {};
  /// Listens on 127.0.0.1, too, on a free port.
  bool loopback = false;
  /// Where its folder is made. Empty: in that for temporary files, where the server may go whoever it runs as.
  std::filesystem::path parent = {};
};

/// A cluster in a folder of its own with its socket in it, started, and gone with the object: also if the process dies,
/// however it does. As root it runs as the user `postgres`, or else `nobody`.
///
/// It does not sync (the system goes on when a server is killed), but each commit has left the process. Settings say
/// otherwise where a test needs it. Thread safety: none.
class private_postgres {
 public:
  enum class shutdown { fast, immediate };

  /// Makes and starts one. \throws std::runtime_error that says what to install, or what went wrong with its log.
  explicit private_postgres(const private_postgres_options& options = {});
  private_postgres(const private_postgres&) = delete;
  private_postgres& operator=(const private_postgres&) = delete;
  ~private_postgres();

  /// A standby that follows this server, started.
  [[nodiscard]] std::unique_ptr<private_postgres> standby();
  /// From here on each commit waits for the standby. Returns when that is connected.
  void wait_for_standby();
  /// Makes a standby a server of its own, and returns when it takes writes.
  void promote();

  /// Starts one that was stopped or killed, and waits until it can be used.
  void start();
  void stop(shutdown how = shutdown::fast);
  /// SIGKILL to its first process, and then to the others, as if the machine had stopped.
  void kill();
  /// Sends a signal to all of its processes. \returns whether there is one.
  bool signal_all(int signal) const;  // NOLINT(modernize-use-nodiscard): most ask nothing
  [[nodiscard]] bool running() const { return process() > 0; }
  /// Of its first process; 0 if there is none.
  [[nodiscard]] pid_t process() const;

  /// Changes a setting that needs no restart. What connects after that finds it changed.
  void set(const std::string& name, const std::string& value);
  /// Reads its files again: settings, and who may connect. What connects after that finds them read.
  void reload();

  /// By its socket.
  [[nodiscard]] std::string conninfo() const;
  /// By its port, if it listens there.
  [[nodiscard]] std::string loopback_conninfo() const;
  /// For a connection string of several servers.
  [[nodiscard]] std::string host() const { return folder_.string(); }
  [[nodiscard]] int port() const { return port_; }
  [[nodiscard]] std::string socket() const { return (folder_ / (".s.PGSQL." + std::to_string(port_))).string(); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// Where tables are kept: `folder()/data`.
  [[nodiscard]] std::filesystem::path data() const { return folder_ / "data"; }
  /// What it has written.
  [[nodiscard]] std::string log() const;

  /// On a connection of its own, as the superuser.
  void execute(const std::string& sql) const { sql_session(conninfo()).execute(sql); }
  [[nodiscard]] std::string ask(const std::string& sql) const { return sql_session(conninfo()).ask(sql); }
  /// Ends all other connections to it, as a fault would. \returns how many there were.
  int kill_backends() const;

 private:
  /// \param primary what it follows; null: it is a server of its own.
  private_postgres(const private_postgres_options& options, const private_postgres* primary);

  void make_folder(const std::filesystem::path& parent);
  void watch();
  void fill(const private_postgres_options& options, const private_postgres* primary);
  void configure(const private_postgres_options& options, const std::string& primary_conninfo);
  // Runs a program of the server's to its end, as its user. The arguments are words of a shell.
  void run(const std::string& program, const std::string& arguments) const;
  // By `pg_ctl`, which waits until it is so.
  void control(const std::string& what) const;
  void kill_orphans() const;

  std::filesystem::path programs_;
  std::string environment_;  // of its programs, as words of a shell
  std::filesystem::path folder_;
  uid_t user_ = 0;
  gid_t group_ = 0;
  int port_ = 5432;
  bool loopback_ = false;
  std::FILE* life_ = nullptr;  // of a pipe: the watcher reads its end when the process dies
};

}  // namespace timing_wheel::test

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/timer_handle.hpp"

// Where programs that kill nodes keep their orders, their checks and their ledger: the torture, the faults, the demo.

namespace timing_wheel::rig {

/// What was begun went with the connection, or the database undid it for the sake of others: it can be done again, on a
/// new connection. If it was a commit, it may have been done all the same.
class try_again : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A connection to the database of a site. What fails throws std::runtime_error with the database's words.
///
/// Thread safety: as a plain object.
class database {
 public:
  virtual ~database() = default;

  /// Any number of statements. \returns the values of the last one's rows, all of them whole numbers, one row behind
  /// the other; NULL is 0.
  virtual std::vector<std::int64_t> run(const std::string& sql) = 0;
  /// The same, with numbers in place of $1, $2, … $9.
  template <class... Values>
  std::vector<std::int64_t> run(const std::string& sql, Values... values) {
    return run(with_numbers(sql, {static_cast<std::int64_t>(values)...}));
  }
  /// The one number that a query answers; 0 if there is none.
  template <class... Values>
  [[nodiscard]] std::int64_t ask(const std::string& sql, Values... values) {
    const std::vector<std::int64_t> answer = run(sql, values...);
    return answer.empty() ? 0 : answer.front();
  }

  /// Begins a transaction that may write.
  virtual void begin() = 0;
  void commit() { run("COMMIT"); }
  /// Does nothing if there is no transaction.
  virtual void roll_back() noexcept = 0;

  /// In the transaction that is open.
  virtual durable::scheduled schedule(const durable::request& asked) = 0;
  virtual cancel_result cancel(std::string_view kind, std::string_view key) = 0;

  /// Microseconds of the clock of the checks. Precondition: the site was prepared.
  [[nodiscard]] virtual std::int64_t now() = 0;

 private:
  static std::string with_numbers(const std::string& sql, const std::vector<std::int64_t>& values);
};

/// A transaction that may write: undone at the end, unless it was committed.
class write_transaction {
 public:
  explicit write_transaction(database& on) : on_(on) { on_.begin(); }
  write_transaction(const write_transaction&) = delete;
  write_transaction& operator=(const write_transaction&) = delete;
  ~write_transaction() {
    if (open_) {
      on_.roll_back();
    }
  }

  void commit() {
    on_.commit();
    open_ = false;
  }

 private:
  database& on_;
  bool open_ = true;
};

/// Thread safety: const members may be called from any thread.
class site {
 public:
  virtual ~site() = default;

  /// Makes the tables of the checks, or leaves them as they are.
  virtual void prepare() = 0;
  /// \param lease longest transaction of the store, where the server sees to that. \throws timer_error.
  [[nodiscard]] virtual std::unique_ptr<durable::store> open_store(std::chrono::milliseconds lease) const = 0;
  /// \throws try_again, if it may be there later.
  [[nodiscard]] virtual std::unique_ptr<database> connect() const = 0;
  /// The connection of a handler's transaction.
  [[nodiscard]] virtual std::unique_ptr<database> within(durable::transaction& open) const = 0;

  /// Nodes divide the table in shares, and others may have tables of their own there.
  [[nodiscard]] virtual bool on_server() const noexcept { return false; }
  /// Ends what dead nodes, and those that are stopped, hold on shares of the table: so a round need not wait for that.
  virtual void end_holds(database& on) const { static_cast<void>(on); }
  /// The name of the store's table.
  [[nodiscard]] virtual std::string table(const std::string& name) const = 0;
  /// An expression of SQL: the bytes of a text.
  [[nodiscard]] virtual std::string bytes_of(const std::string& text) const = 0;
  /// What SQL selects `name` from: the tables beside those of the checks. It ends with a condition.
  [[nodiscard]] virtual std::string tables() const = 0;

  /// For `site_of` in another process.
  [[nodiscard]] virtual std::string argument() const = 0;
  /// For people: without a password.
  [[nodiscard]] virtual std::string name() const { return argument(); }
  /// A path for what is told beside it.
  [[nodiscard]] virtual std::string file(const std::string& what) const = 0;

  /// Removes a file and all that is in it. Does nothing to a server.
  virtual void remove() {}
  /// A private server stays in its folder when this object goes, but does not run. \returns the folder; else `name()`.
  virtual std::string keep() { return name(); }
  /// Kills a private server with all its processes, and starts it again.
  virtual void kill_server() {}
};

/// A connection that outlives its database: a new one is made for as long as a minute.
///
/// Thread safety: as a plain object.
class patient_connection {
 public:
  /// \param where must outlive this.
  explicit patient_connection(const site& where) : site_(where) {}

  /// Calls `work` until it does not throw `try_again`. \returns what it returns.
  template <class Work>
  auto use(const Work& work) {
    constexpr std::chrono::seconds patience(60);
    for (const auto end = std::chrono::steady_clock::now() + patience;; pause()) {
      try {
        if (!open_) {
          open_ = site_.connect();
        }
        return work(*open_);
      } catch (const try_again&) {
        open_.reset();
        if (std::chrono::steady_clock::now() > end) {
          throw;
        }
      }
    }
  }
  template <class... Values>
  [[nodiscard]] std::int64_t ask(const std::string& sql, Values... values) {
    return use([&](database& in) { return in.ask(sql, values...); });
  }
  [[nodiscard]] std::int64_t now() {
    return use([](database& in) { return in.now(); });
  }

 private:
  static void pause();

  const site& site_;
  std::unique_ptr<database> open_;
};

/// "sqlite:FILE" or "postgres:CONNINFO". \throws std::runtime_error if this program was built without it.
[[nodiscard]] std::unique_ptr<site> site_of(const std::string& argument);
/// A private server. \throws std::runtime_error that says what to install, or what went wrong.
[[nodiscard]] std::unique_ptr<site> private_site();

// Each in a file of its own. \{
[[nodiscard]] std::unique_ptr<site> sqlite_site(const std::string& file);
[[nodiscard]] std::unique_ptr<site> postgres_site(const std::string& conninfo);
// \}

}  // namespace timing_wheel::rig

#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "durable/store/counters.hpp"

// RAII around the C API of SQLite: a connection, a prepared statement, and one run of it.

namespace timing_wheel::durable::sqlite {

/// What a statement is for, as a message says it, and its text.
struct query {
  const char* doing;
  const char* sql;
};

/// Throws what `connection` has to say of its last call: "scheduling, /file: disk full". A missing table of ours is
/// `errc::no_schema`.
[[noreturn]] void fail(sqlite3* connection, std::string_view doing);
/// The same, with another code.
[[noreturn]] void fail(sqlite3* connection, std::string_view doing, int code, std::string_view text);
/// Of an INSERT that wrote no check, though none has its key.
[[noreturn]] void fail_as_ignored(sqlite3* connection);

/// One run of a statement. Ends with its reset; so the statement can be run again.
class execution {
 public:
  execution(sqlite3_stmt* prepared, const char* doing) noexcept : prepared_(prepared), doing_(doing) {}
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;
  ~execution() { sqlite3_reset(prepared_); }

  execution& bind(std::int64_t value);
  execution& bind_text(std::string_view value);
  execution& bind_blob(std::string_view value);

  /// \returns whether there is a row to read.
  bool step();
  /// Steps to the end. \returns how many rows it has inserted, updated or deleted.
  int finish();

  [[nodiscard]] bool is_null(int column) const { return sqlite3_column_type(prepared_, column) == SQLITE_NULL; }
  [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(prepared_, column); }
  /// The same, of a number of runs; the largest `int` for a larger one.
  [[nodiscard]] int count(int column) const {
    return static_cast<int>(std::min<std::int64_t>(integer(column), std::numeric_limits<int>::max()));
  }
  /// Text or bytes. Valid until the next step.
  [[nodiscard]] std::string_view bytes(int column) const;

 private:
  [[nodiscard]] sqlite3* connection() const { return sqlite3_db_handle(prepared_); }
  void check(int result) const;

  sqlite3_stmt* prepared_;
  const char* doing_;
  int bound_ = 0;
};

/// What `read` makes of each row of a run that is bound; they are counted.
template <class Read>
[[nodiscard]] auto read_each(execution& run, counters& counts, const Read& read) {
  std::vector<decltype(read(run))> found;
  while (run.step()) {
    found.push_back(read(run));
  }
  counts.rows_read.fetch_add(found.size(), std::memory_order_relaxed);
  return found;
}

/// A prepared statement: prepared when it is first run, and kept. `executed` counts its runs, if there is one.
class statement {
 public:
  statement(sqlite3* connection, query text, std::atomic<std::uint64_t>* executed = nullptr) noexcept
      : connection_(connection), text_(text), executed_(executed) {}
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;
  ~statement() { sqlite3_finalize(prepared_); }

  [[nodiscard]] execution run();

 private:
  sqlite3* connection_;
  query text_;
  std::atomic<std::uint64_t>* executed_;
  sqlite3_stmt* prepared_ = nullptr;
};

/// A connection of our own: no mutex of SQLite's, extended result codes, waits for locks as long as `busy_timeout`
/// says.
class database {
 public:
  database(const std::string& file, std::chrono::milliseconds busy_timeout, bool read_only = false);

  /// How long one that waits for a lock sleeps between two tries, at most.
  static constexpr std::chrono::microseconds longest_nap{400};
  /// Whether a statement has waited for a lock since the last question.
  [[nodiscard]] bool has_waited() noexcept { return std::exchange(has_waited_, false); }
  /// From when `busy_timeout` counts for the locks of the statements that follow. None: from when one begins to wait.
  void waits_since(std::optional<std::chrono::steady_clock::time_point> when) noexcept { waits_since_ = when; }
  database(const database&) = delete;
  database& operator=(const database&) = delete;
  ~database() { sqlite3_close_v2(connection_); }

  [[nodiscard]] sqlite3* get() const noexcept { return connection_; }
  void execute(query text);
  /// The one value that a pragma answers.
  std::string ask(query text);
  /// Changes with every commit of any connection. Valid while a transaction is open, or right after one.
  [[nodiscard]] unsigned data_version() const noexcept;
  /// Throws SQLITE_READONLY_DBMOVED if the file, or the log that was noted, has been deleted, renamed or replaced.
  void check_in_place() const;
  /// Notes which file the log is: SQLite deletes none that a connection has open.
  void note_log();

 private:
  static int wait_for_lock(void* self, int times) noexcept;

  [[nodiscard]] std::uint64_t log_inode() const noexcept;

  std::chrono::milliseconds busy_timeout_;
  std::optional<std::chrono::steady_clock::time_point> waits_since_;
  std::chrono::steady_clock::time_point waiting_until_{};
  bool has_waited_ = false;
  sqlite3* connection_ = nullptr;
  std::uint64_t noted_log_ = 0;  // its inode; 0 if none was noted
};

}  // namespace timing_wheel::durable::sqlite

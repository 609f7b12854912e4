#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>

namespace order_compensation {

/// A connection of the shop's own to its file. Waits up to half a minute for the lock of another.
///
/// Thread safety: as a plain object.
class connection {
 public:
  /// \throws common::failure with the file and SQLite's words; so do the others.
  explicit connection(const std::string& file);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection() { sqlite3_close_v2(opened_); }

  [[nodiscard]] sqlite3* get() const noexcept { return opened_; }
  void execute(const char* sql);

 private:
  sqlite3* opened_ = nullptr;
};

/// A prepared statement, used by one run after the other.
class statement {
 public:
  statement(sqlite3* on, const char* sql);
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;
  ~statement() { sqlite3_finalize(prepared_); }

  /// Resets it, and binds the parameters in their order.
  template <class... Values>
  statement& with(Values... values) {
    sqlite3_reset(prepared_);
    int place = 0;
    (bind(++place, static_cast<std::int64_t>(values)), ...);
    return *this;
  }
  /// \returns whether there is a row to read.
  bool step();
  /// Steps to the end, and resets it.
  void run();

  [[nodiscard]] bool is_null(int column) const { return sqlite3_column_type(prepared_, column) == SQLITE_NULL; }
  [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(prepared_, column); }

 private:
  void bind(int place, std::int64_t value);

  sqlite3_stmt* prepared_ = nullptr;
};

/// A transaction that may write: undone at the end, unless it was committed.
class write_transaction {
 public:
  explicit write_transaction(connection& on) : on_(on) { on_.execute("BEGIN IMMEDIATE"); }
  write_transaction(const write_transaction&) = delete;
  write_transaction& operator=(const write_transaction&) = delete;
  ~write_transaction();

  void commit();

 private:
  connection& on_;
  bool open_ = true;
};

/// The one value that a query answers; 0 if there is none.
[[nodiscard]] std::int64_t ask(connection& in, const char* sql);

/// Changes nothing. A file that is not there, or has no tables but those of checks, can be used, as one of a shop can.
/// \throws usage_error if it cannot be written, is no database, or has the tables of something else.
void check_store(const std::string& file);

/// Makes the tables of a shop beside those of the checks, and fills its stock; or leaves them as they are.
void make_shop(connection& in);

}  // namespace order_compensation

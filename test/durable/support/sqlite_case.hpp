#pragma once

#include <sqlite3.h>

#include "durable/support/scratch_folder.hpp"
#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// What tests of SQLite's store share, beside the short calls on any store.

namespace timing_wheel::durable::test {

using timing_wheel::test::scratch_folder;

inline std::error_code sqlite_code(int code) { return {code, sqlite_category()}; }

/// The first value of the first row, as text.
inline std::string ask(sqlite3* on, const std::string& sql) {
  std::string answer;
  const auto keep = [](void* to, int, char** values, char**) {
    *static_cast<std::string*>(to) = values[0] == nullptr ? "NULL" : values[0];
    return 0;
  };
  sqlite3_exec(on, sql.c_str(), keep, &answer, nullptr);
  return answer;
}

/// A connection of the user's own.
class users_database {
 public:
  explicit users_database(const std::string& file) {
    sqlite3_open(file.c_str(), &connection_);
    sqlite3_busy_timeout(connection_, 5000);
  }
  users_database(const users_database&) = delete;
  users_database& operator=(const users_database&) = delete;
  ~users_database() { EXPECT_EQ(sqlite3_close(connection_), SQLITE_OK); }

  [[nodiscard]] sqlite3* get() const { return connection_; }
  int run(const std::string& sql) const { return sqlite3_exec(connection_, sql.c_str(), nullptr, nullptr, nullptr); }
  [[nodiscard]] std::string ask(const std::string& sql) const { return test::ask(connection_, sql); }

 private:
  sqlite3* connection_ = nullptr;
};

/// A file with our tables, and a store on it.
class SqliteCase : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  SqliteCase() { store.migrate(); }

  scratch_folder folder;
  sqlite_store store{folder.file()};
};

}  // namespace timing_wheel::durable::test

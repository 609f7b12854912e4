#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "durable/support/scratch_folder.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// What tests of SQLite's store share: short calls, each in a transaction of its own.

namespace timing_wheel::durable::test {

using namespace std::chrono_literals;
using timing_wheel::test::scratch_folder;

inline const std::vector<std::string> kinds = {"close", "other"};

inline request asked(std::string key, due_time due = {}, std::string payload = "p") {
  return {.kind = "close", .key = std::move(key), .payload = std::move(payload), .due = due};
}

inline scheduled put(store& in, const request& what) {
  scheduled result;
  in.transact([&](store_transaction& open) { result = open.schedule(what); });
  return result;
}

inline scheduled put(store& in, const std::string& key, due_time due = {}) { return put(in, asked(key, due)); }

inline cancel_result cancel(store& in, std::string_view key) {
  cancel_result result{};
  in.transact([&](store_transaction& open) { result = open.cancel("close", key); });
  return result;
}

inline reschedule_result move(store& in, std::string_view key, due_time due) {
  reschedule_op op{"close", key, due};
  in.transact([&](store_transaction& open) { open.reschedule({&op, 1}); });
  return op.result;
}

/// All rows, whatever their time.
inline std::vector<upcoming> all_rows(store& in, std::size_t limit = 100000) {
  std::vector<upcoming> found;
  in.read_ahead({.until = instant::max(), .limit = limit, .kinds = kinds}, found);
  return found;
}

inline std::vector<claimed> claim(store& in, std::chrono::microseconds lease = 1h) {
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) { open.claim(wanted, open.now() + lease, got); });
  return got;
}

inline std::vector<claimed> take(store& in) {
  const std::vector<upcoming> wanted = all_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) { open.take(wanted, got); });
  return got;
}

inline bool complete(store& in, const claimed& held) {
  ticket of{held.id, held.fence};
  in.transact([&](store_transaction& open) { open.complete({&of, 1}); });
  return of.held;
}

inline bool extend(store& in, const claimed& held, std::chrono::microseconds lease) {
  ticket of{held.id, held.fence};
  in.transact([&](store_transaction& open) { open.extend({&of, 1}, open.now() + lease); });
  return of.held;
}

inline bool retry(store& in, const claimed& held, instant due, int attempt) {
  retry_op op{{held.id, held.fence}, due, attempt, held.orphaned};
  in.transact([&](store_transaction& open) { open.retry({&op, 1}); });
  return op.of.held;
}

inline bool bury(store& in, const claimed& held, const std::string& error) {
  bury_op op{{held.id, held.fence}, error};
  in.transact([&](store_transaction& open) { open.bury({&op, 1}); });
  return op.of.held;
}

/// Keys of all rows, in the order of their time.
inline std::vector<std::string> keys_in(store& in) {
  std::vector<std::string> keys;
  sqlite3_stmt* read = nullptr;
  in.transact([&](store_transaction& open) {
    sqlite3_prepare_v2(sqlite_connection(open), "SELECT key FROM timing_wheel_check ORDER BY due,id", -1, &read,
                       nullptr);
    while (sqlite3_step(read) == SQLITE_ROW) {
      keys.emplace_back(static_cast<const char*>(sqlite3_column_blob(read, 0)),
                        static_cast<std::size_t>(sqlite3_column_bytes(read, 0)));
    }
    sqlite3_finalize(read);
  });
  return keys;
}

/// The error that `work` throws, as its code; and its words.
struct caught {
  std::error_code code;
  std::string words;
};

template <class Work>
caught error_of(const Work& work) {
  try {
    work();
  } catch (const timer_error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

inline std::error_code sqlite_code(int code) { return {code, sqlite_category()}; }

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

  /// The first value of the first row, as text.
  [[nodiscard]] std::string ask(const std::string& sql) const {
    std::string answer;
    const auto keep = [](void* to, int, char** values, char**) {
      *static_cast<std::string*>(to) = values[0] == nullptr ? "NULL" : values[0];
      return 0;
    };
    sqlite3_exec(connection_, sql.c_str(), keep, &answer, nullptr);
    return answer;
  }

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

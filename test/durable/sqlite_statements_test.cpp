#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "durable/sqlite/range_reader.hpp"
#include "durable/sqlite/sql.hpp"
#include "durable/support/sqlite_case.hpp"

// What statements cost: by SQLite's own counters, not by clocks.

namespace timing_wheel::durable::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class SqliteStatements : public SqliteCase {
 public:
  users_database user{folder.file()};

  [[nodiscard]] auto prepare(const std::string& sql) const {
    sqlite3_stmt* prepared = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(user.get(), sql.c_str(), -1, &prepared, nullptr), SQLITE_OK) << sql;
    return std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>(prepared, sqlite3_finalize);
  }

  /// Steps of SQLite's machine that an empty look at the window before `until` takes.
  [[nodiscard]] int steps_of_an_empty_look(instant until) const {
    const auto look = prepare(sqlite::range_reader::text(2, false));
    sqlite3_bind_int64(look.get(), 1, 0);
    sqlite3_bind_int64(look.get(), 2, until.time_since_epoch().count());
    sqlite3_bind_text(look.get(), 3, "close", -1, SQLITE_STATIC);
    sqlite3_bind_text(look.get(), 4, "other", -1, SQLITE_STATIC);
    EXPECT_EQ(sqlite3_step(look.get()), SQLITE_DONE);
    EXPECT_EQ(sqlite3_stmt_status(look.get(), SQLITE_STMTSTATUS_FULLSCAN_STEP, 0), 0);
    EXPECT_EQ(sqlite3_stmt_status(look.get(), SQLITE_STMTSTATUS_SORT, 0), 0);
    return sqlite3_stmt_status(look.get(), SQLITE_STMTSTATUS_VM_STEP, 0);
  }

  void fill(int rows, const std::string& kind = "close", due_time due = 24h) {
    store.transact([&](store_transaction& open) {
      for (int key = 0; key < rows; ++key) {
        open.schedule({.kind = kind, .key = std::to_string(key), .payload = {}, .due = due});
      }
    });
  }

  [[nodiscard]] static std::vector<std::string> all() {
    std::vector<std::string> texts;
    for (const sqlite::query& each : sqlite::sql::on_tables) {
      texts.emplace_back(each.sql);
    }
    for (const std::size_t of : {1U, 2U, 32U}) {
      texts.push_back(sqlite::range_reader::text(of, false));
      texts.push_back(sqlite::range_reader::text(of, true));
    }
    return texts;
  }
};

TEST_F(SqliteStatements, NoneLooksThroughATable) {
  for (const std::string& each : all()) {
    const auto plan = prepare("EXPLAIN QUERY PLAN " + each);
    while (sqlite3_step(plan.get()) == SQLITE_ROW) {
      const std::string line = reinterpret_cast<const char*>(sqlite3_column_text(plan.get(), 3));
      // The one row of the clock, chosen by its key.
      if (line.find("SCAN timing_wheel_clock") == std::string::npos &&
          line.find("SCAN (subquery") == std::string::npos) {
        EXPECT_THAT(line, Not(HasSubstr("SCAN"))) << each;
      }
      EXPECT_THAT(line, Not(HasSubstr("TEMP B-TREE"))) << each;
    }
  }
}

TEST_F(SqliteStatements, AnEmptyPollCostsTheSameWithManyFutureRows) {
  const instant until = store.now() + 1s;
  const int none = steps_of_an_empty_look(until);
  put(store, "one", 24h);
  const int one = steps_of_an_empty_look(until);
  fill(10000);
  EXPECT_EQ(steps_of_an_empty_look(until), one);
  EXPECT_LE(one, none + 4);  // which look whether the first row is due
}

TEST_F(SqliteStatements, ALookStepsOverNoRowOfAnotherKind) {
  const instant until = store.now() + 1s;
  const int none = steps_of_an_empty_look(until);
  fill(1000, "foreign", -1h);
  EXPECT_LE(steps_of_an_empty_look(until), none + 8);
  put(store, "a", -1h);
  const std::uint64_t before = store.counts().rows_read;
  EXPECT_EQ(all_rows(store).size(), 1U);
  EXPECT_EQ(store.counts().rows_read - before, 1U);
}

TEST_F(SqliteStatements, AnEmptyPollReadsNoRow) {
  fill(10000);
  const store_counts before = store.counts();
  std::vector<upcoming> found;
  store.read_ahead({.until = store.now() + 1s, .limit = 1000, .kinds = kinds}, found);
  EXPECT_EQ(store.counts().rows_read, before.rows_read);
  EXPECT_LE(store.counts().statements - before.statements, 3U);
}

TEST_F(SqliteStatements, ReadingOnWithinOneDeadlineReadsNoRowAgain) {
  for (int key = 0; key < 100; ++key) {
    put(store, std::to_string(key), instant(1us));
  }
  const auto rows = all_rows(store);
  const std::uint64_t before = store.counts().rows_read;
  std::vector<upcoming> found;
  store.read_ahead({.from = rows[89].due, .after_id = rows[89].id, .until = instant::max(), .limit = 5, .kinds = kinds},
                   found);
  EXPECT_EQ(found.size(), 5U);
  EXPECT_EQ(store.counts().rows_read - before, 5U);
}

TEST_F(SqliteStatements, AClaimDoesNotTouchTheIndexes) {
  for (const auto& [query, what] : {std::pair{sqlite::sql::claim, "claim"}, std::pair{sqlite::sql::extend, "extend"}}) {
    const auto program = prepare(std::string("EXPLAIN ") + query.sql);
    while (sqlite3_step(program.get()) == SQLITE_ROW) {
      const std::string operation = reinterpret_cast<const char*>(sqlite3_column_text(program.get(), 1));
      EXPECT_NE(operation, "IdxDelete") << what;
      EXPECT_NE(operation, "IdxInsert") << what;
    }
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test

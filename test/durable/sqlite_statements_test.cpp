#include "durable/sqlite/range_reader.hpp"
#include "durable/sqlite/sql.hpp"
#include "durable/support/sqlite_case.hpp"

// What statements cost: by SQLite's own counters, not by clocks.

namespace timing_wheel::durable::test {
namespace {

class SqliteStatements : public SqliteCase {
 public:
  users_database user{folder.file()};

  [[nodiscard]] auto prepare(const std::string& sql) const {
    sqlite3_stmt* prepared = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(user.get(), sql.c_str(), -1, &prepared, nullptr), SQLITE_OK) << sql;
    return std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>(prepared, sqlite3_finalize);
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
      // The one row of the clock, chosen by its key; and the kinds that `read_overdue` has stepped to.
      if (line.find("SCAN each") == std::string::npos && line.find("SCAN timing_wheel_clock") == std::string::npos &&
          line.find("SCAN (subquery") == std::string::npos) {
        EXPECT_THAT(line, Not(HasSubstr("SCAN"))) << each;
      }
      EXPECT_THAT(line, Not(HasSubstr("TEMP B-TREE"))) << each;
    }
  }
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

// The SQL that docs/durable.md gives to other languages, on the tables that the library makes.

#include <sqlite3.h>

#include "durable/support/sql_of_page.hpp"
#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqlitePage : public SqliteCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  // Runs one of them, due in an hour. \returns how many rows it changed.
  int run(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(user.get(), sql.c_str(), -1, &statement, nullptr), SQLITE_OK) << sql;
    const std::int64_t due = (store.now() + 1h).time_since_epoch().count();
    const int place = sqlite3_bind_parameter_index(statement, ":due");
    if (place != 0) {
      sqlite3_bind_int64(statement, place, due);
    }
    EXPECT_EQ(sqlite3_step(statement), SQLITE_DONE) << sqlite3_errmsg(user.get());
    sqlite3_finalize(statement);
    return sqlite3_changes(user.get());
  }

  users_database user{folder.file()};
  const std::vector<std::string> statements = blocks_of_sql(TIMING_WHEEL_DURABLE_PAGE).at(0);
};

TEST_F(SqlitePage, ItsStatementsScheduleCancelAndReschedule) {
  ASSERT_EQ(statements.size(), 3U);
  const std::string& schedule = statements[0];
  const std::string& cancel = statements[1];
  const std::string& reschedule = statements[2];
  EXPECT_EQ(run(schedule), 1);
  EXPECT_TRUE(store.find("verify", "order-17").has_value());
  run(schedule);
  EXPECT_EQ(run(reschedule), 1);
  EXPECT_GT(store.find("verify", "order-17")->due, store.now() + 59min);
  EXPECT_EQ(run(cancel), 1);
  EXPECT_FALSE(store.find("verify", "order-17").has_value());
  EXPECT_EQ(run(cancel), 0);
}

TEST_F(SqlitePage, ItsStatementsLeaveARunningCheckAlone) {
  EXPECT_EQ(run(statements[0]), 1);
  user.run("UPDATE timing_wheel_check SET fence=fence+1,attempt=1,lease=1");  // one that ended long ago
  EXPECT_EQ(run(statements[1]), 0);
  EXPECT_EQ(run(statements[2]), 0);
}

}  // namespace
}  // namespace timing_wheel::durable::test

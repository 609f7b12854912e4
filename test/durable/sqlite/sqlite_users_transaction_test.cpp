#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteUsersTransaction : public SqliteCase {
 public:
  SqliteUsersTransaction() { user.run("CREATE TABLE orders(id INTEGER PRIMARY KEY)"); }

  users_database user{folder.file()};
};

TEST_F(SqliteUsersTransaction, MayBeginAsDeferredWhileOthersCommit) {
  user.run("BEGIN");
  put(store, "a");
  EXPECT_TRUE(schedule(user.get(), asked("b")).inserted);
  EXPECT_EQ(user.run("COMMIT"), SQLITE_OK);
  EXPECT_THAT(keys_in(store), ElementsAre("a", "b"));
}

TEST_F(SqliteUsersTransaction, AClaimWaitsForACancelThatIsOpen) {
  put(store, "a");
  user.run("BEGIN");
  durable::cancel(user.get(), "close", "a");
  std::vector<claimed> got(1);
  std::thread claiming([&] { got = claim(store); });
  std::this_thread::sleep_for(20ms);
  user.run("COMMIT");
  claiming.join();
  EXPECT_THAT(got, IsEmpty());
}

TEST_F(SqliteUsersTransaction, RefusesWhatIsLongerThanItsLimits) {
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked("key"), {.key = 2}); }).code, errc::key_too_long);
  sqlite_session session(user.get(), {.key = 2});
  EXPECT_EQ(error_of([&] { session.schedule(asked("key")); }).code, errc::key_too_long);
  EXPECT_TRUE(session.schedule(asked("ke")).inserted);
}

TEST_F(SqliteUsersTransaction, FindsTheTablesInAnAttachedFile) {
  users_database other(folder.file("other.db"));
  other.run("ATTACH '" + folder.file() + "' AS checks");
  EXPECT_TRUE(schedule(other.get(), asked("a")).inserted);
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
  other.run("DETACH checks");
}

TEST_F(SqliteUsersTransaction, SaysWhatSqliteSaysWithTheFile) {
  user.run("PRAGMA busy_timeout=0");
  caught found;
  store.transact([&](store_transaction&) { found = error_of([&] { schedule(user.get(), asked("a")); }); });
  EXPECT_EQ(found.code.value() & 0xff, SQLITE_BUSY);
  EXPECT_THAT(found.words, HasSubstr(folder.file()));
}

// ---- with statements that are kept

TEST_F(SqliteUsersTransaction, ASessionPreparesEachStatementOnce) {
  sqlite_session session(user.get());
  const auto prepared = [this] {
    int count = 0;
    for (sqlite3_stmt* each = sqlite3_next_stmt(user.get(), nullptr); each != nullptr;
         each = sqlite3_next_stmt(user.get(), each)) {
      ++count;
    }
    return count;
  };
  session.schedule(asked("a"));
  EXPECT_EQ(prepared(), 1);
  session.schedule(asked("b"));
  EXPECT_EQ(prepared(), 1);
  schedule(user.get(), asked("c"));
  EXPECT_EQ(prepared(), 1);
}

TEST_F(SqliteUsersTransaction, ASessionGoesOnAfterAChangeOfTheTables) {
  sqlite_session session(user.get());
  session.schedule(asked("a"));
  user.run("ALTER TABLE orders ADD COLUMN units");
  EXPECT_TRUE(session.schedule(asked("b")).inserted);
}

TEST_F(SqliteUsersTransaction, ASessionLeavesTheConnectionToBeClosed) {
  users_database other(folder.file());
  sqlite_session session(other.get());
  session.schedule(asked("a"));
  EXPECT_EQ(sqlite3_close(other.get()), SQLITE_BUSY);
  sqlite_session moved = std::move(session);
  EXPECT_EQ(moved.cancel("close", "a"), cancel_result::cancelled);
}  // the session goes first, and then the connection closes

}  // namespace
}  // namespace timing_wheel::durable::test

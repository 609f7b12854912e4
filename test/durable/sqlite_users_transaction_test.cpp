#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteUsersTransaction : public SqliteCase {
 public:
  SqliteUsersTransaction() { user.run("CREATE TABLE orders(id INTEGER PRIMARY KEY)"); }

  users_database user{folder.file()};
};

TEST_F(SqliteUsersTransaction, CommitsOrderAndCheckTogether) {
  user.run("BEGIN IMMEDIATE; INSERT INTO orders VALUES(7)");
  EXPECT_TRUE(schedule(user.get(), asked("a", 30min)).inserted);
  EXPECT_THAT(all_rows(store), IsEmpty());
  user.run("COMMIT");
  EXPECT_THAT(keys_by_time(store), ElementsAre("a"));
}

TEST_F(SqliteUsersTransaction, RollsOrderAndCheckBackTogether) {
  user.run("BEGIN IMMEDIATE; INSERT INTO orders VALUES(7)");
  schedule(user.get(), asked("a"));
  user.run("ROLLBACK");
  EXPECT_THAT(keys_by_time(store), IsEmpty());
  EXPECT_EQ(user.ask("SELECT count(*) FROM orders"), "0");
}

TEST_F(SqliteUsersTransaction, MayBeginAsDeferredWhileOthersCommit) {
  user.run("BEGIN");
  put(store, "a");
  EXPECT_TRUE(schedule(user.get(), asked("b")).inserted);
  EXPECT_EQ(user.run("COMMIT"), SQLITE_OK);
  EXPECT_THAT(keys_by_time(store), ElementsAre("a", "b"));
}

TEST_F(SqliteUsersTransaction, IsToldHowOftenACancelledCheckWasTried) {
  for (const char* key : {"a", "b"}) {
    put(store, key);
    retry(store, claim(store).at(0), store.now() + 1h, 1);
  }
  EXPECT_EQ(durable::cancel(user.get(), "close", "a"), (cancel_answer{cancel_result::cancelled, 1}));
  durable::sqlite_session session(user.get());
  EXPECT_EQ(session.cancel("close", "b"), (cancel_answer{cancel_result::cancelled, 1}));
  EXPECT_EQ(session.cancel("close", "b"), (cancel_answer{cancel_result::finished, 0}));
}

TEST_F(SqliteUsersTransaction, NeedsNone) {
  EXPECT_TRUE(schedule(user.get(), asked("a", 1h)).inserted);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", instant(3us)), reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due, instant(3us));
  EXPECT_EQ(durable::cancel(user.get(), "close", "a"), cancel_result::cancelled);
  EXPECT_EQ(durable::cancel(user.get(), "close", "a"), cancel_result::finished);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", 1h), reschedule_result::finished);
}

TEST_F(SqliteUsersTransaction, AnswersAsTheStoreForAKeyThatIsThere) {
  const scheduled first = schedule(user.get(), asked("a", 1h, "one"));
  request again = asked("a", 2h, "two");
  const scheduled kept = schedule(user.get(), again);
  EXPECT_FALSE(kept.inserted || kept.replaced);
  EXPECT_EQ(kept.due, first.due);
  again.replace = true;
  const scheduled replaced = schedule(user.get(), again);
  EXPECT_TRUE(replaced.replaced);
  EXPECT_EQ(store.find("close", "a")->payload, "two");
  EXPECT_EQ(store.find("close", "a")->due, replaced.due);
}

TEST_F(SqliteUsersTransaction, LeavesARunningCheckAlone) {
  put(store, "a");
  const auto held = claim(store).at(0);
  const request again = replacing(asked("a", 2h, "two"));
  EXPECT_FALSE(schedule(user.get(), again).replaced);
  EXPECT_EQ(durable::cancel(user.get(), "close", "a"), cancel_result::running);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", 1h), reschedule_result::running);
  EXPECT_TRUE(complete(store, held));
}

TEST_F(SqliteUsersTransaction, LeavesACheckWhoseLeaseHasEndedAlone) {
  put(store, "a");
  const auto stale = claim(store, -1us).at(0);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", 1h), reschedule_result::running);
  EXPECT_EQ(durable::cancel(user.get(), "close", "a"), cancel_result::running);
  EXPECT_TRUE(complete(store, stale));
}

TEST_F(SqliteUsersTransaction, ACancelThatIsRolledBackIsNone) {
  put(store, "a");
  user.run("BEGIN");
  EXPECT_EQ(durable::cancel(user.get(), "close", "a"), cancel_result::cancelled);
  user.run("ROLLBACK");
  EXPECT_THAT(claim(store), SizeIs(1));
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

TEST_F(SqliteUsersTransaction, RefusesWhatIsTooLong) {
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked(std::string(256, 'k'))); }).code, errc::key_too_long);
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked("key"), {.key = 2}); }).code, errc::key_too_long);
}

TEST_F(SqliteUsersTransaction, KeepsAnyBytesAndTheEndOfTime) {
  const std::string bytes("\0ÿ", 2);
  EXPECT_EQ(schedule(user.get(), asked(bytes, instant::max(), "")).due, instant::max());
  EXPECT_EQ(store.find("close", bytes)->payload, "");
  EXPECT_EQ(store.find("close", bytes)->due, instant::max());
}

TEST_F(SqliteUsersTransaction, FindsTheTablesInAnAttachedFile) {
  users_database other(folder.file("other.db"));
  other.run("ATTACH '" + folder.file() + "' AS checks");
  EXPECT_TRUE(schedule(other.get(), asked("a")).inserted);
  EXPECT_THAT(keys_by_time(store), ElementsAre("a"));
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

TEST_F(SqliteUsersTransaction, ASessionAnswersAsTheFunctionsDo) {
  sqlite_session session(user.get());
  const scheduled first = session.schedule(asked("a", 1h, "one"));
  EXPECT_TRUE(first.inserted);
  request again = asked("a", 2h, "two");
  EXPECT_EQ(session.schedule(again).due, first.due);
  again.replace = true;
  EXPECT_TRUE(session.schedule(again).replaced);
  EXPECT_EQ(session.reschedule("close", "a", instant(3us)), reschedule_result::moved);
  const auto held = claim(store).at(0);
  EXPECT_EQ(held.payload, "two");
  EXPECT_EQ(session.cancel("close", "a"), cancel_result::running);
  EXPECT_EQ(session.reschedule("close", "a", 1h), reschedule_result::running);
  EXPECT_TRUE(complete(store, held));
  EXPECT_EQ(session.cancel("close", "a"), cancel_result::finished);
  EXPECT_EQ(session.reschedule("close", "a", 1h), reschedule_result::finished);
  session.schedule(asked("b"));
  EXPECT_EQ(session.cancel("close", "b"), cancel_result::cancelled);
}

TEST_F(SqliteUsersTransaction, ASessionWorksInOneTransactionAfterAnother) {
  sqlite_session session(user.get());
  for (const char* end : {"COMMIT", "ROLLBACK", "COMMIT"}) {
    user.run("BEGIN IMMEDIATE");
    session.schedule(asked(std::to_string(store.counts().statements) + end));
    EXPECT_EQ(user.run(end), SQLITE_OK);
    put(store, "between" + std::to_string(store.counts().statements));
  }
  EXPECT_THAT(keys_by_time(store), SizeIs(5));
}

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

TEST_F(SqliteUsersTransaction, ASessionRefusesWhatIsTooLong) {
  sqlite_session session(user.get(), {.key = 2});
  EXPECT_EQ(error_of([&] { session.schedule(asked("key")); }).code, errc::key_too_long);
  EXPECT_TRUE(session.schedule(asked("ke")).inserted);
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

// A store of SQLite in memory, on a timer's clock. What every store promises, store_test.cpp asks of it, too.

#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteInMemory : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  SqliteInMemory() {
    store.migrate();
    run("CREATE TABLE orders(id TEXT PRIMARY KEY, state TEXT)");
  }
  void run(const char* sql) const {
    EXPECT_EQ(sqlite3_exec(store.connection(), sql, nullptr, nullptr, nullptr), SQLITE_OK)
        << sqlite3_errmsg(store.connection());
  }
  [[nodiscard]] std::string state_of_order() const { return ask(store.connection(), "SELECT state FROM orders"); }
  void on_give_back() {
    checks.on("close", [](transaction& open, const job& what) {
      const std::string sql = "UPDATE orders SET state='given back' WHERE id='" + std::string(what.key()) + "'";
      sqlite3_exec(sqlite_connection(open), sql.c_str(), nullptr, nullptr, nullptr);
      if (what.attempt() == 1) {
        throw std::runtime_error("as if it had failed");
      }
    });
    checks.start();
  }

  manual_timer timer;
  sqlite_store store{timer};
  std::vector<std::string> failed;
  scheduler checks{store, timer, {.on_failure = [this](const failure& what) { failed.emplace_back(what.what); }}};
};

TEST_F(SqliteInMemory, RunsHandlersWithSqlInVirtualTime) {
  on_give_back();
  run("BEGIN");
  run("INSERT INTO orders VALUES('order-17','reserved')");
  const scheduled made = durable::schedule(store.connection(), asked("order-17", 30min));
  run("COMMIT");
  EXPECT_EQ(made.due, instant(30min)) << "the zero of the clock is that of the timer";
  timer.advance_by(30min - 1ms);
  EXPECT_EQ(state_of_order(), "reserved");
  timer.advance_by(2ms);
  EXPECT_EQ(state_of_order(), "reserved") << "a run that fails is undone";
  timer.advance_by(2s);
  EXPECT_EQ(state_of_order(), "given back");
  EXPECT_FALSE(store.find("close", "order-17").has_value());
  EXPECT_THAT(failed, ElementsAre("handler"));
}

TEST_F(SqliteInMemory, AnEndThatTheDatabaseRefusesKeepsNoOther) {
  run("CREATE TRIGGER no BEFORE INSERT ON timing_wheel_dead BEGIN SELECT RAISE(ABORT,'not in my table'); END");
  checks.on("bad", [](const job& /*what*/) { return dead("it is broken"); });
  checks.on("good", [](const job& /*what*/) {});
  put(store, asked("orphan", 0s));
  ASSERT_THAT(claim(store, 1s), testing::SizeIs(1)) << "by a node that dies";
  checks.on("close", [](const job& /*what*/) {});
  checks.start();
  for (const char* key : {"a", "b"}) {
    checks.schedule({.kind = "bad", .key = key, .payload = {}, .due = 0s});
  }
  timer.advance_by(500ms);
  for (const char* key : {"b", "c", "d"}) {
    checks.schedule({.kind = "good", .key = key, .payload = {}, .due = 1s});
  }
  timer.advance_by(3s);
  EXPECT_EQ(store.count({.kind = "good"}, 9), 0U);
  EXPECT_EQ(store.count({.kind = "bad"}, 9), 2U);
  timer.advance_by(30s);
  EXPECT_EQ(store.count({.kind = "close"}, 9), 0U) << "nor the take-over of an orphan";
  EXPECT_THAT(failed, testing::Contains("store"));
  run("DROP TRIGGER no");
  timer.advance_by(10s);
  EXPECT_EQ(store.count({}, 9), 0U);
  ASSERT_THAT(store.list_dead(9), testing::SizeIs(2));
  EXPECT_EQ(store.list_dead(9)[0].error, "it is broken");
}

TEST_F(SqliteInMemory, NorDoesOneThatItRefusesAtTheCommit) {
  checks.on("close", [](const job& /*what*/) {});
  checks.start();
  put(store, asked("bad", 1s));
  run("PRAGMA foreign_keys=ON");
  run("CREATE TABLE keeps(id INTEGER REFERENCES timing_wheel_check(id) DEFERRABLE INITIALLY DEFERRED)");
  run("INSERT INTO keeps SELECT id FROM timing_wheel_check");
  for (const char* key : {"a", "b", "c"}) {
    put(store, asked(key, 1s));
  }
  timer.advance_by(3s);
  EXPECT_EQ(store.count({}, 9), 1U);
  EXPECT_TRUE(store.find("close", "bad"));
  EXPECT_THAT(failed, testing::Contains("store"));
  run("DELETE FROM keeps");
  timer.advance_by(10s);
  EXPECT_EQ(store.count({}, 9), 0U);
}

TEST_F(SqliteInMemory, CallsOnItsConnectionFollowTheTimer) {
  timer.advance_by(1h);
  sqlite_session session(store.connection());
  EXPECT_EQ(session.schedule(asked("a", 30min)).due, instant(90min));
  timer.advance_by(10min);
  EXPECT_EQ(session.reschedule("close", "a", 30min), reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due, instant(100min));
  EXPECT_EQ(session.cancel("close", "a"), cancel_result::cancelled);
}

TEST_F(SqliteInMemory, AnOpenTransactionOfTheUserIsLeftAlone) {
  run("BEGIN");
  run("INSERT INTO orders VALUES('order-17','reserved')");
  EXPECT_EQ(error_of([&] { put(store, "a"); }).code, sqlite_code(SQLITE_BUSY));
  run("COMMIT");
  EXPECT_EQ(state_of_order(), "reserved");
  EXPECT_TRUE(put(store, "a").inserted);
}

TEST_F(SqliteInMemory, AHandlerMayReadItsStore) {
  std::optional<stored_check> found;
  put(store, asked("b", 1h));
  checks.on("close", [&](transaction& /*open*/, const job& /*what*/) { found = store.find("close", "b"); });
  checks.start();
  put(store, asked("a", 1s));
  timer.advance_by(2s);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->due, instant(1h));
}

TEST_F(SqliteInMemory, TwoKnowNothingOfEachOther) {
  const manual_timer later;
  sqlite_store other(later);
  EXPECT_EQ(error_of([&] { put(other, "a"); }).code, errc::no_schema);
  other.migrate();
  put(store, "a");
  EXPECT_THAT(all_rows(other), IsEmpty());
  EXPECT_EQ(store.clock_difference(), 0s);
  store.adopt_wall_clock();
  EXPECT_EQ(store.now(), instant());
}

TEST_F(SqliteInMemory, AStoreOnAFileHasNoConnectionForOthers) {
  const scratch_folder folder;
  EXPECT_EQ(sqlite_store(folder.file()).connection(), nullptr);
}

}  // namespace
}  // namespace timing_wheel::durable::test

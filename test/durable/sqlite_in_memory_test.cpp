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
  [[nodiscard]] std::string state_of_order() const {
    std::string state;
    const auto keep = [](void* to, int /*columns*/, char** values, char** /*names*/) {
      *static_cast<std::string*>(to) = values[0];
      return 0;
    };
    sqlite3_exec(store.connection(), "SELECT state FROM orders", keep, &state, nullptr);
    return state;
  }
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

TEST_F(SqliteInMemory, AUsersTransactionThatIsRolledBackLeavesNothing) {
  on_give_back();
  run("BEGIN");
  durable::schedule(store.connection(), asked("a", 1s));
  run("ROLLBACK");
  timer.advance_by(1min);
  EXPECT_EQ(checks.stats().fired, 0U);
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

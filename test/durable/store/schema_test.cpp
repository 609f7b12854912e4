// The tables that `migrate` makes, the same on each database. For the rest see sqlite_schema_test.cpp and
// postgres_schema_test.cpp.

#include "durable/support/users_site.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

class Schema : public UsersPlace {  // NOLINT(readability-identifier-naming): a suite
 public:
  // Which checks the version at each read, too.
  [[nodiscard]] bool is_on_a_server() const { return user.table("").back() == '.'; }
  // By hand, with nothing but what it is.
  void insert(const std::string& due, const std::string& key) {
    user.run("INSERT INTO " + user.table("check") + "(due,kind,key,payload) VALUES(" + due + ",'close'," +
             (is_on_a_server() ? "'" + key + "','')" : "CAST('" + key + "' AS BLOB),x'')"));
  }
};
INSTANTIATE_TEST_SUITE_P(On, Schema, testing::ValuesIn(users_ways), [](const auto& of) { return of.param.name; });

TEST_P(Schema, MigratingAgainChangesNothing) {
  store.migrate();
  put(store, "a");
  const store_counts before = store.counts();
  store.migrate();
  EXPECT_EQ(store.counts().commits, before.commits);
  EXPECT_THAT(all_rows(store), SizeIs(1));
}

TEST_P(Schema, APlanChangesNothingAndItsStatementsAreTheMigration) {
  const migration_plan plan = store.plan_migration();
  EXPECT_EQ(plan.from, "");
  EXPECT_TRUE(plan.additive);
  EXPECT_EQ(error_of([&] { put(store, "a"); }).code, errc::no_schema);
  for (const std::string& each : plan.statements) {
    user.run(each);
  }
  const migration_plan rest = store.plan_migration();
  EXPECT_EQ(rest.from, plan.to);
  EXPECT_EQ(rest.to, plan.to);
  EXPECT_THAT(rest.statements, IsEmpty());
  EXPECT_TRUE(put(store, "a").inserted);
}

TEST_P(Schema, ANodeThatCannotReadTheTablesSaysSoAndGoesOnWhenItCan) {
  store.migrate();
  std::atomic<int> told = 0;
  std::atomic<int> runs = 0;
  const auto note = [&](const failure& what) {
    told += error_of([&] { std::rethrow_exception(what.error); }).code == errc::newer_schema ? 1 : 0;
  };
  scheduler checks(store, {.poll = 20ms, .on_failure = note});
  checks.on("close", [&](const job& /*what*/) { ++runs; });
  checks.start();
  user.schedule(asked("a", store.now()));
  wait_until([&] { return runs == 1; });
  const std::string due = std::to_string(store.now().time_since_epoch().count());
  user.run("UPDATE " + user.table("version") + " SET version=7");
  wait_until([&] { return told > 0; });
  insert(due, "b");
  const int before = told;
  wait_until([&] { return told > before + 1; });
  EXPECT_EQ(runs, 1);
  user.run("UPDATE " + user.table("version") + " SET version=2");
  wait_until([&] { return runs == 2; });
}

TEST_P(Schema, ANewerOneIsRefusedWithBothNumbers) {
  store.migrate();
  put(*user.open(), "a");
  const std::string due = "SELECT due FROM " + user.table("check");
  const std::string before = user.ask(due);
  user.run("UPDATE " + user.table("version") + " SET version=7");
  const auto later = user.open();
  for (durable::store* each : {&store, later.get()}) {
    const caught migrating = error_of([&] { each->migrate(); });
    EXPECT_EQ(migrating.code, errc::newer_schema);
    EXPECT_EQ(error_of([&] { static_cast<void>(each->plan_migration()); }).code, errc::newer_schema);
    EXPECT_THAT(migrating.words, HasSubstr("tables of version 7; this library knows version 2"));
    EXPECT_EQ(error_of([&] { put(*each, "a"); }).code, errc::newer_schema);
    EXPECT_TRUE(!is_on_a_server() || error_of([&] { all_rows(*each); }).code == errc::newer_schema);
  }
  EXPECT_EQ(error_of([&] { user.schedule(asked("a")); }).code, errc::newer_schema);
  for (const char* const key : {"a", "b"}) {
    EXPECT_EQ(error_of([&] { user.cancel(key); }).code, errc::newer_schema) << key;
    EXPECT_EQ(error_of([&] { user.reschedule(key, 2h); }).code, errc::newer_schema) << key;
  }
  EXPECT_EQ(user.ask(due), before);
}

TEST_P(Schema, EveryCallSaysThatTheTablesAreMissing) {
  const auto is_refused = [](const auto& call) { EXPECT_EQ(error_of(call).code, make_error_code(errc::no_schema)); };
  is_refused([&] { put(store, "a"); });
  is_refused([&] { all_rows(store); });
  is_refused([&] { static_cast<void>(store.now()); });
  is_refused([&] { static_cast<void>(store.find("close", "a")); });
  is_refused([&] { static_cast<void>(store.list_dead(1)); });
  is_refused([&] { store.revive_dead(1); });
  is_refused([&] { user.schedule(asked("a")); });
  is_refused([&] { user.cancel("a"); });
  store.migrate();
  EXPECT_TRUE(put(store, "a").inserted);
  EXPECT_TRUE(user.schedule(asked("b")).inserted);
}

TEST_P(Schema, TablesThatAreDroppedLaterAreMissedToo) {
  store.migrate();
  put(store, "a");
  EXPECT_THAT(all_rows(store), SizeIs(1));
  user.run("DROP TABLE " + user.table("check") + (is_on_a_server() ? " CASCADE" : ""));
  user.run("DROP TABLE " + user.table("version"));
  EXPECT_EQ(error_of([&] { put(store, "b"); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { all_rows(store); }).code, errc::no_schema);
}

TEST_P(Schema, ADeadlineInAnotherUnitIsRefused) {
  store.migrate();
  for (const char* wrong : {"1000000000", "1764000000", "1764000000000", "1764000000000000000"}) {
    EXPECT_THROW(insert(wrong, wrong), std::runtime_error) << wrong;
  }
  EXPECT_THROW(put(store, asked("x", instant(1764000000us))), timer_error);
  for (const char* right : {"0", "5", "1764000000000000", "4102444800000000", "9223372036854775807"}) {
    EXPECT_NO_THROW(insert(right, right)) << right;
    const stored_check found = store.find("close", right).value();
    EXPECT_EQ(found.due.time_since_epoch().count(), std::stoll(right));
    EXPECT_EQ(found.fence, 0);
  }
  EXPECT_TRUE(put(store, asked("far", std::chrono::hours::max())).inserted);
}

TEST_P(Schema, SeveralMayMigrateAtATime) {
  on_threads(6, [&](int) {
    const auto own = user.open();
    own->migrate();
    put(*own, "a");
  });
  EXPECT_THAT(all_rows(store), SizeIs(1));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + user.table("version")), "1");
}

}  // namespace
}  // namespace timing_wheel::durable::test

// The tables that `migrate` makes, the same on each database. For the rest see sqlite_schema_test.cpp and
// postgres_schema_test.cpp.

#include "durable/support/users_place.hpp"

namespace timing_wheel::durable::test {
namespace {

class Schema : public UsersPlace {  // NOLINT(readability-identifier-naming): a suite
 public:
  void set_version(int to) { user.run("UPDATE " + user.table("version") + " SET version=" + std::to_string(to)); }
  // What each call of the store and of the user is refused with.
  void expect_refusals(durable::store& on, errc why) {
    const auto is_refused = [&](const auto& call) { EXPECT_EQ(error_of(call).code, make_error_code(why)); };
    is_refused([&] { put(on, "a"); });
    is_refused([&] { all_rows(on); });
    is_refused([&] { static_cast<void>(on.find("close", "a")); });
    is_refused([&] { static_cast<void>(on.list_dead(1)); });
    is_refused([&] { on.revive_dead(1); });
    is_refused([&] { user.schedule(asked("a")); });
    is_refused([&] { user.cancel("a"); });
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

TEST_P(Schema, ANewerOneIsRefusedWithBothNumbers) {
  store.migrate();
  set_version(7);
  const auto later = user.open();
  for (durable::store* each : {&store, later.get()}) {
    const caught migrating = error_of([&] { each->migrate(); });
    EXPECT_EQ(migrating.code, errc::newer_schema);
    EXPECT_THAT(migrating.words, HasSubstr("tables of version 7; this library knows version 2"));
    expect_refusals(*each, errc::newer_schema);
  }
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + user.table("check")), "0");
}

TEST_P(Schema, EveryCallSaysThatTheTablesAreMissing) {
  expect_refusals(store, errc::no_schema);
  EXPECT_EQ(error_of([&] { static_cast<void>(store.now()); }).code, errc::no_schema);
  store.migrate();
  EXPECT_TRUE(put(store, "a").inserted);
  EXPECT_TRUE(user.schedule(asked("b")).inserted);
}

TEST_P(Schema, TablesThatAreDroppedLaterAreMissedToo) {
  store.migrate();
  put(store, "a");
  EXPECT_THAT(all_rows(store), SizeIs(1));
  user.run("DROP TABLE " + user.table("check"));
  user.run("DROP TABLE " + user.table("version"));
  EXPECT_EQ(error_of([&] { put(store, "b"); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { all_rows(store); }).code, errc::no_schema);
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

TEST_P(Schema, ARowWrittenByHandNeedsNothingButWhatItIs) {
  store.migrate();
  const std::string key = user.table("").back() == '.' ? "'a'" : "x'61'";
  const std::string none = user.table("").back() == '.' ? "''" : "x''";
  user.run("INSERT INTO " + user.table("check") + "(due,kind,key,payload) VALUES(5,'close'," + key + "," + none + ")");
  const auto found = store.find("close", "a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->due, instant(5us));
  EXPECT_EQ(found->fence, 0);
}

}  // namespace
}  // namespace timing_wheel::durable::test

// What calls within a user's own transaction promise, the same on each database. For the rest see
// sqlite_users_transaction_test.cpp and postgres_users_transaction_test.cpp.

#include "durable/support/users_site.hpp"

namespace timing_wheel::durable::test {
namespace {

class UsersTransaction : public UsersPlace {  // NOLINT(readability-identifier-naming): a suite
 public:
  UsersTransaction() {
    store.migrate();
    user.run("CREATE TABLE " + table("orders") + "(id integer PRIMARY KEY)");
  }
  [[nodiscard]] std::string table(const std::string& name) const { return user.table(name); }
  // Whose order is written, and not committed.
  scheduled order(const std::string& key) {
    user.run("BEGIN");
    user.run("INSERT INTO " + table("orders") + " VALUES(7)");
    const scheduled made = user.schedule(asked(key, 30min));
    EXPECT_TRUE(made.inserted);
    EXPECT_THAT(all_rows(store), IsEmpty());
    return made;
  }
  std::string orders() { return user.ask("SELECT count(*) FROM " + table("orders")); }
};
INSTANTIATE_TEST_SUITE_P(On, UsersTransaction, testing::ValuesIn(users_ways),
                         [](const auto& of) { return of.param.name; });

TEST_P(UsersTransaction, CommitsOrRollsBackOrderAndCheckTogether) {
  order("a");
  user.run("ROLLBACK");
  EXPECT_THAT(all_rows(store), IsEmpty());
  EXPECT_EQ(orders(), "0");
  const scheduled made = order("b");
  user.run("COMMIT");
  EXPECT_EQ(store.find("close", "b")->due, made.due);
  EXPECT_EQ(orders(), "1");
}

TEST_P(UsersTransaction, IsToldHowOftenACancelledCheckWasTried) {
  put(store, "a");
  retry(store, claim(store).at(0), store.now() + 1h, 1);
  EXPECT_EQ(user.cancel("a"), (cancel_answer{cancel_result::cancelled, 1}));
  EXPECT_EQ(user.cancel("a"), (cancel_answer{cancel_result::finished, 0}));
}

TEST_P(UsersTransaction, NeedsNone) {
  EXPECT_TRUE(user.schedule(asked("a", 1h)).inserted);
  EXPECT_EQ(user.reschedule("a", instant(3us)), reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due, instant(3us));
  EXPECT_EQ(user.cancel("a"), cancel_result::cancelled);
  EXPECT_EQ(user.cancel("a"), cancel_result::finished);
  EXPECT_EQ(user.reschedule("a", 1h), reschedule_result::finished);
}

TEST_P(UsersTransaction, AnswersAsTheStoreForAKeyThatIsThere) {
  const scheduled first = user.schedule(asked("a", 1h, "one"));
  const scheduled kept = user.schedule(asked("a", 2h, "two"));
  EXPECT_FALSE(kept.inserted || kept.replaced);
  EXPECT_EQ(kept.due, first.due);
  const scheduled replaced = user.schedule(replacing(asked("a", 2h, "two")));
  EXPECT_TRUE(replaced.replaced);
  EXPECT_EQ(store.find("close", "a")->payload, "two");
  EXPECT_EQ(store.find("close", "a")->due, replaced.due);
}

TEST_P(UsersTransaction, LeavesARunningCheckAloneAlsoWhenItsLeaseHasEnded) {
  put(store, "a");
  for (const auto lease : {1h, -1h}) {
    const auto held = claim(store, lease).at(0);
    EXPECT_FALSE(user.schedule(replacing(asked("a", 2h, "two"))).replaced);
    EXPECT_EQ(user.cancel("a"), cancel_result::running);
    EXPECT_EQ(user.reschedule("a", 1h), reschedule_result::running);
    EXPECT_TRUE(retry(store, held, instant(), 0));
  }
}

TEST_P(UsersTransaction, ACancelThatIsRolledBackIsNone) {
  put(store, "a");
  user.run("BEGIN");
  EXPECT_EQ(user.cancel("a"), cancel_result::cancelled);
  user.run("ROLLBACK");
  EXPECT_THAT(claim(store), SizeIs(1));
}

TEST_P(UsersTransaction, FollowsAnother) {
  for (const char* end : {"COMMIT", "ROLLBACK", "COMMIT"}) {
    user.run("BEGIN");
    EXPECT_TRUE(user.schedule(asked(std::to_string(all_rows(store).size()))).inserted);
    user.run(end);
    put(store, "between" + std::to_string(all_rows(store).size()));
  }
  EXPECT_THAT(all_rows(store), SizeIs(5));
}

TEST_P(UsersTransaction, GathersWhatHasAWindow) {
  request one = asked("a", 1h);
  one.window = 40s;
  one.within = window_use::gather;
  for (const bool replace : {false, true}) {
    one.replace = replace;
    const instant before = store.now();
    const instant due = user.schedule(one).due;
    EXPECT_GE(due, before + 1h);
    EXPECT_LT(due, store.now() + 1h + 40s);
    EXPECT_EQ(due.time_since_epoch() % 40s, 0s);
  }
  EXPECT_EQ(user.reschedule("a", due_time(2h).rounded_up_to(40s)), reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due.time_since_epoch() % 40s, 0s);
  one.due = instant() + 41s;
  EXPECT_EQ(user.schedule(one).due, instant() + 80s);
  one.due = due_time(1h).later_by(std::chrono::microseconds::max());
  EXPECT_EQ(user.schedule(one).due, instant::max());
}

TEST_P(UsersTransaction, RefusesWhatIsTooLongAndKeepsAnyBytesAndTheEndOfTime) {
  EXPECT_EQ(error_of([&] { user.schedule(asked(std::string(256, 'k'))); }).code, errc::key_too_long);
  const std::string bytes("\0\xff", 2);
  EXPECT_EQ(user.schedule(asked(bytes, instant::max(), "")).due, instant::max());
  EXPECT_EQ(store.find("close", bytes)->payload, "");
  EXPECT_EQ(store.find("close", bytes)->due, instant::max());
  EXPECT_GT(user.schedule(asked("long", std::chrono::hours::max())).due, store.now() + std::chrono::years(290));
}

}  // namespace
}  // namespace timing_wheel::durable::test

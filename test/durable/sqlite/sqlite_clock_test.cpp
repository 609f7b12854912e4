#include "durable/sqlite/clock.hpp"

#include "durable/support/fake_clocks.hpp"
#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteClock : public testing::Test {
 public:
  SqliteClock() { store.migrate(); }

  ~SqliteClock() override { fake_clocks::boot = "first"; }
  static void restart_the_machine() {
    fake_clocks::boot = "second";
    fake_clocks::since_boot = 3s;
  }
  static instant wall() { return std::chrono::floor<std::chrono::microseconds>(fake_clocks::wall); }

  fake_clocks clocks;
  scratch_folder folder;
  sqlite_store store{folder.file()};
};

TEST_F(SqliteClock, BeginsAsTheWallClockAndGoesWithTheMachine) {
  EXPECT_EQ(store.now(), wall());
  fake_clocks::pass(90min);
  EXPECT_EQ(store.now(), wall());
}

TEST_F(SqliteClock, AStepOfTheWallClockDoesNotMoveIt) {
  const instant before = store.now();
  fake_clocks::wall += 1h;
  EXPECT_EQ(store.now(), before);
  EXPECT_EQ(store.clock_difference(), 1h);
  fake_clocks::wall -= 3h;
  EXPECT_EQ(store.now(), before);
  EXPECT_EQ(store.clock_difference(), -2h);
}

TEST_F(SqliteClock, AnotherStoreWithAnotherWallClockUsesTheOneOfTheFile) {
  fake_clocks::wall += 1h;
  sqlite_store other(folder.file());
  EXPECT_EQ(other.now(), store.now());
  put(store, "a", 30min);
  EXPECT_THAT(claim(other), IsEmpty());
}

TEST_F(SqliteClock, RoundsDownSoThatNothingIsEarly) {
  fake_clocks::pass(999ns);
  const instant shown = store.now();
  EXPECT_LE(shown, fake_clocks::wall);
  put(store, "a", shown + 1us);
  EXPECT_THAT(claim(store), IsEmpty());
  fake_clocks::pass(1us);
  EXPECT_THAT(claim(store), SizeIs(1));
}

TEST_F(SqliteClock, AdoptingTheWallClockIsSeenByTheNextTransactionOfAnother) {
  sqlite_store other(folder.file());
  const instant before = other.now();
  fake_clocks::wall += 1h;
  store.adopt_wall_clock();
  EXPECT_EQ(store.now(), before + 1h);
  EXPECT_EQ(put(other, "a").due, before + 1h);
  EXPECT_EQ(other.now(), before + 1h);
}

TEST_F(SqliteClock, AdoptingTheWallClockIsSeenByTheNextReadOfAnother) {
  sqlite_store other(folder.file());
  const instant before = other.now();
  fake_clocks::wall -= 1h;
  store.adopt_wall_clock();
  all_rows(other);
  EXPECT_EQ(other.now(), before - 1h);
}

TEST_F(SqliteClock, AfterARestartOfTheMachineItIsTheWallClockAgain) {
  put(store, "a", 1h);
  restart_the_machine();
  fake_clocks::wall += 2h;
  sqlite_store later(folder.file());
  EXPECT_EQ(later.now(), wall());
  EXPECT_THAT(claim(later), SizeIs(1));
}

TEST_F(SqliteClock, IdsAndFencesRiseThoughItIsSetBack) {
  put(store, "a");
  const auto held = claim(store, -1us).at(0);
  EXPECT_TRUE(complete(store, held));
  fake_clocks::wall -= std::chrono::hours(24 * 365);
  store.adopt_wall_clock();
  put(store, "a");
  EXPECT_GT(all_rows(store).at(0).id, held.id);
  EXPECT_GT(claim(store).at(0).fence, held.fence);
}

TEST_F(SqliteClock, AnUndoneAdoptionIsNone) {
  const instant before = store.now();
  users_database user(folder.file());
  user.run("BEGIN; UPDATE timing_wheel_clock SET revision=revision+1,offset=0; ROLLBACK");
  put(store, "a");
  EXPECT_EQ(store.now(), before);
}

TEST_F(SqliteClock, AUsersConnectionUsesTheOneOfTheFile) {
  fake_clocks::wall += 1h;
  users_database user(folder.file());
  EXPECT_EQ(schedule(user.get(), asked("a", 30min)).due, store.now() + 30min);
  EXPECT_EQ(schedule(user.get(), asked("b", -30min)).due, store.now());
}

TEST_F(SqliteClock, AUsersConnectionSetsItAfterARestart) {
  put(store, "pending", 1h);
  restart_the_machine();
  fake_clocks::wall += 2h;
  users_database user(folder.file());
  EXPECT_EQ(schedule(user.get(), asked("new", 1h)).due, wall() + 1h);
  EXPECT_EQ(sqlite_store(folder.file()).now(), wall());
}

TEST_F(SqliteClock, AUsersConnectionMovesByItAfterARestart) {
  put(store, "a", 1h);
  restart_the_machine();
  users_database user(folder.file());
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", 2h), reschedule_result::moved);
  EXPECT_EQ(sqlite_store(folder.file()).find("close", "a")->due, wall() + 2h);
}

TEST_F(SqliteClock, CostsNoStatementWhileNobodyElseWrites) {
  put(store, "a");
  all_rows(store);
  const std::uint64_t before = store.counts().statements;
  static_cast<void>(store.now());
  EXPECT_EQ(store.counts().statements, before);
  put(store, "b");
  EXPECT_EQ(store.counts().statements - before, 3U);
}

TEST_F(SqliteClock, CostsOneStatementAfterAnotherHasWritten) {
  sqlite_store other(folder.file());
  put(store, "a");
  put(other, "b");
  const std::uint64_t before = store.counts().statements;
  put(store, "c");
  EXPECT_EQ(store.counts().statements - before, 4U);
}

TEST(SqliteRealClock, IsNearTheWallClockAndNeverGoesBack) {
  const scratch_folder folder;
  sqlite_store store(folder.file());
  store.migrate();
  const auto difference = store.clock_difference();
  EXPECT_LT(std::chrono::abs(difference), 1s);
  instant last = store.now();
  for (int turn = 0; turn < 1000; ++turn) {
    const instant next = store.now();
    EXPECT_GE(next, last);
    last = next;
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test

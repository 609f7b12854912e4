// What a store does about the dead rows of its table: when enough runs have ended, it lets the server vacuum.

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresVacuum : public PostgresCase {
 public:
  PostgresVacuum() { user.execute("ALTER TABLE " + table("check") + " SET (autovacuum_enabled=false)"); }

  // So many rows come, and are deleted.
  void die(int rows) {
    come(rows);
    go(rows);
  }
  void come(int rows) const {
    user.execute("INSERT INTO " + table("check") +
                 "(kind,key,payload,due) SELECT 'k',n::text::bytea,'',0 FROM generate_series(1," +
                 std::to_string(rows) + ") n");
  }
  void go(int rows) {
    const long long before = dead();
    user.execute("DELETE FROM " + table("check") + " WHERE id<(SELECT min(id) FROM " + table("check") + ")+" +
                 std::to_string(rows));
    wait_until([&] { return dead() >= before + rows; }, 5s);  // the server counts now and then
    ASSERT_EQ(dead(), before + rows);
  }
  [[nodiscard]] long long figure(const std::string& column) const {
    user.execute("SELECT pg_stat_clear_snapshot()");
    return user.count("SELECT " + column + " FROM pg_stat_all_tables WHERE relid='" + table("check") + "'::regclass");
  }
  [[nodiscard]] long long dead() const { return figure("n_dead_tup"); }

  // \returns how many vacuums there were, when there are so many, or after five seconds.
  [[nodiscard]] long long vacuums(long long expected) const {
    wait_until([&] { return figure("vacuum_count") >= expected; }, 5s);
    return figure("vacuum_count");
  }
  // The same, of those that would have begun by now.
  [[nodiscard]] long long vacuums() const {
    std::this_thread::sleep_for(200ms);
    return figure("vacuum_count");
  }

  static void tell(durable::store& to, std::uint64_t ended) {
    to.tell_runs("a", {.begun = ended, .ended = ended, .failed = 0});
  }
  void tell(std::uint64_t ended) { tell(store, ended); }
};

TEST_F(PostgresVacuum, WhenFiftyThousandRunsHaveEndedTheirRowsAreTakenAway) {
  die(60'000);
  tell(49'999);
  EXPECT_EQ(vacuums(), 0);
  tell(1);
  EXPECT_EQ(vacuums(1), 1);
  EXPECT_EQ(dead(), 0);
  tell(50'000);
  EXPECT_EQ(vacuums(), 1) << "nothing is dead";
}

TEST_F(PostgresVacuum, ALargeTableIsLeftToAutovacuum) {
  come(250'000);
  user.execute("ANALYZE " + table("check"));
  go(60'000);
  tell(50'000);
  EXPECT_EQ(vacuums(), 0);
}

TEST_F(PostgresVacuum, BehindAnOpenSnapshotTheNextWaitsForTwiceAsManyRuns) {
  const sql_session reader(server().conninfo());
  reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
  die(60'000);
  tell(50'000);
  EXPECT_EQ(vacuums(1), 1);
  EXPECT_EQ(dead(), 60'000);
  die(50'000);
  tell(50'000);
  EXPECT_EQ(vacuums(2), 2);
  tell(99'999);
  EXPECT_EQ(vacuums(), 2);
  reader.execute("COMMIT");
  tell(1);
  EXPECT_EQ(vacuums(3), 3);
  EXPECT_EQ(dead(), 0);
}

TEST_F(PostgresVacuum, WhereRunsLeaveManyDeadRowsEachVacuumCounts) {
  for (int round = 1; round <= 3; ++round) {
    die(200'000);
    tell(50'000);
    EXPECT_EQ(vacuums(round), round);
    EXPECT_EQ(dead(), 0);
  }
}

TEST_F(PostgresVacuum, ATableThatSomebodyElseVacuumsIsLeftAlone) {
  die(60'000);
  const sql_session other(server().conninfo());
  other.execute("BEGIN; LOCK TABLE " + table("check") + " IN SHARE UPDATE EXCLUSIVE MODE");
  tell(50'000);
  EXPECT_EQ(vacuums(), 0) << "it does not wait";
  other.execute("COMMIT");
  EXPECT_EQ(vacuums(), 0);
  tell(50'000);
  EXPECT_EQ(vacuums(1), 1);
}

TEST_F(PostgresVacuum, AfterAFailureTheNextWaitsForTwiceAsManyRuns) {
  user.execute("CREATE ROLE " + schema + "_owns LOGIN; ALTER SCHEMA " + schema + " OWNER TO " + schema +
               "_owns; ALTER TABLE " + table("check") + " OWNER TO " + schema +
               "_owns; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + schema + "_owns");
  postgres_options few = options;
  few.connections = 1;
  postgres_store owns(server().conninfo() + " user=" + schema + "_owns", few);
  user.execute("ALTER ROLE " + schema + "_owns CONNECTION LIMIT 1");
  die(60'000);
  tell(owns, 50'000);
  std::this_thread::sleep_for(1500ms);  // it tries for a second
  EXPECT_EQ(vacuums(), 0) << "the role has no second connection";
  user.execute("ALTER ROLE " + schema + "_owns CONNECTION LIMIT 9");
  tell(owns, 50'000);
  EXPECT_EQ(vacuums(), 0);
  tell(owns, 50'000);
  EXPECT_EQ(vacuums(1), 1);
}

TEST_F(PostgresVacuum, EndsWithItsStore) {
  user.execute(
      "ALTER DATABASE postgres SET vacuum_cost_delay='100ms'; ALTER DATABASE postgres SET vacuum_cost_limit=1");
  die(60'000);
  const std::string running =
      "SELECT count(*) FROM pg_stat_activity WHERE state='active' AND query LIKE 'VACUUM%" + schema + "%'";
  {
    postgres_store slow(server().conninfo(), options);
    tell(slow, 50'000);
    EXPECT_TRUE(wait_until([&] { return user.count(running) == 1; }, 5s));
  }
  EXPECT_TRUE(wait_until([&] { return user.count(running) == 0; }, 1s));
  user.execute("ALTER DATABASE postgres RESET ALL");
}

TEST_F(PostgresVacuum, ARoleThatDoesNotOwnTheTableLetsItBe) {
  const std::string role = schema + "_writes";
  server().execute("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + role +
                   "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + role);
  postgres_store writes(server().conninfo() + " user=" + role, options);
  die(60'000);
  tell(writes, 50'000);
  EXPECT_EQ(vacuums(), 0);
  user.execute("GRANT " + user.ask("SELECT current_user") + " TO " + role);
  tell(writes, 799'999);
  EXPECT_EQ(vacuums(), 0);
  tell(writes, 1);
  EXPECT_EQ(vacuums(1), 1) << "it has got the right";
}

TEST_F(PostgresVacuum, OneThatIsNotToVacuumOrToPrepareDoesNot) {
  postgres_options without = options;
  without.vacuum = false;
  postgres_store quiet(server().conninfo(), without);
  postgres_store behind_a_pooler(server().conninfo(), prepared(false));
  die(60'000);
  tell(quiet, 50'000);
  tell(behind_a_pooler, 50'000);
  EXPECT_EQ(vacuums(), 0);
}

}  // namespace
}  // namespace timing_wheel::durable::test

// What a store does about the dead rows of its table: when enough runs have ended, it lets the server vacuum.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

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
    for (int times = 0; times < 500 && dead() < before + rows; ++times) {  // the server counts now and then
      std::this_thread::sleep_for(10ms);
    }
    ASSERT_EQ(dead(), before + rows);
  }
  [[nodiscard]] long long figure(const std::string& column) const {
    user.execute("SELECT pg_stat_clear_snapshot()");
    return user.count("SELECT " + column + " FROM pg_stat_all_tables WHERE relid='" + table("check") + "'::regclass");
  }
  [[nodiscard]] long long dead() const { return figure("n_dead_tup"); }

  // \returns how many vacuums there were: at once if there are so many, or after a second.
  [[nodiscard]] long long vacuums(long long expected) const {
    for (int times = 0; times < 100 && figure("vacuum_count") < expected; ++times) {
      std::this_thread::sleep_for(10ms);
    }
    return figure("vacuum_count");
  }
  // Whether the store has let one begin that does not end at once. A session's last statement can be seen.
  [[nodiscard]] bool has_begun_one() const {
    std::this_thread::sleep_for(50ms);
    return user.count("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'VACUUM%" + schema + "%'") != 0;
  }

  static void tell(durable::store& to, std::uint64_t ended) {
    to.tell_runs("a", {.begun = ended, .ended = ended, .failed = 0});
  }
  void tell(std::uint64_t ended) { tell(store, ended); }
};

TEST_F(PostgresVacuum, WhenFiftyThousandRunsHaveEndedTheirRowsAreTakenAway) {
  die(60'000);
  tell(49'999);
  EXPECT_FALSE(has_begun_one());
  tell(1);
  EXPECT_EQ(vacuums(1), 1);
  EXPECT_EQ(dead(), 0);
  tell(50'000);
  EXPECT_EQ(vacuums(2), 1) << "nothing is dead";
}

TEST_F(PostgresVacuum, ALargeTableIsLeftToAutovacuum) {
  come(250'000);
  user.execute("ANALYZE " + table("check"));
  go(60'000);
  tell(50'000);
  EXPECT_FALSE(has_begun_one());
}

TEST_F(PostgresVacuum, BehindAnOpenSnapshotTheNextWaitsForTwiceAsManyRuns) {
  const postgres_session reader(server().conninfo());
  reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
  die(60'000);
  tell(50'000);
  EXPECT_EQ(vacuums(1), 1);
  EXPECT_EQ(dead(), 60'000);
  die(50'000);
  tell(50'000);
  EXPECT_EQ(vacuums(2), 2);
  tell(99'999);
  EXPECT_EQ(vacuums(3), 2);
  reader.execute("COMMIT");
  tell(1);
  EXPECT_EQ(vacuums(3), 3);
  EXPECT_EQ(dead(), 0);
}

TEST_F(PostgresVacuum, ATableThatSomebodyElseVacuumsIsLeftAlone) {
  die(60'000);
  const postgres_session other(server().conninfo());
  other.execute("BEGIN; LOCK TABLE " + table("check") + " IN SHARE UPDATE EXCLUSIVE MODE");
  tell(50'000);
  EXPECT_TRUE(has_begun_one());
  other.execute("COMMIT");
  EXPECT_EQ(vacuums(1), 0) << "it has not waited";
  tell(50'000);
  EXPECT_EQ(vacuums(1), 1);
}

TEST_F(PostgresVacuum, AfterABreakTheNextIsOnANewConnection) {
  die(60'000);
  tell(50'000);
  EXPECT_EQ(vacuums(1), 1);
  user.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'VACUUM%" + schema + "%'");
  die(60'000);
  tell(50'000);  // it meets the end of the connection
  tell(0);
  EXPECT_EQ(vacuums(2), 2);
}

TEST_F(PostgresVacuum, ARoleThatDoesNotOwnTheTableLetsItBe) {
  const std::string role = schema + "_writes";
  server().execute("CREATE ROLE " + role + " LOGIN; GRANT USAGE ON SCHEMA " + schema + " TO " + role +
                   "; GRANT ALL ON ALL TABLES IN SCHEMA " + schema + " TO " + role);
  postgres_store writes(server().conninfo() + " user=" + role, options);
  die(60'000);
  tell(writes, 50'000);
  EXPECT_FALSE(has_begun_one());
  EXPECT_EQ(
      user.count("SELECT count(*) FROM pg_stat_activity WHERE usename='" + role + "' AND query LIKE '%n_dead_tup%'"), 0)
      << "it keeps no connection for that";
}

TEST_F(PostgresVacuum, OneThatIsNotToVacuumDoesNot) {
  postgres_options without = options;
  without.vacuum = false;
  postgres_store quiet(server().conninfo(), without);
  die(60'000);
  tell(quiet, 50'000);
  EXPECT_FALSE(has_begun_one());
}

}  // namespace
}  // namespace timing_wheel::durable::test

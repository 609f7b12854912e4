#include "durable/postgres/schema.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class PostgresSchema : public PostgresCase {};  // NOLINT(readability-identifier-naming): a suite

TEST_F(PostgresSchema, MigratingAgainChangesNothing) {
  put(store, "a");
  const store_counts before = store.counts();
  store.migrate();
  EXPECT_EQ(store.counts().commits, before.commits);
  EXPECT_THAT(all_rows(store), SizeIs(1));
}

TEST_F(PostgresSchema, ANewerOneIsRefusedWithBothNumbers) {
  user.execute("UPDATE " + table("version") + " SET version=7");
  postgres_store later(server().conninfo(), options);
  for (postgres_store* each : {&store, &later}) {
    const caught migrating = error_of([&] { each->migrate(); });
    EXPECT_EQ(migrating.code, errc::newer_schema);
    EXPECT_THAT(migrating.words, HasSubstr("tables of version 7; this library knows version 2"));
    EXPECT_EQ(error_of([&] { put(*each, "a"); }).code, errc::newer_schema);
    EXPECT_EQ(error_of([&] { all_rows(*each); }).code, errc::newer_schema);
  }
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked("a"), target); }).code, errc::newer_schema);
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("check")), "0");
}

TEST(PostgresSchemaless, EveryCallSaysThatTheTablesAreMissing) {
  const std::string schema = new_schema();
  postgres_store store(server().conninfo(), options_in(schema));
  const postgres_session user(server().conninfo());
  const postgres_target target{.schema = schema};
  EXPECT_EQ(error_of([&] { put(store, "a"); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { all_rows(store); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { static_cast<void>(store.now()); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { static_cast<void>(store.find("close", "a")); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { static_cast<void>(store.list_dead(1)); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { static_cast<void>(store.renew_shares("me", kinds, 1s)); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { store.revive_dead(1); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked("a"), target); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { durable::cancel(user.get(), "close", "a", target); }).code, errc::no_schema);
  store.migrate();
  EXPECT_TRUE(put(store, "a").inserted);
  EXPECT_TRUE(schedule(user.get(), asked("b"), target).inserted);
}

TEST(PostgresSchemaless, TablesThatAreDroppedLaterAreMissedToo) {
  const std::string schema = new_schema();
  postgres_store store(server().conninfo(), options_in(schema));
  store.migrate();
  put(store, "a");
  EXPECT_THAT(all_rows(store), SizeIs(1));
  server().execute("DROP SCHEMA " + schema + " CASCADE");
  EXPECT_EQ(error_of([&] { put(store, "b"); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { all_rows(store); }).code, errc::no_schema);
  store.migrate();
  EXPECT_TRUE(put(store, "b").inserted);
  EXPECT_THAT(all_rows(store), SizeIs(1));
}

TEST(PostgresSchemaless, SeveralMayMigrateAtATime) {
  for (int round = 0; round < 5; ++round) {
    const std::string schema = new_schema();
    std::vector<std::thread> threads;
    for (int number = 0; number < 6; ++number) {
      threads.emplace_back([&] {
        postgres_store store(server().conninfo(), options_in(schema));
        store.migrate();
        put(store, "a");
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    postgres_store store(server().conninfo(), options_in(schema));
    EXPECT_THAT(all_rows(store), SizeIs(1));
    EXPECT_EQ(server().ask("SELECT count(*) FROM " + schema + ".version"), "1");
  }
}

TEST(PostgresSchemaless, AnyNameWillDo) {
  const std::string name = R"(Our "checks"; 'DROP' @ home)";
  postgres_store store(server().conninfo(), options_in(name));
  store.migrate();
  store.migrate();
  put(store, "a");
  EXPECT_THAT(claim(store), SizeIs(1));
  const postgres_session user(server().conninfo());
  EXPECT_TRUE(schedule(user.get(), asked("b"), {.schema = name}).inserted);
}

TEST(PostgresSchemaless, TheSchemaMayBeThereAndMigrationIsARightOfItsOwn) {
  const std::string schema = new_schema();
  server().execute("CREATE ROLE " + schema + "_owner LOGIN; CREATE ROLE " + schema + "_other LOGIN; CREATE SCHEMA " +
                   schema + " AUTHORIZATION " + schema + "_owner");
  postgres_store other(server().conninfo() + " user=" + schema + "_other", options_in(schema));
  EXPECT_EQ(sqlstate(error_of([&] { other.migrate(); })), "42501");
  postgres_store owner(server().conninfo() + " user=" + schema + "_owner", options_in(schema));
  owner.migrate();
  EXPECT_TRUE(put(owner, "a").inserted);
}

TEST_F(PostgresSchema, ARowWrittenByHandNeedsNothingButWhatItIs) {
  user.execute("INSERT INTO " + table("check") + "(due,kind,key,payload) VALUES(5,'close','a','')");
  const auto found = store.find("close", "a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->due, instant(5us));
  EXPECT_EQ(found->fence, 0);
}

TEST_F(PostgresSchema, TheTableRefusesWrongRows) {
  for (const char* wrong :
       {"(1,'','k','')", "(1,'close','','')", "(NULL,'close','k','')", "(1,'close',NULL,'')", "(1,'close','k',NULL)"}) {
    EXPECT_THROW(user.execute("INSERT INTO " + table("check") + "(due,kind,key,payload) VALUES" + wrong),
                 std::runtime_error)
        << wrong;
  }
  put(store, "a");
  for (const char* wrong : {"fence=-1", "attempt=-1", "id=-1"}) {
    EXPECT_THROW(user.execute("UPDATE " + table("check") + " SET " + wrong), std::runtime_error) << wrong;
  }
}

// In version 1 the column counted the claims of a row, and a job saw `id * 65536` more.
TEST_F(PostgresSchema, TheFencesOfVersion1GoOnToRise) {
  put(store, "a");
  put(store, "b");
  claim(store);
  user.execute("ALTER TABLE " + table("check") + " ALTER COLUMN fence TYPE integer USING 3; DROP SEQUENCE " +
               table("fence") + "; UPDATE " + table("version") + " SET version=1");
  postgres_store newer(server().conninfo(), options);
  EXPECT_EQ(error_of([&] { put(newer, "c"); }).code, make_error_code(errc::no_schema));
  newer.migrate();
  newer.migrate();
  std::int64_t last = 0;
  for (const upcoming& row : all_rows(newer)) {
    last = std::max(last, row.id);
  }
  EXPECT_EQ(user.count("SELECT max(fence) FROM " + table("check")), last * 65536 + 3);
  user.execute("UPDATE " + table("check") + " SET lease=NULL");
  for (const claimed& one : claim(newer)) {
    EXPECT_GT(one.fence, (last + 1) * 65536);
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test

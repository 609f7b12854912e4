#include "durable/postgres/schema.hpp"

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresSchema : public PostgresCase {};  // NOLINT(readability-identifier-naming): a suite

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

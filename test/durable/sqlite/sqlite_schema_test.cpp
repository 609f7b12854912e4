#include "durable/sqlite/schema.hpp"

#include "durable/support/fake_clocks.hpp"
#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteSchema : public SqliteCase {
 public:
  [[nodiscard]] int pages() const { return std::stoi(user.ask("PRAGMA page_count")); }
  // Many checks come and go. \returns how many pages the file has then.
  int churn() {
    store.transact([&](store_transaction& open) {
      for (int key = 0; key < 2000; ++key) {
        open.schedule(asked(std::to_string(key), {}, std::string(200, 'p')));
      }
    });
    take(store);
    return pages();
  }

  users_database user{folder.file()};
};

TEST(SqliteSchemaless, TheTablesLieBesideTheUsersOwn) {
  const scratch_folder folder;
  users_database user(folder.file());
  user.run("PRAGMA page_size=8192; CREATE TABLE orders(id INTEGER PRIMARY KEY); INSERT INTO orders VALUES(7)");
  sqlite_store store(folder.file());
  store.migrate();
  put(store, "a");
  EXPECT_EQ(user.ask("SELECT id FROM orders"), "7");
  EXPECT_EQ(user.ask("PRAGMA page_size"), "8192");
  EXPECT_EQ(user.ask("PRAGMA auto_vacuum"), "0");
  EXPECT_EQ(user.ask("PRAGMA journal_mode"), "wal");
}

// In version 1 the column counted the claims of a row, and a job saw `id * 65536` more.
TEST_F(SqliteSchema, TheFencesOfVersion1GoOnToRise) {
  put(store, "a");
  const upcoming row = all_rows(store).at(0);
  user.run(
      "UPDATE timing_wheel_check SET fence=3; DROP TABLE timing_wheel_fence; "
      "UPDATE timing_wheel_schema SET version=1");
  sqlite_store newer(folder.file());
  EXPECT_EQ(error_of([&] { put(newer, "b"); }).code, make_error_code(errc::no_schema));
  EXPECT_FALSE(newer.plan_migration().additive);
  newer.migrate();
  newer.migrate();
  EXPECT_EQ(newer.find("close", "a")->fence, row.id * 65536 + 3);
  EXPECT_GT(claim(newer).at(0).fence, (row.id + 1) * 65536);
}

TEST_F(SqliteSchema, TheTableRefusesWrongRows) {
  const std::string insert = "INSERT INTO timing_wheel_check(due,kind,key,payload) VALUES";
  for (const char* wrong : {"(1,'','k',x'')", "(1,'close',x'',x'')", "(1,'close','k',x'')", "(1,'close',x'61','text')",
                            "(1.5,'close',x'61',x'')", "('soon','close',x'61',x'')", "(NULL,'close',x'61',x'')",
                            "(1,x'61',x'61',x'')", "(1,'close',NULL,x'')", "(1,'close',x'61',NULL)"}) {
    EXPECT_EQ(user.run(insert + wrong) & 0xff, SQLITE_CONSTRAINT) << wrong;
  }
  put(store, "a");
  for (const char* wrong : {"lease='never'", "lease=1.5", "fence=-1", "fence='x'", "attempt=-1", "id=-1"}) {
    EXPECT_EQ(user.run(std::string("UPDATE timing_wheel_check SET ") + wrong) & 0xff, SQLITE_CONSTRAINT) << wrong;
  }
}

// A machine without a battery begins in 1970, where half an hour looks like a count of seconds.
TEST(SqliteSchemaless, ATableOfAClockThatWasNotSetTakesEachDeadline) {
  const fake_clocks clocks;
  const auto wall = std::exchange(fake_clocks::wall, {});
  const scratch_folder folder;
  sqlite_store store(folder.file());
  store.migrate();
  EXPECT_EQ(put(store, "a", 30min).due, instant(30min));
  fake_clocks::wall = wall;
}

TEST_F(SqliteSchema, SpaceIsUsedAgain) {
  const int first = churn();
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_LE(churn(), first + (first / 10));
  }
}

TEST_F(SqliteSchema, SpaceCanBeGivenBackWhileTheStoreIsOpen) {
  const int before = churn();
  EXPECT_EQ(user.run("PRAGMA incremental_vacuum"), SQLITE_OK);
  EXPECT_LT(pages(), before / 4);
  EXPECT_TRUE(put(store, "a").inserted);
}

}  // namespace
}  // namespace timing_wheel::durable::test

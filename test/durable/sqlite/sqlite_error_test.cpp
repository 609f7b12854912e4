#include <sys/stat.h>
#include <unistd.h>

#include "durable/support/sqlite_case.hpp"
#include "support/in_child.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::test {
namespace {

using timing_wheel::test::child_end;
using timing_wheel::test::in_child;

class SqliteError : public SqliteCase {};

caught opening(const std::string& file, const sqlite_options& options = {}) {
  return error_of([&] { const sqlite_store opened(file, options); });
}

TEST_F(SqliteError, SaysWhatItDidWithWhichFileAndSqlitesWords) {
  const std::string file = folder.file("none/checks.db");
  const caught found = opening(file);
  EXPECT_EQ(found.code, sqlite_code(SQLITE_CANTOPEN));
  EXPECT_THAT(found.words, AllOf(HasSubstr("opening"), HasSubstr(file), HasSubstr("unable to open database file")));
  EXPECT_STREQ(found.code.category().name(), "sqlite");
}

TEST_F(SqliteError, AFileThatIsNoDatabaseIsRefused) {
  std::ofstream(folder.file("text.db")) << std::string(5000, 'x');
  EXPECT_EQ(opening(folder.file("text.db")).code, sqlite_code(SQLITE_NOTADB));
}

TEST_F(SqliteError, ANameWithAZeroByteIsRefusedAndNoOtherFileIsMade) {
  const caught found = opening(folder.file("x") + std::string("\0y.db", 5));
  EXPECT_EQ(found.code, sqlite_code(SQLITE_CANTOPEN));
  EXPECT_THAT(found.words, HasSubstr("zero byte"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("x")));
}

TEST_F(SqliteError, AFolderIsRefused) { EXPECT_EQ(opening(folder.path()).code.value() & 0xff, SQLITE_CANTOPEN); }

TEST_F(SqliteError, ADatabaseInMemoryIsRefused) { EXPECT_EQ(opening(":memory:").code, sqlite_code(SQLITE_CANTOPEN)); }

// Root may write everything: so somebody else tries.
child_end as_nobody(const std::string& file, int code) {
  return in_child([&] {
    if (geteuid() == 0 && setuid(65534) != 0) {
      return 2;
    }
    return (opening(file).code.value() & 0xff) == code ? 0 : 1;
  });
}

TEST_F(SqliteError, AReadOnlyFileIsRefused) {
  chmod(folder.path().c_str(), 0777);
  chmod(folder.file().c_str(), 0444);
  EXPECT_EQ(as_nobody(folder.file(), SQLITE_READONLY), (child_end{true, 0}));
}

TEST_F(SqliteError, AReadOnlyFolderIsRefused) {
  chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(as_nobody(folder.file("new.db"), SQLITE_CANTOPEN), (child_end{true, 0}));
  chmod(folder.path().c_str(), 0755);
}

TEST_F(SqliteError, ADeletedFileIsNotWrittenAnyMore) {
  put(store, "a");
  std::filesystem::remove(folder.file());
  const caught found = error_of([&] { put(store, "b"); });
  EXPECT_EQ(found.code, sqlite_code(SQLITE_READONLY_DBMOVED));
  EXPECT_THAT(found.words, HasSubstr("deleted"));
  EXPECT_EQ(error_of([&] { all_rows(store); }).code, sqlite_code(SQLITE_READONLY_DBMOVED));
}

TEST_F(SqliteError, AReplacedFileIsNotWritten) {
  std::filesystem::copy(folder.file(), folder.file("copy"));
  std::filesystem::rename(folder.file("copy"), folder.file());
  EXPECT_EQ(error_of([&] { put(store, "b"); }).code, sqlite_code(SQLITE_READONLY_DBMOVED));
}

TEST_F(SqliteError, ADeletedLogIsNotWrittenAnyMore) {
  put(store, "a");
  std::filesystem::remove(folder.file() + "-wal");
  EXPECT_EQ(error_of([&] { put(store, "b"); }).code, sqlite_code(SQLITE_READONLY_DBMOVED));
}

TEST_F(SqliteError, AFileThatHasLostTheRowOfItsVersionIsRefused) {
  const users_database user(folder.file());
  user.run("DELETE FROM timing_wheel_schema");
  EXPECT_EQ(error_of([&] { put(store, "a"); }).code, errc::no_schema);
  EXPECT_EQ(error_of([&] { durable::schedule(user.get(), asked("a")); }).code, errc::no_schema);
}

TEST_F(SqliteError, ANumberOfAttemptsThatNoIntHoldsIsTheLargest) {
  const users_database user(folder.file());
  put(store, "a");
  user.run("UPDATE timing_wheel_check SET attempt=2147483647");
  EXPECT_EQ(claim(store).at(0).attempt, std::numeric_limits<int>::max());
}

TEST_F(SqliteError, AFullFileUndoesAllAndTheStoreGoesOnWhenThereIsRoom) {
  put(store, "a");
  const auto limit = [&](const std::string& pages) {
    store.transact([&](store_transaction& open) {
      sqlite3_exec(sqlite_connection(open), ("PRAGMA max_page_count=" + pages).c_str(), nullptr, nullptr, nullptr);
    });
  };
  limit("20");
  EXPECT_EQ(error_of([&] {
              store.transact([](store_transaction& open) {
                open.schedule(asked("b"));
                open.schedule(asked("c", {}, std::string(500000, 'p')));
              });
            }).code,
            sqlite_code(SQLITE_FULL));
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
  limit("100000");
  EXPECT_TRUE(put(store, asked("c", {}, std::string(500000, 'p'))).inserted);
}

TEST_F(SqliteError, AnErrorThatTheWorkHidesIsNoCommit) {
  put(store, "a");
  const caught found = error_of([&] {
    store.transact([](store_transaction& open) {
      sqlite3_exec(sqlite_connection(open), "ROLLBACK", nullptr, nullptr, nullptr);
      open.schedule(asked("c"));  // a transaction of its own now
    });
  });
  EXPECT_EQ(found.code, sqlite_code(SQLITE_CONSTRAINT_COMMITHOOK));
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
}

class SqliteDamage : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  // Overwrites the pages after the first, in which the tables are listed.
  SqliteDamage() {
    sqlite_store(folder.file()).migrate();
    std::fstream bytes(folder.file(), std::ios::in | std::ios::out | std::ios::binary);
    bytes.seekp(4096 * 2);
    bytes << std::string(4096 * 8, '\x5a');
  }

  const scratch_folder folder;
};

TEST_F(SqliteDamage, IsFoundWhenTheIntegrityIsChecked) {
  const caught found = opening(folder.file(), {.check_integrity = true});
  EXPECT_EQ(found.code, errc::store_damaged);
  EXPECT_THAT(found.words, HasSubstr(folder.file()));
}

TEST_F(SqliteDamage, IsAnErrorWhereItIsMet) {
  EXPECT_EQ(error_of([&] {
              sqlite_store store(folder.file());
              put(store, "a");
            }).code.value() &
                0xff,
            SQLITE_CORRUPT);
}

TEST_F(SqliteError, AChildOfForkIsRefused) {
  put(store, "a");
  EXPECT_EQ(in_child([&] {
              const bool writes = error_of([&] { put(store, "b"); }).code == timer_errc::forked;
              const bool reads = error_of([&] { all_rows(store); }).code == timer_errc::forked;
              return writes && reads ? 0 : 1;
            }),
            (child_end{true, 0}));
  EXPECT_THAT(all_rows(store), SizeIs(1));
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include "durable/support/small_vfs.hpp"
#include "durable/support/sqlite_case.hpp"

namespace timing_wheel::durable::test {
namespace {

constexpr std::int64_t ballast = 400'000;

request large(std::size_t number) { return asked(std::to_string(number), {}, std::string(8000, 'p')); }

/// \returns how many were written before the first was refused.
std::size_t fill(sqlite_store& store) {
  std::size_t written = 0;
  while (true) {
    const std::error_code found = error_of([&] { put(store, large(written)); }).code;
    if (found) {
      EXPECT_EQ(found, sqlite_code(SQLITE_FULL));
      return written;
    }
    ++written;
  }
}

/// Claims and ends each check in transactions of its own. \returns how many.
std::size_t run_all(sqlite_store& store) {
  std::size_t ended = 0;
  for (const upcoming& row : all_rows(store)) {
    std::vector<claimed> got;
    const bool is_claimed = works_at_last([&] {
      got.clear();
      store.transact([&](store_transaction& open) { open.claim({&row, 1}, open.now() + 1h, got); });
    });
    if (!is_claimed || got.size() != 1 || !works_at_last([&] { complete(store, got.front()); })) {
      break;
    }
    ++ended;
  }
  return ended;
}

class SqliteFullDisk : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 public:
  scratch_folder folder;
  small_vfs disk{2'000'000};
};

// The log can always be copied back: the room for it is there, and its own is used again.
TEST_F(SqliteFullDisk, ChecksEndThoughNothingIsFreedAndNewOnesAreTaken) {
  sqlite_store store(folder.file());
  store.migrate();
  const std::size_t written = fill(store);
  EXPECT_THAT(all_rows(store), SizeIs(written));
  disk.take_all();
  EXPECT_EQ(run_all(store), written);
  EXPECT_THAT(all_rows(store), IsEmpty());
  EXPECT_TRUE(works_at_last([&] { put(store, "new"); }));
}

TEST_F(SqliteFullDisk, AStoreThatIsOpenedAnewGoesOn) {
  std::size_t written = 0;
  {
    sqlite_store store(folder.file());
    store.migrate();
    disk.take(ballast);
    written = fill(store);
    disk.take(-ballast);
  }
  sqlite_store store(folder.file(), {.check_integrity = true});
  EXPECT_EQ(run_all(store), written);
  EXPECT_TRUE(works_at_last([&] { put(store, "new"); }));
}

// A file that another connection has filled, one that takes no room in advance.
TEST_F(SqliteFullDisk, ALogThatHasTakenTheRoomBeginsAnewWhenTheFileHasRoomToGrow) {
  sqlite_store store(folder.file());
  store.migrate();
  const users_database user(folder.file());
  user.run("PRAGMA wal_autocheckpoint=0");
  user.run("CREATE TABLE mine(text)");
  while (user.run("INSERT INTO mine VALUES(hex(randomblob(4000)))") == SQLITE_OK) {
  }
  disk.take_all();
  EXPECT_EQ(error_of([&] { put(store, large(1)); }).code, sqlite_code(SQLITE_FULL));
  EXPECT_EQ(error_of([&] { put(store, large(1)); }).code, sqlite_code(SQLITE_FULL));
  disk.take(-2'000'000);
  EXPECT_TRUE(works_at_last([&] { put(store, large(1)); }));
  disk.take_all();
  EXPECT_EQ(run_all(store), 1);
}

// It copies the log back often enough then, so that no call fails for it.
TEST_F(SqliteFullDisk, AfterOneErrorTheLogIsCopiedBackBeforeItIsFull) {
  sqlite_store store(folder.file());
  store.migrate();
  static_cast<void>(fill(store));
  disk.take_all();
  int refused = 0;
  ASSERT_TRUE(works_at_last([&] { cancel(store, "0"); }));
  for (int i = 0; i < 500; ++i) {
    refused += error_of([&] { move(store, "1", std::chrono::hours(i)); }).code ? 1 : 0;
  }
  EXPECT_EQ(refused, 0);
}

TEST_F(SqliteFullDisk, TheFileIsAsLargeAsItsPagesInTheLog) {
  sqlite_store store(folder.file());
  store.migrate();
  for (std::size_t i = 0; i < 20; ++i) {
    put(store, large(i));
  }
  const users_database user(folder.file());
  const auto pages = std::stoul(user.ask("PRAGMA page_count"));
  EXPECT_GE(std::filesystem::file_size(folder.file()), pages * 4096);
}

}  // namespace
}  // namespace timing_wheel::durable::test

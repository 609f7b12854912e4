#include <random>

#include "durable/support/lossy_vfs.hpp"
#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::test {
namespace {

/// What must be in the file: what was committed, and perhaps what was in flight when the power failed.
struct ledger {
  std::map<std::string, std::string> certain;    // payload by key
  std::map<std::string, std::string> in_flight;  // the same after the transaction whose commit has not returned
};

/// One random transaction of up to 20 changes: new checks, cancelled ones, ones that are taken.
void change_something(sqlite_store& store, ledger& known, std::mt19937_64& random) {
  known.in_flight = known.certain;
  store.transact([&](store_transaction& open) {
    for (std::size_t left = 1 + (random() % 20); left > 0; --left) {
      const std::string key = std::to_string(random() % 200);
      if (random() % 3 == 0) {
        open.cancel("close", key);
        known.in_flight.erase(key);
      } else {
        const std::string payload(random() % 3000, static_cast<char>('a' + (random() % 26)));
        if (open.schedule(asked(key, {}, payload)).inserted) {
          known.in_flight[key] = payload;
        }
      }
    }
  });
  known.certain = known.in_flight;
}

std::map<std::string, std::string> content(sqlite_store& store) {
  std::map<std::string, std::string> found;
  for (const std::string& key : keys_in(store)) {
    found[key] = store.find("close", key)->payload;
  }
  return found;
}

/// Writes until the power fails. \returns whether the file is as it must be after that.
testing::AssertionResult survives(lossy_vfs& disk, const std::string& file, ledger& known, std::mt19937_64& random) {
  try {
    sqlite_store store(file);
    disk.cut_power_after(static_cast<int>(random() % 60), random());
    while (true) {
      change_something(store, known, random);
    }
  } catch (const timer_error& error) {
    if (disk.has_power()) {
      return testing::AssertionFailure() << error.what();
    }
  }
  disk.restore_power();
  sqlite_store store(file, {.check_integrity = true});
  const auto found = content(store);
  if (found != known.certain && found != known.in_flight) {
    return testing::AssertionFailure() << found.size() << " checks, not " << known.certain.size() << " or "
                                       << known.in_flight.size();
  }
  known.certain = found;
  return testing::AssertionSuccess();
}

TEST(SqlitePowerLoss, KeepsWhatWasCommittedAndNothingHalf) {
  lossy_vfs disk;
  const scratch_folder folder;
  std::mt19937_64 random(20240607);
  ledger known;
  sqlite_store(folder.file()).migrate();
  for (int round = 0; round < 300; ++round) {
    ASSERT_TRUE(survives(disk, folder.file(), known, random)) << "round " << round;
  }
}

/// Lets the power fail in the n-th call of opening a new file and migrating it. \returns whether it came to that.
bool fails_in_migration(lossy_vfs& disk, const std::string& file, int call) {
  disk.cut_power_after(call, static_cast<std::uint64_t>(call));
  try {
    sqlite_store(file).migrate();
  } catch (const timer_error&) {
    EXPECT_FALSE(disk.has_power());
  }
  const bool failed = !disk.has_power();
  disk.restore_power();
  return failed;
}

TEST(SqlitePowerLoss, AMigrationThatItCutsIsMadeAgain) {
  lossy_vfs disk;
  const scratch_folder folder;
  int call = 0;
  for (bool failed = true; failed; ++call) {
    const std::string file = folder.file(std::to_string(call));
    failed = fails_in_migration(disk, file, call);
    sqlite_store again(file, {.check_integrity = true});
    again.migrate();
    EXPECT_TRUE(put(again, "a").inserted);
  }
  EXPECT_GT(call, 10);
}

TEST(SqlitePowerLoss, TheDiskOfThisTestDoesLoseWhatIsNotSynced) {
  lossy_vfs disk;
  const scratch_folder folder;
  const auto count = [&](const std::string& file, const char* synchronous) {
    {
      users_database user(file);
      user.run(std::string("PRAGMA journal_mode=WAL; PRAGMA synchronous=") + synchronous);
      user.run("CREATE TABLE orders(id INTEGER PRIMARY KEY); PRAGMA wal_checkpoint");
      for (int id = 0; id < 50; ++id) {
        user.run("INSERT INTO orders VALUES(NULL)");
      }
      disk.cut_power();
    }
    disk.restore_power();
    return users_database(file).ask("SELECT count(*) FROM orders");
  };
  EXPECT_EQ(count(folder.file("full"), "FULL"), "50");
  EXPECT_NE(count(folder.file("normal"), "NORMAL"), "50");
}

}  // namespace
}  // namespace timing_wheel::durable::test

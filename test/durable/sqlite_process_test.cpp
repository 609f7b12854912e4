#include <csignal>

#include "durable/support/sqlite_case.hpp"
#include "durable/support/worker.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::AnyOf;
using testing::Contains;

class SqliteProcess : public SqliteCase {
 public:
  /// So many at a time, of one command; each must end well.
  std::vector<worker> together(int count, const char* command) {
    std::vector<worker> all;
    for (int number = 0; number < count; ++number) {
      all.emplace_back(folder.file(), command, std::string(1, static_cast<char>('a' + number)));
    }
    for (worker& each : all) {
      EXPECT_EQ(each.wait(), 0);
    }
    return all;
  }

  void fill(int count) {
    store.transact([&](store_transaction& open) {
      for (int key = 0; key < count; ++key) {
        open.schedule(asked(std::to_string(key)));
      }
    });
  }

  [[nodiscard]] std::vector<upcoming> rows_of(const std::string& kind) {
    const std::vector<std::string> only = {kind};
    std::vector<upcoming> found;
    store.read_ahead({.until = instant::max(), .limit = 10000, .kinds = only}, found);
    return found;
  }
};

class SqliteProcesses : public SqliteProcess, public testing::WithParamInterface<int> {};

TEST_P(SqliteProcesses, AllScheduleInOneFile) {
  together(GetParam(), "schedule");
  EXPECT_THAT(keys_by_time(store), SizeIs(static_cast<std::size_t>(GetParam()) * 100));
}

TEST_P(SqliteProcesses, TakeEachCheckOnce) {
  fill(500);
  std::size_t told = 0;
  for (const worker& each : together(GetParam(), "take")) {
    told += each.told().size();
  }
  EXPECT_EQ(told, 500U);
  EXPECT_THAT(rows_of("done"), SizeIs(500));
}

TEST_P(SqliteProcesses, CompleteEachCheckOnce) {
  fill(200);
  together(GetParam(), "claim");
  EXPECT_THAT(rows_of("close"), IsEmpty());
  EXPECT_THAT(rows_of("done"), SizeIs(200));
}

INSTANTIATE_TEST_SUITE_P(Of, SqliteProcesses, testing::Values(2, 4), testing::PrintToStringParamName());

class SqliteKill : public SqliteProcess, public testing::WithParamInterface<const char*> {};

std::string at(const std::string& point, int time) { return point + ":kill:" + std::to_string(time); }

TEST_P(SqliteKill, LeavesAllThatWasCommitted) {
  for (int time = 3; time < 30; time += 9) {
    const std::string name = "n" + std::to_string(time) + "-";
    worker killed(folder.file(), "schedule", name, at(GetParam(), time));
    ASSERT_EQ(killed.wait(), -SIGKILL);
    const auto keys = keys_by_time(store);
    for (const std::string& key : killed.told()) {
      EXPECT_THAT(keys, Contains(key));
    }
    EXPECT_TRUE(put(store, asked(name + "after")).inserted);
  }
  EXPECT_EQ(error_of([&] { sqlite_store(folder.file(), {.check_integrity = true}); }).code, std::error_code());
}

TEST_P(SqliteKill, TakesNothingHalf) {
  fill(200);
  for (int time = 3; time < 12; time += 3) {
    worker killed(folder.file(), "take", std::to_string(time), at(GetParam(), time));
    ASSERT_EQ(killed.wait(), -SIGKILL);
    EXPECT_EQ(rows_of("close").size() + rows_of("done").size(), 200U);
  }
  together(1, "take");
  EXPECT_THAT(rows_of("done"), SizeIs(200));
}

TEST_P(SqliteKill, LosesNoCheckThatWasClaimed) {
  fill(50);
  worker killed(folder.file(), "claim", "killed", at(GetParam(), 9));
  ASSERT_EQ(killed.wait(), -SIGKILL);
  together(2, "claim");
  EXPECT_THAT(rows_of("done"), SizeIs(50));
}

INSTANTIATE_TEST_SUITE_P(At, SqliteKill,
                         testing::Values("sqlite.before_begin", "sqlite.after_begin", "sqlite.before_commit",
                                         "sqlite.after_commit"),
                         [](const auto& point) { return std::string(point.param).substr(7); });

TEST_F(SqliteProcess, AFailureAfterTheCommitLeavesItCommitted) {
  worker failing(folder.file(), "schedule", "n", "sqlite.after_commit:throw:3");
  EXPECT_EQ(failing.wait(), 1);
  EXPECT_THAT(keys_by_time(store), AnyOf(SizeIs(2), SizeIs(3)));
}

TEST_F(SqliteProcess, AnAnswerThatWasLostIsAskedForAgainWithoutHarm) {
  worker killed(folder.file(), "schedule", "n", "sqlite.after_commit:kill:5");
  ASSERT_EQ(killed.wait(), -SIGKILL);
  const std::size_t committed = keys_by_time(store).size();
  EXPECT_GT(committed, killed.told().size());  // the last answer was lost
  worker again(folder.file(), "schedule", "n");
  EXPECT_EQ(again.wait(), 0);
  EXPECT_THAT(keys_by_time(store), SizeIs(100));
}

TEST_F(SqliteProcess, OneThatStopsWithTheLockHoldsOthersUpOnlyAsLongAsTheyAllow) {
  sqlite_store patient(folder.file(), {.busy_timeout = 50ms});
  worker stopped(folder.file(), "schedule", "n", "sqlite.before_commit:stop:5");
  ASSERT_TRUE(stopped.stops());
  EXPECT_EQ(error_of([&] { put(patient, "a"); }).code.value() & 0xff, SQLITE_BUSY);
  stopped.go_on();
  EXPECT_EQ(stopped.wait(), 0);
  EXPECT_TRUE(put(patient, "a").inserted);
}

}  // namespace
}  // namespace timing_wheel::durable::test

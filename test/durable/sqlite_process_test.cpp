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
  EXPECT_THAT(rows_of(store, "done"), SizeIs(500));
}

TEST_P(SqliteProcesses, CompleteEachCheckOnce) {
  fill(200);
  together(GetParam(), "claim");
  EXPECT_THAT(rows_of(store, "close"), IsEmpty());
  EXPECT_THAT(rows_of(store, "done"), SizeIs(200));
}

INSTANTIATE_TEST_SUITE_P(Of, SqliteProcesses, testing::Values(2, 4), testing::PrintToStringParamName());

TEST_F(SqliteProcess, AFailureAfterTheCommitLeavesItCommitted) {
  worker failing(folder.file(), "schedule", "n", "TIMING_WHEEL_FAIL_POINT=sqlite.after_commit:throw:3");
  EXPECT_EQ(failing.wait(), 1);
  EXPECT_THAT(keys_by_time(store), AnyOf(SizeIs(2), SizeIs(3)));
}

TEST_F(SqliteProcess, AnAnswerThatWasLostIsAskedForAgainWithoutHarm) {
  worker killed(folder.file(), "schedule", "n", "TIMING_WHEEL_FAIL_POINT=sqlite.after_commit:kill:5");
  ASSERT_EQ(killed.wait(), -SIGKILL);
  const std::size_t committed = keys_by_time(store).size();
  EXPECT_GT(committed, killed.told().size());  // the last answer was lost
  worker again(folder.file(), "schedule", "n");
  EXPECT_EQ(again.wait(), 0);
  EXPECT_THAT(keys_by_time(store), SizeIs(100));
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class PostgresUsersTransaction : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  PostgresUsersTransaction() { user.execute("CREATE TABLE " + table("orders") + "(id bigint PRIMARY KEY)"); }

  [[nodiscard]] std::string insert() const { return "INSERT INTO " + table("orders") + " VALUES(7)"; }
};

TEST_F(PostgresUsersTransaction, CommitsOrderAndCheckTogether) {
  user.execute("BEGIN; " + insert());
  EXPECT_TRUE(schedule(user.get(), asked("a", 30min), target).inserted);
  EXPECT_THAT(all_rows(store), IsEmpty());
  user.execute("COMMIT");
  EXPECT_THAT(all_rows(store), SizeIs(1));
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("orders")), "1");
}

TEST_F(PostgresUsersTransaction, RollsOrderAndCheckBackTogether) {
  user.execute("BEGIN; " + insert());
  schedule(user.get(), asked("a"), target);
  user.execute("ROLLBACK");
  EXPECT_THAT(all_rows(store), IsEmpty());
  EXPECT_EQ(user.ask("SELECT count(*) FROM " + table("orders")), "0");
}

TEST_F(PostgresUsersTransaction, NeedsNone) {
  EXPECT_TRUE(schedule(user.get(), asked("a", 1h), target).inserted);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", instant(3us), target), reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due, instant(3us));
  EXPECT_EQ(durable::cancel(user.get(), "close", "a", target), cancel_result::cancelled);
  EXPECT_EQ(durable::cancel(user.get(), "close", "a", target), cancel_result::finished);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "a", 1h, target), reschedule_result::finished);
}

TEST_F(PostgresUsersTransaction, AnswersAsTheStoreForAKeyThatIsThere) {
  const scheduled first = schedule(user.get(), asked("a", 1h, "one"), target);
  request again = asked("a", 2h, "two");
  const scheduled kept = schedule(user.get(), again, target);
  EXPECT_FALSE(kept.inserted || kept.replaced);
  EXPECT_EQ(kept.due, first.due);
  again.replace = true;
  const scheduled replaced = schedule(user.get(), again, target);
  EXPECT_TRUE(replaced.replaced);
  EXPECT_EQ(store.find("close", "a")->payload, "two");
  EXPECT_EQ(store.find("close", "a")->due, replaced.due);
}

TEST_F(PostgresUsersTransaction, LeavesARunningCheckAloneAlsoWhenItsLeaseHasEnded) {
  put(store, "a");
  for (const auto lease : {1h, -1h}) {
    const auto held = claim(store, lease).at(0);
    request again = asked("a", 2h, "two");
    again.replace = true;
    EXPECT_FALSE(schedule(user.get(), again, target).replaced);
    EXPECT_EQ(durable::cancel(user.get(), "close", "a", target), cancel_result::running);
    EXPECT_EQ(durable::reschedule(user.get(), "close", "a", 1h, target), reschedule_result::running);
    EXPECT_TRUE(retry(store, held, instant(), 0));
  }
}

TEST_F(PostgresUsersTransaction, ACancelThatIsRolledBackIsNone) {
  put(store, "a");
  user.execute("BEGIN");
  EXPECT_EQ(durable::cancel(user.get(), "close", "a", target), cancel_result::cancelled);
  user.execute("ROLLBACK");
  EXPECT_THAT(claim(store), SizeIs(1));
}

TEST_F(PostgresUsersTransaction, AClaimLeavesOutWhatAnOpenTransactionCancels) {
  put(store, "a");
  put(store, "b");
  user.execute("BEGIN");
  durable::cancel(user.get(), "close", "a", target);
  const auto got = claim(store);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].key, "b");
  user.execute("COMMIT");
  EXPECT_EQ(all_rows(store).size(), 1U);
}

TEST_F(PostgresUsersTransaction, ACancelWaitsForAClaimThatIsOpen) {
  put(store, "a");
  const auto wanted = all_rows(store);
  std::vector<claimed> got;
  cancel_result answer{};
  std::thread cancelling;
  store.transact([&](store_transaction& open) {
    open.claim(wanted, open.now() + 1h, got);
    cancelling = std::thread([&] { answer = durable::cancel(user.get(), "close", "a", target); });
    std::this_thread::sleep_for(30ms);
  });
  cancelling.join();
  EXPECT_EQ(answer, cancel_result::running);
}

TEST_F(PostgresUsersTransaction, ACancelThatWaitedForTheEndSaysSo) {
  put(store, "a");
  const auto wanted = all_rows(store);
  cancel_result answer{};
  std::thread cancelling;
  store.transact([&](store_transaction& open) {
    std::vector<claimed> got;
    open.take(wanted, got);
    cancelling = std::thread([&] { answer = durable::cancel(user.get(), "close", "a", target); });
    std::this_thread::sleep_for(30ms);
  });
  cancelling.join();
  EXPECT_EQ(answer, cancel_result::finished);
}

TEST_F(PostgresUsersTransaction, TheSameKeyTwiceAtATimeIsInsertedOnce) {
  const postgres_session other(server().conninfo());
  user.execute("BEGIN");
  EXPECT_TRUE(schedule(user.get(), asked("a", 1h), target).inserted);
  scheduled second{true};
  std::thread waiting([&] { second = schedule(other.get(), asked("a", 2h), target); });
  std::this_thread::sleep_for(30ms);
  user.execute("COMMIT");
  waiting.join();
  EXPECT_FALSE(second.inserted);
  EXPECT_EQ(second.due, store.find("close", "a")->due);
}

TEST_F(PostgresUsersTransaction, ADelayCountsFromTheCall) {
  user.execute("BEGIN");
  std::this_thread::sleep_for(20ms);
  const instant before = store.now();
  EXPECT_GE(schedule(user.get(), asked("a", 1s), target).due, before + 1s);
  user.execute("COMMIT");
}

TEST_F(PostgresUsersTransaction, RefusesWhatIsTooLong) {
  const auto scheduling = [&](const request& what, const postgres_target& where) {
    return error_of([&] { schedule(user.get(), what, where); }).code;
  };
  EXPECT_EQ(scheduling(asked(std::string(256, 'k')), target), errc::key_too_long);
  EXPECT_EQ(scheduling(asked("key"), {.schema = schema, .limits = {.key = 2}}), errc::key_too_long);
}

TEST_F(PostgresUsersTransaction, KeepsAnyBytesAndTheEndOfTime) {
  const std::string bytes("\0\xff", 2);
  EXPECT_EQ(schedule(user.get(), asked(bytes, instant::max(), ""), target).due, instant::max());
  EXPECT_EQ(store.find("close", bytes)->payload, "");
  EXPECT_EQ(store.find("close", bytes)->due, instant::max());
  EXPECT_GT(schedule(user.get(), asked("long", std::chrono::hours::max()), target).due,
            store.now() + std::chrono::years(290));
}

TEST_F(PostgresUsersTransaction, RefusesAConnectionThatCannotAnswer) {
  const auto scheduling = [&](PGconn* on) { return sqlstate(error_of([&] { schedule(on, asked("a"), target); })); };
  EXPECT_EQ(scheduling(nullptr), "08003");
  PQenterPipelineMode(user.get());
  EXPECT_EQ(scheduling(user.get()), "55000");
  PQexitPipelineMode(user.get());
  PQsendQuery(user.get(), "SELECT pg_sleep(0)");
  EXPECT_EQ(scheduling(user.get()), "55000");
  while (PGresult* each = PQgetResult(user.get())) {
    PQclear(each);
  }
  PQclear(PQexec(user.get(), "BEGIN; SELECT 1/0"));
  EXPECT_EQ(scheduling(user.get()), "25P02");
  user.execute("ROLLBACK");
  EXPECT_EQ(scheduling(user.get()), "");
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
}

TEST_F(PostgresUsersTransaction, LeavesNothingOnTheConnection) {
  schedule(user.get(), asked("a"), target);
  EXPECT_EQ(user.ask("SELECT count(*) FROM pg_prepared_statements"), "0");
  EXPECT_EQ(user.ask("SHOW enable_seqscan"), "on");
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include <barrier>

#include "durable/support/postgres_case.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresUsersTransaction : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  PostgresUsersTransaction() { user.execute("CREATE TABLE " + table("orders") + "(id bigint PRIMARY KEY)"); }

  // Of any other session.
  static void wait_for_a_lock() {
    const sql_session watching(server().conninfo());
    EXPECT_TRUE(wait_until(
        [&] { return watching.ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type='Lock'") != "0"; }));
  }
  // In a transaction that stays open: so whoever wants that key waits for its end.
  void keep_row(const char* key) {
    user.execute("BEGIN");
    schedule(user.get(), asked(key), target);
  }
  [[nodiscard]] std::string insert() const { return "INSERT INTO " + table("orders") + " VALUES(7)"; }
};

TEST_F(PostgresUsersTransaction, AClaimLeavesOutWhatAnOpenTransactionCancelsOrMoves) {
  for (const char* key : {"a", "b", "c"}) {
    put(store, key);
  }
  user.execute("BEGIN");
  durable::cancel(user.get(), "close", "a", target);
  EXPECT_EQ(durable::reschedule(user.get(), "close", "b", 1h, target), reschedule_result::moved);
  EXPECT_THAT(sorted_keys_of(claim(store)), ElementsAre("c"));
  user.execute("COMMIT");
  EXPECT_THAT(claim(store), IsEmpty()) << "it is not due any more";
  EXPECT_THAT(all_rows(store), SizeIs(2));
}

TEST_F(PostgresUsersTransaction, ACallWaitsForAnEndThatIsOpen) {
  put(store, "a");
  std::future<cancel_answer> answer;
  take(store, [&](store_transaction& /*open*/, const std::vector<claimed>& /*got*/) {
    answer = std::async(std::launch::async, [&] { return durable::cancel(user.get(), "close", "a", target); });
    wait_for_a_lock();
  });
  EXPECT_EQ(answer.get(), cancel_result::finished);
}

// A handler that is transactional, and is to run again.
TEST_F(PostgresUsersTransaction, WhatIsPutBackWhileACallWaitsIsPendingForIt) {
  durable::postgres_session session(user.get(), target);
  const auto answer_of = [&](auto call) {
    put(store, "a", instant(1us));
    std::future<decltype(call())> answer;
    take(store, [&](store_transaction& open, const std::vector<claimed>& got) {
      answer = std::async(std::launch::async, call);
      wait_for_a_lock();
      open.put_back(got.at(0), "close", open.now() + 1h, 1);
    });
    const auto said = answer.get();
    user.execute("DELETE FROM " + table("check") + " WHERE key='a'");
    return said;
  };
  const request again = replacing(asked("a", 2h, "two"));
  EXPECT_EQ(answer_of([&] { return durable::cancel(user.get(), "close", "a", target); }), cancel_result::cancelled);
  EXPECT_EQ(answer_of([&] { return session.cancel("close", "a"); }), cancel_result::cancelled);
  EXPECT_EQ(answer_of([&] { return durable::reschedule(user.get(), "close", "a", 1h, target); }),
            reschedule_result::moved);
  EXPECT_EQ(answer_of([&] { return session.reschedule("close", "a", instant(3s)); }), reschedule_result::moved);
  EXPECT_TRUE(answer_of([&] { return schedule(user.get(), again, target); }).replaced);

  // So for the store's own lists.
  put(store, "runs");
  claim(store);
  std::vector<reschedule_op> moves{
      {"close", "none", 2h}, {"close", "a", 2h}, {"close", "runs", 2h}, {"close", "a", 3h}};
  const instant due = answer_of([&] {
    store.transact([&](store_transaction& open) { open.reschedule(moves); });
    return store.find("close", "a")->due;
  });
  EXPECT_GT(due, store.now() + 2h + 30min);
  EXPECT_EQ(moves[0].result, reschedule_result::finished);
  EXPECT_EQ(moves[1].result, reschedule_result::moved);
  EXPECT_EQ(moves[2].result, reschedule_result::running);
  EXPECT_EQ(moves[3].result, reschedule_result::moved);
  std::vector<cancel_op> cancels{{"close", "none"}, {"close", "a"}, {"close", "runs"}};
  EXPECT_FALSE(answer_of([&] {
    store.transact([&](store_transaction& open) { open.cancel(cancels); });
    return store.find("close", "a").has_value();
  }));
  EXPECT_EQ(cancels[0].result, cancel_result::finished);
  EXPECT_EQ(cancels[1].result, cancel_result::cancelled);
  EXPECT_EQ(cancels[2].result, cancel_result::running);
  EXPECT_TRUE(answer_of([&] { return put(store, again); }).replaced);
}

TEST_F(PostgresUsersTransaction, TheSameKeyTwiceAtATimeIsInsertedOnce) {
  const sql_session other(server().conninfo());
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

TEST_F(PostgresUsersTransaction, RefusesWhatIsLongerThanItsLimits) {
  const postgres_target narrow{.schema = schema, .limits = {.key = 2}};
  EXPECT_EQ(error_of([&] { schedule(user.get(), asked("key"), narrow); }).code, errc::key_too_long);
}

TEST_F(PostgresUsersTransaction, GoesOnAfterAKindThatIsNone) {
  user.execute("BEGIN");
  const auto cancels = [&](const std::string& kind) { return durable::cancel(user.get(), kind, "a", target).result; };
  for (const std::string& kind : {std::string("\xff"), std::string("a\0b", 3)}) {
    EXPECT_EQ(error_of([&] { cancels(kind); }).code, errc::invalid_request);
    EXPECT_EQ(error_of([&] { durable::reschedule(user.get(), kind, "a", 1h, target); }).code, errc::invalid_request);
  }
  EXPECT_EQ(cancels(""), cancel_result::finished);
  EXPECT_EQ(cancels(std::string(64, 'k')), cancel_result::finished);
  user.execute("COMMIT");
}

TEST_F(PostgresUsersTransaction, RefusesAnEncodingThatChangesTheKind) {
  const std::string kind = "gr\xc3\xbcn";
  const auto refuses = [&](const sql_session& on) {
    durable::postgres_session session(on.get(), target);
    on.execute("BEGIN");
    for (const std::function<void()>& each :
         {std::function<void()>([&] { schedule(on.get(), {.kind = kind, .key = "a"}, target); }),
          std::function<void()>([&] { durable::cancel(on.get(), kind, "a", target); }),
          std::function<void()>([&] { static_cast<void>(session.reschedule(kind, "a", 1h)); })}) {
      EXPECT_EQ(sqlstate(error_of(each)), "55000");
    }
    EXPECT_TRUE(schedule(on.get(), asked("\xfc"), target).inserted) << "the transaction goes on, and a key is bytes";
    on.execute("COMMIT");
  };
  user.execute("SET client_encoding=LATIN1");
  refuses(user);
  EXPECT_THAT(error_of([&] { schedule(user.get(), {.kind = kind, .key = "a"}, target); }).words,
              HasSubstr("its client_encoding is LATIN1, which changes the kind \"gr\xc3\xbcn\"; set it to UTF8"));
  EXPECT_TRUE(store.find("close", "\xfc"));
  for (const char* good : {"SQL_ASCII", "UNICODE", "UTF8"}) {
    user.execute(std::string("SET client_encoding=") + good);
    EXPECT_TRUE(schedule(user.get(), {.kind = kind, .key = good}, target).inserted) << good;
    EXPECT_TRUE(store.find(kind, good)) << good;
    EXPECT_EQ(durable::cancel(user.get(), kind, good, target), cancel_result::cancelled) << good;
  }
  user.execute("CREATE DATABASE latin ENCODING LATIN1 TEMPLATE template0");
  const std::string latin = server().conninfo() + " dbname=latin";
  postgres_store(latin, options).migrate();
  const sql_session there(latin);
  there.execute("SET client_encoding=SQL_ASCII");
  refuses(there);
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

class PostgresSession : public PostgresUsersTransaction {  // NOLINT(readability-identifier-naming): a suite
 public:
  [[nodiscard]] std::string prepared() const { return user.ask("SELECT count(*) FROM pg_prepared_statements"); }
  [[nodiscard]] std::string names() const {
    return user.ask("SELECT string_agg(name,',') FROM pg_prepared_statements");
  }
  // What a call says as SQLSTATE: empty if it did not throw.
  template <class Call>
  static std::string state_of(const Call& call) {
    return sqlstate(error_of(call));
  }

  durable::postgres_session session{user.get(), target};
};

TEST_F(PostgresSession, PreparesOnceAndChangesNoSetting) {
  const std::string settings = user.ask("SELECT md5(string_agg(name||setting,',' ORDER BY name)) FROM pg_settings");
  EXPECT_EQ(prepared(), "0");
  for (int turn = 0; turn < 20; ++turn) {
    session.schedule(asked("key" + std::to_string(turn), 1h));
  }
  EXPECT_EQ(prepared(), "1");
  EXPECT_EQ(settings, user.ask("SELECT md5(string_agg(name||setting,',' ORDER BY name)) FROM pg_settings"));
}

TEST_F(PostgresSession, PlansASearchAnewEachSecondAndAnInsertNever) {
  session.schedule(asked("a", 1h));
  const std::string of_insert = names();
  session.cancel("close", "a");
  const std::string both = names();
  std::this_thread::sleep_for(1100ms);
  session.schedule(asked("a", 1h));
  EXPECT_EQ(names(), both);
  EXPECT_EQ(session.cancel("close", "a"), cancel_result::cancelled);
  EXPECT_NE(names(), both);
  EXPECT_EQ(prepared(), "2");
  EXPECT_NE(names().find(of_insert), std::string::npos);
}

TEST_F(PostgresSession, GoesOnWithAConnectionThatWasMadeAnew) {
  session.schedule(asked("a", 1h));
  PQreset(user.get());
  EXPECT_EQ(prepared(), "0");
  EXPECT_TRUE(session.schedule(asked("b", 1h)).inserted);
  EXPECT_EQ(prepared(), "1");
}

TEST_F(PostgresSession, ThereMayBeTwoOnAConnectionAndEachTakesItsOwnAlong) {
  session.schedule(asked("a", 1h));
  {
    durable::postgres_session other(user.get(), target);
    EXPECT_TRUE(other.schedule(asked("b", 1h)).inserted);
    durable::postgres_session moved(std::move(other));
    EXPECT_EQ(moved.cancel("close", "b"), cancel_result::cancelled);
    EXPECT_EQ(prepared(), "3");
  }
  EXPECT_EQ(prepared(), "1");
  EXPECT_TRUE(session.schedule(asked("c", 1h)).inserted);
  session = durable::postgres_session(user.get(), target);
  EXPECT_EQ(prepared(), "0");
}

TEST_F(PostgresSession, MayEndInATransactionThatHasFailed) {
  session.schedule(asked("a", 1h));
  PQclear(PQexec(user.get(), "BEGIN; SELECT 1/0"));
  EXPECT_EQ(state_of([&] { session.schedule(asked("b", 1h)); }), "25P02");
  session = durable::postgres_session(user.get(), target);
  user.execute("ROLLBACK");
  EXPECT_EQ(prepared(), "1");
  EXPECT_TRUE(session.schedule(asked("b", 1h)).inserted);
}

TEST_F(PostgresSession, SaysWhatIsWrong) {
  EXPECT_EQ(state_of([] { const durable::postgres_session none(nullptr); }), "08003");
  PQenterPipelineMode(user.get());
  EXPECT_EQ(state_of([&] { session.schedule(asked("a")); }), "55000");
  PQexitPipelineMode(user.get());
  session.schedule(asked("a"));
  user.execute("DISCARD ALL");
  EXPECT_EQ(state_of([&] { session.schedule(asked("b")); }), "26000");
}

TEST_F(PostgresUsersTransaction, KeepsNobodyWaitingButWhoWantsItsRow) {
  scheduler checks(store);
  put(store, "a", 1h);
  user.execute("BEGIN");
  durable::reschedule(user.get(), "close", "a", 2h, target);
  const request again = replacing(asked("a", 3h));
  const std::uint64_t before = store.counts().statements;
  std::future<scheduled> replaces = std::async(std::launch::async, [&] { return checks.schedule(again); });
  while (store.counts().statements < before + 2) {  // it has tried twice: so it is set aside
    std::this_thread::sleep_for(1ms);
  }
  std::future<cancel_answer> cancels = std::async(std::launch::async, [&] { return checks.cancel("close", "a"); });
  for (const char* key : {"b", "c", "d"}) {
    EXPECT_TRUE(checks.schedule(asked(key)).inserted);
  }
  user.execute("COMMIT");
  const scheduled done = replaces.get();
  EXPECT_TRUE(done.replaced || done.inserted);
  EXPECT_EQ(cancels.get(), cancel_result::cancelled);
}

// The user's transaction ends long after all others are done, however slow this machine is; and before a thing that
// waits for each of its rows in turn would be.
TEST_F(PostgresUsersTransaction, ThatKeepsManyRowsHoldsUpNoCommitOfOthers) {
  constexpr int kept = 40;
  constexpr int others = 8;
  scheduler checks(store);
  std::vector<request> rows;
  for (int i = 0; i < kept; ++i) {
    rows.push_back(asked(std::to_string(i), 1h));
  }
  checks.schedule(rows);
  user.execute("BEGIN; UPDATE " + table("check") + " SET due=due+1");
  std::barrier begin(kept + others);
  std::vector<std::future<cancel_answer>> cancels;
  for (const request& each : rows) {
    cancels.push_back(std::async(std::launch::async, [&] {
      begin.arrive_and_wait();
      return checks.cancel(each.kind, each.key);
    }));
  }
  std::vector<std::future<bool>> schedules;
  for (int i = 0; i < others; ++i) {
    schedules.push_back(std::async(std::launch::async, [&, i] {
      begin.arrive_and_wait();
      return checks.schedule(asked("new" + std::to_string(i), 1h)).inserted;
    }));
  }
  std::atomic<bool> ended = false;
  std::jthread ends([&] {
    std::this_thread::sleep_for(3s);
    ended = true;
    user.execute("COMMIT");
  });
  for (auto& each : schedules) {
    EXPECT_TRUE(each.get());
  }
  EXPECT_FALSE(ended);
  for (auto& each : cancels) {
    EXPECT_EQ(each.get(), cancel_result::cancelled);
  }
  EXPECT_TRUE(ended);
  EXPECT_THAT(all_rows(store), SizeIs(others));
}

TEST_F(PostgresUsersTransaction, ThatKeepsARowIsToldToWhoDoesNotWait) {
  scheduler checks(store);
  keep_row("a");
  std::promise<std::error_code> told;
  std::promise<std::error_code> other;
  checks.schedule(asked("a"), [&](std::error_code code, scheduled) { told.set_value(code); });
  checks.schedule(asked("b"), [&](std::error_code code, scheduled) { other.set_value(code); });
  EXPECT_EQ(told.get_future().get(), errc::row_locked);
  EXPECT_EQ(other.get_future().get(), std::error_code());
  user.execute("ROLLBACK");
  EXPECT_TRUE(checks.schedule(asked("a")).inserted);
}

TEST_F(PostgresUsersTransaction, ThatKeepsARowForTooLongIsToldInTheEnd) {
  keep_row("a");
  const caught said = error_of(
      [&] { store.transact_within({.lock_wait = 50ms}, [](store_transaction& open) { open.schedule(asked("a")); }); });
  EXPECT_EQ(said.code, errc::row_locked);
  EXPECT_THAT(said.words, HasSubstr("another transaction keeps the row"));
}

// No sweep comes: so each look reads again what lies a look-ahead back.
TEST_F(PostgresUsersTransaction, ThatIsLateWithALowIdIsFoundByTheNextLook) {
  std::mutex mutex;
  std::set<std::string> ran;
  scheduler checks(store, {.look_ahead = 1h, .poll = 10ms, .sweep = 24h});
  checks.on("close", [&](const job& what) {
    const std::scoped_lock lock(mutex);
    ran.insert(what.key());
  });
  checks.start();
  const auto has_run = [&](const std::string& key) {
    const std::scoped_lock lock(mutex);
    return ran.contains(key);
  };
  const std::string id = user.ask("SELECT nextval('" + table("check_id_seq") + "')");
  const instant due = store.now();
  user.execute("BEGIN; INSERT INTO " + table("check") + "(id,due,kind,key,payload) VALUES(" + id + "," +
               std::to_string(due.time_since_epoch().count()) + ",'close','late','')");
  for (const char* key : {"a", "b", "c"}) {  // with higher ids and later deadlines, and looks between them
    checks.schedule(asked(key));
    EXPECT_TRUE(wait_until([&] { return has_run(key); }, 60s));
    const auto looks = store.counts().statements;
    while (store.counts().statements < looks + 5) {
      std::this_thread::sleep_for(1ms);
    }
  }
  user.execute("COMMIT");
  EXPECT_TRUE(wait_until([&] { return has_run("late"); }, 60s));
}

}  // namespace
}  // namespace timing_wheel::durable::test

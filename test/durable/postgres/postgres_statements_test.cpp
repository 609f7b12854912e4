// What statements cost: by the server's plans and its own counters, not by clocks.

#include <cstdlib>
#include <regex>

#include "durable/postgres/sql.hpp"
#include "durable/support/postgres_case.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::AnyOf;

class PostgresStatements : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  // The lines of the plan that is kept for a statement, whatever its parameters.
  [[nodiscard]] std::string plan_of(const postgres::query& which) const {
    const std::string text = postgres::text_of(which.sql, postgres::prefix_of(schema));
    user.execute("PREPARE looked_at AS " + text);
    std::string values;
    for (int number = 1; text.find("$" + std::to_string(number)) != std::string::npos; ++number) {
      values.append(values.empty() ? "" : ",").append("NULL");
    }
    std::string lines;
    for (const auto& row : user.rows("EXPLAIN EXECUTE looked_at" + (values.empty() ? "" : "(" + values + ")"))) {
      lines.append(row.at(0)).append("\n");
    }
    user.execute("DEALLOCATE looked_at");
    return lines;
  }

  void fill(int rows, due_time due) {
    std::vector<request> all;
    for (int key = 0; key < rows; ++key) {
      all.push_back(
          asked(std::to_string(due.at(instant()).time_since_epoch().count()) + "." + std::to_string(key), due));
    }
    put(store, all);
  }

  // So that plans and counters are those of one session.
  [[nodiscard]] static postgres_options with_one_connection(postgres_options some) {
    some.connections = 1;
    return some;
  }

  // The numbers in the first row of an answer.
  [[nodiscard]] static std::vector<long long> numbers_of(transaction& open, const std::string& sql) {
    std::vector<long long> numbers;
    PGresult* answer = PQexec(postgres_connection(open), sql.c_str());
    EXPECT_EQ(PQntuples(answer), 1) << PQerrorMessage(postgres_connection(open));
    for (int column = 0; PQntuples(answer) == 1 && column < PQnfields(answer); ++column) {
      numbers.push_back(std::atoll(PQgetvalue(answer, 0, column)));
    }
    PQclear(answer);
    return numbers;
  }

  // A session tells the server what it has counted. Before PostgreSQL 15 nobody can ask for it: it does so at the end
  // of a transaction, twice a second at most.
  static void tell_counters(postgres_store& alone) {
    const bool may_ask = server_version() >= 150000;
    if (!may_ask) {
      std::this_thread::sleep_for(1s);
    }
    alone.transact([&](transaction& open) {
      EXPECT_EQ(numbers_of(open, may_ask ? "SELECT pg_stat_force_next_flush()" : "SELECT 1").size(), 1U);
    });
  }
  [[nodiscard]] static int server_version() { return std::stoi(server().ask("SHOW server_version_num")); }

  // Rows of the checks: by a scan of all, and by an index.
  struct reads {
    long long by_scan;
    long long by_index;
  };

  // What a transaction reads on the only connection of a store. Who looks gets the user's planner, so the look comes
  // after the work. The transaction before tells the server what it has not been told yet, so the counters begin at 0.
  template <class Work>
  [[nodiscard]] reads reads_of(postgres_store& alone, const Work& work) const {
    tell_counters(alone);
    alone.transact([&](transaction& open) { EXPECT_THAT(numbers_of(open, counted()), Each(0)); });
    std::vector<long long> found;
    alone.transact([&](store_transaction& open) {
      work(open);
      found = numbers_of(open, counted());
    });
    return {found.at(0), found.at(1)};
  }
  // Of work that has its own transaction; the session has not told the server of it yet.
  template <class Work>
  [[nodiscard]] reads reads_before_told(postgres_store& alone, const Work& work) const {
    tell_counters(alone);
    work();
    std::vector<long long> found;
    alone.transact([&](transaction& open) { found = numbers_of(open, counted()); });
    return {found.at(0), found.at(1)};
  }
  [[nodiscard]] std::string counted() const {
    return "SELECT seq_tup_read,idx_tup_fetch FROM pg_stat_xact_user_tables WHERE schemaname='" + schema +
           "' AND relname='check'";
  }

  // How many plans a store with one connection has made of a statement: for all parameters, and for those of a call.
  [[nodiscard]] static std::pair<long long, long long> plans_of(postgres_store& alone, const std::string& name) {
    std::vector<long long> found;
    alone.transact([&](transaction& open) {
      found = numbers_of(
          open, "SELECT generic_plans,custom_plans FROM pg_prepared_statements WHERE name LIKE '" + name + "\\_%'");
    });
    return {found.at(0), found.at(1)};
  }
};

// Behind a pooler two stores may meet in one session.
TEST_F(PostgresStatements, NamesTellSchemasApart) {
  const auto name_in = [](postgres_store& in) {
    std::string name;
    put(in, "a");
    in.transact([&](store_transaction& open) {
      name = ask(open, "SELECT name FROM pg_prepared_statements WHERE name LIKE 'timing_wheel_insert%'");
    });
    return name;
  };
  const std::string here = name_in(store);
  EXPECT_NE(here, "");
  postgres_store again(server().conninfo(), options);
  EXPECT_EQ(name_in(again), here);
  postgres_store other(server().conninfo(), options_in(new_schema()));
  other.migrate();
  EXPECT_NE(name_in(other), here);
}

// It would be kept, whatever made it.
TEST_F(PostgresStatements, NoPlanIsMadeWhileThePlannerIsTheUsers) {
  if (server_version() < 140000) {
    GTEST_SKIP() << "PostgreSQL 13 does not count plans";
  }
  const auto prepared_in = [](transaction& open) {
    return std::stoll(ask(open, "SELECT coalesce(sum(generic_plans+custom_plans),0) FROM pg_prepared_statements"));
  };
  postgres_store alone(server().conninfo(), with_one_connection(options));
  const auto work = [](store_transaction& open) {
    const request first = asked("a");
    open.schedule(first);
    open.cancel("close", "a");
    open.schedule(asked("b"));
  };
  alone.transact(work);
  alone.transact([&](store_transaction& open) {
    const long long before = prepared_in(open);
    EXPECT_GT(before, 0);
    open.cancel("close", "b");
    work(open);
    open.savepoint();
    open.cancel("close", "b");
    work(open);
    open.release_savepoint();
    EXPECT_EQ(prepared_in(open), before);
  });
  alone.transact([&](store_transaction& open) { open.cancel("close", "b"); });
  alone.transact(work);
  EXPECT_THAT(keys_in(alone), ElementsAre("b"));
}

TEST_F(PostgresStatements, AHandlersAreParsedOnceForAConnection) {
  const std::string sql = "SELECT $1::text||'!'";
  const std::string prepared =
      "SELECT count(*),sum(generic_plans+custom_plans) FROM pg_prepared_statements "
      "WHERE statement LIKE 'SELECT $1::text||%'";
  postgres_store one(server().conninfo(), with_one_connection(options));
  for (int run = 1; run <= 3; ++run) {
    one.transact([&](store_transaction& open) {
      open.savepoint();
      const char* const value = "a";
      const auto ask = [&](const char* name) {
        PGresult* answer = PQexecPrepared(postgres_connection(open), name, 1, &value, nullptr, nullptr, 0);
        EXPECT_STREQ(PQgetvalue(answer, 0, 0), "a!") << PQerrorMessage(postgres_connection(open));
        PQclear(answer);
      };
      ask(postgres_prepare(open, sql));
      static_cast<void>(postgres_prepare(open, "SELECT 1"));
      ask(postgres_prepare(open, sql));
      EXPECT_THAT(numbers_of(open, prepared), ElementsAre(1, 2 * run));
    });
  }
  EXPECT_THROW(one.transact([&](store_transaction& open) { static_cast<void>(postgres_prepare(open, "SELEKT")); }),
               timer_error);
}

TEST_F(PostgresStatements, OfAHandlerHaveNoNameWhereConnectionsAreShared) {
  postgres_store shared(server().conninfo(), prepared(false));
  shared.transact([&](store_transaction& open) {
    for (const char* sql : {"SELECT 1", "SELECT 2", "SELECT 1"}) {
      EXPECT_STREQ(postgres_prepare(open, sql), "");
      PGresult* answer = PQexecPrepared(postgres_connection(open), "", 0, nullptr, nullptr, nullptr, 0);
      EXPECT_EQ(std::string("SELECT ") + PQgetvalue(answer, 0, 0), sql);
      PQclear(answer);
    }
  });
}

TEST_F(PostgresStatements, NoneLooksThroughTheTableOrComparesListsWithLists) {
  user.execute(postgres::sql::begin_session);
  user.execute("SET plan_cache_mode=force_generic_plan");
  for (const int rows : {0, 1, 100, 20000}) {
    fill(rows, 24h);
    user.execute("VACUUM ANALYZE " + table("check"));
    for (const postgres::query* each : postgres::sql::on_checks) {
      const std::string plan = plan_of(*each);
      EXPECT_THAT(plan, Not(HasSubstr("Seq Scan on \"check\""))) << each->sql << "\n" << plan;
      EXPECT_THAT(plan, Not(HasSubstr("Seq Scan on dead"))) << each->sql << "\n" << plan;
      if (each == &postgres::sql::read_overdue) {
        continue;  // the kinds of at most 5 000 rows
      }
      if (each != &postgres::sql::read_ahead && each != &postgres::sql::read_ahead_and_paused &&
          each != &postgres::sql::read_ahead_and_drained) {
        EXPECT_THAT(plan, Not(HasSubstr("check_due_id"))) << each->sql << "\n" << plan;
      }
      for (const char* dear : {"Hash Join", "Merge Join", "Sort", "Materialize", "Bitmap", "Join Filter", "JIT"}) {
        EXPECT_THAT(plan, Not(HasSubstr(dear))) << each->sql << "\n" << plan;
      }
    }
  }
}

// However many sets of kinds there were.
TEST_F(PostgresStatements, ATurnOfSharesFindsItsSetByTheIndex) {
  user.execute(postgres::sql::begin_session);
  user.execute("SET plan_cache_mode=force_generic_plan");
  const std::regex elsewhere(R"(using share_pkey[^\n]*\n(?! *Index Cond: \(+kinds = \$2))");
  const std::string more = "INSERT INTO " + table("share") +
                           "(kinds,share) SELECT 'k'||n,s FROM generate_series(1,100) n,generate_series(0,63) s";
  for (const std::string& fill : {std::string("SELECT 1"), more}) {
    user.execute(fill);
    user.execute("VACUUM ANALYZE " + table("share") + "," + table("node"));
    for (const postgres::query* each : {&postgres::sql::renew_shares, &postgres::sql::leave}) {
      const std::string plan = plan_of(*each);
      EXPECT_THAT(plan, HasSubstr("using share_pkey"));
      EXPECT_THAT(plan, Not(HasSubstr("Seq Scan"))) << plan;
      EXPECT_FALSE(std::regex_search(plan, elsewhere)) << plan;
    }
  }
}

TEST_F(PostgresStatements, TheUsersPlansAreGoodWithoutOurSettings) {
  fill(20000, 24h);
  user.execute("VACUUM ANALYZE " + table("check"));
  for (const postgres::query* each : postgres::sql::on_checks) {
    if (std::string(each->name).empty()) {
      EXPECT_THAT(plan_of(*each), Not(HasSubstr("Seq Scan"))) << each->sql;
    }
  }
}

// A plan that was made while there were no rows must not be kept for the day on which there are.
TEST_F(PostgresStatements, AClaimReadsWhatItClaimsAlsoIfItsPlanIsFromAnEmptyTable) {
  if (server_version() < 140000) {
    GTEST_SKIP() << "PostgreSQL 13 does not count plans";
  }
  postgres_store alone(server().conninfo(), with_one_connection(options));
  user.execute("VACUUM ANALYZE " + table("check"));
  std::vector<claimed> got;
  const upcoming none{.id = 1 << 30, .due = instant()};
  for (int turn = 0; turn < 20; ++turn) {
    alone.transact([&](store_transaction& open) {
      open.claim({&none, 1}, open.now() + 1h, got);
      ticket of{none.id, 0};
      open.complete({&of, 1});
    });
  }
  fill(20000, instant(1us));
  const auto rows = all_rows(alone, 500);
  const auto claim = reads_of(alone, [&](store_transaction& open) { open.claim(rows, open.now() + 1h, got); });
  EXPECT_EQ(claim.by_scan, 0);
  EXPECT_LE(claim.by_index, 2 * 500);
  ASSERT_EQ(got.size(), 500U);
  std::vector<ticket> done = tickets_of(got);
  const auto completion = reads_of(alone, [&](store_transaction& open) { open.complete(done); });
  EXPECT_EQ(completion.by_scan, 0);
  EXPECT_LE(completion.by_index, 500);
  EXPECT_TRUE(std::all_of(done.begin(), done.end(), [](const ticket& of) { return of.still_ours; }));
  EXPECT_EQ(plans_of(alone, "timing_wheel_claim"), std::pair(21LL, 0LL));
  EXPECT_EQ(plans_of(alone, "timing_wheel_complete"), std::pair(21LL, 0LL));
}

TEST_F(PostgresStatements, TheSameWithoutPreparedStatements) {
  postgres_store unprepared(server().conninfo(), with_one_connection(prepared(false)));
  fill(5000, instant(1us));
  const auto rows = all_rows(unprepared, 500);
  std::vector<claimed> got;
  const auto both = reads_of(unprepared, [&](store_transaction& open) {
    open.claim(rows, open.now() + 1h, got);
    open.consume(rows, got);
  });
  EXPECT_EQ(both.by_scan, 0);
  EXPECT_LE(both.by_index, 3 * 500);
  EXPECT_EQ(got.size(), 500U);
}

TEST_F(PostgresStatements, APageEndsWhereItIsFull) {
  fill(20000, instant(1us));
  user.execute(postgres::sql::begin_session);
  user.execute("PREPARE looked_at AS " + postgres::text_of(postgres::sql::read_ahead.sql, postgres::prefix_of(schema)));
  std::string plan;
  for (const auto& row : user.rows("EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) EXECUTE looked_at(0,0,9000000000000,"
                                   "'{close}',NULL,0,5000,100,NULL,NULL)")) {
    plan += row.at(0) + "\n";
  }
  const std::size_t at = plan.find("Index Scan using check_due_id");
  ASSERT_NE(at, std::string::npos) << plan;
  EXPECT_THAT(plan.substr(at, plan.find('\n', at) - at), AnyOf(HasSubstr("rows=100 "), HasSubstr("rows=101 "))) << plan;
}

// The planner, which knows that every second check is of the kind, would go on among the others.
TEST_F(PostgresStatements, ThePageBehindTheLastKeyOfAKindReadsNothing) {
  postgres_store alone(server().conninfo(), with_one_connection(options));
  fill(5000, instant(1us));
  user.execute("UPDATE " + schema + ".check SET kind='other' WHERE id%2=0; ANALYZE " + schema + ".check");
  const auto both = reads_of(alone, [&](store_transaction& open) {
    EXPECT_THAT(open.list({.limit = 1000, .which = {.kind = "other"}, .from_key = "z"}), IsEmpty());
  });
  EXPECT_EQ(both.by_scan, 0);
  EXPECT_EQ(both.by_index, 0);
}

TEST_F(PostgresStatements, AListOfAKindStopsAmongTheOthersThatAreDueBefore) {
  postgres_store alone(server().conninfo(), with_one_connection(options));
  fill(20'000, instant(1us));
  user.execute("UPDATE " + table("check") + " SET kind='late',due=2 WHERE id%40=0; ANALYZE " + table("check"));
  std::vector<stored_check> found;
  const auto list = [&](const check_range& range) { return [&, range] { found = alone.list(range); }; };
  EXPECT_LE(reads_before_told(alone, list({.limit = 50, .which = {.kind = "late"}})).by_index, 5000 + 2 * 500);
  ASSERT_THAT(found, SizeIs(50));
  EXPECT_LE(
      reads_before_told(alone, list({.limit = 600, .after = {found[49].due, found[49].id}, .which = {.kind = "late"}}))
          .by_index,
      5000 + 2 * 500);
  EXPECT_THAT(found, SizeIs(450));
  EXPECT_LE(reads_before_told(alone, list({.limit = 50, .which = {.kind = "close"}})).by_index, 60);
  ASSERT_THAT(found, SizeIs(50));
  EXPECT_LT(found[48].id, found[49].id);
}

TEST_F(PostgresStatements, AClaimTouchesNoIndex) {
  fill(1000, instant(1us));
  const std::vector<claimed> rows = claim(store);
  store.transact([&](store_transaction& open) {
    const auto reading = [&] {
      return numbers_of(open, "SELECT n_tup_upd,n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE schemaname='" +
                                  schema + "' AND relname='check'");
    };
    const auto before = reading();
    std::vector<ticket> held = tickets_of(rows);
    open.extend(held, open.now() + 2h);
    EXPECT_TRUE(std::all_of(held.begin(), held.end(), [](const ticket& of) { return of.still_ours; }));
    const auto after = reading();
    EXPECT_EQ(after.at(0) - before.at(0), 1000);
    EXPECT_GE(after.at(1) - before.at(1), 900);
  });
}

}  // namespace
}  // namespace timing_wheel::durable::test

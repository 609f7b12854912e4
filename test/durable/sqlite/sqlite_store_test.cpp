#include "timing_wheel/durable/sqlite_store.hpp"

#include <tuple>

#include "durable/sqlite/range_reader.hpp"
#include "durable/sqlite/sql.hpp"
#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteStore : public SqliteCase {};

TEST_F(SqliteStore, ReadsManyKindsInTheOrderOfTime) {
  std::vector<std::string> many;
  for (int kind = 0; kind < 70; ++kind) {
    many.push_back("kind" + std::to_string(kind));
  }
  for (int turn = 0; turn < 3; ++turn) {
    for (int kind = 69; kind >= 0; --kind) {
      const instant due(std::chrono::microseconds(1 + ((kind * 31 + turn) % 50)));
      put(store, request{.kind = many[static_cast<std::size_t>(kind)], .key = std::to_string(turn), .due = due});
    }
  }
  std::vector<upcoming> in_pages;
  std::vector<upcoming> page;
  read_range next{.until = instant::max(), .limit = 16, .kinds = many};
  do {
    page.clear();
    store.read_ahead(next, page);
    in_pages.insert(in_pages.end(), page.begin(), page.end());
    if (!page.empty()) {
      next.from = page.back().due;
      next.after_id = page.back().id;
    }
  } while (!page.empty());
  ASSERT_THAT(in_pages, SizeIs(210));
  for (std::size_t i = 1; i < in_pages.size(); ++i) {
    EXPECT_LT(std::tie(in_pages[i - 1].due, in_pages[i - 1].id), std::tie(in_pages[i].due, in_pages[i].id));
  }
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) { open.claim(in_pages, open.now() + 1h, got); });
  for (const claimed& each : got) {
    EXPECT_EQ(store.find(many[each.kind], each.key)->fence, each.fence);
  }
}

// SQLite's lock is not fair: a store that took it again at once would have it all the time.
TEST_F(SqliteStore, StoresThatWriteOneFileTakeTurns) {
  sqlite_store other(folder.file());
  store.transact([](store_transaction&) {});  // so that it knows the file, and sees that others change it
  std::promise<void> holds;
  std::thread holder([&] {
    other.transact([&](store_transaction& open) {
      open.schedule(asked("a"));
      holds.set_value();
      std::this_thread::sleep_for(10ms);
    });
  });
  holds.get_future().wait();
  store.transact([](store_transaction&) {});  // it waits, or finds the file changed: so it knows that others write
  holder.join();
  constexpr int times = 100;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) {
    store.transact([](store_transaction&) {});
  }
  EXPECT_GE(std::chrono::steady_clock::now() - begin, times * sqlite::database::longest_nap)
      << "in each pause another store, which looks that often, has its turn";
}

TEST_F(SqliteStore, RefusesATransactionWithinAnother) {
  store.transact([&](store_transaction&) {
    EXPECT_EQ(error_of([&] { put(store, "a"); }).code, sqlite_code(SQLITE_MISUSE));
    EXPECT_FALSE(store.find("close", "a"));
  });
}

TEST_F(SqliteStore, ReadsBesideAnOpenTransaction) {
  put(store, "a");
  store.transact([&](store_transaction& open) {
    open.schedule(asked("b"));
    EXPECT_THAT(std::async(std::launch::async, [&] { return all_rows(store); }).get(), SizeIs(1));
  });
  EXPECT_THAT(all_rows(store), SizeIs(2));
}

TEST_F(SqliteStore, SaysSoIfAHandlerEndedTheTransaction) {
  for (const char* sql : {"COMMIT", "ROLLBACK", "COMMIT; BEGIN", "ROLLBACK; BEGIN"}) {
    const auto end_it = [&](store_transaction& open) {
      sqlite3_exec(sqlite_connection(open), sql, nullptr, nullptr, nullptr);
    };
    EXPECT_EQ(error_of([&] { store.transact(end_it); }).code, sqlite_code(SQLITE_ABORT_ROLLBACK)) << sql;
  }
  EXPECT_TRUE(put(store, "a").inserted);
}

TEST_F(SqliteStore, CountsWhatItDoes) {
  put(store, "a");
  const store_counts before = store.counts();
  put(store, "b");
  const store_counts written = store.counts();
  EXPECT_EQ(written.statements - before.statements, 3U);
  EXPECT_EQ(written.commits - before.commits, 1U);
  all_rows(store);
  EXPECT_EQ(store.counts().rows_read - written.rows_read, 2U);
  store.transact([](store_transaction&) {});
  EXPECT_EQ(store.counts().commits, written.commits);
}

TEST_F(SqliteStore, AWaitingThreadGetsItsTurnBesideOneThatNeverStops) {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      store.transact([](store_transaction&) {});
    }
  });
  for (int turn = 0; turn < 100; ++turn) {
    put(store, std::to_string(turn));
  }
  stop = true;
  busy.join();
  EXPECT_THAT(all_rows(store), SizeIs(100));
}

TEST_F(SqliteStore, ABusyTimeoutIsAnythingFromNoneToForEver) {
  for (const std::chrono::milliseconds wrong : {std::chrono::milliseconds::min(), -1ms}) {
    const caught refused = error_of([&] { const sqlite_store none(folder.file(), {.busy_timeout = wrong}); });
    EXPECT_EQ(refused.code, timer_errc::invalid_option);
    EXPECT_THAT(refused.words,
                HasSubstr("busy_timeout is " + std::to_string(wrong.count()) + " ms; it must be in [0 ms,"));
  }
  users_database user(folder.file());
  for (const std::chrono::milliseconds good : {0ms, 1ms, 100ms}) {
    sqlite_store some(folder.file(), {.busy_timeout = good});
    user.run("BEGIN IMMEDIATE");
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(error_of([&] { put(some, "a"); }).code.value() & 0xff, SQLITE_BUSY);
    EXPECT_GE(std::chrono::steady_clock::now() - before, good);
    user.run("COMMIT");
  }
  for (const std::chrono::milliseconds good :
       {std::chrono::milliseconds::max() - 1ms, std::chrono::milliseconds::max()}) {
    sqlite_store some(folder.file(), {.busy_timeout = good});
    user.run("BEGIN IMMEDIATE");
    std::thread other([&] {
      std::this_thread::sleep_for(50ms);
      user.run("COMMIT");
    });
    EXPECT_EQ(error_of([&] { put(some, "a"); }).code, std::error_code());
    other.join();
  }
}

// ---- what statements cost: by SQLite's own counters, not by clocks

class SqliteStatements : public SqliteCase {
 public:
  users_database user{folder.file()};

  [[nodiscard]] auto prepare(const std::string& sql) const {
    sqlite3_stmt* prepared = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(user.get(), sql.c_str(), -1, &prepared, nullptr), SQLITE_OK) << sql;
    return std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>(prepared, sqlite3_finalize);
  }

  [[nodiscard]] static std::vector<std::string> all() {
    std::vector<std::string> texts;
    for (const sqlite::query& each : sqlite::sql::on_tables) {
      texts.emplace_back(each.sql);
    }
    for (const std::size_t of : {1U, 2U, 32U}) {
      texts.push_back(sqlite::range_reader::text(of, false));
      texts.push_back(sqlite::range_reader::text(of, true));
    }
    return texts;
  }
};

TEST_F(SqliteStatements, NoneLooksThroughATable) {
  for (const std::string& each : all()) {
    const auto plan = prepare("EXPLAIN QUERY PLAN " + each);
    while (sqlite3_step(plan.get()) == SQLITE_ROW) {
      const std::string line = reinterpret_cast<const char*>(sqlite3_column_text(plan.get(), 3));
      // The one row of the clock, chosen by its key; the kinds that `read_overdue` has stepped to; and the ids that
      // `read_wanted` is given.
      if (line.find("SCAN each") == std::string::npos && line.find("SCAN timing_wheel_clock") == std::string::npos &&
          line.find("SCAN (subquery") == std::string::npos && line.find("CONSTANT ROWS") == std::string::npos &&
          line.find("ROW VALUES CLAUSE") == std::string::npos &&  // as later versions of SQLite say it
          line.find("SCAN wanted") == std::string::npos) {
        EXPECT_THAT(line, Not(HasSubstr("SCAN"))) << each;
      }
      EXPECT_THAT(line, Not(HasSubstr("TEMP B-TREE"))) << each;
    }
  }
}

TEST_F(SqliteStatements, WhatIsLateIsSaidWithoutALookAtAllOfIt) {
  store.transact([&](store_transaction& open) {
    for (int key = 0; key < 5000; ++key) {
      open.schedule(asked(std::to_string(key), open.now() - 1s));
    }
  });
  const auto look = prepare(sqlite::sql::read_overdue.sql);
  sqlite3_bind_int64(look.get(), 1, store.now().time_since_epoch().count());
  EXPECT_EQ(sqlite3_step(look.get()), SQLITE_ROW);
  EXPECT_EQ(sqlite3_step(look.get()), SQLITE_DONE);
  EXPECT_LT(sqlite3_stmt_status(look.get(), SQLITE_STMTSTATUS_VM_STEP, 0), 500);
}

TEST_F(SqliteStatements, ReadingOnWithinOneDeadlineReadsNoRowAgain) {
  for (int key = 0; key < 100; ++key) {
    put(store, std::to_string(key), instant(1us));
  }
  const auto rows = all_rows(store);
  const std::uint64_t before = store.counts().rows_read;
  std::vector<upcoming> found;
  store.read_ahead({.from = rows[89].due, .after_id = rows[89].id, .until = instant::max(), .limit = 5, .kinds = kinds},
                   found);
  EXPECT_EQ(found.size(), 5U);
  EXPECT_EQ(store.counts().rows_read - before, 5U);
}

TEST_F(SqliteStatements, AClaimDoesNotTouchTheIndexes) {
  for (const auto& [query, what] : {std::pair{sqlite::sql::claim, "claim"}, std::pair{sqlite::sql::extend, "extend"}}) {
    const auto program = prepare(std::string("EXPLAIN ") + query.sql);
    while (sqlite3_step(program.get()) == SQLITE_ROW) {
      const std::string operation = reinterpret_cast<const char*>(sqlite3_column_text(program.get(), 1));
      EXPECT_NE(operation, "IdxDelete") << what;
      EXPECT_NE(operation, "IdxInsert") << what;
    }
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test

#include "timing_wheel/durable/sqlite_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SqliteStore : public SqliteCase {};

TEST_F(SqliteStore, FindsWhatWasScheduled) {
  const scheduled made = put(store, asked("a", 30min, "order 7"));
  const auto found = store.find("close", "a");
  ASSERT_TRUE(found);
  EXPECT_TRUE(made.inserted);
  EXPECT_EQ(found->payload, "order 7");
  EXPECT_EQ(found->due, made.due);
  EXPECT_EQ(found->attempt, 0);
  EXPECT_FALSE(found->running);
  EXPECT_FALSE(store.find("close", "b"));
  EXPECT_FALSE(store.find("other", "a"));
}

TEST_F(SqliteStore, KeepsAnyBytesInKeysAndPayloads) {
  const std::string bytes("\0\xff\x01'\0", 5);
  put(store, asked(bytes, {}, bytes));
  put(store, asked(bytes.substr(0, 1), {}, ""));
  const auto got = claim(store);
  ASSERT_THAT(got, SizeIs(2));
  EXPECT_EQ(got[0].key, bytes);
  EXPECT_EQ(got[0].payload, bytes);
  EXPECT_EQ(got[1].payload, "");
  EXPECT_TRUE(store.find("close", bytes));
}

TEST_F(SqliteStore, TakesTheLongestAllowedAndNotAByteMore) {
  const request_limits limits = store.limits();
  put(store, asked(std::string(limits.key, 'k'), {}, std::string(limits.payload, 'p')));
  EXPECT_EQ(claim(store).at(0).payload.size(), limits.payload);
  const auto scheduling = [&](const request& what) { return error_of([&] { put(store, what); }).code; };
  EXPECT_EQ(scheduling(asked(std::string(limits.key + 1, 'k'))), errc::key_too_long);
  EXPECT_EQ(scheduling(asked("k", {}, std::string(limits.payload + 1, 'p'))), errc::payload_too_long);
  EXPECT_EQ(scheduling(asked("")), errc::invalid_request);
  EXPECT_THAT(all_rows(store), SizeIs(1));
}

TEST_F(SqliteStore, LeavesAKeyThatIsThereAsItIs) {
  const scheduled first = put(store, asked("a", 1h, "one"));
  const scheduled second = put(store, asked("a", 2h, "two"));
  EXPECT_FALSE(second.inserted);
  EXPECT_FALSE(second.replaced);
  EXPECT_EQ(second.due, first.due);
  EXPECT_EQ(store.find("close", "a")->payload, "one");
}

TEST_F(SqliteStore, ReplacesAKeyIfAsked) {
  put(store, asked("a", 1h, "one"));
  request again = asked("a", 2h, "two");
  again.replace = true;
  const scheduled second = put(store, again);
  EXPECT_FALSE(second.inserted);
  EXPECT_TRUE(second.replaced);
  EXPECT_EQ(store.find("close", "a")->payload, "two");
  EXPECT_EQ(store.find("close", "a")->due, second.due);
}

TEST_F(SqliteStore, DoesNotReplaceARunningCheck) {
  const scheduled first = put(store, asked("a", {}, "one"));
  ASSERT_THAT(claim(store), SizeIs(1));
  request again = asked("a", 2h, "two");
  again.replace = true;
  const scheduled second = put(store, again);
  EXPECT_FALSE(second.replaced);
  EXPECT_EQ(second.due, first.due);
  EXPECT_EQ(store.find("close", "a")->payload, "one");
}

TEST_F(SqliteStore, DoesNotReplaceACheckWhoseLeaseHasEnded) {
  put(store, "a");
  const auto stale = claim(store, -1us).at(0);
  request again = asked("a", {}, "new");
  again.replace = true;
  EXPECT_FALSE(put(store, again).replaced);
  EXPECT_TRUE(complete(store, stale));
}

TEST_F(SqliteStore, CancelsOnceAndForAll) {
  put(store, "a");
  const auto seen = all_rows(store);
  EXPECT_EQ(cancel(store, "a"), cancel_result::cancelled);
  EXPECT_EQ(cancel(store, "a"), cancel_result::finished);
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) { open.claim(seen, open.now() + 1h, got); });
  EXPECT_THAT(got, IsEmpty());
}

TEST_F(SqliteStore, CancelsNoRunningCheckAlsoWhenItsLeaseHasEnded) {
  put(store, "a");
  const auto held = claim(store).at(0);
  EXPECT_EQ(cancel(store, "a"), cancel_result::running);
  EXPECT_TRUE(store.find("close", "a")->running);
  extend(store, held, 0us);
  EXPECT_EQ(cancel(store, "a"), cancel_result::running) << "its handler may have begun";
  EXPECT_THAT(claim(store), SizeIs(1));
}

TEST_F(SqliteStore, MovesAPendingCheck) {
  put(store, "a", 1h);
  const instant before = store.now();
  EXPECT_EQ(move(store, "a", 5h), reschedule_result::moved);
  EXPECT_GE(store.find("close", "a")->due, before + 5h);
  EXPECT_EQ(move(store, "a", instant(42us)), reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due, instant(42us));
  EXPECT_EQ(move(store, "b", 5h), reschedule_result::finished);
}

TEST_F(SqliteStore, MovesNoRunningCheck) {
  put(store, "a");
  const auto held = claim(store).at(0);
  EXPECT_EQ(move(store, "a", 5h), reschedule_result::running);
  extend(store, held, 0us);
  EXPECT_EQ(move(store, "a", 5h), reschedule_result::running);
  EXPECT_TRUE(complete(store, held));
}

TEST_F(SqliteStore, ReadsAWindowInTheOrderOfTime) {
  for (const int due : {5, 3, 9, 4, 3}) {
    put(store, std::to_string(all_rows(store).size()), instant(std::chrono::microseconds(due)));
  }
  std::vector<upcoming> found;
  store.read_ahead({.from = instant(3us), .until = instant(9us), .limit = 10, .kinds = kinds}, found);
  std::vector<std::int64_t> dues;
  std::transform(found.begin(), found.end(), std::back_inserter(dues),
                 [](const upcoming& row) { return row.due.time_since_epoch().count(); });
  EXPECT_THAT(dues, ElementsAre(3, 3, 4, 5));
  EXPECT_LT(found[0].id, found[1].id);
}

TEST_F(SqliteStore, ReadsOnFromTheLastRow) {
  for (int key = 0; key < 7; ++key) {
    put(store, std::to_string(key), instant(key < 5 ? 3us : 4us));
  }
  const auto all = all_rows(store);
  std::vector<upcoming> pages;
  read_range which{.until = instant::max(), .limit = 2, .kinds = kinds};
  for (int page = 0; page < 5; ++page) {
    store.read_ahead(which, pages);
    which.from = pages.back().due;
    which.after_id = pages.back().id;
  }
  ASSERT_THAT(pages, SizeIs(7));
  EXPECT_TRUE(std::equal(all.begin(), all.end(), pages.begin(), pages.end(),
                         [](const upcoming& one, const upcoming& other) { return one.id == other.id; }));
}

TEST_F(SqliteStore, ReadsOnlyTheKindsAskedFor) {
  put(store, "a");
  put(store, request{.kind = "strange", .key = "b"});
  put(store, request{.kind = "other", .key = "c"});
  const auto found = all_rows(store, 2);
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].kind, 0U);
  EXPECT_EQ(found[1].kind, 1U);
}

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

TEST_F(SqliteStore, ReadsLeasedRowsWithTheEndOfTheirLease) {
  put(store, "a");
  EXPECT_EQ(all_rows(store).at(0).lease, instant());
  const instant now = store.now();
  claim(store, 1h);
  EXPECT_GE(all_rows(store).at(0).lease, now + 1h);
}

TEST_F(SqliteStore, ClaimRaisesFenceAndAttempt) {
  put(store, "a");
  const std::int64_t fence = store.find("close", "a")->fence;
  const auto first = claim(store, -1us).at(0);
  const auto second = claim(store).at(0);
  EXPECT_GT(first.fence, fence);
  EXPECT_EQ(first.attempt, 1);
  EXPECT_GT(second.fence, first.fence);
  EXPECT_EQ(second.attempt, 2);
  EXPECT_EQ(store.find("close", "a")->fence, second.fence);
}

TEST_F(SqliteStore, ClaimsNothingBeforeItsTimeAndNothingTwice) {
  put(store, "late", 1h);
  put(store, "now");
  const auto got = claim(store);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].key, "now");
  EXPECT_THAT(claim(store), IsEmpty());
  EXPECT_THAT(take(store), IsEmpty());
}

TEST_F(SqliteStore, CompletesOnlyWithTheLatestFence) {
  put(store, "a");
  const auto stale = claim(store, -1us).at(0);
  const auto held = claim(store).at(0);
  EXPECT_FALSE(complete(store, stale));
  EXPECT_TRUE(store.find("close", "a"));
  EXPECT_TRUE(complete(store, held));
  EXPECT_FALSE(store.find("close", "a"));
  EXPECT_FALSE(complete(store, held));
}

TEST_F(SqliteStore, AStaleFenceExtendsRetriesAndBuriesNothing) {
  put(store, "a");
  const auto stale = claim(store, -1us).at(0);
  claim(store);
  EXPECT_FALSE(extend(store, stale, 1h));
  EXPECT_FALSE(retry(store, stale, instant(1us), 7));
  EXPECT_FALSE(bury(store, stale, "no"));
  EXPECT_EQ(store.find("close", "a")->attempt, 2);
  EXPECT_THAT(store.list_dead(10), IsEmpty());
}

TEST_F(SqliteStore, AHolderMayEndAnEndedLeaseThatNobodyHasTakenSince) {
  put(store, "a");
  EXPECT_TRUE(complete(store, claim(store, -1us).at(0)));
  put(store, "b");
  const auto held = claim(store, -1us).at(0);
  EXPECT_TRUE(extend(store, held, 1h));
  EXPECT_TRUE(store.find("close", "b")->running);
}

TEST_F(SqliteStore, GivesAClaimBack) {
  put(store, "a");
  const auto held = claim(store).at(0);
  EXPECT_TRUE(retry(store, held, instant(42us), 3));
  const auto found = store.find("close", "a");
  EXPECT_FALSE(found->running);
  EXPECT_EQ(found->due, instant(42us));
  EXPECT_EQ(found->attempt, 3);
  EXPECT_GT(claim(store).at(0).fence, held.fence);
}

TEST_F(SqliteStore, WhatWasGivenBackIsNoClaimAnyMore) {
  put(store, "a");
  const auto held = claim(store).at(0);
  retry(store, held, instant(), 0);
  EXPECT_FALSE(complete(store, held));
  EXPECT_FALSE(extend(store, held, 1h));
  EXPECT_TRUE(store.find("close", "a"));
}

TEST_F(SqliteStore, TakesNothingBeforeItsTimeAndNothingThatIsHeld) {
  put(store, "a", 1h);
  EXPECT_THAT(take(store), IsEmpty());
  put(store, "b");
  ASSERT_THAT(claim(store), SizeIs(1));
  EXPECT_THAT(take(store), IsEmpty());
}

TEST_F(SqliteStore, TakesARowAndThenThereIsNone) {
  put(store, asked("a", {}, "order"));
  const std::int64_t fence = store.find("close", "a")->fence;
  const auto got = take(store);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].key, "a");
  EXPECT_EQ(got[0].payload, "order");
  EXPECT_EQ(got[0].attempt, 1);
  EXPECT_GT(got[0].fence, fence);
  EXPECT_FALSE(store.find("close", "a"));
}

TEST_F(SqliteStore, PutsBackWhatItTookWithItsFence) {
  put(store, asked("a", {}, "order"));
  const auto wanted = all_rows(store);
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) {
    open.consume(wanted, got);
    open.put_back(got.at(0), "close", open.now() + 1h, 1);
  });
  const auto found = store.find("close", "a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload, "order");
  EXPECT_EQ(found->fence, got[0].fence);
  EXPECT_EQ(found->attempt, 1);
  EXPECT_GT(found->due, store.now() + 59min);
}

TEST_F(SqliteStore, WhatTheHandlerScheduledStandsAgainstWhatIsPutBack) {
  put(store, asked("a", {}, "old"));
  const auto wanted = all_rows(store);
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) {
    open.consume(wanted, got);
    open.schedule(asked("a", 1h, "new"));
    open.put_back(got.at(0), "close", open.now(), 1);
  });
  EXPECT_EQ(store.find("close", "a")->payload, "new");
}

TEST_F(SqliteStore, BuriesWithTheError) {
  put(store, asked("a", instant(7us), "order"));
  const auto held = claim(store).at(0);
  EXPECT_TRUE(bury(store, held, std::string("broken \0!", 9)));
  EXPECT_FALSE(store.find("close", "a"));
  const auto dead = store.list_dead(10);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].kind, "close");
  EXPECT_EQ(dead[0].key, "a");
  EXPECT_EQ(dead[0].payload, "order");
  EXPECT_EQ(dead[0].due, instant(7us));
  EXPECT_EQ(dead[0].fence, held.fence);
  EXPECT_EQ(dead[0].attempt, 1);
  EXPECT_EQ(dead[0].error, std::string("broken \0!", 9));
  EXPECT_GE(store.now(), dead[0].died);
}

TEST_F(SqliteStore, ListsTheDeadInPages) {
  for (const char* key : {"a", "b", "c"}) {
    put(store, key);
    bury(store, claim(store).at(0), "no");
  }
  const auto first = store.list_dead(2);
  ASSERT_THAT(first, SizeIs(2));
  const auto rest = store.list_dead(2, first[1].id);
  ASSERT_THAT(rest, SizeIs(1));
  EXPECT_EQ(rest[0].key, "c");
}

TEST_F(SqliteStore, RetriesADeadCheckFromTheStart) {
  put(store, "a");
  const auto held = claim(store).at(0);
  bury(store, held, "no");
  const std::int64_t id = store.list_dead(1).at(0).id;
  EXPECT_TRUE(store.revive_dead(id));
  EXPECT_FALSE(store.revive_dead(id));
  EXPECT_THAT(store.list_dead(1), IsEmpty());
  const auto again = claim(store).at(0);
  EXPECT_EQ(again.attempt, 1);
  EXPECT_GT(again.fence, held.fence);
}

TEST_F(SqliteStore, RetriesNoDeadCheckBesideALivingOneOfItsKey) {
  put(store, "a");
  bury(store, claim(store).at(0), "no");
  put(store, "a", 1h);
  EXPECT_FALSE(store.revive_dead(store.list_dead(1).at(0).id));
  EXPECT_THAT(store.list_dead(1), SizeIs(1));
}

TEST_F(SqliteStore, DeletesADeadCheck) {
  put(store, "a");
  bury(store, claim(store).at(0), "no");
  const std::int64_t id = store.list_dead(1).at(0).id;
  EXPECT_TRUE(store.delete_dead(id));
  EXPECT_FALSE(store.delete_dead(id));
}

TEST_F(SqliteStore, NeverUsesAnIdAgain) {
  std::int64_t last = 0;
  for (int turn = 0; turn < 5; ++turn) {
    put(store, "a");
    const std::int64_t id = all_rows(store).at(0).id;
    EXPECT_GT(id, last);
    last = id;
    turn % 2 == 0 ? static_cast<void>(cancel(store, "a")) : static_cast<void>(take(store));
  }
}

TEST_F(SqliteStore, NeverUsesAnIdAgainWithinATransaction) {
  put(store, "a");
  const auto seen = all_rows(store);
  store.transact([&](store_transaction& open) {
    open.cancel("close", "a");
    open.schedule(asked("a"));
  });
  EXPECT_GT(all_rows(store).at(0).id, seen.at(0).id);
}

TEST_F(SqliteStore, ANewCheckHasAHigherFenceThanAnyBeforeOfItsKey) {
  std::int64_t highest = 0;
  for (int turn = 0; turn < 3; ++turn) {
    put(store, "a");
    claimed last;
    for (int times = 0; times < 5; ++times) {
      last = claim(store, -1us).at(0);
      EXPECT_GT(last.fence, highest);
      highest = last.fence;
    }
    EXPECT_TRUE(complete(store, last));
  }
}

TEST_F(SqliteStore, WhatTheWorkThrowsUndoesAll) {
  put(store, "a");
  EXPECT_THROW(store.transact([](store_transaction& open) {
    open.schedule(asked("b"));
    open.cancel("close", "a");
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  EXPECT_THAT(keys_by_time(store), ElementsAre("a"));
  put(store, "c");
  EXPECT_THAT(all_rows(store), SizeIs(2));
}

TEST_F(SqliteStore, UndoesAPartAlone) {
  store.transact([](store_transaction& open) {
    open.schedule(asked("a"));
    open.savepoint();
    open.schedule(asked("b"));
    open.rollback_to_savepoint();
    open.savepoint();
    open.schedule(asked("c"));
    open.release_savepoint();
  });
  EXPECT_THAT(keys_by_time(store), ElementsAre("a", "c"));
}

TEST_F(SqliteStore, TheClockStandsStillWithinATransaction) {
  store.transact([](store_transaction& open) {
    const instant before = open.now();
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(open.now(), before);
    EXPECT_EQ(open.schedule(asked("a", 1s)).due, before + 1s);
  });
}

TEST_F(SqliteStore, TheLongestDelayAndTheEndOfTimeAreFarAhead) {
  EXPECT_GT(put(store, "a", std::chrono::hours::max()).due, store.now() + std::chrono::years(290));
  EXPECT_EQ(put(store, "b", instant::max()).due, instant::max());
  EXPECT_EQ(store.find("close", "b")->due, instant::max());
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

TEST_F(SqliteStore, AHandlersStatementsCommitWithTheTransaction) {
  users_database user(folder.file());
  user.run("CREATE TABLE orders(id INTEGER PRIMARY KEY, state TEXT)");
  store.transact([](store_transaction& open) {
    sqlite3_exec(sqlite_connection(open), "INSERT INTO orders VALUES(1,'closed')", nullptr, nullptr, nullptr);
  });
  EXPECT_EQ(user.ask("SELECT state FROM orders"), "closed");
}

TEST_F(SqliteStore, SaysSoIfAHandlerEndedTheTransaction) {
  const auto ending = [&](const char* sql) {
    return error_of([&] {
             store.transact([&](store_transaction& open) {
               sqlite3_exec(sqlite_connection(open), sql, nullptr, nullptr, nullptr);
             });
           })
        .code;
  };
  EXPECT_EQ(ending("COMMIT"), sqlite_code(SQLITE_ABORT_ROLLBACK));
  EXPECT_EQ(ending("ROLLBACK"), sqlite_code(SQLITE_ABORT_ROLLBACK));
  EXPECT_EQ(ending("COMMIT; BEGIN"), sqlite_code(SQLITE_ABORT_ROLLBACK));
  EXPECT_EQ(ending("ROLLBACK; BEGIN"), sqlite_code(SQLITE_ABORT_ROLLBACK));
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

TEST_F(SqliteStore, TwoStoresShareAFile) {
  sqlite_store other(folder.file());
  put(store, "a");
  const auto seen = all_rows(other);
  EXPECT_EQ(claim(store).at(0).key, "a");
  std::vector<claimed> got;
  other.transact([&](store_transaction& open) { open.claim(seen, open.now() + 1h, got); });
  EXPECT_THAT(got, IsEmpty());
  EXPECT_EQ(cancel(other, "a"), cancel_result::running);
}

TEST_F(SqliteStore, ThreadsOfTwoStoresClaimEachCheckOnce) {
  sqlite_store other(folder.file());
  for (int key = 0; key < 200; ++key) {
    put(store, std::to_string(key));
  }
  std::atomic<int> claims = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      sqlite_store& mine = number % 2 == 0 ? store : other;
      claims += static_cast<int>(claim(mine).size());
    });
  }
  std::for_each(threads.begin(), threads.end(), [](std::thread& thread) { thread.join(); });
  EXPECT_EQ(claims, 200);
}

TEST_F(SqliteStore, OneOfManyThreadsInsertsAKey) {
  std::atomic<int> inserted = 0;
  std::vector<std::thread> threads;
  for (int number = 0; number < 8; ++number) {
    threads.emplace_back([&] { inserted += put(store, "a").inserted ? 1 : 0; });
  }
  std::for_each(threads.begin(), threads.end(), [](std::thread& thread) { thread.join(); });
  EXPECT_EQ(inserted, 1);
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
  for (const std::chrono::milliseconds good : {0ms, 1ms}) {
    sqlite_store some(folder.file(), {.busy_timeout = good});
    user.run("BEGIN IMMEDIATE");
    EXPECT_EQ(error_of([&] { put(some, "a"); }).code.value() & 0xff, SQLITE_BUSY);
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

}  // namespace
}  // namespace timing_wheel::durable::test

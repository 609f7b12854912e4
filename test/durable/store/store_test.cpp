// What `store` promises, on each of the stores.

#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/timer.hpp"
#ifdef TIMING_WHEEL_TEST_SQLITE
#include "durable/support/scratch_folder.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
#include "durable/support/postgres_case.hpp"
#endif

namespace timing_wheel::durable::test {
namespace {

// A store, and what it stands on.
using store_pointer = std::shared_ptr<durable::store>;
template <class Where>
store_pointer made_on() {
  const auto where = std::make_shared<Where>();
  return {where, &where->store};
}

struct in_memory {
  timing_wheel::timer clock;
  memory_store store{clock};
};

#ifdef TIMING_WHEEL_TEST_SQLITE
struct in_a_file {
  timing_wheel::test::scratch_folder folder;
  sqlite_store store{folder.file()};
};

struct on_a_timer {
  timing_wheel::timer clock;
  sqlite_store store{clock};
};
#endif

#ifdef TIMING_WHEEL_TEST_POSTGRES
template <bool prepare>
struct on_a_server {
  static postgres_options options() {
    postgres_options some = options_in(new_schema());
    some.prepare = prepare;
    return some;
  }
  postgres_store store{server().conninfo(), options()};
};
#endif

struct place {
  const char* name;
  store_pointer (*make)();
};
constexpr place places[] = {
    {"Memory", made_on<in_memory>},
#ifdef TIMING_WHEEL_TEST_SQLITE
    {"Sqlite", made_on<in_a_file>},
    {"SqliteInMemory", made_on<on_a_timer>},
#endif
#ifdef TIMING_WHEEL_TEST_POSTGRES
    {"Postgres", made_on<on_a_server<true>>},
    {"PostgresUnprepared", made_on<on_a_server<false>>},  // as behind a pooler
#endif
};

class Store : public testing::TestWithParam<place> {  // NOLINT(readability-identifier-naming): a suite
 public:
  Store() { store.migrate(); }

 private:
  store_pointer made_ = GetParam().make();

 public:
  durable::store& store = *made_;
};
INSTANTIATE_TEST_SUITE_P(On, Store, testing::ValuesIn(places), [](const auto& of) { return of.param.name; });

TEST_P(Store, PausesAKindUntilItIsResumed) {
  std::vector<std::string> paused;
  const std::vector<std::string> kinds = {"close"};
  const auto told = [&] {
    std::vector<upcoming> found;
    paused.clear();
    store.read_ahead({.until = store.now() + 1h, .limit = 10, .kinds = kinds, .paused = &paused}, found);
    EXPECT_THAT(found, SizeIs(1)) << "they are read all the same";
    return paused;
  };
  put(store, "a");
  EXPECT_THAT(told(), IsEmpty());
  const instant before = store.now();
  EXPECT_TRUE(store.pause("close"));
  EXPECT_FALSE(store.pause("close"));
  EXPECT_TRUE(store.pause("another"));
  EXPECT_THAT(told(), testing::UnorderedElementsAre("another", "close"));
  EXPECT_THAT(told(), SizeIs(2)) << "where nothing was written meanwhile";
  const std::vector<paused_kind> all = store.paused_kinds();
  ASSERT_THAT(all, SizeIs(2));
  EXPECT_EQ(all[0].kind, "another");
  EXPECT_GE(all[1].since, before);
  EXPECT_LE(all[1].since, store.now());
  EXPECT_TRUE(store.resume("another"));
  EXPECT_FALSE(store.resume("another"));
  EXPECT_THAT(told(), ElementsAre("close"));
  std::vector<upcoming> found;
  paused.clear();
  store.read_ahead({.paused = &paused}, found);
  EXPECT_THAT(paused, ElementsAre("close")) << "a range of nothing";
  EXPECT_THAT(found, IsEmpty());
  EXPECT_TRUE(store.resume("close"));
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_THROW(store.pause(""), timer_error);
  EXPECT_THROW(store.resume(std::string(1000, 'k')), timer_error);
}

TEST_P(Store, DrainsANodeUntilThatIsEnded) {
  const auto told = [&](std::string_view node) {
    std::vector<std::string> paused;
    std::vector<upcoming> found;
    store.read_ahead({.paused = &paused, .node = node}, found);
    return paused;
  };
  EXPECT_THAT(told("me"), IsEmpty());
  const instant before = store.now();
  EXPECT_TRUE(store.drain("me"));
  EXPECT_FALSE(store.drain("me"));
  EXPECT_THAT(told("me"), ElementsAre("")) << "the first that sees it";
  EXPECT_THAT(told("me"), ElementsAre(""));
  EXPECT_THAT(told("other"), IsEmpty());
  EXPECT_THAT(told(""), IsEmpty());
  store.tell_drained("other", 1);
  ASSERT_THAT(store.drained_nodes(), SizeIs(1));
  EXPECT_EQ(store.drained_nodes()[0].held, std::nullopt);
  EXPECT_GE(store.drained_nodes()[0].since, before);
  store.tell_drained("me", 3);
  const drained_node seen = store.drained_nodes().at(0);
  EXPECT_EQ(seen.node, "me");
  EXPECT_EQ(seen.held, 3U);
  EXPECT_GE(seen.told, before);
  EXPECT_THROW(store.transact([](store_transaction& open) {
    EXPECT_TRUE(open.end_drain("me"));
    throw std::out_of_range("and no more");
  }),
               std::out_of_range);
  EXPECT_THAT(told("me"), ElementsAre(""));
  EXPECT_TRUE(store.end_drain("me"));
  EXPECT_FALSE(store.end_drain("me"));
  EXPECT_THAT(told("me"), IsEmpty());
  EXPECT_THAT(store.drained_nodes(), IsEmpty());
  EXPECT_THROW(store.drain(""), timer_error);
  EXPECT_THROW(store.drain("\xFF"), timer_error);
}

TEST_P(Store, WhatWasOrphanedAndGivenUpMayBeClaimedAtAnyTime) {
  put(store, "a");
  claimed held = claim(store).at(0);
  const auto claim_late = [&] {
    const std::vector<upcoming> wanted = all_rows(store);
    std::vector<claimed> got;
    store.transact_within({.orphans_until = instant::min()},
                          [&](store_transaction& open) { open.claim(wanted, open.now() + 1h, got); });
    return got.size();
  };
  EXPECT_EQ(claim_late(), 0U);
  held.orphaned = true;
  EXPECT_TRUE(retry(store, held, instant(), 1));
  EXPECT_EQ(claim_late(), 1U) << "nobody can extend its lease";
}

TEST_P(Store, KeepsWhyChecksRunAgainWhileTheyWaitForIt) {
  store.tell_failed_runs("me", {});
  put(store, "a");
  put(store, "b");
  const std::vector<claimed> held = claim(store);
  ASSERT_THAT(held, SizeIs(2));
  const std::vector<std::int64_t> ids = {held[1].id, held[0].id, 12'345};
  EXPECT_THAT(store.failed_runs(ids), IsEmpty());
  std::vector<failed_run> runs = {{.node = {}, .id = held[0].id, .attempt = 1, .error = std::string("no\0\xff", 4)},
                                  {.node = {}, .id = held[1].id, .attempt = 1, .error = "late"},
                                  {.node = {}, .id = 12'345, .attempt = 1, .error = "of one that is gone"}};
  const instant before = store.now();
  store.tell_failed_runs("other", {runs.data() + 1, 1});
  store.tell_failed_runs("me", runs);
  EXPECT_THAT(store.failed_runs(ids), SizeIs(2)) << "their ends are not written yet";
  EXPECT_TRUE(retry(store, held[0], instant(), 1));
  EXPECT_TRUE(retry(store, held[1], instant(), 1));
  const std::vector<failed_run> seen = store.failed_runs(ids);
  ASSERT_THAT(seen, SizeIs(2));
  EXPECT_EQ(seen[0].id, std::min(held[0].id, held[1].id));
  EXPECT_EQ(seen[0].node + seen[1].node, "meme");
  EXPECT_EQ(seen[seen[0].id == held[0].id ? 0 : 1].error, runs[0].error);
  EXPECT_EQ(seen[0].attempt, 1);
  EXPECT_GE(seen[0].told, before);
  const std::vector<claimed> again = claim(store);
  ASSERT_THAT(again, SizeIs(2));
  EXPECT_THAT(store.failed_runs(ids), SizeIs(2)) << "they run again";
  EXPECT_TRUE(retry(store, again[0], instant(), 2));
  EXPECT_EQ(store.failed_runs({&again[0].id, 1}).at(0).attempt, 1) << "nobody has told of the second run";
  EXPECT_TRUE(complete(store, again[1]));
  runs[0] = {.node = {}, .id = again[0].id, .attempt = 2, .error = "again"};
  store.tell_failed_runs("me", {runs.data(), 1});
  store.tell_failed_runs("me", {});
  ASSERT_THAT(store.failed_runs(ids), SizeIs(1)) << "only what is gone is forgotten";
  EXPECT_EQ(store.failed_runs(ids)[0].error, "again");
}

TEST_P(Store, KeepsWhichRunsOfANodeAreLongWhileTheyLast) {
  EXPECT_THAT(store.long_runs(), IsEmpty());
  store.tell_long_runs("me", {});
  put(store, "a");
  put(store, "b");
  const std::vector<claimed> held = claim(store);
  ASSERT_THAT(held, SizeIs(2));
  const instant begun = store.now() - 1min;
  std::vector<long_run> runs(2);
  for (std::size_t at = 0; at < 2; ++at) {
    runs[at].id = held[at].id;
    runs[at].fence = held[at].fence;
    runs[at].begun = begun - std::chrono::seconds(at);
  }
  const instant before = store.now();
  store.tell_long_runs("other", {runs.begin(), 1});
  store.tell_long_runs("other", {});
  store.tell_long_runs("me", {runs.begin(), 1});
  store.tell_long_runs("me", runs);
  const std::vector<long_run> seen = store.long_runs();
  ASSERT_THAT(seen, SizeIs(2));
  EXPECT_EQ(seen[0].node, "me");
  EXPECT_EQ(seen[0].kind, "close");
  EXPECT_EQ(seen[0].key, held[1].key);
  EXPECT_EQ(seen[0].id, held[1].id);
  EXPECT_EQ(seen[0].fence, held[1].fence);
  EXPECT_EQ(seen[0].begun, begun - 1s);
  EXPECT_GE(seen[0].told, before);
  EXPECT_LE(seen[0].told, store.now());
  EXPECT_TRUE(complete(store, held[1]));
  EXPECT_THAT(store.long_runs(), SizeIs(1));
  EXPECT_TRUE(retry(store, held[0], instant(), 1));
  EXPECT_THAT(store.long_runs(), IsEmpty()) << "it is pending";
  ASSERT_THAT(claim(store), SizeIs(1));
  EXPECT_THAT(store.long_runs(), IsEmpty()) << "another run";
  store.tell_long_runs("me", {});
  EXPECT_THAT(store.long_runs(), IsEmpty());
}

TEST_P(Store, SaysSinceWhenOfEachKindACheckIsDueAndFree) {
  const auto late = [&] {
    std::vector<overdue_kind> found;
    store.read_overdue(found);
    std::map<std::string, instant> since;
    for (const overdue_kind& each : found) {
      since[each.kind] = each.since;
    }
    return since;
  };
  EXPECT_THAT(late(), IsEmpty());
  const instant now = store.now();
  put(store, asked("future", now + 1h));
  put(store, asked("first", now - 5s));
  EXPECT_THAT(late(), ElementsAre(Pair("close", now - 5s)));
  const claimed first = claim(store, 1us).at(0);
  EXPECT_TRUE(wait_until([&] { return late().size() == 1; })) << "the lease has ended";
  EXPECT_GE(late().at("close"), now) << "since then";
  put(store, asked("orphan", now - 4s));
  EXPECT_THAT(claim(store, 1us), SizeIs(2));
  EXPECT_TRUE(wait_until([&] { return late().size() == 1; }));
  put(store, asked("second", now - 3s));
  request other = asked("a", now - 7s);
  other.kind = "other";
  put(store, other);
  EXPECT_THAT(late(), ElementsAre(Pair("close", now - 3s), Pair("other", now - 7s)));
  EXPECT_THAT(claim(store), SizeIs(4));
  EXPECT_THAT(late(), IsEmpty());
  EXPECT_FALSE(complete(store, first));
}

TEST_P(Store, ClaimsSomeInTheirOrderAndStops) {
  std::vector<upcoming> rows;
  for (const char* key : {"a", "b", "c", "d", "e"}) {
    put(store, asked(key, store.now() - 1s));
  }
  rows = all_rows(store);
  const auto some = [&](std::size_t most, std::size_t looked_at) {
    std::vector<claimed> got;
    store.transact([&](store_transaction& open) {
      got.clear();
      EXPECT_EQ(open.claim_some(rows, most, open.now() + 1h, got), looked_at);
    });
    return sorted_keys_of(got);
  };
  EXPECT_THAT(some(2, 2), ElementsAre("a", "b"));
  EXPECT_THAT(some(2, 4), ElementsAre("c", "d"));
  EXPECT_THAT(some(2, 5), ElementsAre("e"));
  EXPECT_THAT(some(2, 5), IsEmpty());
}

TEST_P(Store, FindsWhatWasScheduled) {
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

TEST_P(Store, KeepsAnyBytesInKeysAndPayloads) {
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

TEST_P(Store, TakesKindsThatAreUtf8Alone) {
  const std::string good = "\xe8\xae\xa2\xe5\x8d\x95";
  put(store, {.kind = good, .key = "a"});
  EXPECT_TRUE(store.find(good, "a"));
  EXPECT_EQ(error_of([&] { put(store, {.kind = std::string(64, 'k'), .key = "a"}); }).code, errc::kind_too_long);
  for (const std::string& bad : {std::string(), std::string("\xff\xfe"), std::string("a\0b", 3)}) {
    EXPECT_EQ(error_of([&] { put(store, {.kind = bad, .key = "a"}); }).code, errc::invalid_request);
    scheduler node(store);
    EXPECT_EQ(error_of([&] { node.on(bad, [](const job&) {}); }).code, errc::invalid_request);
  }
}

TEST_P(Store, TakesTheLongestAllowedAndNotAByteMore) {
  const request_limits limits = store.limits();
  put(store, asked(std::string(limits.key, 'k'), {}, std::string(limits.payload, 'p')));
  EXPECT_EQ(claim(store).at(0).payload.size(), limits.payload);
  const auto scheduling = [&](const request& what) { return error_of([&] { put(store, what); }).code; };
  EXPECT_EQ(scheduling(asked(std::string(limits.key + 1, 'k'))), errc::key_too_long);
  EXPECT_EQ(scheduling(asked("k", {}, std::string(limits.payload + 1, 'p'))), errc::payload_too_long);
  EXPECT_EQ(scheduling(asked("")), errc::invalid_request);
  EXPECT_THAT(all_rows(store), SizeIs(1));
}

TEST_P(Store, SpreadsTheChecksOfOneDueTimeOverTheirWindow) {
  const instant midnight = instant() + 24h * 365 * 80;
  std::array<int, 4> quarters{};
  for (int i = 0; i < 100; ++i) {
    request one = asked("order-" + std::to_string(i), 0s, "");
    one.due = midnight;
    one.window = 400s;
    const instant due = put(store, one).due;
    ++quarters.at(static_cast<std::size_t>((due - midnight) / 100s));
    one.replace = true;
    EXPECT_EQ(put(store, one).due, due) << "the key decides";
  }
  EXPECT_THAT(quarters, Each(Ge(10)));

  request late = asked("late", 1h, "");
  const instant exact = put(store, late).due;
  late.key = "later";
  late.window = 1h;
  EXPECT_LT(put(store, late).due - exact, 1h + 10min) << "a delay counts from the write";
  late.key = "whenever";
  late.due = instant::max();
  EXPECT_EQ(put(store, late).due, instant::max());
}

TEST_P(Store, SpreadsManyRequestsInTheOrderOfTheirKeys) {
  const instant midnight = instant() + 24h * 365 * 80;
  std::vector<request> all;
  for (const char* const key : {"order-3", "order-1", "order-4", "order-2"}) {
    all.push_back(asked(key, midnight, ""));
    all.back().window = 400s;
  }
  all.push_back(asked("exact", 1h, ""));
  spread_in_key_order(all);
  std::vector<std::string> keys;
  for (const request& one : all) {
    keys.push_back(one.key);
    const auto n = static_cast<int>(keys.size()) - 1;
    if (n > 0) {
      EXPECT_EQ(put(store, one).due - midnight, n * 80s) << one.key;
    }
  }
  EXPECT_THAT(keys, ElementsAre("exact", "order-1", "order-2", "order-3", "order-4"));
  const instant exact = put(store, all.front()).due;
  EXPECT_LE(exact, store.now() + 1h) << "it has no window";
  spread_in_key_order({});
}

TEST(SpreadInKeyOrder, FillsTheWindowEvenly) {
  constexpr int count = 100'000;
  const instant midnight = instant() + 24h * 365 * 80;
  std::vector<request> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(asked(std::to_string(count + i * 7919LL % count), midnight, ""));  // each key once, in disorder
    all.back().window = 1h;
  }
  spread_in_key_order(all);
  int wrong = 0;
  for (int i = 0; i < count; ++i) {
    const request& one = all[static_cast<std::size_t>(i)];
    wrong += one.key == std::to_string(count + i) && one.due.at({}) == midnight + i * 36ms && one.window == 0s ? 0 : 1;
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(Store, GathersTheChecksWhoseWindowsShareAMoment) {
  const instant midnight = instant() + 24h * 365 * 80;
  const auto due = [this](const std::string& key, due_time when) {
    request one = asked(key, when, "");
    one.window = 40s;
    one.within = window_use::gather;
    return put(store, one).due;
  };
  EXPECT_EQ(due("on time", midnight), midnight);
  EXPECT_EQ(due("first", midnight + 1us), midnight + 40s);
  EXPECT_EQ(due("last", midnight + 40s), midnight + 40s);
  EXPECT_EQ(due("ancient", instant(-1us)), instant());
  EXPECT_EQ(due("whenever", instant::max()), instant::max());

  const instant before = store.now();
  const instant later = due("later", 1h);
  EXPECT_GE(later, before + 1h) << "a delay counts from the write";
  EXPECT_LT(later, store.now() + 1h + 40s);
  EXPECT_EQ(later.time_since_epoch() % 40s, 0s);
}

TEST_P(Store, DoesNotReplaceARunningCheckAlsoWhenItsLeaseHasEnded) {
  const scheduled first = put(store, asked("a", {}, "one"));
  for (const auto lease : {std::chrono::microseconds(1h), -1us}) {
    const auto held = claim(store, lease).at(0);
    const scheduled second = put(store, replacing(asked("a", 2h, "two")));
    EXPECT_FALSE(second.inserted || second.replaced);
    EXPECT_EQ(second.due, first.due);
    EXPECT_EQ(store.find("close", "a")->payload, "one");
    EXPECT_TRUE(retry(store, held, first.due, 0));
  }
}

TEST_P(Store, CancelsNoRunningCheckAlsoWhenItsLeaseHasEnded) {
  put(store, "a");
  const auto held = claim(store).at(0);
  EXPECT_EQ(cancel(store, "a"), cancel_result::running);
  EXPECT_TRUE(store.find("close", "a")->running);
  extend(store, held, 0us);
  EXPECT_EQ(cancel(store, "a"), cancel_result::running) << "its handler may have begun";
  EXPECT_THAT(claim(store), SizeIs(1));
}

TEST_P(Store, ReadsLeasedRowsWithTheEndOfTheirLeaseAndTheirAttempt) {
  put(store, "a");
  EXPECT_EQ(all_rows(store).at(0).lease, instant());
  EXPECT_EQ(all_rows(store).at(0).attempt, 0);
  const instant now = store.now();
  claim(store, 1h);
  EXPECT_GE(all_rows(store).at(0).lease, now + 1h);
  EXPECT_EQ(all_rows(store).at(0).attempt, 1);
}

TEST_P(Store, ClaimRaisesFenceAndAttempt) {
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

TEST_P(Store, ClaimsNothingBeforeItsTimeAndNothingTwice) {
  put(store, "late", 1h);
  put(store, "now");
  const auto got = claim(store);
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].key, "now");
  EXPECT_THAT(claim(store), IsEmpty());
  EXPECT_THAT(take(store), IsEmpty());
}

TEST_P(Store, CompletesOnlyWithTheLatestFence) {
  put(store, "a");
  const auto stale = claim(store, -1us).at(0);
  const auto held = claim(store).at(0);
  EXPECT_FALSE(complete(store, stale));
  EXPECT_TRUE(store.find("close", "a"));
  EXPECT_TRUE(complete(store, held));
  EXPECT_FALSE(store.find("close", "a"));
  EXPECT_FALSE(complete(store, held));
}

TEST_P(Store, AStaleFenceExtendsRetriesAndBuriesNothing) {
  put(store, "a");
  const auto stale = claim(store, -1us).at(0);
  claim(store);
  EXPECT_FALSE(extend(store, stale, 1h));
  EXPECT_FALSE(retry(store, stale, instant(1us), 7));
  EXPECT_FALSE(bury(store, stale, "no"));
  EXPECT_EQ(store.find("close", "a")->attempt, 2);
  EXPECT_THAT(store.list_dead(10), IsEmpty());
}

TEST_P(Store, AHolderMayEndAnEndedLeaseThatNobodyHasTakenSince) {
  put(store, "a");
  EXPECT_TRUE(complete(store, claim(store, -1us).at(0)));
  put(store, "b");
  const auto held = claim(store, -1us).at(0);
  EXPECT_TRUE(extend(store, held, 1h));
  EXPECT_TRUE(store.find("close", "b")->running);
}

TEST_P(Store, GivesAClaimBack) {
  put(store, "a");
  const auto held = claim(store).at(0);
  EXPECT_TRUE(retry(store, held, instant(42us), 3));
  const auto found = store.find("close", "a");
  EXPECT_FALSE(found->running);
  EXPECT_EQ(found->due, instant(42us));
  EXPECT_EQ(found->attempt, 3);
  EXPECT_FALSE(complete(store, held)) << "it is no claim any more";
  EXPECT_FALSE(extend(store, held, 1h));
  EXPECT_GT(claim(store).at(0).fence, held.fence);
}

// Whose lease has ended may be stopped just before its handler, and begin at any time.
TEST_P(Store, WhatIsGivenBackAfterALeaseHadEndedStaysRunning) {
  put(store, "a");
  const auto stopped = claim(store, -1us).at(0);
  EXPECT_FALSE(stopped.orphaned);
  for (int times = 0; times < 3; ++times) {  // also when it was claimed and given back in good order since
    const auto second = claim(store).at(0);
    EXPECT_TRUE(second.orphaned);
    EXPECT_TRUE(retry(store, second, instant(42us), 0));
    EXPECT_TRUE(store.find("close", "a")->running);
    EXPECT_EQ(cancel(store, "a"), cancel_result::running);
    EXPECT_EQ(move(store, "a", 5h), reschedule_result::running);
    EXPECT_FALSE(put(store, replacing(asked("a", {}, "new"))).replaced);
  }
  EXPECT_EQ(all_rows(store).at(0).due, instant(42us));
  EXPECT_LE(all_rows(store).at(0).lease, store.now());
  EXPECT_FALSE(complete(store, stopped));
  EXPECT_TRUE(complete(store, claim(store).at(0)));
  EXPECT_EQ(cancel(store, "a"), cancel_result::finished);
}

TEST_P(Store, WhatIsGivenBackAfterALeaseHadEndedIsClaimedAtItsTime) {
  put(store, "a");
  claim(store, -1us);
  retry(store, claim(store).at(0), store.now() + 1h, 0);
  EXPECT_THAT(claim(store), IsEmpty());
  EXPECT_THAT(take(store), IsEmpty());
}

// By that a node knows how the last run ended.
TEST_P(Store, AfterALeaseHadEndedOnlyARetryLeavesALeaseThatEndsBeforeTheDeadline) {
  put(store, "a", instant(42us));
  claim(store, -1us);
  EXPECT_GT(all_rows(store).at(0).lease, instant(42us));
  const instant again = store.now() + 1h;
  retry(store, claim(store).at(0), again, 2);
  const upcoming row = all_rows(store).at(0);
  EXPECT_EQ(row.due, again);
  EXPECT_EQ(row.attempt, 2);
  EXPECT_NE(row.lease, instant{});
  EXPECT_LT(row.lease, again);
}

TEST_P(Store, ItsOwnEndMakesARowPendingAlsoAfterItsLease) {
  put(store, "a");
  retry(store, claim(store, -1us).at(0), instant(42us), 0);
  EXPECT_FALSE(store.find("close", "a")->running);
  EXPECT_FALSE(claim(store).at(0).orphaned);
}

TEST_P(Store, WhatIsPutBackAfterALeaseHadEndedStaysRunning) {
  put(store, "a");
  claim(store, -1us);
  for (int times = 0; times < 2; ++times) {
    const auto got = take(store, [](store_transaction& open, const std::vector<claimed>& taken) {
      open.put_back(taken.at(0), "close", instant(42us), 1);
    });
    EXPECT_TRUE(got.at(0).orphaned);
    EXPECT_EQ(cancel(store, "a"), cancel_result::running);
  }
  EXPECT_TRUE(claim(store).at(0).orphaned);
}

TEST_P(Store, PutsBackWhatItTookWithItsFence) {
  put(store, asked("a", {}, "order"));
  const auto got = take(store, [](store_transaction& open, const std::vector<claimed>& taken) {
    open.put_back(taken.at(0), "close", open.now() + 1h, 1);
  });
  const auto found = store.find("close", "a");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload, "order");
  EXPECT_EQ(found->fence, got[0].fence);
  EXPECT_EQ(found->attempt, 1);
  EXPECT_FALSE(found->running);
  EXPECT_FALSE(got[0].orphaned);
  EXPECT_GT(found->due, store.now() + 59min);
}

TEST_P(Store, WhatTheHandlerScheduledStandsAgainstWhatIsPutBack) {
  put(store, asked("a", {}, "old"));
  take(store, [](store_transaction& open, const std::vector<claimed>& taken) {
    open.schedule(asked("a", 1h, "new"));
    open.put_back(taken.at(0), "close", open.now(), 1);
  });
  EXPECT_EQ(store.find("close", "a")->payload, "new");
}

TEST_P(Store, BuriesWithTheError) {
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

TEST_P(Store, ListsTheDeadInPages) {
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

TEST_P(Store, RetriesADeadCheckFromTheStart) {
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

TEST_P(Store, RetriesNoDeadCheckBesideALivingOneOfItsKeyAndDeletesIt) {
  put(store, "a");
  bury(store, claim(store).at(0), "no");
  put(store, "a", 1h);
  const std::int64_t id = store.list_dead(1).at(0).id;
  EXPECT_FALSE(store.revive_dead(id));
  EXPECT_THAT(store.list_dead(1), SizeIs(1));
  EXPECT_TRUE(store.delete_dead(id));
  EXPECT_FALSE(store.delete_dead(id));
}

// One check in each state: "later" and "again" are pending, "late" is due, "held" is claimed, "lost" has a lease that
// has ended; "else" is of another kind, and not due.
void put_one_in_each_state(durable::store& store) {
  const auto claim_one = [&](const char* key, std::chrono::microseconds lease) {
    put(store, key);
    return claim(store, lease).at(0);
  };
  retry(store, claim_one("again", 1h), store.now() + 2h, 3);
  claim_one("held", 1h);
  claim_one("lost", -1s);
  put(store, "late");
  put(store, "later", 1h);
  put(store, request{.kind = "other", .key = "else", .payload = "four", .due = 3h});
}

TEST_P(Store, ListsTheChecksInAState) {
  put_one_in_each_state(store);
  const auto in = [&](check_state state) {
    const std::vector<stored_check> found = store.list({.limit = 10, .which = {.state = state}});
    EXPECT_EQ(store.count({.state = state}, 10), found.size());
    store.transact([&](store_transaction& open) {
      EXPECT_EQ(keys_of(open.list({.limit = 10, .which = {.state = state}})), keys_of(found));
    });
    return sorted_keys_of(found);
  };
  EXPECT_THAT(in(check_state::pending), ElementsAre("again", "else", "late", "later"));
  EXPECT_THAT(in(check_state::running), ElementsAre("held"));
  EXPECT_THAT(in(check_state::suspect), ElementsAre("lost"));
  EXPECT_THAT(in(check_state::due), ElementsAre("held", "late", "lost"));
  EXPECT_THAT(in(check_state::waiting), ElementsAre("late", "lost"));
  EXPECT_THAT(in(check_state::retrying), ElementsAre("again"));
  std::map<std::string, check_state> states;
  for (const stored_check& each : store.list({.limit = 10})) {
    states[each.key] = state_of(each, store.now());
  }
  EXPECT_THAT(states, ElementsAre(Pair("again", check_state::retrying), Pair("else", check_state::pending),
                                  Pair("held", check_state::running), Pair("late", check_state::waiting),
                                  Pair("later", check_state::pending), Pair("lost", check_state::suspect)));
}

TEST_P(Store, CountsTheChecksOfEachKindByState) {
  put_one_in_each_state(store);
  const kind_counts close = store.count_kinds().at(0);
  EXPECT_EQ(close.pending, 3U);
  EXPECT_EQ(close.running, 1U);
  EXPECT_EQ(close.suspect, 1U);
  EXPECT_EQ(close.due, 3U);
  EXPECT_EQ(close.waiting, 2U);
  ASSERT_TRUE(close.oldest_waiting);
  EXPECT_LE(*close.oldest_waiting, store.now());
  EXPECT_GE(*close.oldest_waiting, store.now() - 10s);
  put(store, "dies");
  bury(store, claim(store).at(0), "no");  // "late" has an earlier deadline
  dead_check old = store.list_dead(1).at(0);
  old.died -= 61s;
  store.transact([&](store_transaction& open) { open.restore({}, {&old, 1}); });
  store.pause("third");
  const std::vector<kind_counts> all = store.count_kinds();
  ASSERT_THAT(all, SizeIs(3));
  EXPECT_EQ(all[0].kind, "close");
  EXPECT_EQ(all[0].pending + all[0].running + all[0].suspect, 5U);
  EXPECT_EQ(all[0].retrying, 1U);
  EXPECT_EQ(all[0].dead, 2U);
  EXPECT_EQ(all[0].dead_lately, 1U);
  EXPECT_FALSE(all[0].at_least);
  EXPECT_FALSE(all[0].paused);
  EXPECT_EQ(all[1].kind, "other");
  EXPECT_EQ(all[1].pending, 1U);
  EXPECT_FALSE(all[1].oldest_waiting);
  EXPECT_EQ(all[2].kind, "third");
  EXPECT_TRUE(all[2].paused);
  EXPECT_EQ(all[2].pending, 0U);
}

TEST_P(Store, AddsUpTheRunsThatNodesHaveToldOf) {
  EXPECT_EQ(store.runs_of_last_minute().value_or(run_counts()), run_counts());
  store.tell_runs("me", {.begun = 3, .ended = 2, .failed = 1});
  store.tell_runs("other", {.begun = 4, .ended = 4, .failed = 0});
  store.tell_runs("me", {.begun = 0, .ended = 1, .failed = 1});
  EXPECT_EQ(store.runs_of_last_minute(), (run_counts{.begun = 7, .ended = 7, .failed = 2}));
}

TEST_P(Store, TellsHowLongTheChecksOfAKindWait) {
  const instant at = store.now();
  std::vector<request> all = {{.kind = "close", .key = "later", .payload = {}, .due = 1h}};
  for (int seconds = 1; seconds <= 200; ++seconds) {
    all.push_back({.kind = "close", .key = std::to_string(seconds), .payload = {}, .due = at - seconds * 1s});
  }
  put(store, all);
  const kind_counts close = store.count_kinds(1000, true).at(0);
  EXPECT_EQ(store.count_kinds().at(0).median_waiting, std::nullopt);
  EXPECT_EQ(close.median_waiting, at - 100s);
  EXPECT_EQ(close.p99_waiting, at - 198s);
  EXPECT_EQ(close.oldest_waiting, at - 200s);
}

TEST_P(Store, LooksAtNoMoreRowsThanItMayToCount) {
  put(store, "again");
  retry(store, claim(store).at(0), store.now() + 30min, 2);
  for (int number = 0; number < 4; ++number) {
    put(store, "a" + std::to_string(number), 1h);
  }
  put(store, request{.kind = "other", .key = "b", .payload = {}, .due = 2h});
  EXPECT_FALSE(store.count_kinds(6).at(0).at_least);
  EXPECT_FALSE(store.count_kinds(std::numeric_limits<std::size_t>::max()).at(0).at_least);
  const kind_counts few = store.count_kinds(3).at(0);
  EXPECT_EQ(few.pending, 3U);
  EXPECT_EQ(few.retrying, 1U) << "it is due first";
  EXPECT_TRUE(few.at_least);
  EXPECT_EQ(store.count({}, 4), 4U);
  EXPECT_EQ(store.count({}, 100), 6U);
}

TEST_P(Store, ListsChecksInPagesByDeadline) {
  for (const auto& [key, due] : {std::pair("d", 4h), {"a", 1h}, {"c", 2h}, {"b", 2h}}) {
    put(store, request{.kind = *key < 'c' ? "close" : "other", .key = key, .payload = "payload", .due = due});
  }
  std::vector<stored_check> first = store.list({.limit = 2});
  ASSERT_THAT(keys_of(first), ElementsAre("a", "c"));
  EXPECT_EQ(first[0].kind, "close");
  EXPECT_EQ(first[0].payload, "");
  EXPECT_EQ(first[0].size, 7U);
  EXPECT_EQ(first[0].id, store.find("close", "a")->id);
  EXPECT_EQ(first[0].due, store.find("close", "a")->due);
  EXPECT_EQ(first[0].attempt, 0);
  EXPECT_FALSE(first[0].running);
  const std::vector<stored_check> rest =
      store.list({.limit = 9, .after = {first[1].due, first[1].id}, .with_payloads = true});
  ASSERT_THAT(keys_of(rest), ElementsAre("b", "d"));
  EXPECT_EQ(rest[0].payload, "payload");
  EXPECT_THAT(keys_of(store.list({.limit = 9, .which = {.kind = "other"}})), ElementsAre("c", "d"));
  EXPECT_THAT(keys_of(store.list({.limit = 9, .which = {.due_before = first[1].due}})), ElementsAre("a"));
  EXPECT_THAT(keys_of(store.list({.limit = 9, .which = {.due_after = rest[0].due}})), ElementsAre("d"));
  first = store.list({.limit = 2, .latest_first = true});
  ASSERT_THAT(keys_of(first), ElementsAre("d", "b"));
  EXPECT_THAT(keys_of(store.list({.limit = 9, .after = {first[1].due, first[1].id}, .latest_first = true})),
              ElementsAre("c", "a"));
  for (const std::size_t limit : {1U, 9U}) {
    const std::vector<stored_check> close =
        store.list({.limit = limit, .which = {.kind = "close"}, .latest_first = true});
    EXPECT_EQ(keys_of(close), limit == 1 ? std::vector<std::string>{"b"} : (std::vector<std::string>{"b", "a"}));
  }
  EXPECT_THAT(keys_of(store.list({.limit = 9,
                                  .which = {.kind = "other", .state = check_state::pending, .due_before = first[0].due},
                                  .latest_first = true})),
              ElementsAre("c"));
}

TEST_P(Store, ListsTheChecksOfAKindInPagesByKey) {
  for (const auto& [key, due] : {std::pair("c", 1h), {"b", 2h}, {"a", 3h}, {"d", 4h}}) {
    put(store, key, due);
    put(store, request{.kind = "other", .key = key, .due = due});
  }
  const auto from = [&](const std::string& key, std::size_t limit, check_filter which) {
    which.kind = "close";
    return keys_of(store.list({.limit = limit, .which = which, .from_key = key}));
  };
  EXPECT_THAT(from("", 2, {}), ElementsAre("a", "b"));
  EXPECT_THAT(from(std::string("b\0", 2), 9, {}), ElementsAre("c", "d"));
  EXPECT_THAT(from("b", 9, {.key_prefix = "b"}), ElementsAre("b"));
  EXPECT_THAT(from("", 9, {.due_after = store.find("close", "b")->due}), ElementsAre("a", "d"));
  EXPECT_THAT(from("e", 9, {}), IsEmpty());
  EXPECT_EQ(error_of([&] { static_cast<void>(store.list({.limit = 1, .from_key = ""})); }).code, errc::invalid_request);
}

TEST_P(Store, ListsKeysThatBeginWithAnyBytes) {
  for (const std::string& key : {std::string("a"), std::string("a\xFF"), std::string("a\xFF\xFF"), std::string("b"),
                                 std::string("\xFF"), std::string("\xFFz")}) {
    put(store, key, 1h);
  }
  const auto with = [&](const std::string& prefix) {
    return store.list({.limit = 9, .which = {.kind = "close", .key_prefix = prefix}}).size();
  };
  EXPECT_EQ(with("a"), 3U);
  EXPECT_EQ(with("a\xFF"), 2U);
  EXPECT_EQ(with("\xFF"), 2U);
  EXPECT_EQ(with("c"), 0U);
  EXPECT_EQ(store.count({.key_prefix = "\xFF"}, 9), 2U);
}

TEST_P(Store, ListsCountsAndRevivesTheDeadByKindAndError) {
  for (const auto& [kind, key, error] :
       {std::tuple("close", "a1", "no"), {"other", "b", "no"}, {"close", "a2", "no"}, {"close", "c", "gone"}}) {
    put(store, request{.kind = kind, .key = key, .payload = "payload"});
    bury(store, claim(store).at(0), error);
  }
  EXPECT_THAT(keys_of(store.list_dead({.limit = 2, .newest_first = true})), ElementsAre("c", "a2"));
  const std::vector<dead_check> no = store.list_dead(
      {.limit = 9, .which = {.kind = "close", .key_prefix = "a", .error = "no"}, .with_payloads = false});
  ASSERT_THAT(keys_of(no), ElementsAre("a1", "a2"));
  EXPECT_EQ(no[0].payload, "");
  EXPECT_THAT(keys_of(store.list_dead({.limit = 9, .after = no[1].id, .newest_first = true})), ElementsAre("b", "a1"));
  const std::vector<dead_group> groups = store.count_dead({}, 2);
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].kind + groups[0].error, "closeno");
  EXPECT_EQ(groups[0].count, 2U);
  EXPECT_EQ(groups[0].first, no[0].died);
  EXPECT_EQ(groups[0].last, no[1].died);
  EXPECT_THAT(store.count_dead({.error = "gone"}, 9), SizeIs(1));
  EXPECT_THAT(keys_of(store.list_dead({.limit = 9, .which = {.key = "a1"}})), ElementsAre("a1"));
  EXPECT_THAT(store.list_dead({.limit = 9, .which = {.key = "a"}}), IsEmpty());
  put(store, "a2", 1h);  // its key is taken again
  put(store, "c");
  bury(store, claim(store).at(0), "again");
  std::vector<std::int64_t> ids = {1'000'000};
  for (const dead_check& each : store.list_dead(9)) {
    ids.push_back(each.id);
  }
  store.transact([&](store_transaction& open) { EXPECT_EQ(open.revive_dead(ids), 3U); });
  EXPECT_THAT(keys_of(store.list_dead(9)), ElementsAre("a2", "c"));
  EXPECT_EQ(store.list_dead(9)[1].error, "gone") << "the younger one of that key was revived";
  EXPECT_THAT(keys_in(store), ElementsAre("a1", "a2", "b", "c"));
  store.transact([&](store_transaction& open) { EXPECT_EQ(open.delete_dead(ids), 2U); });
  EXPECT_THAT(store.list_dead(9), IsEmpty());
}

TEST_P(Store, UndoesWhatAnOperatorDoesInATransactionThatFails) {
  put(store, "a");
  bury(store, claim(store).at(0), "no");
  const std::vector<std::int64_t> ids = {store.list_dead(1).at(0).id};
  store.pause("other");
  EXPECT_THROW(store.transact([&](store_transaction& open) {
    EXPECT_EQ(open.revive_dead(ids), 1U);
    EXPECT_TRUE(open.pause("close"));
    EXPECT_TRUE(open.resume("other"));
    open.record({.by = "me", .action = "retry", .count = 1});
    throw std::out_of_range("and no more");
  }),
               std::out_of_range);
  EXPECT_THAT(store.list_dead(9), SizeIs(1));
  EXPECT_FALSE(store.find("close", "a"));
  ASSERT_THAT(store.paused_kinds(), SizeIs(1));
  EXPECT_EQ(store.paused_kinds()[0].kind, "other");
  EXPECT_THAT(store.audit(9), IsEmpty());
}

TEST_P(Store, KeepsTheAuditNewestFirst) {
  EXPECT_THAT(store.audit(9), IsEmpty());
  const instant before = store.now();
  store.transact([&](store_transaction& open) {
    open.record({.by = "me", .action = "cancel", .kind = "close", .subject = "key \u201Ea\u201C", .count = 1});
  });
  store.transact([&](store_transaction& open) { open.record({.by = "you", .action = "pause"}); });
  EXPECT_THAT(store.audit(1), SizeIs(1));
  const std::vector<audit_entry> lines = store.audit(9);
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_EQ(lines[0].by, "you");
  EXPECT_EQ(lines[1].by, "me");
  EXPECT_EQ(lines[1].action, "cancel");
  EXPECT_EQ(lines[1].kind, "close");
  EXPECT_EQ(lines[1].subject, "key \u201Ea\u201C");
  EXPECT_EQ(lines[1].count, 1U);
  EXPECT_GE(lines[1].at, before);
  EXPECT_LE(lines[1].at, store.now());
}

TEST_P(Store, NeverUsesAnIdAgain) {
  std::int64_t last = 0;
  for (int turn = 0; turn < 5; ++turn) {
    put(store, "a");
    const std::int64_t id = all_rows(store).at(0).id;
    EXPECT_GT(id, last);
    last = id;
    turn % 2 == 0 ? static_cast<void>(cancel(store, "a")) : static_cast<void>(take(store));
  }
  put(store, "a");
  last = all_rows(store).at(0).id;
  store.transact([&](store_transaction& open) {
    open.cancel("close", "a");
    open.schedule(asked("a"));
  });
  EXPECT_GT(all_rows(store).at(0).id, last);
}

TEST_P(Store, AFenceThatWasDrawnInVainIsNotDrawnAgain) {
  put(store, "a");
  std::vector<claimed> undone;
  const auto fails = [&](store_transaction&, const std::vector<claimed>& taken) {
    undone = taken;
    throw std::runtime_error("no");
  };
  EXPECT_THROW(take(store, fails), std::runtime_error);
  EXPECT_GT(take(store).at(0).fence, undone.at(0).fence);
}

// A statement that an outage has held up comes too late for what others have held.
TEST_P(Store, AnEndedLeaseIsClaimedOnlyWhileItMayBe) {
  put(store, "a");
  put(store, "b");
  claim(store, -1us);
  put(store, "c");
  const std::vector<upcoming> wanted = all_rows(store);
  const auto keys_within = [&](std::optional<instant> until, bool takes) {
    std::vector<claimed> got;
    const std::function<void(store_transaction&)> try_it = [&](store_transaction& open) {
      takes ? open.consume(wanted, got) : open.claim(wanted, open.now() + 1h, got);
      throw std::runtime_error("it was only a try");
    };
    EXPECT_THROW(store.transact_within({.orphans_until = until}, try_it), std::runtime_error);
    return sorted_keys_of(got);
  };
  for (const bool takes : {false, true}) {
    EXPECT_THAT(keys_within(store.now() - 1s, takes), ElementsAre("c"));
    EXPECT_THAT(keys_within(store.now() + 1min, takes), ElementsAre("a", "b", "c"));
    EXPECT_THAT(keys_within({}, takes), ElementsAre("a", "b", "c"));
  }
}

TEST_P(Store, ConsumesAtTheBeginOfATransactionAndUndoesItWithThat) {
  put(store, "a");
  put(store, "later", 1h);
  const std::vector<upcoming> wanted = all_rows(store);
  std::vector<claimed> got(1);  // of another transaction
  const auto consume = [&](const std::function<void(store_transaction&)>& work) {
    store.consume_within({}, wanted, got, work);
  };
  EXPECT_THROW(consume([&](store_transaction& /*open*/) {
                 EXPECT_THAT(sorted_keys_of(got), ElementsAre("a"));
                 throw std::runtime_error("no");
               }),
               std::runtime_error);
  EXPECT_THAT(keys_in(store), ElementsAre("a", "later"));
  consume([](store_transaction& open) {
    open.schedule(asked("before"));
    open.savepoint();
    open.schedule(asked("undone"));
    open.rollback_to_savepoint();
  });
  EXPECT_THAT(sorted_keys_of(got), ElementsAre("a"));
  EXPECT_EQ(got[0].attempt, 1);
  EXPECT_THAT(keys_in(store), ElementsAre("before", "later"));
}

TEST_P(Store, APartThatIsUndoneLeavesWhatWasConsumedBeforeIt) {
  put(store, "a");
  const std::vector<upcoming> wanted = all_rows(store);
  std::vector<claimed> got;
  store.consume_within({}, wanted, got, [](store_transaction& open) {
    for (const char* key : {"first", "second"}) {
      open.savepoint();
      open.schedule(asked(key));
      open.rollback_to_savepoint();
    }
    open.savepoint();
    open.schedule(asked("third"));
    open.release_savepoint();
  });
  EXPECT_THAT(keys_in(store), ElementsAre("third"));
}

TEST_P(Store, TheClockStandsStillWithinATransaction) {
  store.transact([](store_transaction& open) {
    const instant before = open.now();
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(open.now(), before);
    EXPECT_EQ(open.schedule(asked("a", 1s)).due, before + 1s);
  });
}

TEST_P(Store, LeasesAndDeadlinesMayLieAtTheEndsOfTime) {
  put(store, "first", instant::min());
  EXPECT_EQ(put(store, "last", instant::max()).due, instant::max());
  EXPECT_EQ(store.find("close", "first")->due, instant::min());
  const std::vector<upcoming> wanted = all_rows(store);
  ASSERT_THAT(wanted, SizeIs(1));
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) { open.claim(wanted, instant::max(), got); });
  ASSERT_THAT(got, SizeIs(1));
  EXPECT_EQ(got[0].due, instant::min());
  EXPECT_EQ(all_rows(store).at(0).lease, instant::max());
  EXPECT_TRUE(retry(store, got[0], instant::max(), 1));
  EXPECT_EQ(store.find("close", "first")->due, instant::max());
  EXPECT_EQ(move(store, "first", instant::min()), reschedule_result::moved);
  EXPECT_THAT(take(store), SizeIs(1));
  EXPECT_GT(put(store, "a", std::chrono::hours::max()).due, store.now() + std::chrono::years(290));
}

TEST_P(Store, OneOfManyThreadsInsertsAKey) {
  std::atomic<int> inserted = 0;
  on_threads(8, [&](int) { inserted += put(store, "a").inserted ? 1 : 0; });
  EXPECT_EQ(inserted, 1);
}

TEST_P(Store, AListIsOneAfterTheOther) {
  const request again = replacing(asked("a", 2h, "two"));
  std::vector<request> all = {asked("b", 1h), asked("a", 1h, "one"), asked("a", 1h), again, asked("c", 1h)};
  for (int more = 0; more < 20; ++more) {  // a store may write long lists in another way
    all.push_back(asked(std::to_string(more), 1h));
  }
  const auto ops = put(store, all);
  EXPECT_TRUE(ops[0].result.inserted && ops[1].result.inserted && ops[4].result.inserted);
  EXPECT_FALSE(ops[2].result.inserted || ops[2].result.replaced || ops[3].result.inserted);
  EXPECT_EQ(ops[2].result.due, ops[1].result.due);
  EXPECT_TRUE(ops[3].result.replaced);
  EXPECT_EQ(store.find("close", "a")->payload, "two");
  EXPECT_THAT(all_rows(store), SizeIs(23));
}

TEST_P(Store, AppendsAListBesideWhatIsThere) {
  const auto before = put(store, "m", 1h);
  std::vector<request> all;
  for (const char* key : {"z", "m", "a", "k"}) {
    all.push_back(asked(key, 2h));
  }
  for (int more = 0; more < 40; ++more) {
    all.push_back(asked(std::to_string(more), 2h));
  }
  const auto ops = put(store, all);
  EXPECT_FALSE(ops[1].result.inserted);
  EXPECT_EQ(ops[1].result.due, before.due);
  for (std::size_t each = 0; each < all.size(); ++each) {
    if (each != 1) {
      EXPECT_TRUE(ops[each].result.inserted);
      EXPECT_EQ(ops[each].result.due, store.find("close", all[each].key)->due);
      EXPECT_EQ(ops[each].id, store.find("close", all[each].key)->id);
    }
  }
}

TEST_P(Store, CancelsAList) {
  put(store, "running");
  claim(store);
  put(store, "b", 1h);
  put(store, "a", 1h);
  std::vector<cancel_op> ops = {{"close", "b"}, {"close", "running"}, {"close", "none"},
                                {"close", "a"}, {"close", "b"},       {"other", "a"}};
  store.transact([&](store_transaction& open) { open.cancel(ops); });
  std::vector<cancel_result> results;
  std::transform(ops.begin(), ops.end(), std::back_inserter(results), [](const cancel_op& op) { return op.result; });
  EXPECT_THAT(results, ElementsAre(cancel_result::cancelled, cancel_result::running, cancel_result::finished,
                                   cancel_result::cancelled, cancel_result::finished, cancel_result::finished));
}

TEST_P(Store, ACancelSaysHowOftenItWasTriedBefore) {
  put(store, "tried");
  retry(store, claim(store).at(0), store.now(), 1);
  retry(store, claim(store).at(0), store.now(), 2);
  put(store, "new");
  cancel_answer tried;
  cancel_answer fresh;
  cancel_answer none;
  store.transact([&](store_transaction& open) {
    tried = open.cancel("close", "tried");
    fresh = open.cancel("close", "new");
    none = open.cancel("close", "tried");
  });
  EXPECT_EQ(tried, (cancel_answer{cancel_result::cancelled, 2}));
  EXPECT_EQ(fresh, (cancel_answer{cancel_result::cancelled, 0}));
  EXPECT_EQ(none, (cancel_answer{cancel_result::finished, 0}));
  EXPECT_EQ(testing::PrintToString(tried), "cancelled after 2 attempts");
}

TEST_P(Store, MovesAList) {
  put(store, "running");
  claim(store);
  put(store, "a", 1h);
  std::vector<reschedule_op> ops = {{"close", "a", instant(5us)},
                                    {"close", "running", instant(5us)},
                                    {"close", "none", instant(5us)},
                                    {"close", "a", instant(6us)}};
  store.transact([&](store_transaction& open) { open.reschedule(ops); });
  EXPECT_EQ(ops[0].result, reschedule_result::moved);
  EXPECT_EQ(ops[1].result, reschedule_result::running);
  EXPECT_EQ(ops[2].result, reschedule_result::finished);
  EXPECT_EQ(ops[3].result, reschedule_result::moved);
  EXPECT_EQ(store.find("close", "a")->due, instant(6us));
}

TEST_P(Store, EndsAListOfClaimsEachByItsOwnFence) {
  for (const char* key : {"a", "b", "c", "d"}) {
    put(store, key);
  }
  const auto held = claim(store);
  ASSERT_THAT(held, SizeIs(4));
  std::vector<ticket> done = {
      {held[2].id, held[2].fence}, {held[0].id, held[0].fence - 1}, {held[3].id, held[3].fence}};
  std::vector<release_op> again = {{{held[1].id, held[1].fence}, instant(7us), 4}, {{-1, 0}, instant(7us), 4}};
  store.transact([&](store_transaction& open) {
    open.complete(done);
    open.release(again);
  });
  EXPECT_TRUE(done[0].still_ours && !done[1].still_ours && done[2].still_ours);
  EXPECT_TRUE(again[0].of.still_ours && !again[1].of.still_ours);
  EXPECT_EQ(store.find("close", held[1].key)->due, instant(7us));
  EXPECT_THAT(all_rows(store), SizeIs(2));
}

TEST_P(Store, EmptyListsDoNothing) {
  put(store, "a");
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) {
    open.append({});
    open.cancel(std::span<cancel_op>());
    open.reschedule({});
    open.claim({}, open.now(), got);
    open.consume({}, got);
    open.complete({});
    open.extend({}, open.now());
    open.release({});
    open.bury({});
  });
  EXPECT_THAT(keys_in(store), ElementsAre("a"));
}

TEST_P(Store, BuriesWhatItTook) {
  put(store, asked("a", instant(7us), "order"));
  const auto got = take(store, [](store_transaction& open, const std::vector<claimed>& taken) {
    open.bury_consumed(taken.at(0), "close", "broken \xff");
  });
  const auto dead = store.list_dead(10);
  ASSERT_THAT(dead, SizeIs(1));
  EXPECT_EQ(dead[0].kind, "close");
  EXPECT_EQ(dead[0].payload, "order");
  EXPECT_EQ(dead[0].error, "broken \xff");
  EXPECT_EQ(dead[0].fence, got[0].fence);
  EXPECT_FALSE(store.find("close", "a"));
}

TEST_P(Store, ReadsTheWindowOfALongRowOfOneDeadlineInPages) {
  std::vector<request> all;
  for (int key = 0; key < 6000; ++key) {
    all.push_back(asked(std::to_string(key), instant(5us)));
  }
  put(store, all);
  put(store, request{.kind = "strange", .key = "x", .payload = {}, .due = instant(5us)});
  put(store, "last", instant(6us));
  std::vector<upcoming> found;
  read_range which{.until = instant(7us), .limit = 2500, .kinds = kinds};
  for (int page = 0; page < 3; ++page) {
    store.read_ahead(which, found);
    which.from = found.back().due;
    which.after_id = found.back().id;
  }
  ASSERT_THAT(found, SizeIs(6001));
  EXPECT_TRUE(std::is_sorted(found.begin(), found.end(), [](const upcoming& one, const upcoming& other) {
    return std::pair(one.due, one.id) < std::pair(other.due, other.id);
  }));
  EXPECT_EQ(found.back().due, instant(6us));
}

TEST_P(Store, ReadsBehindManyRowsOfOtherKinds) {
  std::vector<request> all;
  for (int key = 0; key < 12000; ++key) {
    all.push_back({.kind = "strange", .key = std::to_string(key), .payload = {}, .due = instant(5us)});
  }
  put(store, all);
  put(store, "last", instant(6us));
  EXPECT_THAT(all_rows(store), SizeIs(1));
  EXPECT_THAT(all_rows(store, 1), SizeIs(1));
  std::vector<upcoming> found;
  std::optional<std::pair<instant, std::int64_t>> stopped_at;
  read_range which{.until = instant(7us), .limit = 10, .kinds = kinds, .stopped_at = &stopped_at};
  int pages = 0;
  do {
    stopped_at.reset();
    store.read_ahead(which, found);
    std::tie(which.from, which.after_id) = stopped_at.value_or(std::pair(which.until, 0));
    EXPECT_EQ(found.empty(), stopped_at.has_value());
  } while (stopped_at && ++pages < 10);
  EXPECT_THAT(found, SizeIs(1)) << "if the store stops, the next page goes on there";
}

TEST_P(Store, ReadsOnlyBeforeTheEndOfTheWindow) {
  put(store, "a", instant(5us));
  std::vector<upcoming> found;
  store.read_ahead({.until = instant(5us), .limit = 10, .kinds = kinds}, found);
  store.read_ahead({.until = instant(6us), .limit = 0, .kinds = kinds}, found);
  store.read_ahead({.until = instant(6us), .limit = 10}, found);
  EXPECT_THAT(found, IsEmpty());
  store.read_ahead({.from = instant(5us), .until = instant(6us), .limit = 10, .kinds = kinds}, found);
  EXPECT_THAT(found, SizeIs(1));
}

}  // namespace
}  // namespace timing_wheel::durable::test

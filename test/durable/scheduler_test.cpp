#include "timing_wheel/durable/scheduler.hpp"

#include <pthread.h>

#include <cmath>
#include <csignal>
#include <cstdint>
#include <optional>
#include <sstream>

#include "durable/support/forwarding_store.hpp"
#include "durable/support/store_calls.hpp"
#include "support/allocation.hpp"
#include "support/prometheus_page.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/durable/metrics.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// A scheduler in virtual time.
class Scheduler : public testing::Test {
 public:
  [[nodiscard]] std::chrono::microseconds clock() {
    return std::chrono::duration_cast<std::chrono::microseconds>(timer.now().time_since_epoch());
  }
  // Notes when each job ran.
  void on_notes(const handler_options& how = {}) {
    checks.on(
        "note", [this](const job& what) { ran.emplace_back(what.key(), clock()); }, how);
  }
  static request note(std::string key, due_time due) { return {.kind = "note", .key = std::move(key), .due = due}; }
  // Each due in a second.
  static void schedule_each(scheduler& on, const std::string& kind, std::initializer_list<const char*> keys) {
    for (const char* key : keys) {
      on.schedule({.kind = kind, .key = key, .due = 1s});
    }
  }
  void run_one(const std::string& kind, std::chrono::seconds within) {
    checks.start();
    schedule_each(checks, kind, {"a"});
    timer.advance_by(within);
  }
  [[nodiscard]] std::vector<std::string> keys() const {
    std::vector<std::string> all;
    for (const auto& [key, when] : ran) {
      all.push_back(key);
    }
    return all;
  }

  manual_timer timer;
  memory_store store{timer};
  std::vector<std::string> failed;
  scheduler_options options{.on_failure = [this](const failure& what) { failed.emplace_back(what.what); }};
  scheduler checks{store, timer, options};
  std::vector<std::pair<std::string, std::chrono::microseconds>> ran;
};

TEST_F(Scheduler, RunsACheckAtItsDeadlineAndForgetsIt) {
  on_notes();
  checks.start();
  EXPECT_TRUE(checks.schedule(note("a", 30min)).inserted);
  timer.advance_by(30min - 1ms);
  EXPECT_TRUE(ran.empty());
  EXPECT_TRUE(checks.find("note", "a").has_value());
  timer.advance_by(2ms);
  EXPECT_THAT(keys(), ElementsAre("a"));
  EXPECT_EQ(ran.front().second, 30min);
  EXPECT_FALSE(checks.find("note", "a").has_value());
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(Scheduler, GivesTheHandlerWhatWasScheduled) {
  std::optional<job> got;
  checks.on("verify", [&](const job& what) { got = what; });
  checks.start();
  checks.schedule({.kind = "verify", .key = "order-17", .payload = std::string("a\0b", 3), .due = 1s});
  const std::int64_t id = checks.find("verify", "order-17")->id;
  timer.advance_by(2s);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->id(), id);
  EXPECT_EQ(got->key(), "order-17");
  EXPECT_EQ(got->payload(), std::string("a\0b", 3));
  EXPECT_EQ(got->attempt(), 1);
  EXPECT_EQ(got->due(), instant(1s));
  EXPECT_GT(got->fence(), 0);
}

TEST_F(Scheduler, TellsWhatBecameOfWhatIsAsked) {
  const std::vector<request> several{note("a", 1s), note("b", 1s)};
  EXPECT_TRUE(checks.schedule(several).at(1).inserted);
  request again = note("a", 10s);
  again.replace = true;
  EXPECT_TRUE(checks.schedule(again).replaced);
  EXPECT_EQ(checks.reschedule("note", "a", 2s), reschedule_result::moved);
  EXPECT_EQ(checks.find("note", "a").value().due, instant(2s));
  EXPECT_EQ(checks.reschedule("note", "c", 2s), reschedule_result::finished);
  EXPECT_EQ(checks.cancel("note", "b"), cancel_result::cancelled);
  EXPECT_EQ(checks.cancel("note", "b"), cancel_result::finished);
}

TEST_F(Scheduler, ADeadCheckCanBeTriedAgainOrDeleted) {
  bool works = false;
  checks.on("poison", [&](const job& /*what*/) { return works ? done : dead("not now"); });
  checks.start();
  schedule_each(checks, "poison", {"a", "b"});
  timer.advance_by(2s);
  const std::vector<dead_check> dead = checks.list_dead(10);
  ASSERT_EQ(dead.size(), 2U);
  works = true;
  EXPECT_TRUE(checks.revive_dead(dead[0].id));
  EXPECT_TRUE(checks.delete_dead(dead[1].id));
  timer.advance_by(2s);
  EXPECT_TRUE(checks.list_dead(10).empty());
  EXPECT_EQ(checks.stats().done, 1U);
}

TEST_F(Scheduler, ATransactionalHandlerFindsThatWhatItsTransactionHasYetToRunIsRunning) {
  std::vector<std::string> told;
  checks.on("work", [&](transaction& open, const job& what) {
    told.push_back(what.key() + what.payload());
    if (what.key() == "a") {
      EXPECT_EQ(open.cancel("work", "b"), cancel_result::running);
      const scheduled asked =
          open.schedule({.kind = "work", .key = "c", .payload = " new", .due = 0s, .replace = true});
      EXPECT_EQ(std::tuple(asked.inserted, asked.replaced, asked.due), std::tuple(false, false, instant(1s)));
    } else if (what.key() == "c") {
      EXPECT_EQ(open.cancel("work", "b"), cancel_result::finished);
      EXPECT_TRUE(open.schedule({.kind = "work", .key = "b", .payload = " new", .due = 5s}).inserted);
    }
  });
  checks.start();
  schedule_each(checks, "work", {"a", "b", "c"});
  timer.advance_by(10s);
  EXPECT_THAT(told, ElementsAre("a", "b", "c", "b new"));
}

TEST_F(Scheduler, ATransactionalHandlerThatThrowsUndoesItsOwnWorkOnly) {
  checks.on("parent",
            [](transaction& open, const job& what) {
              open.schedule({.kind = "child", .key = what.key(), .due = 1h});
              if (what.key() == "bad") {
                throw std::runtime_error("bad");
              }
            },
            {.max_attempts = 1});
  checks.start();
  schedule_each(checks, "parent", {"a", "bad", "c"});
  timer.advance_by(2s);
  EXPECT_TRUE(checks.find("child", "a").has_value());
  EXPECT_FALSE(checks.find("child", "bad").has_value());
  EXPECT_TRUE(checks.find("child", "c").has_value());
  ASSERT_EQ(checks.list_dead(10).size(), 1U);
}

TEST_F(Scheduler, WhatIsNotDoneIsRepeatedAloneAndSoIsWhatSharedItsPartOfTheTransaction) {
  std::string calls;
  checks.on("parent", [&](transaction& open, const job& what) {
    calls += what.key();
    open.schedule({.kind = "child", .key = what.key(), .due = 1h});
    if (calls == "ab") {
      throw std::runtime_error("the first time");
    }
    return what.key() == "e" && what.attempt() == 1 ? retry("not yet") : done;
  });
  checks.start();
  const auto run = [&](std::initializer_list<const char*> some) {
    schedule_each(checks, "parent", some);
    timer.advance_by(1s);
    for (const char* key : some) {
      EXPECT_EQ(checks.find("child", key).has_value(), *key != 'e') << key;
    }
    return std::exchange(calls, "");
  };
  EXPECT_EQ(run({"a", "b", "c"}), "ababc");
  EXPECT_THAT(failed, ElementsAre("handler")) << "it is told, though it was done then";
  EXPECT_EQ(checks.stats().fired, 3U) << "a repetition is no other run";
  EXPECT_EQ(checks.stats().done, 3U);
  EXPECT_EQ(run({"d", "e", "f"}), "def") << "after that, each has a part of its own";
  EXPECT_EQ(checks.stats().retried, 1U);
  timer.advance_by(1min);
  EXPECT_EQ(checks.stats().done, 6U);
  EXPECT_EQ(checks.stats().fired, 7U);
}

TEST_F(Scheduler, HandlersShareAPartAgainWhenSixteenWereDoneInARow) {
  std::string calls;
  checks.on("parent", [&](transaction& /*open*/, const job& what) {
    calls += what.key();
    return (what.key() == "b" || what.key() == "z") && what.attempt() == 1 ? retry("not yet") : done;
  });
  checks.start();
  const auto run = [&](const std::string& some) {
    for (const char key : some) {
      checks.schedule({.kind = "parent", .key = {key}, .due = 1s});
    }
    timer.advance_by(1min);
    return std::exchange(calls, "");
  };
  EXPECT_EQ(run("ab"), "ababb");
  EXPECT_EQ(run("cdefghijklmnopq"), "cdefghijklmnopq");
  EXPECT_EQ(run("yz"), "yzyzz");
}

// Claims one more than it was asked for.
class greedy_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  bool complete_and_claim_at_once(const transaction_limits& /*limits*/, lease_round& round) override {
    round.got.resize(round.most + 1);
    return round.most != 0;
  }
};

TEST_F(Scheduler, AStoreThatClaimsMoreThanItWasAskedForIsToldAndRunsNothing) {
  greedy_store greedy(store);
  int runs = 0;
  scheduler first{greedy, timer, options};
  first.on("note", [&](const job&) { ++runs; });
  first.start();
  first.schedule(note("a", 1s));
  timer.advance_by(2s);
  EXPECT_EQ(runs, 0);
  EXPECT_THAT(failed, testing::Contains("store"));
}

// Keeps the order in which its rows are read and changed.
class ordered_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override {
    order += 'r';
    forwarding_store::read_ahead(which, found);
  }
  void transact(const std::function<void(store_transaction&)>& work) override {
    order += 'c';
    forwarding_store::transact(work);
  }
  std::string order;
};

TEST_F(Scheduler, WhatIsDueIsClaimedBeforeAPageIsRead) {
  ordered_store ordered(store);
  scheduler first{ordered, timer, options};
  first.on("note", [](const job&) {});
  first.start();
  first.schedule(note("a", 1s));  // at the time of a poll
  timer.advance_by(999ms);
  ordered.order.clear();
  timer.advance_by(1ms);
  EXPECT_EQ(ordered.order.substr(0, 2), "cr");
}

TEST_F(Scheduler, ABatchThatThrowsIsTriedOneByOne) {
  std::vector<std::size_t> sizes;
  std::vector<cancel_result> told;
  int written = 0;
  on_notes();
  checks.on("many",
            [&](transaction& open, std::span<const job> jobs) {
              sizes.push_back(jobs.size());
              told.push_back(open.cancel("many", "c"));
              for (const job& one : jobs) {
                open.schedule(note(std::string(one.key()) + std::to_string(++written), 1s));
                if (one.key() == "b") {
                  throw std::runtime_error("bad");
                }
              }
            },
            {.max_attempts = 1});
  schedule_each(checks, "many", {"a", "b", "c"});
  checks.start();
  timer.advance_by(3s);
  EXPECT_THAT(sizes, ElementsAre(3U, 1U, 1U, 1U));
  using enum cancel_result;
  EXPECT_THAT(told, ElementsAre(finished, running, running, finished)) << "the last waits while the others run";
  EXPECT_THAT(keys(), UnorderedElementsAre("a3", "c5"));  // not a1 and b2 of the batch, nor b4
  EXPECT_EQ(checks.stats().done, 4U);
  EXPECT_EQ(checks.stats().dead, 1U);
}

TEST_F(Scheduler, ATransactionalHandlerMustNotCallAnotherSchedulerOfItsStore) {
  memory_store elsewhere(timer);
  scheduler other(store, timer);
  scheduler of_another_store(elsewhere, timer);
  test::caught refused;
  checks.on("parent", [&](transaction& /*open*/, const job& /*what*/) {
    refused = test::error_of([&] { other.schedule(note("b", 1s)); });
    of_another_store.schedule(note("c", 1s));
  });
  run_one("parent", 2s);
  EXPECT_EQ(refused.code, std::errc::resource_deadlock_would_occur);
  EXPECT_THAT(refused.words, HasSubstr("another scheduler of its store; use its transaction"));
  EXPECT_FALSE(store.find("note", "b").has_value());
  EXPECT_TRUE(elsewhere.find("note", "c").has_value());
  other.schedule(note("b", 1s));  // not in a transaction any more
}

// Its commits fail when it is told to.
class failing_store final : public test::forwarding_store {
 public:
  failing_store(store& real, std::function<bool()> fails) : forwarding_store(real), fails_(std::move(fails)) {}
  void transact(const std::function<void(store_transaction&)>& work) override {
    forwarding_store::transact([&](store_transaction& open) {
      work(open);
      if (fails_()) {
        throw std::runtime_error("the transaction was rolled back");
      }
    });
  }

 private:
  std::function<bool()> fails_;
};

TEST_F(Scheduler, AHandlerThatBreaksItsTransactionStopsNobodyElseAndEndsAmongTheDead) {
  failing_store breaks(store, [this] { return store.find("effect", "poison").has_value(); });
  scheduler all{breaks, timer, options};
  all.on("parent",
         [](transaction& open, const job& what) { open.schedule({.kind = "effect", .key = what.key(), .due = 24h}); },
         {.max_attempts = 3});
  schedule_each(all, "parent", {"a", "poison", "c"});
  all.start();
  timer.advance_by(1min);
  EXPECT_TRUE(store.find("effect", "a").has_value());
  EXPECT_TRUE(store.find("effect", "c").has_value());
  ASSERT_EQ(all.list_dead(10).size(), 1U);
  EXPECT_EQ(all.list_dead(10).front().key, "poison");
  EXPECT_THAT(all.list_dead(10).front().error, HasSubstr("rolled back"));
  EXPECT_EQ(std::count(failed.begin(), failed.end(), "dead"), 1);
}

TEST_F(Scheduler, ACommitThatIsLostIsNoAttemptOfTheHandler) {
  int losses = 2;  // at the end of a transaction that has done something of the handler's
  failing_store loses(store, [&] { return store.find("effect", "a") && losses-- > 0; });
  scheduler all{loses, timer, options};
  std::vector<int> attempts;
  all.on("parent",
         [&](transaction& open, const job& what) {
           attempts.push_back(what.attempt());
           open.schedule({.kind = "effect", .key = what.key(), .due = 24h});
         },
         {.max_attempts = 1});
  all.schedule({.kind = "parent", .key = "a", .due = 1s});
  all.start();
  timer.advance_by(10s);
  EXPECT_THAT(attempts, ElementsAre(1, 1, 1));
  EXPECT_TRUE(store.find("effect", "a").has_value());
  EXPECT_TRUE(all.list_dead(10).empty());
}

TEST_F(Scheduler, WhoIsToldOfAFailureMayUseTheScheduler) {
  std::optional<bool> found;
  scheduler told{
      store, timer, {.on_failure = [&](const failure& what) { found = told.find(what.kind, what.key).has_value(); }}};
  told.on("parent", [](transaction& /*open*/, const job& /*what*/) { throw std::runtime_error("bad"); });
  told.start();
  told.schedule({.kind = "parent", .key = "a", .due = 1s});
  timer.advance_by(1s);
  EXPECT_EQ(found, true);
}

TEST_F(Scheduler, ACompletionThatThrowsIsReported) {
  checks.schedule(note("a", 1s), [](std::error_code, scheduled) { throw std::runtime_error("bad"); });
  timer.advance_by(0s);
  EXPECT_THAT(failed, ElementsAre("completion"));
}

TEST_F(Scheduler, ATransactionalHandlerIsRefusedEveryCallOfItsScheduler) {
  int refused = 0;
  const auto expect_refusal = [&](const auto& call) {
    refused += test::error_of(call).code == std::errc::resource_deadlock_would_occur ? 1 : 0;
  };
  checks.on("parent", [&](transaction& /*open*/, const job& what) {
    expect_refusal([&] { checks.cancel("parent", what.key()); });
    expect_refusal([&] { checks.schedule(note("a", 1s)); });
    expect_refusal([&] { checks.schedule(note("a", 1s), [](std::error_code, scheduled) {}); });
    expect_refusal([&] { checks.reschedule("parent", what.key(), 1s); });
    expect_refusal([&] { static_cast<void>(checks.find("parent", what.key())); });
    expect_refusal([&] { static_cast<void>(checks.list_dead(1)); });
    expect_refusal([&] { checks.revive_dead(1); });
    expect_refusal([&] { checks.delete_dead(1); });
  });
  run_one("parent", 2s);
  EXPECT_EQ(refused, 8);
}

TEST_F(Scheduler, CountsWhatBecameOfTheChecksOfEachKind) {
  on_notes();
  const auto handler = [](transaction& /*open*/, const job& what) {
    return what.key() == "bad" ? dead("no") : what.attempt() == 1 ? retry_after(2s) : done;
  };
  checks.on("parent", handler);
  EXPECT_TRUE(checks.stats().kinds.empty());
  checks.start();
  checks.schedule(note("a", 1s));
  checks.schedule(note("b", 1s));
  schedule_each(checks, "parent", {"good", "also good", "bad"});
  timer.advance_by(1min);
  const scheduler_stats all = checks.stats();
  ASSERT_EQ(all.kinds.size(), 2U);
  const kind_stats& notes = all.kinds[0];
  EXPECT_EQ(notes.kind, "note");
  EXPECT_EQ(notes.fired, 2U);
  EXPECT_EQ(notes.done, 2U);
  EXPECT_EQ(notes.retried + notes.given_back + notes.dead + notes.lost_leases, 0U);
  EXPECT_EQ(notes.lateness.count(), 2U);
  const kind_stats& parents = all.kinds[1];
  EXPECT_EQ(parents.kind, "parent");
  EXPECT_EQ(parents.fired, 5U);
  EXPECT_EQ(parents.done, 2U);
  EXPECT_EQ(parents.retried, 2U);
  EXPECT_EQ(parents.dead, 1U);
  EXPECT_EQ(parents.lateness.count(), 5U);
  EXPECT_EQ(all.fired, 7U);
  EXPECT_EQ(all.done, 4U);
  EXPECT_EQ(all.retried, 2U);
  EXPECT_EQ(all.dead, 1U);
  EXPECT_EQ(all.lateness.count(), 7U);
}

TEST_F(Scheduler, TellsWhatWaitsAndForHowLongByKind) {
  std::vector<task> held;
  scheduler slow{store, timer, {.executor = [&](task&& work) { held.push_back(std::move(work)); }}};
  slow.on("slow", [](const job& /*what*/) {}, {.max_running = 1});
  slow.on("other", [](const job& /*what*/) {});
  slow.start();
  schedule_each(slow, "slow", {"a", "b", "c"});
  slow.schedule({.kind = "other", .key = "a", .due = 2s});
  timer.advance_by(1050ms);
  const scheduler_stats soon = slow.stats();
  ASSERT_EQ(soon.kinds.size(), 2U);
  EXPECT_EQ(soon.kinds[0].claimed, 1U);
  EXPECT_EQ(soon.kinds[0].running, 0U);
  EXPECT_EQ(soon.kinds[0].ready, 2U);
  EXPECT_EQ(soon.claimed, 1U);
  timer.advance_by(1950ms);  // what does not begin goes back, and no other takes its place
  const scheduler_stats all = slow.stats();
  EXPECT_EQ(all.kinds[0].claimed, 0U);
  EXPECT_EQ(all.kinds[0].ready, 3U);
  EXPECT_GE(all.kinds[0].lag, 1900ms);
  EXPECT_LE(all.kinds[0].lag, 2s);
  EXPECT_EQ(all.kinds[1].ready, 1U);
  EXPECT_GE(all.kinds[1].lag, 900ms);
  EXPECT_EQ(all.ready, 4U);
  EXPECT_EQ(all.lag, all.kinds[0].lag);
  EXPECT_EQ(all.kinds[0].given_back, 1U);
  EXPECT_EQ(all.given_back, 1U);
  std::exchange(held, {}).clear();  // the thread that was on its way is there
  timer.advance_by(10ms);
  EXPECT_EQ(slow.stats().claimed, 1U);
  held.clear();
}

class away_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  [[nodiscard]] instant now() override {
    if (away) {
      throw timer_error(std::make_error_code(std::errc::connection_refused), "away");
    }
    return forwarding_store::now();
  }
  bool away = true;
};

TEST_F(Scheduler, StartsWhileItsStoreIsAwayIfThatIsAllowedAndBeginsWhenItAnswers) {
  away_store far(store);
  options.wait_for_store = true;
  scheduler mine(far, timer, options);
  int runs = 0;
  mine.on("note", [&](const job& /*what*/) { ++runs; });
  store.transact([](store_transaction& open) { open.schedule(note("a", 0s)); });
  mine.start();
  EXPECT_THROW(mine.start(), timer_error);
  EXPECT_THROW(mine.on("other", [](const job& /*what*/) {}), timer_error);
  timer.advance_by(3s);
  EXPECT_GE(failed.size(), 4U);
  EXPECT_THAT(failed, Each("store"));
  EXPECT_FALSE(mine.stats().serving);
  far.away = false;
  timer.advance_by(2s);
  EXPECT_TRUE(mine.stats().serving);
  EXPECT_EQ(runs, 1);
  mine.stop();
  EXPECT_FALSE(mine.stats().serving);
}

TEST_F(Scheduler, AStopWhileItsStoreIsAwayReturnsAndNothingBegins) {
  away_store far(store);
  options.wait_for_store = true;
  scheduler mine(far, timer, options);
  mine.start();
  timer.advance_by(1s);
  mine.stop();
  far.away = false;
  timer.advance_by(10s);
  EXPECT_FALSE(mine.stats().serving);
  far.away = true;
  options.wait_for_store = false;
  scheduler other(far, timer, options);
  EXPECT_THROW(other.start(), timer_error);
}

TEST_F(Scheduler, ASnoozeIsNoAttempt) {
  std::vector<int> attempts;
  const auto ask_later = [&](const job& what) {
    attempts.push_back(what.attempt());
    return attempts.size() < 30 ? snooze(10s) : done;
  };
  scheduler mine(store, timer);
  mine.on("leased", ask_later, {.max_attempts = 2});
  mine.on("transactional", [&](transaction& /*open*/, const job& what) { return ask_later(what); },
          {.max_attempts = 2});
  mine.start();
  for (const char* kind : {"leased", "transactional"}) {
    attempts.clear();
    mine.schedule({.kind = kind, .key = "a", .due = 0s});
    timer.advance_by(289s);
    EXPECT_EQ(attempts.size(), 29U) << kind;
    timer.advance_by(2s);
    EXPECT_EQ(attempts, std::vector<int>(30, 1)) << kind;
    EXPECT_EQ(store.size(), 0U);
  }
  EXPECT_EQ(mine.stats().snoozed, 58U);
  EXPECT_EQ(mine.stats().retried, 0U);
  EXPECT_EQ(mine.stats().dead, 0U);
}

TEST_F(Scheduler, ALeasedHandlerMovesTheCheckThatItRuns) {
  std::vector<int> runs;
  std::vector<std::string> answers;
  scheduler mine(store, timer);
  mine.on("leased", [&](const job& what) {
    runs.push_back(what.attempt());
    answers.emplace_back(to_string(mine.reschedule("leased", what.key(), runs.size() == 1 ? 1h : 2h)));
    answers.emplace_back(to_string(mine.reschedule("leased", "other", 0s)));
    return runs.size() < 3 ? done : dead("enough");
  });
  mine.start();
  mine.schedule({.kind = "leased", .key = "a", .due = 0s});
  timer.advance_by(1s);
  EXPECT_FALSE(mine.find("leased", "a")->running);
  timer.advance_by(1h);
  EXPECT_EQ(runs.size(), 2U);
  timer.advance_by(2h);
  EXPECT_EQ(runs, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(mine.stats().dead, 1U) << "another outcome counts";
  EXPECT_THAT(answers, testing::ElementsAre("moved", "finished", "moved", "finished", "moved", "finished"));
}

TEST_F(Scheduler, WhatIsClaimedAndHasNotBegunIsLateToo) {
  std::vector<task> held;
  scheduler slow{store, timer, {.executor = [&](task&& work) { held.push_back(std::move(work)); }}};
  slow.on("slow", [](const job& /*what*/) {});
  slow.start();
  slow.schedule({.kind = "slow", .key = "a", .due = 1s});
  timer.advance_by(1010ms);
  timer.advance_by(70ms);
  slow.schedule({.kind = "slow", .key = "b", .due = 1h});  // so that there is a step
  timer.advance_by(1ms);
  EXPECT_EQ(slow.stats().claimed, 1U);
  EXPECT_EQ(slow.stats().ready, 0U);
  EXPECT_GE(slow.stats().lag, 50ms);
  held.clear();
}

TEST_F(Scheduler, CountsALostLeaseForItsKind) {
  on_notes();
  checks.on("stolen", [this](const job& what) {
    store.transact([&](store_transaction& open) {
      ticket gone{what.fence(), what.fence()};  // the first claims are those of the first rows
      open.complete({&gone, 1});
      EXPECT_TRUE(gone.still_ours);
    });
  });
  checks.start();
  checks.schedule(note("a", 1s));
  checks.schedule({.kind = "stolen", .key = "a", .due = 1s});
  timer.advance_by(2s);
  const scheduler_stats all = checks.stats();
  EXPECT_EQ(all.kinds.at(0).lost_leases, 0U);
  EXPECT_EQ(all.kinds.at(0).done, 1U);
  EXPECT_EQ(all.kinds.at(1).lost_leases, 1U);
  EXPECT_EQ(all.kinds.at(1).done, 0U);
  EXPECT_EQ(all.lost_leases, 1U);
}

// A store whose clock is not that of this machine.
class differing_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  [[nodiscard]] std::chrono::microseconds clock_difference() override { return difference; }
  std::chrono::microseconds difference = 9s;
};

TEST_F(Scheduler, TellsOnceThatTheClockOfItsStoreIsAnother) {
  differing_store other(store);
  std::vector<std::string> told;
  scheduler watched{other, timer, {.on_failure = [&](const failure& what) {
                      const auto again = [&] { std::rethrow_exception(what.error); };
                      told.push_back(std::string(what.what) + ": " + test::error_of<std::exception>(again).words);
                    }}};
  watched.on("note", [](const job& /*what*/) {});
  watched.start();
  timer.advance_by(1min);
  EXPECT_THAT(told, testing::IsEmpty()) << "clocks differ a little";
  EXPECT_EQ(watched.stats().clock_difference, 9s);
  other.difference = -1h;
  timer.advance_by(5min);
  EXPECT_EQ(watched.stats().clock_difference, -1h);
  EXPECT_THAT(told, ElementsAre("clock: the clock of the store is 3600 s ahead of the wall clock here"));
  other.difference = 0s;
  timer.advance_by(1min);
  other.difference = 1h;
  timer.advance_by(1min);
  EXPECT_THAT(told, testing::SizeIs(2));
}

TEST_F(Scheduler, ClaimsNothingOfAPausedKindUntilItIsResumed) {
  on_notes();
  checks.on("other", [this](transaction& /*open*/, const job& what) { ran.emplace_back(what.key(), clock()); });
  checks.start();
  checks.schedule(note("a", 1s));
  checks.schedule({.kind = "other", .key = "b", .due = 2s});
  timer.advance_by(500ms);
  store.pause("note");
  timer.advance_by(options.poll);
  EXPECT_TRUE(checks.stats().kinds.at(0).paused);
  EXPECT_FALSE(checks.stats().kinds.at(1).paused);
  checks.schedule(note("c", 10ms));
  timer.advance_by(1min);
  EXPECT_THAT(keys(), ElementsAre("b"));
  EXPECT_GE(checks.stats().lag, 58s) << "it is late all the same";
  store.pause("other");
  checks.schedule({.kind = "other", .key = "d", .due = 1s});
  timer.advance_by(1min);
  store.resume("note");
  timer.advance_by(options.poll);
  EXPECT_THAT(keys(), ElementsAre("b", "c", "a"));
  store.resume("other");
  timer.advance_by(options.poll);
  EXPECT_THAT(keys(), ElementsAre("b", "c", "a", "d"));
  EXPECT_FALSE(checks.stats().kinds.at(0).paused);
}

TEST_F(Scheduler, APausedKindStaysPausedForANewScheduler) {
  store.pause("note");
  on_notes();
  checks.schedule(note("a", 0s));
  checks.start();
  checks.schedule(note("b", 0s));  // the node is told of it before it has read anything
  timer.advance_by(1min);
  EXPECT_THAT(keys(), testing::IsEmpty());
}

TEST_F(Scheduler, ARunGoesOnWhenItsKindIsPausedButIsNotRepeated) {
  checks.on("note", [this](const job& what) {
    ran.emplace_back(what.key(), clock());
    store.pause("note");
    return retry("later");
  });
  run_one("note", 1h);
  EXPECT_THAT(keys(), ElementsAre("a"));
  EXPECT_EQ(checks.stats().retried, 1U);
  store.resume("note");
  timer.advance_by(1s);
  EXPECT_THAT(keys(), ElementsAre("a", "a"));
}

// A store that refuses to say what is late.
class silent_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  void read_overdue(std::vector<overdue_kind>& found) override {
    if (refuses) {
      throw std::runtime_error("not now");
    }
    forwarding_store::read_overdue(found);
  }
  bool refuses = true;
};

TEST_F(Scheduler, WhatIsLateIsAFigureOnlyAndHoldsNothingUp) {
  silent_store silent(store);
  scheduler watched{silent, timer, options};
  watched.on("note", [this](const job& what) { ran.emplace_back(what.key(), clock()); });
  watched.start();
  watched.schedule(note("a", 100ms));
  watched.schedule({.kind = "other", .key = "a", .due = 1s});
  watched.schedule(note("b", 30005ms));  // at the time of the look
  timer.advance_by(30500ms);
  EXPECT_THAT(failed, ElementsAre("store"));
  EXPECT_THAT(keys(), ElementsAre("a", "b"));
  EXPECT_LE(ran[1].second, 30007ms) << "on time";
  silent.refuses = false;
  timer.advance_by(40s);
  EXPECT_EQ(watched.stats().store_lag.size(), 1U);
  EXPECT_GE(watched.stats().lag, 29s);
  watched.stop();
  EXPECT_EQ(watched.stats().store_lag.size(), 0U) << "nobody looks any more";
  EXPECT_EQ(watched.stats().lag, 0s);
}

TEST_F(Scheduler, AnIdleOneDoesAtMostFiveStatementsASecondAndWritesNothing) {
  on_notes();
  checks.start();
  checks.schedule(note("far", 24h));
  timer.advance_by(1s);
  const store_counts before = store.counts();
  timer.advance_by(1min);
  const store_counts after = store.counts();
  EXPECT_LE(after.statements - before.statements, 300U);
  EXPECT_EQ(after.commits, before.commits);
}

// Notes who asked for shares.
class divided_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;

  std::vector<std::string> turns;

  [[nodiscard]] std::optional<std::vector<std::int16_t>> renew_shares(std::string_view node,
                                                                      std::span<const std::string> kinds,
                                                                      std::chrono::milliseconds /*hold*/,
                                                                      bool leave) override {
    std::string turn(node);
    std::for_each(kinds.begin(), kinds.end(), [&](const std::string& each) { turn.append(" ").append(each); });
    turns.push_back(turn + (leave ? " leaves" : ""));
    return std::vector<std::int16_t>{1, 2};
  }
};

TEST_F(Scheduler, SaysWhichKindsItServesWheneverItAsksForShares) {
  divided_store divided(store);
  options.node = "me";
  scheduler all{divided, timer, options};
  all.on("b", [](const job& /*what*/) {});
  all.on("a", [](transaction& /*open*/, const job& /*what*/) {});
  all.start();
  timer.advance_by(1s);
  EXPECT_EQ(all.stats().shares, 2U);
  all.stop();
  EXPECT_THAT(divided.turns, ElementsAre("me b a", "me b a", "me b a leaves"));
}

TEST_F(Scheduler, AStoppedOneRefusesAndRunsNothing) {
  on_notes();
  checks.start();
  checks.schedule(note("a", 1s));
  checks.stop();
  checks.stop();
  timer.advance_by(1min);
  EXPECT_TRUE(ran.empty());
  std::error_code error;
  checks.schedule(note("b", 1s), error);
  EXPECT_EQ(error, timer_errc::stopped);
  EXPECT_TRUE(checks.find("note", "a").has_value());
}

TEST_F(Scheduler, RefusesOptionsOutOfTheirRange) {
  EXPECT_THROW(scheduler(store, timer, {.lease = 9ms}), timer_error);
  EXPECT_THROW(scheduler(store, timer, {.batch = 0}), timer_error);
  EXPECT_THROW(scheduler(store, timer, {.batch = 1001}), timer_error);
  EXPECT_THROW(on_notes({.max_running = 0}), timer_error);
  EXPECT_THROW(on_notes({.max_attempts = 0}), timer_error);
  EXPECT_THROW(checks.on("together", [](transaction& /*open*/, const job& /*what*/) {}, {.time_limit = 1s}),
               timer_error);
  EXPECT_THROW(on_notes({.backoff = {.factor = std::nan("")}}), timer_error);
  EXPECT_THROW(on_notes({.backoff = {.jitter = 1.5}}), timer_error);
  EXPECT_THROW(scheduler(store, timer, {.node = "\xff"}), timer_error);
}

// ---- What is seen by others

TEST_F(Scheduler, WritesItsFiguresForPrometheus) {
  on_notes();
  checks.on("fails", [](const job&) { return dead("no"); });
  checks.start();
  checks.schedule(note("a", 10ms));
  checks.schedule(note("a", 10ms));
  checks.schedule({.kind = "fails", .key = "b", .due = 10ms});
  checks.schedule(note("c", 1h));
  checks.cancel("note", "c");
  timer.advance_by(1s);
  std::ostringstream out;
  write_prometheus(out, checks.stats(), {{"node", "one"}});
  auto samples = timing_wheel::test::samples_of(out.str());
  const auto value = [&](const std::string& name, const std::string& labels) {
    return samples["timing_wheel_durable_" + name + "{node=\"one\"" + labels + "}"];
  };
  EXPECT_EQ(value("scheduled_total", ""), "3");
  EXPECT_EQ(value("duplicates_total", ""), "1");
  EXPECT_EQ(value("cancelled_total", ""), "1");
  EXPECT_EQ(value("early_total", ""), "0");
  EXPECT_EQ(value("store_failures_total", ""), "0");
  EXPECT_EQ(value("store_statements_total", ""), std::to_string(checks.stats().store.statements));
  EXPECT_EQ(value("fired_total", ",kind=\"note\""), "1");
  EXPECT_EQ(value("done_total", ",kind=\"note\""), "1");
  EXPECT_EQ(value("done_total", ",kind=\"fails\""), "0");
  EXPECT_EQ(value("dead_total", ",kind=\"fails\""), "1");
  EXPECT_EQ(value("lag_seconds", ",kind=\"note\""), "0");
  EXPECT_EQ(value("lateness_seconds_bucket", ",kind=\"note\",le=\"+Inf\""), "1");
  if (timing_wheel::test::has_promtool()) {
    EXPECT_EQ(timing_wheel::test::promtool_says(out.str()), "");
  }
  EXPECT_THROW(write_prometheus(out, checks.stats(), {{"kind", "x"}}), timer_error);
}

// ---- What fails

TEST_F(Scheduler, ARefusedHandlerLeavesNoPlaceForAnother) {
  bool taken = false;
  for (std::uint64_t left = 0; !taken; ++left) {
    scheduler all{store, timer, options};
    std::vector<std::string> ran_by;
    const auto by = [&](const std::string& whom) { return [&, whom](const job&) { ran_by.push_back(whom); }; };
    taken = timing_wheel::test::succeeds_with(left, [&] { all.on("first", by("first")); });
    all.on("second", by("second"));
    if (!taken) {
      all.on("first", by("first"));
    }
    all.start();
    all.schedule({.kind = "first", .key = "a", .due = 1s});
    all.schedule({.kind = "second", .key = "a", .due = 2s});
    timer.advance_by(3s);
    ASSERT_THAT(ran_by, ElementsAre("first", "second")) << "with " << left << " allocations";
  }
}

TEST_F(Scheduler, TellsWhichRunFailedWhenItRunsAgainAndThatItsCheckDied) {
  std::vector<std::string> told;
  scheduler all{store, timer, {.on_failure = [&](const failure& of) {
                  std::string line = std::string(of.what) + " " + std::string(of.key) + std::to_string(of.attempt);
                  line += of.again ? " " + std::to_string(of.again->count()) : "";
                  const auto again = [&] { std::rethrow_exception(of.error); };
                  told.push_back(line + " " + test::error_of<std::runtime_error>(again).words);
                }}};
  const handler_options twice{.max_attempts = 2, .backoff = {.first = 4ms, .jitter = 0.5}};
  const auto throws = [] { throw std::runtime_error("no"); };
  all.on(
      "leased", [&](const job&) { throws(); }, twice);
  all.on(
      "transactional", [&](transaction&, const job&) { throws(); }, twice);
  all.on(
      "batch", [&](transaction&, std::span<const job>) { throws(); }, twice);
  all.on("says so", [](const job&) { return dead("gone"); });
  all.start();
  for (const char* kind : {"leased", "transactional", "batch"}) {
    all.schedule({.kind = kind, .key = "a", .payload = "x", .due = 1s});
    timer.advance_by(2s);
    EXPECT_THAT(std::exchange(told, {}), ElementsAre("handler a1 4000 no", "handler a2 no", "dead a2 no")) << kind;
    const dead_check dead = all.list_dead(9).back();
    EXPECT_EQ(dead.error, "no");
    EXPECT_EQ(dead.attempt, 2);
    EXPECT_EQ(dead.payload, "x");
  }
  EXPECT_EQ(store.size(), 0U);
  all.schedule({.kind = "says so", .key = "b", .due = 1s});
  timer.advance_by(2s);
  EXPECT_THAT(told, ElementsAre("dead b1 gone"));
}

TEST(SchedulerOnAFullTimer, LooksAgainAfterAPoll) {
  manual_timer timer({.max_pending = 3});
  memory_store store(timer);
  std::vector<std::string> failed;
  scheduler checks{store, timer, {.on_failure = [&](const failure& of) { failed.emplace_back(of.what); }}};
  std::map<std::string, std::chrono::nanoseconds> ran;
  std::vector<timer_handle> others;
  checks.on("note", [&](const job& what) {
    ran[what.key()] = timer.now().time_since_epoch();
    for (std::error_code full; what.key() == "a" && !full;) {
      others.push_back(timer.schedule_after(
          1h, [] {}, {}, full));
    }
  });
  checks.start();
  for (const auto& [key, due] : {std::pair("a", 1s), std::pair("b", 3s)}) {
    checks.schedule({.kind = "note", .key = key, .due = due});
  }
  timer.advance_by(2s);
  EXPECT_THAT(failed, Each("timer"));
  EXPECT_FALSE(failed.empty());
  timer.advance_by(2s);
  EXPECT_LE(ran.at("b"), 3s + 250ms) << "though there is still no room";
  others.front().cancel();
  timer.advance_by(250ms);
  checks.schedule({.kind = "note", .key = "c", .due = 1s + 7ms});
  const auto due = timer.now().time_since_epoch() + 1s + 7ms;
  timer.advance_by(2s);
  EXPECT_EQ(ran.at("c"), due);
  checks.stop();
  EXPECT_EQ(timer.pending(), others.size() - 2) << "the last was refused, and the first cancelled";
}

TEST_F(Scheduler, ARunThatWasUndoneWithItsTransactionEndsNoCheck) {
  int failures = 0;
  failing_store fails(store, [&] { return failures-- > 0; });
  scheduler all{fails, timer, options};
  int runs = 0;
  const auto handler = [&](transaction&, const job&) {
    failures = runs++ == 0 ? 1 : 0;
    throw std::runtime_error("no");
  };
  all.on("parent", handler, {.max_attempts = 1});
  all.start();
  all.schedule({.kind = "parent", .key = "a", .due = 1s});
  timer.advance_by(10s);
  EXPECT_THAT(failed, ElementsAre("store", "handler", "handler", "dead"));
}

TEST_F(Scheduler, AStoreThatFailsShortlyBeforeAStopIsTriedAgainThoughTimeStandsStill) {
  int failures = 0;
  failing_store fails(store, [&] { return failures-- > 0; });
  scheduler all{fails, timer, options};
  all.on("note", [&](const job&) { failures = 3; });
  all.start();
  all.schedule(note("a", 1s));
  timer.advance_by(1s);
  ASSERT_EQ(store.size(), 1U) << "its end is not written";
  all.stop();
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(all.stats().done, 1U);
}

using SchedulerDeathTest = Scheduler;  // NOLINT(readability-identifier-naming): a suite

TEST_F(SchedulerDeathTest, AHandlerThatEndsItsThreadSaysSoAndAborts) {
#if defined(_LIBCPP_VERSION) && defined(__linux__)
  GTEST_SKIP() << "glibc unwinds by libgcc, and libc++ may by another library: then each program crashes here";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [this](auto handler) {
    checks.on("end", std::move(handler));
    checks.start();
    checks.schedule({.kind = "end", .key = "a", .due = 1ms});
    timer.advance_by(1s);
  };
  EXPECT_EXIT(run([](const job&) { pthread_exit(nullptr); }), testing::KilledBySignal(SIGABRT), "ended its thread");
  EXPECT_EXIT(run([](transaction&, const job&) { pthread_exit(nullptr); }), testing::KilledBySignal(SIGABRT),
              "ended its thread");
}

TEST_F(Scheduler, LeavesNothingOnItsTimerWhenAHandlerHasStoppedIt) {
  checks.on("stop", [this](const job&) { checks.stop(); });
  checks.start();
  checks.schedule({.kind = "stop", .key = "a", .due = 1s});
  checks.schedule({.kind = "stop", .key = "b", .due = 1500ms});
  timer.advance_by(1s);
  timer.advance_by(1ms);
  EXPECT_EQ(timer.pending(), 0U);
}

TEST_F(Scheduler, WritesWhatWasPostedBeforeItStopped) {
  int told = 0;
  on_notes();
  checks.start();
  checks.schedule(note("a", 1h), [&](const std::error_code& error, const scheduled&) { told += error ? 0 : 1; });
  checks.stop();
  EXPECT_EQ(told, 1);
  EXPECT_EQ(store.size(), 1U);
}

}  // namespace
}  // namespace timing_wheel::durable

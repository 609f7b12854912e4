// The scheduler with threads of its own, on the real clock.

#include <csignal>

#include "durable/node/group_commit.hpp"
#include "durable/support/forwarding_store.hpp"
#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;

class SchedulerThreads : public testing::Test {
 public:
  static request check(std::string kind, std::string key, due_time due) {
    return {.kind = std::move(kind), .key = std::move(key), .payload = {}, .due = due};
  }
  void wait_until_empty() {
    EXPECT_TRUE(test::wait_until([&] { return store.size() == 0; }));
  }

  timer clock;
  memory_store store{clock};
};

// A store whose commits take a while, and whose answers may be lost.
class slow_store final : public test::forwarding_store {
 public:
  using forwarding_store::forwarding_store;

  std::function<void()> begins;  // if set: a transaction begins when this has returned
  std::function<void()> locked;  // if set: another holds the lock, and a transaction fails when this has returned
  std::atomic<int> refusals = 0;
  std::atomic<bool> loses_answers = false;

  void transact(const std::function<void(store_transaction&)>& work) override {
    if (locked) {
      ++refusals;
      locked();
      throw std::runtime_error("locked");
    }
    if (begins) {
      begins();
    }
    forwarding_store::transact(work);
    std::this_thread::sleep_for(1ms);
    if (loses_answers) {
      throw std::runtime_error("the answer is lost");
    }
  }
};

TEST_F(SchedulerThreads, EachOfManyChecksFromManyThreadsRunsOnceAndNotEarly) {
  constexpr int threads = 4;
  constexpr int each = 250;
  std::mutex mutex;
  std::multiset<std::string> ran;
  scheduler checks(store);
  checks.on("leased", [&](const job& what) {
    const std::scoped_lock lock(mutex);
    ran.insert(what.key());
  });
  checks.on("transactional", [&](transaction& /*open*/, const job& what) {
    const std::scoped_lock lock(mutex);
    ran.insert(what.key());
  });
  checks.start();
  test::on_threads(threads, [&](int t) {
    for (int i = 0; i < each; ++i) {
      const std::string key = std::to_string(t) + "/" + std::to_string(i);
      checks.schedule(check(i % 2 == 0 ? "leased" : "transactional", key, std::chrono::milliseconds(i % 50)));
    }
  });
  wait_until_empty();
  checks.stop();
  EXPECT_EQ(ran.size(), static_cast<std::size_t>(threads * each));
  EXPECT_EQ(std::set(ran.begin(), ran.end()).size(), ran.size());
  EXPECT_EQ(checks.stats().early, 0U);
  EXPECT_EQ(checks.stats().done, ran.size());
}

TEST_F(SchedulerThreads, BlockAllSignalsButThoseOfAFaultAndBearNames) {
  std::mutex mutex;
  std::map<std::string, sigset_t> blocked;  // by the name of the thread
  const auto look = [&] {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    const std::scoped_lock lock(mutex);
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked[name.data()]);
  };
  slow_store looked(store);
  looked.begins = look;
  scheduler checks(looked, {.threads = 1});
  checks.on("looks", [&](const job& /*what*/) { look(); });
  checks.start();
  checks.schedule(check("looks", "1", 0s));
  wait_until_empty();
  checks.stop();
  for (const char* const name : {"durable_checks", "durable_run1"}) {
    ASSERT_TRUE(blocked.contains(name)) << name;
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGPIPE, SIGALRM, SIGRTMAX}) {
      EXPECT_EQ(sigismember(&blocked[name], signal), 1) << name << ": " << signal;
    }
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
      EXPECT_EQ(sigismember(&blocked[name], fault), 0) << name << ": " << fault;
    }
  }
}

TEST_F(SchedulerThreads, ACancelThatSaysCancelledIsNeverFollowedByARun) {
  constexpr int rounds = 500;
  std::vector<std::atomic<bool>> ran(rounds);
  scheduler checks(store);
  checks.on("race", [&](const job& what) { ran[std::stoul(what.key())] = true; });
  checks.start();
  std::vector<bool> cancelled(rounds);
  for (int i = 0; i < rounds; ++i) {
    checks.schedule(check("race", std::to_string(i), 1ms));
    std::this_thread::sleep_for(std::chrono::microseconds(700 + i % 7 * 100));
    cancelled[static_cast<std::size_t>(i)] = checks.cancel("race", std::to_string(i)) == cancel_result::cancelled;
  }
  wait_until_empty();
  checks.stop();
  for (std::size_t i = 0; i < rounds; ++i) {
    EXPECT_NE(ran[i].load(), cancelled[i]) << i;
  }
}

TEST_F(SchedulerThreads, StopWaitsForTheRunsAndGivesBackWhatHasNotBegun) {
  scheduler checks(store, {.threads = 1});
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  checks.on("slow", [&](const job& what) {
    ++begun;
    while (!what.stop_token().stop_requested()) {
      std::this_thread::sleep_for(1ms);
    }
    ++ended;
  });
  checks.start();
  for (int i = 0; i < 10; ++i) {
    checks.schedule(check("slow", std::to_string(i), 0s));
  }
  EXPECT_TRUE(test::wait_until([&] { return begun != 0; }));
  checks.stop();
  EXPECT_EQ(begun, 1);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(store.size(), 9U);
  const auto left = store.find("slow", "9");
  ASSERT_TRUE(left.has_value());
  EXPECT_FALSE(left->running);
  EXPECT_EQ(left->attempt, 0);
  EXPECT_LE(checks.stats().given_back, 9U);
  EXPECT_EQ(checks.stats().retried, 0U);
}

TEST_F(SchedulerThreads, AJobThatHasLostItsRowIsAskedToStop) {
  std::atomic<bool> asked = false;
  std::mutex mutex;
  std::vector<std::string> failed;
  scheduler checks(store, {.lease = 1s, .on_failure = [&](const failure& what) {
                             const std::scoped_lock lock(mutex);
                             failed.emplace_back(what.what);
                           }});
  checks.on("long", [&](const job& what) {
    const std::int64_t id = store.find("long", what.key()).value().id;
    store.transact([&](store_transaction& open) {
      ticket gone{id, what.fence()};
      open.complete({&gone, 1});
      EXPECT_TRUE(gone.still_ours);
    });
    while (!what.stop_token().stop_requested()) {
      std::this_thread::sleep_for(1ms);
    }
    asked = true;
  });
  checks.start();
  checks.schedule(check("long", "a", 0s));
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().lost_leases != 0; }));
  EXPECT_TRUE(asked);
  checks.stop();
  EXPECT_THAT(failed, testing::ElementsAre("lease"));
}

TEST_F(SchedulerThreads, AnExecutorThatRefusesGetsTheJobAgain) {
  std::atomic<int> refusals = 3;
  scheduler_options options;
  options.executor = [&](task&& work) {
    if (refusals.fetch_sub(1) > 0) {
      throw std::runtime_error("full");
    }
    std::thread([work = std::move(work)]() mutable { work(); }).detach();
  };
  options.on_failure = [](const failure& /*what*/) {};
  scheduler checks(store, options);
  std::atomic<int> attempts = 0;
  checks.on("a", [&](const job& what) { attempts = what.attempt(); });
  checks.start();
  checks.schedule(check("a", "a", 0s));
  wait_until_empty();
  checks.stop();
  EXPECT_EQ(attempts, 1);
}

TEST_F(SchedulerThreads, AHandlerMayStopItsScheduler) {
  scheduler checks(store);
  std::promise<void> ran;
  checks.on("stop", [&](const job& /*what*/) {
    checks.stop();
    ran.set_value();
  });
  checks.start();
  checks.schedule(check("stop", "a", 0s));
  ran.get_future().wait();
  checks.stop();
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(SchedulerThreads, NoCompletionComesAfterStopHasReturned) {
  for (const bool started : {false, true}) {
    std::atomic<int> taken = 0;
    std::atomic<int> told = 0;
    scheduler checks(store);
    checks.on("far", [](const job& /*what*/) {});
    if (started) {
      checks.start();
    }
    std::vector<std::jthread> callers;
    for (int t = 0; t < 3; ++t) {
      callers.emplace_back([&, t] {
        const std::string mine = (started ? "s" : "n") + std::to_string(t) + "/";
        try {
          for (int i = 0;; ++i) {
            checks.schedule(check("far", mine + std::to_string(i), 1h), [&](std::error_code error, scheduled) {
              EXPECT_FALSE(error);
              std::this_thread::yield();
              ++told;
            });
            for (++taken; taken - told > 100;) {  // as many are on their way
              std::this_thread::yield();
            }
          }
        } catch (const timer_error& error) {
          EXPECT_EQ(error.code(), timer_errc::stopped);
        }
      });
    }
    EXPECT_TRUE(test::wait_until([&] { return told >= 100; }));
    checks.stop();
    const int at_the_end = told;
    callers.clear();
    EXPECT_EQ(told, at_the_end);
    EXPECT_EQ(told, taken);
  }
}

TEST_F(SchedulerThreads, ACompletionMayStopItsScheduler) {
  scheduler checks(store);
  std::promise<void> stopped;
  checks.schedule(check("far", "a", 1h), [&](std::error_code, scheduled) {
    checks.stop();
    stopped.set_value();
  });
  checks.cancel("far", "b");  // on whichever thread it is
  stopped.get_future().wait();
  EXPECT_THROW(checks.schedule(check("far", "c", 1h)), timer_error);
}

// ---- runs without an end

// What was given up has a lease that has ended, and such leases are left alone for half a lease after a start.
class HungHandlers : public SchedulerThreads {
 public:
  // A kind whose first run returns when `hangs` is false; the others return at once.
  void serve(scheduler& checks, const handler_options& limits) {
    checks.on(
        "hang",
        [this](const job& what) {
          if (what.attempt() > 1) {
            second_fence = what.fence();
            return;
          }
          first_fence = what.fence();
          while (hangs) {
            asked_to_stop = asked_to_stop || what.stop_token().stop_requested();
            std::this_thread::sleep_for(1ms);
          }
        },
        limits);
    checks.on("long", [](const job& what) {
      while (!what.stop_token().stop_requested()) {
        std::this_thread::sleep_for(1ms);
      }
    });
    checks.start();
  }
  void hang(scheduler& checks) {
    checks.schedule(check("hang", "a", 0s));
    EXPECT_TRUE(test::wait_until([&] { return first_fence != 0; }));
  }

  std::atomic<bool> hangs = true;
  std::atomic<bool> asked_to_stop = false;
  std::atomic<std::int64_t> first_fence = 0;
  std::atomic<std::int64_t> second_fence = 0;
};

TEST_F(HungHandlers, ARunPastItsTimeLimitIsAskedToStopAndThenGivenUp) {
  std::atomic<int> told = 0;
  scheduler checks(
      store, {.lease = 2min, .on_failure = [&](const failure& what) { told += what.what == "time_limit" ? 1 : 100; }});
  serve(checks, {.time_limit = 100ms, .backoff = {.first = 1ms}});
  checks.schedule(check("long", "a", 0s));  // so a lease is held that is to be extended in 40 s, and not before
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().running == 1; }));
  std::this_thread::sleep_for(20ms);
  const auto begin = std::chrono::steady_clock::now();
  hang(checks);
  EXPECT_TRUE(test::wait_until([&] { return asked_to_stop.load(); }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 100ms);
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().timed_out == 1; }));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 150ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().retried == 1; }));
  EXPECT_EQ(checks.stats().lost_threads, 1U);
  EXPECT_EQ(checks.stats().running, 1U);
  checks.stop();  // which waits for the other one, and not for this
  EXPECT_TRUE(hangs);
  EXPECT_EQ(store.size(), 1U);
  hangs = false;
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().lost_threads == 0; }));
  EXPECT_EQ(checks.stats().done, 1U) << "what it says so late counts for nothing";
  EXPECT_EQ(told, 1);
}

TEST_F(HungHandlers, WhatWasGivenUpRunsAgainWithAHigherFence) {
  scheduler checks(store, {.lease = 1s, .on_failure = [](const failure& /*what*/) {}});
  serve(checks, {.time_limit = 20ms, .backoff = {.first = 1ms}});
  hang(checks);
  wait_until_empty();
  EXPECT_GT(second_fence, first_fence);
  hangs = false;  // the destructor waits for it
}

// Its handler may go on, and do what it is to do.
TEST_F(HungHandlers, WhatWasGivenUpIsNotCancelled) {
  scheduler checks(store, {.on_failure = [](const failure& /*what*/) {}});
  serve(checks, {.time_limit = 20ms, .backoff = {.first = 1min}});
  hang(checks);
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().retried == 1; }));
  EXPECT_EQ(checks.cancel("hang", "a").result, cancel_result::running);
  EXPECT_EQ(store.size(), 1U);
  hangs = false;
}

TEST_F(HungHandlers, WithoutAThreadThatIsLeftNothingIsClaimedUntilOneComesBack) {
  std::atomic<int> ran = 0;
  scheduler checks(store, {.threads = 1, .on_failure = [](const failure& /*what*/) {}});
  checks.on("work", [&](const job& /*what*/) { ++ran; });
  serve(checks, {.time_limit = 20ms, .backoff = {.first = 1min}});
  hang(checks);
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().lost_threads == 1; }));
  checks.schedule(check("work", "a", 0s));
  scheduler_stats seen;
  EXPECT_TRUE(test::wait_until([&] {
    seen = checks.stats();
    return seen.claimed + seen.given_back != 0 || seen.lag > 300ms;
  }));
  EXPECT_EQ(seen.claimed + seen.given_back, 0U);
  EXPECT_EQ(ran, 0);
  hangs = false;
  EXPECT_TRUE(test::wait_until([&] { return ran == 1; }));
}

TEST_F(HungHandlers, AStopWithALimitTellsWhatStillRuns) {
  for (const bool on_a_timer : {false, true}) {
    hangs = true;
    first_fence = 0;
    timer driving;
    const auto made = on_a_timer ? std::make_unique<scheduler>(store, driving) : std::make_unique<scheduler>(store);
    scheduler& checks = *made;
    serve(checks, {});
    hang(checks);
    const auto begin = std::chrono::steady_clock::now();
    const stop_result answer = checks.stop(begin + 50ms);
    EXPECT_FALSE(answer.finished);
    const std::vector<unfinished_run>& left = answer.unfinished;
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 50ms);
    ASSERT_EQ(left.size(), 1U);
    EXPECT_EQ(left[0].kind, "hang");
    EXPECT_EQ(left[0].key, "a");
    EXPECT_EQ(left[0].fence, first_fence);
    EXPECT_GE(left[0].running_for, 50ms);
    EXPECT_TRUE(store.find("hang", "a")->running);
    hangs = false;
    const stop_result at_last = checks.stop(std::chrono::steady_clock::now() + 1min);
    EXPECT_TRUE(at_last.finished);
    EXPECT_TRUE(at_last.unfinished.empty());
    EXPECT_EQ(store.size(), 0U);
  }
}

// What it has posted waits for its transaction.
TEST_F(HungHandlers, AStopWithALimitReturnsThoughATransactionalHandlerHangs) {
  scheduler checks(store);
  std::atomic<bool> begun = false;
  checks.on("hang", [&](transaction& /*open*/, const job& /*what*/) {
    begun = true;
    while (hangs) {
      std::this_thread::sleep_for(1ms);
    }
  });
  checks.start();
  checks.schedule(check("hang", "a", 0s));
  EXPECT_TRUE(test::wait_until([&] { return begun.load(); }));
  std::atomic<bool> told = false;
  checks.schedule(check("far", "b", 1h), [&](std::error_code error, scheduled) { told = !error; });
  EXPECT_FALSE(checks.stop(std::chrono::steady_clock::now() + 50ms).finished);
  hangs = false;
  EXPECT_TRUE(checks.stop(std::chrono::steady_clock::now() + 1min).finished);
  EXPECT_TRUE(told);
}

// Else they would have all threads.
TEST_F(HungHandlers, RunsThatWereGivenUpCountForTheLimitOfTheirKind) {
  std::atomic<int> ran = 0;
  scheduler checks(store, {.lease = 1s, .on_failure = [](const failure& /*what*/) {}});
  checks.on("work", [&](const job& /*what*/) { ++ran; });
  serve(checks, {.max_running = 1, .time_limit = 20ms, .backoff = {.first = 1ms}});
  hang(checks);
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().retried == 1; }));
  EXPECT_TRUE(test::wait_until([&] { return second_fence != 0 || checks.stats().kinds.at(1).ready == 1; }));
  checks.schedule(check("work", "a", 0s));
  EXPECT_TRUE(test::wait_until([&] { return ran == 1; }));
  EXPECT_EQ(checks.stats().kinds.at(1).ready, 1U) << "its one place is taken";
  EXPECT_EQ(second_fence, 0);
  hangs = false;
  wait_until_empty();
}

TEST_F(HungHandlers, ACheckThatDiesOfItsTimeLimitIsTold) {
  std::mutex mutex;
  std::vector<std::string> told;
  scheduler checks(store, {.on_failure = [&](const failure& what) {
                     const std::scoped_lock lock(mutex);
                     told.push_back(std::string(what.what) + ' ' + std::string(what.key));
                   }});
  serve(checks, {.max_attempts = 1, .time_limit = 20ms});
  hang(checks);
  EXPECT_TRUE(test::wait_until([&] { return checks.stats().dead == 1; }));
  hangs = false;
  checks.stop();
  EXPECT_THAT(told, testing::UnorderedElementsAre("time_limit a", "dead a"));
  EXPECT_EQ(store.list_dead(2).size(), 1U);
}

// ---- group commit

class GroupCommit : public SchedulerThreads {
 public:
  static void append(group_commit& commits, const request& asked, scheduled& result) {
    append_op op{&asked};
    commits.append({&op, 1});
    result = op.result;
  }

  slow_store slow{store};
  group_commit commits{slow, [] {}};
};

// A commit lasts until each thread has asked for something: so two commits have all that they ask for at a time.
TEST_F(GroupCommit, ManyThreadsShareCommitsAndEachGetsItsOwnAnswer) {
  constexpr int threads = 16;
  constexpr int each = 20;
  std::atomic<int> asking = 0;
  std::atomic<int> there = threads;
  slow.begins = [&] { EXPECT_TRUE(test::wait_until([&] { return asking >= there; })); };
  std::atomic<int> answers = 0;
  test::on_threads(threads, [&](int t) {
    for (int i = 0; i < each; ++i) {
      // Every key twice: one of the two inserts it.
      const request asked = check("k", std::to_string(t / 2 * each + i), std::chrono::hours(1 + t));
      scheduled result;
      ++asking;
      append(commits, asked, result);
      --asking;
      answers += result.inserted ? 1 : 0;
    }
    --there;
  });
  EXPECT_EQ(answers, threads / 2 * each);
  EXPECT_EQ(store.size(), static_cast<std::size_t>(threads / 2 * each));
  EXPECT_LT(store.counts().commits, static_cast<std::uint64_t>(threads * each / 4));
}

TEST_F(GroupCommit, ABadWriteHarmsNobodyElse) {
  constexpr int threads = 8;
  std::atomic<int> refused = 0;
  test::on_threads(threads, [&](int t) {
    for (int i = 0; i < 20; ++i) {
      if (t == 0) {
        EXPECT_THROW(commits.run({"bad", std::to_string(i)},
                                 [](store_transaction& /*open*/) { throw std::runtime_error("refused"); }),
                     std::runtime_error);
        ++refused;
      } else {
        scheduled result;
        append(commits, check("good", std::to_string(t) + "/" + std::to_string(i), 1h), result);
      }
    }
  });
  EXPECT_EQ(refused, 20);
  EXPECT_EQ(store.size(), 140U);
}

// What had been done would be done again: a cancel would find nothing, and say so.
TEST_F(GroupCommit, AWriteWhoseCommitMayHaveHappenedIsNotRepeated) {
  constexpr int threads = 8;
  slow.loses_answers = true;
  std::atomic<int> done = 0;
  std::atomic<int> told = 0;
  test::on_threads(threads, [&](int /*number*/) {
    for (int i = 0; i < 20; ++i) {
      EXPECT_THROW(commits.run({}, [&](store_transaction& /*open*/) { ++done; }), std::runtime_error);
      ++told;
    }
  });
  EXPECT_EQ(told, threads * 20);
  EXPECT_EQ(done, threads * 20);
}

TEST_F(GroupCommit, ALockThatAnotherHoldsIsWaitedForOnceForAll) {
  constexpr int threads = 16;
  std::atomic<int> asked = 0;
  slow.locked = [&] {
    EXPECT_TRUE(test::wait_until([&] { return asked == threads; }));
    std::this_thread::sleep_for(20ms);  // from there to the queue each has a few instructions left
  };
  std::atomic<int> refused = 0;
  test::on_threads(threads, [&](int t) {
    try {
      ++asked;
      scheduled result;
      append(commits, check("k", std::to_string(t), 1h), result);
    } catch (const std::runtime_error&) {
      ++refused;
    }
  });
  EXPECT_EQ(refused, threads);
  EXPECT_LT(slow.refusals, threads / 2);
}

// Two nodes of one store, the first with two threads.
class TwoNodes : public SchedulerThreads {
 public:
  // Hangs at each check whose key begins with "hang", until the test has ended.
  void serve(scheduler& node, std::chrono::milliseconds each, std::atomic<int>& runs) {
    node.on("work", [this, each, &runs](const job& what) {
      if (what.key().starts_with("hang")) {
        hung.fetch_add(1);
        released.wait(false);
        return;
      }
      std::this_thread::sleep_for(each);
      runs.fetch_add(1);
    });
    node.start();
  }
  void put(scheduler& node, const std::string& name, int count) {
    std::vector<request> some;
    for (int i = 0; i < count; ++i) {
      some.push_back(check("work", name + std::to_string(i), 0ms));
    }
    node.schedule(some);
  }
  void hang_both_threads(scheduler& node) {
    put(node, "hang", 2);
    ASSERT_TRUE(test::wait_until([&] { return hung.load() == 2; }));
  }
  void TearDown() override {
    released.store(true);
    released.notify_all();
  }

  std::atomic<int> hung{0};
  std::atomic<bool> released{false};
  std::atomic<int> by_first{0};
  std::atomic<int> by_second{0};
};

TEST_F(TwoNodes, TwoHungHandlersOfOneNodeDelayNobodyOnTheOther) {
  scheduler first(store);
  serve(first, 0ms, by_first);
  put(first, "before", 100);  // so that it knows a fast handler
  ASSERT_TRUE(test::wait_until([&] { return by_first.load() == 100; }));
  hang_both_threads(first);
  put(first, "work", 100);
  scheduler second(store);
  serve(second, 0ms, by_second);
  EXPECT_TRUE(test::wait_until([&] { return by_second.load() == 100; }));
  EXPECT_EQ(by_first.load(), 100);
  TearDown();
}

TEST_F(TwoNodes, WhatHasNotBegunOnANodeThatHangsIsCancelledAndNeverRuns) {
  scheduler first(store);
  serve(first, 0ms, by_first);
  hang_both_threads(first);
  put(first, "work", 50);
  std::this_thread::sleep_for(50ms);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(first.cancel("work", "work" + std::to_string(i)).result, cancel_result::cancelled) << i;
  }
  EXPECT_EQ(first.cancel("work", "hang0").result, cancel_result::running);
  TearDown();
  wait_until_empty();
  EXPECT_EQ(by_first.load(), 0);
}

// Else the first would have claimed all at once, and the second nothing to do. From its third run on the first is
// slower than the second, however late that one comes.
TEST_F(TwoNodes, ANodeThatJoinsSharesTheWork) {
  scheduler first(store);
  first.on("work", [&](const job& /*what*/) {
    std::this_thread::sleep_for(20ms);
    if (by_first.load() >= 2) {
      released.wait(false);
    }
    by_first.fetch_add(1);
  });
  first.start();
  put(first, "work", 200);
  ASSERT_TRUE(test::wait_until([&] { return by_first.load() >= 2; }));
  scheduler second(store, {.threads = 32});
  serve(second, 20ms, by_second);
  EXPECT_TRUE(test::wait_until([&] { return by_second.load() > 150; }));
  TearDown();
  EXPECT_TRUE(test::wait_until([&] { return by_first.load() + by_second.load() == 200; }));
}

}  // namespace
}  // namespace timing_wheel::durable

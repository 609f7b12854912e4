#include "durable/node/node.hpp"

#include <functional>
#include <utility>

#include "durable/support/forwarding_store.hpp"
#include "durable/support/store_calls.hpp"
#include "support/allocation.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using testing::SizeIs;
using timing_wheel::test::scarce_memory;
using timing_wheel::test::succeeds_with;

// Its clock goes on, and what is to happen meanwhile does, after a call has read it.
class hooked_store : public test::forwarding_store {
 public:
  explicit hooked_store(store& real) : forwarding_store(real), real_(real) {}
  [[nodiscard]] instant now() override {
    const instant shown = forwarding_store::now();
    if (after_now) {
      std::exchange(after_now, nullptr)();
    }
    return shown;
  }
  [[nodiscard]] std::optional<std::vector<std::int16_t>> renew_shares(std::string_view /*node*/,
                                                                      std::span<const std::string> /*kinds*/,
                                                                      std::chrono::milliseconds /*hold*/,
                                                                      bool /*leave*/) override {
    throw timer_error(make_error_code(std::errc::permission_denied), "as if the role had no rights");
  }
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override {
    real_.transact_within(limits, [&](store_transaction& open) {
      const std::uint64_t before = real_.counts().statements;
      work(open);
      if (after_statements && real_.counts().statements != before) {
        after_statements();
      }
    });
  }
  std::function<void()> after_now;
  std::function<void()> after_statements;  // of each transaction that has some

 private:
  store& real_;
};

// A node in virtual time, whose runs wait for the test.
class Node : public testing::Test {
 public:
  // A short reason would need no memory.
  static outcome run(const job& what) {
    const std::string reason(100, 'x');
    if (what.key() == "throws" && what.attempt() == 1) {
      throw std::runtime_error(reason);
    }
    return what.key() == "dies"                           ? dead(reason)
           : what.key() == "later" && what.attempt() == 1 ? snooze(100ms)
           : what.key() == "again" && what.attempt() == 1 ? retry_after(100ms, reason)
                                                          : done;
  }
  void put(const std::string& kind, const std::string& key, std::chrono::milliseconds due = 0ms) {
    store.transact([&](store_transaction& open) {
      open.schedule({.kind = kind, .key = key, .payload = std::string(100, 'p'), .due = due});
    });
  }
  void end_runs() {
    for (; threads_asked != 0; --threads_asked) {
      alone->run_next();
    }
  }
  void live(std::chrono::milliseconds time) {
    for (auto passed = 0ms; passed < time; passed += 10ms) {
      timer.advance_by(10ms);
      alone->step();
      end_runs();
    }
  }
  std::unique_ptr<node> make(const scheduler_options& options = {}) { return make(store, options); }
  std::unique_ptr<node> make(durable::store& on, const scheduler_options& options) {
    const handler_options how{.backoff = {.first = 100ms, .most = 100ms}};
    handler_options once = how;
    once.max_attempts = 1;
    return std::make_unique<node>(
        on, options, std::vector<kind_rules>{{"leased", false, how}, {"once", true, once}},
        std::vector<any_handler>{
            leased_handler([this](const job& what) {
              if (in_handler) {
                std::exchange(in_handler, nullptr)();
              }
              return run(what);
            }),
            transactional_handler([](transaction& /*open*/, const job& what) { return run(what); })},
        reported, [] {}, [this] { ++threads_asked; }, 10);
  }
  // \returns when.
  instant claim_as_me() {
    alone = make({.node = "me"});
    put("leased", "done");
    alone->step();
    return store.now();
  }
  void begin() {
    for (const char* key : {"throws", "dies", "again", "done"}) {
      put("leased", key);
    }
    put("once", "done");
  }
  void expect_all_over() {
    EXPECT_EQ(store.size(), 0U);
    const std::vector<dead_check> buried = store.list_dead(10);
    ASSERT_EQ(buried.size(), 1U);
    EXPECT_EQ(buried.front().key, "dies");
    alone->close();
    alone->step();
    EXPECT_TRUE(alone->idle());
  }

  manual_timer timer;
  memory_store store{timer};
  std::vector<std::string> failed;
  failures reported{[this](const failure& what) {
    const auto left = std::exchange(timing_wheel::test::allocations.left, UINT64_MAX);
    failed.emplace_back(what.what);
    timing_wheel::test::allocations.left = left;
  }};
  hooked_store hooked{store};
  int threads_asked = 0;
  std::function<void()> in_handler;  // once
  std::unique_ptr<node> alone = make();
};

TEST_F(Node, RunsEndWithoutMemory) {
  begin();
  alone->step();
  ASSERT_EQ(threads_asked, 4);
  const scarce_memory none(0);
  end_runs();
  timing_wheel::test::allocations.left = UINT64_MAX;
  live(1s);
  EXPECT_EQ(store.size(), 0U);
  EXPECT_TRUE(alone->idle());
}

// Somebody has locked the table. To write each end alone would take a time limit for each.
TEST_F(Node, EndsThatRunIntoATimeLimitAreTriedTogetherLater) {
  alone = make(hooked, {});
  begin();
  alone->step();
  ASSERT_EQ(threads_asked, 4);
  int tries = 0;
  hooked.after_statements = [&] {
    ++tries;
    timer.advance_by(2s);
    throw std::runtime_error("canceling statement due to statement timeout");
  };
  end_runs();
  alone->step();
  EXPECT_EQ(tries, 1);
  hooked.after_statements = nullptr;
  live(10s);
  expect_all_over();
}

TEST_F(Node, ARunThatIsDroppedWithoutMemoryGoesBack) {
  put("leased", "done");
  alone->step();
  ASSERT_EQ(threads_asked, 1);
  {
    const scarce_memory none(0);
    alone->drop_next();
  }
  threads_asked = 0;
  live(1s);
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(Node, GivesBackWhatHasNotBegunWhenItIsDrained) {
  const scheduler_options named{.poll = 10ms, .node = "me"};
  alone = make(named);
  put("leased", "done");
  put("leased", "again");
  alone->step();
  ASSERT_EQ(threads_asked, 2);
  store.drain("me");
  timer.advance_by(10ms);
  alone->step();  // it is told so
  EXPECT_EQ(store.drained_nodes().at(0).held, 2U);
  timer.advance_by(10ms);  // much less than a run may wait
  alone->step();
  for (const stored_check& each : store.list({.limit = 9})) {
    EXPECT_FALSE(each.running);
    EXPECT_EQ(each.attempt, 0) << "it has not begun";
  }
  put("once", "done");
  live(2s);
  EXPECT_EQ(store.drained_nodes()[0].held, 0U);
  EXPECT_EQ(store.size(), 3U);
  alone = make(named);
  live(1s);
  EXPECT_EQ(store.size(), 3U) << "also after a restart";
  store.end_drain("me");
  live(1s);
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(Node, ASnoozeCountsFromTheEndOfTheRun) {
  alone = make(hooked, {});
  put("leased", "later");
  alone->step();
  ASSERT_EQ(threads_asked, 1);
  threads_asked = 0;
  instant end{};
  hooked.after_now = [&] {
    timer.advance_by(5ms);
    alone->run_next();
    end = store.now();
  };
  alone->step();
  ASSERT_TRUE(store.find("leased", "later"));
  EXPECT_GE(store.find("leased", "later")->due, end + 100ms);
}

TEST_F(Node, TakesOverWhatADeadNodeHadAlsoIfItsHintsFail) {
  alone = make(hooked, {.lease = 10s});
  put("leased", "done");
  std::vector<claimed> got;
  const std::vector<upcoming> wanted = test::rows_of(store, "leased");
  store.transact([&](store_transaction& open) { open.claim(wanted, open.now() + 10s, got); });
  ASSERT_THAT(got, SizeIs(1));
  live(20s);
  EXPECT_EQ(store.size(), 0U);
  EXPECT_THAT(failed, testing::Contains("store"));
}

TEST_F(Node, TellsWhichRunsAreLongAndSinceWhen) {
  const instant begin = claim_as_me();
  std::vector<long_run> young;
  std::vector<long_run> old;
  in_handler = [&] {
    live(4s);
    young = store.long_runs();
    live(7s);
    old = store.long_runs();
  };
  threads_asked = 0;
  alone->run_next();
  EXPECT_THAT(young, IsEmpty());
  ASSERT_THAT(old, SizeIs(1));
  EXPECT_EQ(old[0].node, "me");
  EXPECT_EQ(old[0].key, "done");
  EXPECT_EQ(old[0].begun, begin);
  EXPECT_GE(old[0].told, begin + 5s);
  live(6s);
  EXPECT_THAT(store.long_runs(), IsEmpty());
}

TEST_F(Node, TellsWhyACheckRunsAgainAndLaterForgetsThoseThatAreGone) {
  struct listener : test::forwarding_store {
    using forwarding_store::forwarding_store;
    void tell_failed_runs(std::string_view node, std::span<const failed_run> runs) override {
      told.push_back(runs.empty() ? "forget" : std::string(node) + ": " + runs[0].error);
    }
    std::vector<std::string> told;
  } heard(store);
  alone = make(heard, {.node = "me"});
  put("leased", "again");
  put("leased", "done");
  live(6s);
  EXPECT_THAT(heard.told, testing::ElementsAre("me: " + std::string(100, 'x')));
  timer.advance_by(9min);
  live(1s);
  EXPECT_THAT(heard.told, SizeIs(1));
  timer.advance_by(1min);
  live(1s);
  EXPECT_THAT(heard.told, testing::ElementsAre(testing::_, "forget"));
  timer.advance_by(1h);
  live(1s);
  EXPECT_THAT(heard.told, SizeIs(2)) << "once";
}

TEST_F(Node, TellsHowManyHaveRunFiveSecondsAfterTheFirst) {
  struct listener : test::forwarding_store {
    using forwarding_store::forwarding_store;
    void tell_runs(std::string_view node, const run_counts& since) override {
      told.push_back(std::string(node) + " " + std::to_string(since.begun) + " " + std::to_string(since.ended) + " " +
                     std::to_string(since.failed));
      forwarding_store::tell_runs(node, since);
      if (told.size() == 2) {
        throw std::runtime_error("no");
      }
    }
    std::vector<std::string> told;
  } heard(store);
  alone = make(heard, {.node = "me"});
  put("leased", "again");
  put("leased", "done");
  live(4s);
  EXPECT_THAT(heard.told, IsEmpty());
  live(2s);
  EXPECT_THAT(heard.told, testing::ElementsAre("me 3 3 1"));
  EXPECT_EQ(store.runs_of_last_minute(), (run_counts{.begun = 3, .ended = 3, .failed = 1}));
  put("leased", "done");
  live(6s);
  put("leased", "done");
  live(6s);
  EXPECT_THAT(heard.told, SizeIs(3));
  EXPECT_THAT(heard.told.back(), testing::StartsWith("me 1 1 ")) << "what the store has refused is not told again";
  live(1min);
  EXPECT_EQ(store.runs_of_last_minute().value().begun, 0U) << heard.told.size();
}

TEST_F(Node, WritesAnEndWithTheClaimOfACheckThatIsDueSoon) {
  test::counting_store counted(store);
  node leased(
      counted, {}, {{"leased", false, {}}},
      std::vector<any_handler>{leased_handler([](const job& what) { return run(what); })}, reported, [] {},
      [this] { ++threads_asked; }, 10);
  for (const auto due : {10ms, 11ms, 12ms}) {
    put("leased", std::to_string(due.count()), due);
  }
  for (int passed = 0; passed < 20; ++passed) {
    timer.advance_by(1ms);
    leased.step();
    for (; threads_asked != 0; --threads_asked) {
      leased.run_next();
      leased.step();  // which the end of the run asks for
    }
  }
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(counted.transactions, 4) << "three claims, of which two take an end along, and the last end";
}

TEST_F(Node, ADrainedNodeTellsHowManyRun) {
  const instant begin = claim_as_me();
  alone->run_next();  // its end is not written yet
  threads_asked = 0;
  store.drain("me");
  live(300ms);
  EXPECT_EQ(store.drained_nodes().at(0).held, 0U);
  EXPECT_GT(store.drained_nodes().at(0).told, begin);
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(Node, ARowThatThereIsNoMemoryToExpectIsRead) {
  live(300ms);
  put("leased", "done");
  {
    const scarce_memory none(0);
    alone->expect({1, store.now(), {}, 0});
  }
  live(500ms);
  EXPECT_EQ(store.size(), 0U);
}

// The first step reads, claims and takes; the second writes ends. What was not begun does not count as a run.
TEST_F(Node, AStepWithoutMemoryLosesNothingAndTellsThat) {
  for (const int lacking : {0, 1}) {
    bool enough = false;
    for (std::uint64_t left = 0; !enough; ++left) {
      ASSERT_LT(left, 1000U);
      while (!store.list_dead(1).empty()) {
        store.delete_dead(store.list_dead(1).front().id);
      }
      alone = make();
      failed.clear();
      begin();
      if (lacking == 1) {
        alone->step();
        end_runs();
        failed.clear();
      }
      const bool ended = succeeds_with(left, [this] { alone->step(); });
      enough = ended && failed.empty();
      live(2s);
      expect_all_over();
      if (HasFailure()) {
        FAIL() << "step " << lacking << ", memory for " << left;
      }
    }
  }
}

}  // namespace
}  // namespace timing_wheel::durable

#include "durable/node/node.hpp"

#include "durable/support/store_calls.hpp"
#include "support/allocation.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;
using testing::IsEmpty;
using timing_wheel::test::scarce_memory;
using timing_wheel::test::succeeds_with;

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
           : what.key() == "again" && what.attempt() == 1 ? retry_after(100ms, reason)
                                                          : done;
  }
  void put(const std::string& kind, const std::string& key) {
    store.transact([&](store_transaction& open) {
      open.schedule({.kind = kind, .key = key, .payload = std::string(100, 'p'), .due = 0s});
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
  std::unique_ptr<node> make(const scheduler_options& options = {}) {
    const handler_options how{.backoff = {.first = 100ms, .most = 100ms}};
    handler_options once = how;
    once.max_attempts = 1;
    return std::make_unique<node>(
        store, options, std::vector<kind_rules>{{"leased", false, how}, {"once", true, once}},
        std::vector<any_handler>{leased_handler(run), transactional_handler([](transaction& /*open*/, const job& what) {
                                   return run(what);
                                 })},
        reported, [] {}, [this] { ++threads_asked; }, 10);
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
  int threads_asked = 0;
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
  scheduler_options named;
  named.node = "me";
  named.poll = 10ms;
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

TEST_F(Node, ADrainedNodeTellsHowManyRun) {
  scheduler_options named;
  named.node = "me";
  alone = make(named);
  put("leased", "done");
  alone->step();
  const instant begin = store.now();
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

// The scheduler on a server, in real time.

#include "durable/support/postgres_case.hpp"
#include "durable/support/slow_handlers.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

class PostgresScheduler : public PostgresCase {  // NOLINT(readability-identifier-naming): a suite
 public:
  template <class Condition>
  static void wait_for(const Condition& condition) {
    while (!condition()) {
      std::this_thread::sleep_for(2ms);
    }
  }
  [[nodiscard]] bool is_empty() const { return user.ask("SELECT count(*) FROM " + table("check")) == "0"; }
  void wait_for_looks(std::uint64_t count) {
    const std::uint64_t before = store.counts().statements;
    wait_for([&] { return store.counts().statements >= before + count; });
  }
};

TEST_F(PostgresScheduler, ALongJobKeepsItsLease) {
  postgres_store elsewhere(server().conninfo(), options);
  std::atomic<int> runs = 0;
  const auto handler = [&](const job& /*what*/) {
    ++runs;
    std::this_thread::sleep_for(2500ms);
  };
  scheduler one(store, {.poll = 20ms, .lease = 1s});
  scheduler other(elsewhere, {.poll = 20ms, .lease = 1s});
  one.on("close", handler);
  other.on("close", handler);
  one.start();
  other.start();
  one.schedule(asked("a"));
  wait_for([&] { return is_empty(); });
  EXPECT_EQ(runs, 1);
}

TEST_F(PostgresScheduler, AJobThatHasLostItsRowIsAskedToStop) {
  std::atomic<bool> was_asked = false;
  scheduler checks(store, {.lease = 300ms, .on_failure = [](const failure&) {}});
  checks.on("close", [&](const job& what) {
    user.execute("DELETE FROM " + table("check"));
    while (!what.stop_token().stop_requested()) {
      std::this_thread::sleep_for(1ms);
    }
    was_asked = true;
  });
  checks.start();
  checks.schedule(asked("a"));
  wait_for([&] { return checks.stats().lost_leases > 0; });
  EXPECT_TRUE(was_asked);
}

// Both have looked from the beginning when they started. Only one of them does so again.
TEST_F(PostgresScheduler, ACommitFarBehindTheScanIsSeenByTheSweepAndNoLookBefore) {
  std::atomic<int> swept = 0;
  std::atomic<int> unswept = 0;
  postgres_store elsewhere(server().conninfo(), options);
  scheduler without(store, {.poll = 20ms, .sweep = 24h});
  without.on("close", [&](const job& /*what*/) { ++unswept; });
  without.start();
  scheduler sweeping(elsewhere, {.poll = 20ms, .sweep = 200ms});
  sweeping.on("other", [&](const job& /*what*/) { ++swept; });
  sweeping.start();
  without.schedule(asked("first", 0ms));
  sweeping.schedule({.kind = "other", .key = "first", .payload = {}, .due = 0ms});
  wait_for([&] { return swept == 1 && unswept == 1 && is_empty(); });
  wait_for_looks(10);
  user.execute("BEGIN");
  for (const char* kind : {"close", "other"}) {
    schedule(user.get(), {.kind = kind, .key = "late", .payload = {}, .due = store.now() - 1h}, target);
  }
  user.execute("COMMIT");
  wait_for([&] { return swept == 2; });
  wait_for_looks(10);
  EXPECT_EQ(unswept, 1);
}

TEST_F(PostgresScheduler, HandlersThatAreSlowerThanArrivalsLoseNoLeaseInTheQueue) {
  expect_no_lease_lost_in_the_queue(store, 15ms, 1s, [&] { return is_empty(); });
}

TEST_F(PostgresScheduler, ABacklogAfterAnOutageIsWorkedOffOldestFirstInFlatMemoryAndWhatIsNewDoesNotWait) {
  constexpr std::size_t count = 20'000;
  scheduler checks(store, {.batch = 500, .max_known = 1000, .threads = 1});
  std::vector<instant> dues;
  std::atomic<std::size_t> before_new = 0;
  std::size_t known = 0;
  checks.on("close", [&](const job& what) {
    if (what.key() == "new") {
      before_new = dues.size();
      return;
    }
    dues.push_back(what.due());
    known = std::max(known, checks.stats().known);
    if (dues.size() == 2000) {
      checks.schedule(asked("new"));
    } else if (dues.size() > 2000 && before_new == 0) {
      std::this_thread::sleep_for(1ms);  // so that the backlog is there at the next poll, on a fast machine, too
    }
  });
  const instant outage = store.now() - 1h;
  for (std::size_t from = 0; from < count; from += 1000) {
    std::vector<request> all;
    for (std::size_t number = from; number < from + 1000; ++number) {
      all.push_back(asked(std::to_string(number), outage + std::chrono::milliseconds((number * 7919) % count)));
    }
    checks.schedule(all);
  }
  checks.start();
  wait_for([&] { return is_empty(); });
  checks.stop();
  ASSERT_THAT(dues, SizeIs(count));
  EXPECT_LE(known, 1000U);
  EXPECT_LT(before_new, count / 2);
  // In the order of deadlines, but for what is read ahead at a time.
  for (std::size_t i = 1000; i < dues.size(); ++i) {
    EXPECT_GT(dues[i], dues[i - 1000]) << i;
  }
}

}  // namespace
}  // namespace timing_wheel::durable::test

// The scheduler on a file, with threads of its own, on the real clock.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "durable/support/slow_handlers.hpp"
#include "durable/support/sqlite_case.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteSchedulerThreads : public SqliteCase {
 public:
  bool is_empty() { return keys_in(store).empty(); }
};

TEST_F(SqliteSchedulerThreads, ALongJobKeepsItsLease) {
  sqlite_store elsewhere(folder.file());
  std::atomic<int> runs = 0;
  const auto handler = [&](const job& /*what*/) {
    ++runs;
    std::this_thread::sleep_for(900ms);
  };
  const scheduler_options options{.poll = 20ms, .lease = 300ms};
  scheduler one(store, options);
  scheduler other(elsewhere, options);
  one.on("close", handler);
  other.on("close", handler);
  one.start();
  other.start();
  one.schedule(asked("a"));
  while (!is_empty()) {
    std::this_thread::sleep_for(2ms);
  }
  EXPECT_EQ(runs, 1);
}

TEST_F(SqliteSchedulerThreads, HandlersThatAreSlowerThanArrivalsLoseNoLeaseInTheQueue) {
  expect_no_lease_lost_in_the_queue(store, 5ms, 400ms, [&] { return is_empty(); });
}

}  // namespace
}  // namespace timing_wheel::durable::test

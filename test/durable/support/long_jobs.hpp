#pragma once

#include <condition_variable>

#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {

/// Nodes on one database, and leased jobs that run until they are let go. Counts how often each has begun, since the
/// loss of a lease shows as a second run. Thread safety: as a plain object.
class long_jobs {
 public:
  using store_maker = std::function<std::unique_ptr<store>()>;

  long_jobs(store_maker make_store, std::chrono::milliseconds length)
      : lease(length), make_store_(std::move(make_store)) {}
  long_jobs(const long_jobs&) = delete;
  long_jobs& operator=(const long_jobs&) = delete;
  ~long_jobs() { let_go(); }

  struct node {
    std::unique_ptr<store> where;
    std::unique_ptr<scheduler> checks;
  };
  /// One more node, which runs `kinds` beside "long".
  node& add_node(const std::function<void(scheduler&)>& add_kinds = [](scheduler&) {}) {
    node made;
    made.where = make_store_();
    made.checks = std::make_unique<scheduler>(
        *made.where, scheduler_options{.poll = 50ms, .lease = lease, .threads = 20, .on_failure = [](const auto&) {}});
    made.checks->on("long", [this](const job& what) { run(what); });
    add_kinds(*made.checks);
    made.checks->start();
    return nodes_.emplace_back(std::move(made));
  }
  /// Schedules them, due now, and waits until all run. \returns whether they do.
  bool begin(int count) {
    std::vector<request> all;
    for (int number = 0; number < count; ++number) {
      all.push_back({.kind = "long", .key = std::to_string(number), .payload = {}, .due = {}});
    }
    nodes_.front().checks->schedule(all);
    return begun(static_cast<std::size_t>(count));
  }
  /// Waits until so many have begun. \returns whether they have.
  bool begun(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return runs_.size() >= count; });
  }
  void let_go() {
    const std::scoped_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  /// Lets them go, and waits for their ends. \returns how often each has begun.
  std::map<std::string, int> finish() {
    let_go();
    wait_until([&] { return rows_of(*nodes_.front().where, "long").empty(); }, 10s);
    for (node& one : nodes_) {
      one.checks->stop();
    }
    const std::scoped_lock lock(mutex_);
    return runs_;
  }
  [[nodiscard]] std::uint64_t lost_leases() const {
    std::uint64_t sum = 0;
    for (const node& one : nodes_) {
      sum += one.checks->stats().lost_leases;
    }
    return sum;
  }

  const std::chrono::milliseconds lease;

 private:
  void run(const job& what) {
    std::unique_lock lock(mutex_);
    ++runs_[what.key()];
    changed_.notify_all();
    changed_.wait(lock, [this] { return over_; });
  }

  const store_maker make_store_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, int> runs_;
  bool over_ = false;
  std::vector<node> nodes_;
};

inline void expect_one_run_each(const std::map<std::string, int>& runs, std::size_t count) {
  EXPECT_THAT(runs, SizeIs(count));
  EXPECT_THAT(runs, Each(Pair(testing::_, 1)));
}

/// 10 jobs run on two nodes while a transactional handler of one of them takes so long.
inline void expect_that_a_transactional_handler_doubles_no_run(const long_jobs::store_maker& make_store,
                                                               std::chrono::milliseconds lease,
                                                               std::chrono::milliseconds length) {
  long_jobs jobs(make_store, lease);
  std::atomic<int> slow = 0;
  jobs.add_node([&](scheduler& checks) {
    checks.on("slow", [&](transaction&, const job&) {
      ++slow;
      std::this_thread::sleep_for(length);  // real time: the lease is the database's
    });
  });
  jobs.add_node();
  ASSERT_TRUE(jobs.begin(10));
  put(*make_store(), request{.kind = "slow", .key = "a", .payload = {}, .due = {}});
  EXPECT_TRUE(wait_until([&] { return slow != 0; }));
  std::this_thread::sleep_for(3 * lease);
  expect_one_run_each(jobs.finish(), 10);
}

/// 20 jobs run on three nodes while `outage` keeps the store away. It is nobody's death: each has one run, also with a
/// node that comes at its end.
template <class Outage>
void expect_that_an_outage_doubles_no_run(const long_jobs::store_maker& make_store, std::chrono::milliseconds lease,
                                          const Outage& outage) {
  long_jobs jobs(make_store, lease);
  for (int number = 0; number < 3; ++number) {
    jobs.add_node();
  }
  ASSERT_TRUE(jobs.begin(20));
  outage();
  jobs.add_node();
  std::this_thread::sleep_for(2 * lease);
  expect_one_run_each(jobs.finish(), 20);
  EXPECT_EQ(jobs.lost_leases(), 0U);
}

/// A node that has died in the outage delays its check by no more than a lease and a second after that.
template <class Outage>
void expect_that_a_death_in_an_outage_is_seen(const long_jobs::store_maker& make_store, std::chrono::milliseconds lease,
                                              const Outage& outage) {
  long_jobs jobs(make_store, lease);
  long_jobs::node& lives = jobs.add_node();
  const std::unique_ptr<store> dead = make_store();
  const auto transact = [&](const auto& work) { dead->transact(work); };
  transact([](store_transaction& open) { open.schedule({.kind = "long", .key = "orphan", .payload = {}, .due = 1h}); });
  const std::vector<upcoming> row = rows_of(*dead, "long");
  transact([&](store_transaction& open) {
    reschedule_op now{"long", "orphan", due_time(0s)};
    open.reschedule({&now, 1});
    std::vector<claimed> got;
    open.claim(row, open.now() + lease, got);
    EXPECT_EQ(got.size(), 1U);
  });
  outage();
  const auto back = std::chrono::steady_clock::now();
  ASSERT_TRUE(jobs.begun(1));
  EXPECT_LT(std::chrono::steady_clock::now() - back, lease + 1s);
  EXPECT_EQ(lives.checks->stats().fired, 1U);
  jobs.finish();
}

}  // namespace timing_wheel::durable::test

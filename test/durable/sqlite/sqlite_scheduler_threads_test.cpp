// The scheduler on a file, with threads of its own, on the real clock.

#include <deque>

#include "durable/node/group_commit.hpp"
#include "durable/support/forwarding_store.hpp"
#include "durable/support/sqlite_case.hpp"
#include "support/allocation.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

class SqliteSchedulerThreads : public SqliteCase {
 public:
  bool is_empty() { return keys_in(store).empty(); }
};

// They are due at once, and one thread has to run them: what is claimed is bounded, and no lease ends in the queue.
TEST_F(SqliteSchedulerThreads, HandlersThatAreSlowerThanArrivalsLoseNoLeaseInTheQueue) {
  constexpr int count = 150;
  std::mutex mutex;
  std::map<std::string, int> ran;
  std::size_t running = 0;
  std::chrono::microseconds lag{};
  scheduler checks(store, {.poll = 20ms, .lease = 400ms, .max_claimed = 100, .threads = 1});
  checks.on("close", [&](const job& what) {
    std::this_thread::sleep_for(5ms);
    const scheduler_stats now = checks.stats();
    const std::scoped_lock lock(mutex);
    running = std::max(running, now.running);
    lag = std::max(lag, now.lag);
    ++ran[what.key()];
  });
  checks.start();
  std::vector<request> all;
  for (int number = 0; number < count; ++number) {
    all.push_back(asked(std::to_string(number)));
  }
  checks.schedule(all);
  EXPECT_TRUE(wait_until([&] { return is_empty(); }));
  checks.stop();
  EXPECT_LE(running, 100U);
  EXPECT_GT(lag, 20ms);
  EXPECT_EQ(checks.stats().lost_leases, 0U);
  EXPECT_THAT(ran, SizeIs(count));
  EXPECT_EQ(checks.stats().fired, static_cast<std::uint64_t>(count));
}

// ---- what shares a commit, and fails

class SqliteGroupCommit : public SqliteCase {
 public:
  struct posted {
    explicit posted(std::string key) : what(asked(std::move(key), 1h)) {}
    request what;
    append_op op{&what};
    int told = 0;
    std::exception_ptr failure;
  };

  bool post(posted& one) {
    return commits.post({&one.op, 1}, [&one](const std::exception_ptr& failed) {
      ++one.told;
      one.failure = failed;
    });
  }
  // Posts so many as one group, of which one is bad. \returns in how many transactions they were written.
  int write_with_a_bad_one(int count, int bad) {
    std::deque<posted> all;
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(post(all.emplace_back(i == bad ? "bad" : std::to_string(i))));
    }
    commits.lead_posted();
    std::int64_t last_id = 0;
    for (int i = 0; i < count; ++i) {
      const posted& one = all[static_cast<std::size_t>(i)];
      EXPECT_EQ(one.told, 1) << i;
      EXPECT_EQ(one.failure != nullptr, i == bad) << i;
      EXPECT_TRUE(i == bad || (one.op.result.inserted && one.op.id > last_id)) << i;
      last_id = one.op.id;
    }
    EXPECT_EQ(error_of([&] { std::rethrow_exception(all[static_cast<std::size_t>(bad)].failure); }).code,
              sqlite_code(SQLITE_CONSTRAINT_TRIGGER));
    EXPECT_EQ(user.ask("SELECT count(*) FROM timing_wheel_check"), std::to_string(count - 1));
    return counted.transactions;
  }
  void refuse(const std::string& how) {
    ASSERT_EQ(user.run("CREATE TRIGGER t BEFORE INSERT ON timing_wheel_check WHEN NEW.key=CAST('bad' AS BLOB) "
                       "BEGIN SELECT RAISE(" +
                       how + ",'bad'); END"),
              SQLITE_OK);
  }

  users_database user{folder.file()};
  counting_store counted{store};
  group_commit commits{counted, [] {}};
};

TEST_F(SqliteGroupCommit, OneBadWriteOfThousandsCostsOneTransactionMore) {
  refuse("ABORT");
  const std::uint64_t before = store.counts().statements;
  EXPECT_EQ(write_with_a_bad_one(3000, 1234), 2);
  EXPECT_LT(store.counts().statements - before, 3U * 3000);
}

TEST_F(SqliteGroupCommit, AFailureThatEndsTheTransactionIsFoundByHalves) {
  refuse("ROLLBACK");
  EXPECT_LE(write_with_a_bad_one(3000, 1234), 2 * 12 + 2);  // 2^12 > 3000
}

// This thread writes for others, too. Whatever fails, who is refused has written nothing, and who is not, has.
TEST_F(SqliteGroupCommit, WhereverMemoryEndsEachIsToldTheTruthOnce) {
  bool all_worked = false;
  for (unsigned left = 0; !all_worked; ++left) {
    const std::string number = std::to_string(left);
    posted first("first " + number);
    posted last("last " + number);
    posted mine("mine " + number);
    bool posted_first = false;
    bool posted_last = false;
    bool worked = false;
    {
      const timing_wheel::test::scarce_memory limit(left);
      try {
        posted_first = post(first);
        posted_last = post(last);
        commits.append({&mine.op, 1});
        worked = true;
      } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): so it is not written
      }
    }
    commits.lead_posted();
    EXPECT_EQ(first.told, posted_first ? 1 : 0) << left;
    EXPECT_EQ(last.told, posted_last ? 1 : 0) << left;
    const auto is_there = [&](const posted& one) { return store.find("close", one.what.key).has_value(); };
    EXPECT_EQ(is_there(first), posted_first && first.failure == nullptr) << left;
    EXPECT_EQ(is_there(last), posted_last && last.failure == nullptr) << left;
    EXPECT_EQ(is_there(mine), worked) << left;
    all_worked = worked && first.failure == nullptr && last.failure == nullptr;
    ASSERT_LT(left, 1000U);
  }
}

TEST_F(SqliteSchedulerThreads, AScheduleThatIsRefusedForLackOfMemoryIsNotWritten) {
  scheduler checks(store, {.look_ahead = 1h});  // so that the node is told of each
  checks.on("close", [](const job& /*what*/) {});
  checks.start();
  const auto until_it_works = [&](const std::string& name, const auto& schedule) {
    for (unsigned left = 0, worked = 0; worked < 3; ++left) {
      const std::vector<request> all = {asked(name + std::to_string(left), 30min)};
      const bool done = timing_wheel::test::succeeds_with(left, [&] { schedule(all); });
      EXPECT_EQ(store.find("close", all[0].key).has_value(), done) << name << left;
      worked += done ? 1U : 0U;
      ASSERT_LT(left, 1000U);
    }
  };
  until_it_works("one", [&](const std::vector<request>& all) { checks.schedule(all[0]); });
  until_it_works("list", [&](const std::vector<request>& all) { checks.schedule(all); });
}

}  // namespace
}  // namespace timing_wheel::durable::test

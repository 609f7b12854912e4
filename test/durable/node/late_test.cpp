// Every place where a check can wait, with a wedge in it: the lag has to grow.

#include "durable/support/forwarding_store.hpp"
#include "durable/support/users_site.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {
namespace {

// A node reads what this lets pass.
class narrowed_store final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  std::function<void(read_range&)> narrow = [](read_range&) {};

  void read_ahead(const read_range& which, std::vector<upcoming>& found) override {
    read_range narrowed = which;
    narrow(narrowed);
    forwarding_store::read_ahead(narrowed, found);
  }
};

class Late : public UsersPlace {  // NOLINT(readability-identifier-naming): a suite
 public:
  Late() { store.migrate(); }
  ~Late() override {
    release.set_value();
    checks.reset();
  }

  void put_late(const std::string& key, const std::string& kind = "close") {
    request what = asked(key, store.now() - 2s);
    what.kind = kind;
    put(store, what);
  }
  // Its handler runs until the end of the test.
  void begin(scheduler_options options, const handler_options& how = {}) {
    options.poll = 20ms;
    options.on_failure = [this](const failure& what) {
      const std::scoped_lock lock(mutex);
      told.emplace_back(std::string(what.what) + " " + std::string(what.kind));
    };
    checks.emplace(narrowed, options);
    checks->on(
        "close",
        [this](const job& what) {
          if (what.key() == "again" && what.attempt() == 1) {
            return retry_after(100ms);
          }
          hang.wait();
          return outcome();
        },
        how);
    checks->start();
  }
  [[nodiscard]] std::chrono::microseconds lag() const { return checks->stats().lag; }
  void expect_that_it_grows(std::chrono::milliseconds from = 2s) {
    EXPECT_TRUE(wait_until([&] { return lag() >= from; }, 10s)) << lag().count();
    const auto seen = lag();
    EXPECT_TRUE(wait_until([&] { return lag() > seen; }, 10s));
  }

  std::promise<void> release;
  std::shared_future<void> hang{release.get_future()};
  narrowed_store narrowed{store};
  std::optional<scheduler> checks;
  std::mutex mutex;
  std::vector<std::string> told;
};
std::vector<users_way> without_sessions() {
  std::vector<users_way> some;
  std::copy_if(std::begin(users_ways), std::end(users_ways), std::back_inserter(some),
               [](const users_way& each) { return std::string_view(each.name).find("Session") == std::string::npos; });
  return some;
}
INSTANTIATE_TEST_SUITE_P(On, Late, testing::ValuesIn(without_sessions()), [](const auto& of) { return of.param.name; });

TEST_P(Late, WhereItIsNotRead) {
  narrowed.narrow = [](read_range& which) { which.limit = 0; };
  put_late("a");
  begin({});
  expect_that_it_grows();
  const scheduler_stats seen = checks->stats();
  EXPECT_EQ(seen.kinds.at(0).lag, seen.lag);
  EXPECT_EQ(seen.known, 0U);
}

TEST_P(Late, WhereItIsNotClaimed) {
  put_late("a");
  put_late("b");
  begin({.threads = 4}, {.max_running = 1});
  EXPECT_TRUE(wait_until([&] { return checks->stats().kinds.at(0).longest_run > 100ms; }));
  expect_that_it_grows();
  EXPECT_EQ(checks->stats().ready, 1U);
  ASSERT_THAT(checks->unfinished(), SizeIs(1));
  EXPECT_GT(checks->unfinished().at(0).running_for, 100ms);
}

// On the thread of all steps, and in SQLite with the lock of the file.
TEST_P(Late, WhereATransactionalHandlerHangs) {
  put(store, asked("a", store.now()));
  put(store, asked("b", store.now() + 1500ms));
  checks.emplace(narrowed, scheduler_options{.look_ahead = 10s, .on_failure = [](const failure&) {}});
  checks->on("close", [this](transaction& /*open*/, const job& /*what*/) { hang.wait(); });
  checks->start();
  expect_that_it_grows(1s);
  EXPECT_GT(checks->stats().kinds.at(0).longest_run, 1s);
  release.set_value();
  EXPECT_TRUE(wait_until([&] { return checks->stats().done == 2 && checks->stats().kinds.at(0).longest_run == 0s; }));
  release = {};
}

TEST_P(Late, WhereItsRetryHasNoThread) {
  put(store, asked("again", store.now()));
  put(store, asked("b", store.now() + 50ms));
  begin({.threads = 1});
  expect_that_it_grows(200ms);
  EXPECT_TRUE(wait_until([&] { return store.find("close", "again")->attempt == 1; })) << "what was claimed goes back";
}

TEST_P(Late, WhereItIsASuspectThatWaitsForAnother) {
  put_late("a");
  put_late("b");
  user.run("UPDATE " + user.table("check") + " SET attempt=2,lease=due+1");
  begin({.lease = 500ms, .threads = 4});
  EXPECT_TRUE(wait_until([&] { return checks->stats().running == 1; }));
  expect_that_it_grows();
  EXPECT_EQ(checks->stats().running, 1U);
}

TEST_P(Late, WhereNobodyHasAHandler) {
  put_late("a", "other");
  begin({.sweep = 100ms});
  expect_that_it_grows();
  const scheduler_stats seen = checks->stats();
  ASSERT_THAT(seen.store_lag, SizeIs(1));
  EXPECT_EQ(seen.store_lag[0].kind, "other");
  EXPECT_FALSE(seen.store_lag[0].handled);
  EXPECT_EQ(seen.kinds.at(0).lag, 0s);
  const std::scoped_lock lock(mutex);
  EXPECT_THAT(told, ElementsAre("unhandled other")) << "once";
}

// On SQLite it is the lock of the file.
TEST_P(Late, WhereAUsersTransactionHasLockedIt) {
  put_late("a");
  user.run("BEGIN");
  user.run("UPDATE " + user.table("check") + " SET attempt=0");
  begin({});
  expect_that_it_grows();
  user.run("ROLLBACK");
  EXPECT_TRUE(wait_until([&] { return checks->stats().running == 1 && lag() == 0s; }, 10s));
}

#ifdef TIMING_WHEEL_TEST_POSTGRES
TEST_P(Late, WhereItsShareHasNoOwner) {
  if (std::string_view(GetParam().name) != "Postgres") {
    GTEST_SKIP() << "only PostgreSQL's table has shares";
  }
  static_cast<void>(store.renew_shares("ghost", std::vector<std::string>{"close"}, 1h));
  narrowed.narrow = [](read_range& which) { which.overdue = instant::min(); };  // else it would help after a second
  put_late("a");
  user.run("UPDATE " + user.table("check") + " SET id=64*64+63");  // of the last share, which it has after all others
  begin({});
  user.run("UPDATE " + user.table("share") + " SET owner='ghost'");
  expect_that_it_grows();
}
#endif

}  // namespace
}  // namespace timing_wheel::durable::test

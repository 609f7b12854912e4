// Writes that share commits, without a scheduler: what fails, what is locked by others, who is told what.

#include "durable/node/group_commit.hpp"

#include <deque>

#include "durable/support/forwarding_store.hpp"
#include "durable/support/store_calls.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace timing_wheel::durable {
namespace {

using namespace std::chrono_literals;

class GroupCommits : public testing::Test {
 public:
  // One that is posted, and what became of it.
  struct posted {
    explicit posted(std::string key) : what(test::asked(std::move(key), 1h)) {}
    request what;
    append_op op{&what};
    std::atomic<bool> told = false;
    std::error_code code;
  };

  [[nodiscard]] bool has(const std::string& key) { return rows.find("close", key).has_value(); }

  void post(posted& one) {
    const auto then = [&one](const std::exception_ptr& failed) {
      one.code = failed == nullptr ? std::error_code() : test::error_of([&] { std::rethrow_exception(failed); }).code;
      one.told = true;
    };
    ASSERT_TRUE(commits.post({&one.op, 1}, then));
  }
  void append(posted& one) {
    commits.append({&one.op, 1});
    one.told = true;
  }
  // Cancels, unless a row is locked.
  std::future<cancel_result> cancel_soon(const std::string& key) {
    return std::async(std::launch::async, [this, key] {
      cancel_op op{"close", key};
      ++asked;
      commits.run({op.kind, op.key}, [&](store_transaction& open) {
        ++tries;
        if (locked) {
          throw timer_error(make_error_code(errc::row_locked), "cancelling");
        }
        open.cancel({&op, 1});
      });
      return op.result;
    });
  }
  void wait_for_tries(int count) const {
    test::wait_until([&] { return tries >= count; });
  }
  // A thread that has begun to lead.
  std::thread lead_until(std::future<void> over) {
    auto begun = std::make_shared<std::promise<void>>();
    std::thread leader([this, begun, over = std::move(over)] {
      commits.run({}, [&](store_transaction& /*open*/) {
        begun->set_value();
        over.wait();
      });
    });
    begun->get_future().wait();
    return leader;
  }

  std::atomic<bool> locked = false;
  std::atomic<int> asked = 0;  // how many cancels are on their way
  std::atomic<int> tries = 0;
  manual_timer clock;
  memory_store rows{clock};
  test::counting_store store{rows};
  group_commit commits{store, [] {}, {.posted = 1h}};  // so that no pause of this machine counts
};

TEST_F(GroupCommits, WhatIsLockedIsSetAsideAndHoldsUpNobodyElse) {
  test::put(rows, "a", 1h);
  locked = true;
  auto cancels = cancel_soon("a");
  wait_for_tries(2);
  posted waits("b");
  posted calls("c");
  post(waits);
  append(calls);
  commits.lead_posted();
  EXPECT_TRUE(waits.told);
  EXPECT_TRUE(has("b"));
  wait_for_tries(tries + 2);
  locked = false;
  EXPECT_EQ(cancels.get(), cancel_result::cancelled);
  EXPECT_EQ(rows.size(), 2U);
}

TEST_F(GroupCommits, WhatIsAskedOfALockedCheckLaterIsDoneAfterwards) {
  test::put(rows, "a", 1h);
  locked = true;
  auto cancels = cancel_soon("a");
  wait_for_tries(2);
  posted again("a");
  post(again);
  commits.lead_posted();
  EXPECT_FALSE(again.told);
  locked = false;
  EXPECT_EQ(cancels.get(), cancel_result::cancelled);
  while (!again.told) {
    commits.lead_posted();
  }
  EXPECT_EQ(again.code, std::error_code());
  EXPECT_TRUE(again.op.result.inserted);
}

TEST_F(GroupCommits, ManyLockedOnesInOneGroupCostTheOthersOneTransaction) {
  locked = true;
  std::vector<std::future<cancel_result>> cancels;
  std::promise<void> go_on;
  std::thread leader = lead_until(go_on.get_future());  // so that the others come together
  posted good("good");
  int when_told = 0;  // later the cancels are tried again and again
  ASSERT_TRUE(commits.post({&good.op, 1}, [&](const std::exception_ptr& /*failed*/) {
    when_told = store.transactions;
    good.told = true;
  }));
  for (int i = 0; i < 40; ++i) {
    cancels.push_back(cancel_soon(std::to_string(i)));
  }
  EXPECT_TRUE(test::wait_until([&] { return asked == 40; }));
  std::this_thread::sleep_for(20ms);  // from there to the queue each has a few instructions left
  store.transactions = 0;
  go_on.set_value();
  leader.join();
  while (!good.told) {
    commits.lead_posted();
  }
  EXPECT_LE(when_told, 10);
  EXPECT_TRUE(has("good"));
  locked = false;
  for (auto& each : cancels) {
    EXPECT_EQ(each.get(), cancel_result::finished);
  }
}

TEST_F(GroupCommits, ACallLeadsWhateverWasPostedBefore) {
  std::deque<posted> many;
  for (int i = 0; i < 11'000; ++i) {  // more than two groups
    post(many.emplace_back("p" + std::to_string(i)));
  }
  std::promise<void> go_on;
  std::thread leader = lead_until(go_on.get_future());
  posted late("late");
  post(late);
  posted calls("calls");
  auto called = std::async(std::launch::async, [&] { append(calls); });
  std::this_thread::sleep_for(20ms);  // it waits behind the one that was posted
  go_on.set_value();
  leader.join();
  called.get();
  EXPECT_TRUE(std::all_of(many.begin(), many.end(), [](const posted& one) { return one.told.load(); }));
  EXPECT_TRUE(late.told);
  EXPECT_EQ(rows.size(), many.size() + 2);
}

TEST_F(GroupCommits, WhatStaysLockedIsToldSoAtItsLimit) {
  group_commit impatient(store, [] {}, {.call = 30ms, .posted = 1h});
  const auto stays_locked = [&](store_transaction& /*open*/) {
    ++tries;
    throw timer_error(make_error_code(errc::row_locked), "cancelling");
  };
  EXPECT_EQ(test::error_of([&] { impatient.run({"close", "a"}, stays_locked); }).code, errc::row_locked);
  EXPECT_GE(tries, 2);
  posted next("a");
  impatient.append({&next.op, 1});
  EXPECT_TRUE(next.op.result.inserted);
}

TEST_F(GroupCommits, ACompletionThatThrowsIsNobodyElsesConcern) {
  posted first("a");
  posted last("c");
  const auto throws = [&](const std::exception_ptr& /*failed*/) {
    first.told = true;
    throw std::bad_alloc();
  };
  ASSERT_TRUE(commits.post({&first.op, 1}, throws));
  post(last);
  posted leads("b");
  append(leads);
  EXPECT_TRUE(first.told);
  EXPECT_TRUE(last.told);
  EXPECT_EQ(rows.size(), 3U);
}

TEST_F(GroupCommits, CloseTellsAllThatWasPostedAndRefusesWhatComesLater) {
  posted before("a");
  posted after("b");
  post(before);
  commits.close();
  EXPECT_TRUE(before.told);
  EXPECT_FALSE(commits.post({&after.op, 1}, [](const std::exception_ptr& /*failed*/) { FAIL(); }));
  EXPECT_EQ(commits.lead_posted(), std::chrono::microseconds::max());
  EXPECT_EQ(rows.size(), 1U);
}

TEST_F(GroupCommits, CloseWaitsForNoLock) {
  test::put(rows, "a", 1h);
  locked = true;
  auto cancels = cancel_soon("a");
  wait_for_tries(2);
  posted behind("a");
  post(behind);
  commits.close();
  EXPECT_TRUE(behind.told);
  EXPECT_EQ(behind.code, errc::row_locked);
  locked = false;
  EXPECT_EQ(cancels.get(), cancel_result::cancelled);
}

}  // namespace
}  // namespace timing_wheel::durable

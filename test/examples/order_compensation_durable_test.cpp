#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "durable_database.hpp"
#include "durable_ledger.hpp"
#include "durable_options.hpp"
#include "durable_plan.hpp"
#include "durable_shop.hpp"
#include "options.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr sys_seconds noon = sys_days(std::chrono::year(2018) / 1 / 1) + 12h;

std::vector<planned_order> all_of(const order_plan& next) {
  std::vector<planned_order> all;
  while (const auto one = next()) {
    all.push_back(*one);
  }
  return all;
}

std::vector<nanoseconds> times_of(const std::vector<planned_order>& orders) {
  std::vector<nanoseconds> times;
  std::transform(orders.begin(), orders.end(), std::back_inserter(times), [](const auto& one) { return one.at; });
  return times;
}

TEST(SteadyPlan, PlacesOrdersAtTheirRate) {
  EXPECT_THAT(times_of(all_of(steady_plan(2, 2s, 5s, 1))), ElementsAre(0s, 500ms, 1s, 1500ms));
}

TEST(SteadyPlan, ApprovesMostInNineTenthsOfTheDelay) {
  const auto orders = all_of(steady_plan(10'000, 1s, 5s, 1));
  ASSERT_EQ(orders.size(), 10'000U);
  const auto approved = std::count_if(orders.begin(), orders.end(), [](const auto& one) { return one.approved; });
  EXPECT_NEAR(static_cast<double>(approved), 9500, 100);
  for (const planned_order& one : orders) {
    EXPECT_LE(one.approved.value_or(one.at), one.at + 4500ms);
  }
}

TEST(SteadyPlan, IsTheSameForTheSameSeed) {
  const auto approvals = [](std::uint64_t seed) {
    std::vector<std::optional<nanoseconds>> all;
    for (const planned_order& one : all_of(steady_plan(100, 1s, 5s, seed))) {
      all.push_back(one.approved);
    }
    return all;
  };
  EXPECT_EQ(approvals(1), approvals(1));
  EXPECT_NE(approvals(1), approvals(2));
}

TEST(PlanOfFile, SpreadsThePurchasesOverTheRun) {
  const std::vector<order> orders{{1, noon + 300h, {}}, {2, noon, {}}, {3, noon + 100h, {}}};
  const scaled_plan plan = plan_of_file(orders, 1, 5s, 30s);
  EXPECT_DOUBLE_EQ(plan.speed, 36'000);
  EXPECT_THAT(times_of(all_of(plan.next)), ElementsAre(0s, 10s, 30s));
}

TEST(PlanOfFile, MakesTheDelayOfHalfAnHour) {
  const std::vector<order> orders{{1, noon, noon + 15min}, {2, noon, noon + 30min}, {3, noon, noon + 30min + 1s}};
  const scaled_plan plan = plan_of_file(orders, 1, 6s, 30s);
  const auto all = all_of(plan.next);
  EXPECT_DOUBLE_EQ(plan.life_speed, 300);
  EXPECT_EQ(all[0].approved, 3s);
  EXPECT_EQ(all[1].approved, 6s);
  EXPECT_EQ(all[2].approved, std::nullopt);
  EXPECT_TRUE(all[2].too_late);
  EXPECT_FALSE(all[1].too_late);
}

TEST(PlanOfFile, RepeatsTheOrdersASecondApart) {
  const std::vector<order> orders{{1, noon, {}}, {2, noon + 2s, {}}};
  EXPECT_THAT(times_of(all_of(plan_of_file(orders, 3, 5s, 4s).next)), ElementsAre(0s, 1s, 2s, 2s, 3s, 4s));
}

TEST(StoreOption, NamesAFile) {
  EXPECT_EQ(file_of_store("sqlite:a:b.db"), "a:b.db");
  for (const char* bad : {"", "sqlite", "sqlite:", "file:x", "postgres:x", "x.db"}) {
    EXPECT_THROW(static_cast<void>(file_of_store(bad)), usage_error) << bad;
  }
}

/// A shop on a new file, with a worker number 1 and the run 1, and with three orders of the first two products.
class shop_file : public testing::Test {
 protected:
  shop_file() {
    std::filesystem::remove(file_);
    store_.emplace(file_);
    store_->migrate();
    database_.emplace(file_);
    make_shop(*database_);
    execute("INSERT INTO shop_run(id,begun) VALUES(1,0); INSERT INTO worker(number,run) VALUES(1,1)");
  }
  ~shop_file() override {
    database_.reset();
    store_.reset();
    std::filesystem::remove(file_);
  }

  void execute(const std::string& sql) { database_->execute(sql.c_str()); }

  /// Places so many orders, with a check an hour later; every second one is approved at once.
  void place(int orders) {
    int placed = 0;
    shop one(file_, *store_, 1, 1h, [&]() -> std::optional<planned_order> {
      if (placed == orders) {
        return std::nullopt;
      }
      const auto number = static_cast<std::uint32_t>(placed++);
      return planned_order{0ns, {number % 2, 3}, number % 2 == 1 ? std::optional(1ns) : std::nullopt};
    });
    one.work(0ns);
    one.work(1ns);
  }

  /// As a worker does.
  void fire(int order, int at) {
    execute("INSERT INTO firing VALUES(" + std::to_string(order) +
            ",1,(SELECT due FROM orders WHERE id=" + std::to_string(order) + ")+" + std::to_string(at) + ")");
    execute("UPDATE stock SET on_hand=on_hand+3,reserved=reserved-3 WHERE product=" + std::to_string((order - 1) % 2));
  }
  void forget_check(int order) {
    execute("DELETE FROM timing_wheel_check WHERE key=CAST('" + key_of_order(order) + "' AS BLOB)");
  }

  const std::string file_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".shop.db";
  std::optional<timing_wheel::durable::sqlite_store> store_;
  std::optional<connection> database_;
};

using ShopLedger = shop_file;  // NOLINT(readability-identifier-naming)

TEST_F(ShopLedger, OfAnEmptyShopIsExact) {
  const verdict all = judge(*database_);
  EXPECT_TRUE(all.exact());
  EXPECT_EQ(all.orders, 0U);
}

TEST_F(ShopLedger, AccountsForOpenAndConfirmedOrders) {
  place(5);
  const verdict all = judge(*database_);
  EXPECT_TRUE(all.exact());
  EXPECT_THAT((std::vector{all.orders, all.cancelled, all.fired, all.pending}), ElementsAre(5, 2, 0, 3));
  EXPECT_THAT((std::vector{all.stock.reserved, all.stock.confirmed, all.stock.given_back, all.stock.still_reserved}),
              ElementsAre(15, 6, 0, 9));
}

TEST_F(ShopLedger, AccountsForWhatAWorkerGaveBack) {
  place(1);
  forget_check(1);
  fire(1, 0);
  const verdict all = judge(*database_);
  EXPECT_TRUE(all.exact());
  EXPECT_EQ(all.stock.given_back, 3U);
}

TEST_F(ShopLedger, SeesALostCheck) {
  place(3);
  forget_check(3);
  const verdict all = judge(*database_);
  EXPECT_EQ(all.lost, 1U);
  EXPECT_FALSE(all.exact());
}

TEST_F(ShopLedger, SeesACheckThatRanTwice) {
  place(1);
  forget_check(1);
  fire(1, 0);
  fire(1, 1);
  EXPECT_EQ(judge(*database_).doubled, 1U);
}

TEST_F(ShopLedger, SeesACheckThatRanAfterItsCancel) {
  place(2);
  fire(2, 0);
  const verdict all = judge(*database_);
  EXPECT_EQ(all.doubled, 1U);
  EXPECT_FALSE(all.stock.balanced());
}

TEST_F(ShopLedger, SeesACheckThatRanEarly) {
  place(1);
  forget_check(1);
  fire(1, -1);
  EXPECT_EQ(judge(*database_).early, 1U);
}

TEST_F(ShopLedger, SeesACheckThatRanAndStayed) {
  place(1);
  fire(1, 0);
  EXPECT_EQ(judge(*database_).strays, 1U);
}

TEST_F(ShopLedger, SeesChecksOfNoOrder) {
  timing_wheel::durable::schedule(database_->get(), {.kind = check_kind, .key = "order-7", .payload = {}, .due = 1h});
  execute("INSERT INTO firing VALUES(9,1,0)");
  EXPECT_EQ(judge(*database_).strays, 2U);
}

TEST_F(ShopLedger, SeesAUnitThatIsNotAccountedFor) {
  place(4);
  for (const char* column : {"on_hand", "reserved", "sold"}) {
    execute("UPDATE stock SET " + std::string(column) + "=" + column + "+1 WHERE product=1");
    EXPECT_EQ(judge(*database_).stock.wrong_products, 1U) << column;
    execute("UPDATE stock SET " + std::string(column) + "=" + column + "-1 WHERE product=1");
  }
  EXPECT_TRUE(judge(*database_).exact());
}

using ShopTimes = shop_file;  // NOLINT(readability-identifier-naming)

TEST_F(ShopTimes, CountARecoveryToTheNextWorkersFirstCheck) {
  execute("UPDATE worker SET killed=1000 WHERE number=1");
  execute("INSERT INTO worker VALUES(2,1,1500),(3,1,4000),(4,1,NULL)");
  execute("INSERT INTO firing VALUES(1,1,900); INSERT INTO probe VALUES(1,3,2000),(2,3,2100)");
  EXPECT_THAT(recoveries(*database_, 1), ElementsAre(500, 1000));
  EXPECT_THAT(recoveries(*database_, 2), IsEmpty());
}

TEST_F(ShopTimes, LeaveOutWhatWasDueDuringARecovery) {
  execute("UPDATE worker SET killed=1000 WHERE number=1; INSERT INTO worker VALUES(2,1,NULL)");
  execute("INSERT INTO orders VALUES(1,1,0,3,900,NULL),(2,1,0,3,1100,NULL),(3,1,0,3,2500,NULL)");
  execute("INSERT INTO firing VALUES(1,1,905),(2,2,2000),(3,2,2501)");
  EXPECT_THAT(lateness(*database_, 1, false), ElementsAre(1, 5, 900));
  EXPECT_THAT(lateness(*database_, 1, true), ElementsAre(1, 5));
}

TEST(Quantile, IsAnElementOfTheSorted) {
  EXPECT_EQ(quantile({7}, 0.5), 7);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0.5), 3);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 1), 4);
}

using ShopFile = shop_file;  // NOLINT(readability-identifier-naming)

TEST_F(ShopFile, CanBeUsedAgain) {
  EXPECT_NO_THROW(check_store(file_));
  EXPECT_NO_THROW(make_shop(*database_));
  EXPECT_EQ(ask(*database_, "SELECT count(*) FROM stock"), product_count);
}

TEST_F(ShopFile, OfAnotherVersionIsRefused) {
  execute("PRAGMA user_version=2");
  EXPECT_THROW(check_store(file_), usage_error);
}

TEST_F(ShopFile, WithTheTablesOfSomethingElseIsRefused) {
  execute("PRAGMA application_id=0");
  EXPECT_THROW(check_store(file_), usage_error);
}

TEST_F(ShopFile, WithoutTheTransactionThatWasUndoneIsAsBefore) {
  {
    write_transaction undone(*database_);
    execute("DELETE FROM stock");
  }
  EXPECT_EQ(ask(*database_, "SELECT count(*) FROM stock"), product_count);
}

}  // namespace
}  // namespace order_compensation

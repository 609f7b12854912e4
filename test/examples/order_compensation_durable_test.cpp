#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/program.hpp"
#include "shop.hpp"
#ifdef TIMING_WHEEL_RIG_POSTGRES
#include "durable/support/lost_commits.hpp"
#include "durable/support/private_postgres.hpp"
#endif

// The judge of the durable demo sees what is wrong, and the shop does nothing twice.

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;

#ifdef TIMING_WHEEL_RIG_POSTGRES
/// One for all tests of this program.
const timing_wheel::test::private_postgres& server() {
  static const timing_wheel::test::private_postgres one;
  return one;
}
std::string new_database() {
  static int number = 0;
  const std::string name = "scratch_" + std::to_string(++number);
  server().execute("CREATE DATABASE " + name);
  return " dbname=" + name;
}
#endif

/// Orders with a check an hour later; every second one is approved at once.
order_plan some_orders(int count) {
  return [=, placed = 0]() mutable -> std::optional<planned_order> {
    if (placed == count) {
      return std::nullopt;
    }
    return planned_order{0ns, ++placed % 2 == 0 ? std::optional(1ns) : std::nullopt};
  };
}

/// A shop in a new site, with the run 1.
class ShopLedger : public testing::TestWithParam<const char*> {  // NOLINT(readability-identifier-naming): a suite
 protected:
  ShopLedger() {
    site_->remove();
    prepare(*site_);
    database_ = site_->connect();
    run("INSERT INTO shop_run VALUES(1,0)");
  }
  ~ShopLedger() override {
    database_.reset();
    site_->remove();
  }

  [[nodiscard]] static std::unique_ptr<rig::site> make() {
#ifdef TIMING_WHEEL_RIG_POSTGRES
    if (std::string_view(GetParam()) == "postgres") {
      return rig::postgres_site(server().conninfo() + new_database());
    }
#endif
    return rig::sqlite_site(testing::TempDir() + std::to_string(::getpid()) + ".shop.db");
  }

  void run(const std::string& sql) { database_->run(sql); }
  [[nodiscard]] verdict judged() { return judge(*database_, *site_); }

  void place(int orders) {
    shop one(*site_, 1, 1, 1h, some_orders(orders));
    one.work(0ns);
    one.work(1ns);
  }
  /// As a worker does.
  void fire(int order, int late) {
    database_->run("INSERT INTO run SELECT 'order-$1','verify',1,due,due+($2),1,$1 FROM orders WHERE id=$1", order,
                   late);
    const goods what = goods_of(static_cast<std::uint64_t>(order));
    database_->run("UPDATE stock SET on_hand=on_hand+$1,reserved=reserved-$1 WHERE product=$2", what.units,
                   what.product);
  }
  void forget_check(int order) {
    run("DELETE FROM " + site_->table("check") +
        " WHERE key=" + site_->bytes_of("'order-" + std::to_string(order) + "'"));
  }

  const std::unique_ptr<rig::site> site_ = make();
  std::unique_ptr<rig::database> database_;
};

#ifdef TIMING_WHEEL_RIG_POSTGRES
const auto sites = testing::Values("sqlite", "postgres");
#else
const auto sites = testing::Values("sqlite");
#endif
INSTANTIATE_TEST_SUITE_P(On, ShopLedger, sites, [](const auto& one) { return std::string(one.param); });

TEST_P(ShopLedger, IsExactEmptyAndWithOrdersInEveryState) {
  EXPECT_TRUE(judged().exact());
  place(5);
  forget_check(1);
  fire(1, 0);
  const verdict all = judged();
  EXPECT_TRUE(all.exact());
  EXPECT_THAT((std::vector{all.orders, all.cancelled, all.fired, all.pending}), ElementsAre(5, 2, 1, 2));
  const auto units = [](std::uint64_t order) { return std::uint64_t{goods_of(order).units}; };
  EXPECT_THAT((std::vector{all.stock.confirmed, all.stock.given_back, all.stock.still_reserved}),
              ElementsAre(units(2) + units(4), units(1), units(3) + units(5)));
}

TEST_P(ShopLedger, SeesALostCheckAndAnEarlyOne) {
  place(3);
  forget_check(3);
  EXPECT_EQ(judged().lost, 1U);
  EXPECT_FALSE(judged().exact());
  fire(3, -1);
  EXPECT_EQ(judged().early, 1U);
  EXPECT_FALSE(judged().exact());
}

TEST_P(ShopLedger, SeesACheckThatRanTwiceOrAfterItsCancel) {
  place(2);
  forget_check(1);
  fire(1, 0);
  fire(1, 1);
  EXPECT_EQ(judged().doubled, 1U);
  EXPECT_FALSE(judged().stock.balanced());
  fire(2, 0);
  EXPECT_EQ(judged().doubled, 2U);
}

TEST_P(ShopLedger, SeesACheckThatRanAndStayedAndChecksOfNoOrder) {
  place(1);
  fire(1, 0);
  EXPECT_EQ(judged().strays, 1U);
  database_->schedule({.kind = check_kind, .key = "order-7", .payload = {}, .due = 1h});
  run("INSERT INTO run VALUES('order-9','verify',1,0,0,1,9)");
  EXPECT_EQ(judged().strays, 3U);
}

TEST_P(ShopLedger, SeesAUnitThatIsNotAccountedFor) {
  place(4);
  for (const std::string column : {"on_hand", "reserved", "sold"}) {
    run(std::string("UPDATE stock SET ").append(column).append("=").append(column).append("+1 WHERE product=1"));
    EXPECT_EQ(judged().stock.wrong_products, 1U) << column;
    run(std::string("UPDATE stock SET ").append(column).append("=").append(column).append("-1 WHERE product=1"));
  }
  EXPECT_TRUE(judged().exact());
}

TEST_P(ShopLedger, IsUsedAgainButNotOfAnotherVersion) {
  EXPECT_NO_THROW(prepare(*site_));
  EXPECT_EQ(database_->ask("SELECT count(*) FROM stock"), product_count);
  run("ALTER TABLE order_compensation_5 RENAME TO order_compensation_4");
  EXPECT_THROW(prepare(*site_), common::usage_error);
}

TEST_P(ShopLedger, IsUsedAgainAfterItLetSomebodyDown) {
  rig::patient_connection patient(*site_);
  int times = 0;
  const std::int64_t answer = patient.use([&](rig::database& in) {
    {
      rig::write_transaction undone(in);
      in.run("DELETE FROM stock");
    }
    if (++times < 3) {
      throw rig::try_again("away");
    }
    return in.ask("SELECT count(*) FROM stock");
  });
  EXPECT_EQ(answer, product_count);
  EXPECT_EQ(times, 3);
}

#ifdef TIMING_WHEEL_RIG_POSTGRES
/// The far side of a network loses the answer to a commit.
TEST(LostAnswers, DoubleNoOrder) {
  using timing_wheel::test::lost_commits;
  const auto where = rig::postgres_site(server().conninfo() + new_database() + lost_commits::lossy);
  prepare(*where);
  const auto database = where->connect();
  database->run("INSERT INTO shop_run VALUES(1,0)");
  shop one(*where, 1, 1, 1h, some_orders(2));
  lost_commits::plan(lost_commits::loss::of_answer);
  one.work(0ns);
  EXPECT_EQ(lost_commits::count(), 1);
  const auto again = where->connect();
  EXPECT_EQ(again->ask("SELECT count(*) FROM orders"), 2);
  EXPECT_EQ(one.placed(), 2U);
  lost_commits::plan(lost_commits::loss::of_answer);
  one.work(1ns);
  EXPECT_EQ(one.late_approvals(), 0U);
  EXPECT_EQ(judge(*where->connect(), *where).cancelled, 1U);
  EXPECT_TRUE(judge(*where->connect(), *where).exact());
}

TEST(Places, TellNoPassword) {
  const std::string name = rig::postgres_site("host=h dbname=d password=secret")->name();
  EXPECT_EQ(name.find("secret"), std::string::npos) << name;
  EXPECT_NE(name.find("dbname=d"), std::string::npos) << name;
}
#endif

}  // namespace
}  // namespace order_compensation

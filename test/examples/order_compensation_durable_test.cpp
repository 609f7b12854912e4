#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "durable_database.hpp"
#include "durable_keeper.hpp"
#include "durable_ledger.hpp"
#include "durable_options.hpp"
#include "durable_place.hpp"
#include "durable_plan.hpp"
#include "durable_shop.hpp"
#include "options.hpp"
#ifdef ORDER_COMPENSATION_POSTGRES
#include "durable/support/cutting_proxy.hpp"
#include "durable/support/private_postgres.hpp"
#endif

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

TEST(StoreOption, NamesAFileOrAServer) {
  EXPECT_EQ(read_store("sqlite:a:b.db").what, store_choice::kind::sqlite);
  EXPECT_EQ(read_store("sqlite:a:b.db").where, "a:b.db");
  EXPECT_EQ(read_store("postgres:host=a port=1").what, store_choice::kind::postgres);
  EXPECT_EQ(read_store("postgres:host=a port=1").where, "host=a port=1");
  EXPECT_EQ(read_store("postgres").what, store_choice::kind::private_postgres);
  for (const char* bad : {"", "sqlite", "sqlite:", "postgres:", "file:x", "x.db"}) {
    EXPECT_THROW(static_cast<void>(read_store(bad)), usage_error) << bad;
  }
}

#ifdef ORDER_COMPENSATION_POSTGRES
/// One for all tests of this program.
const timing_wheel::test::private_postgres& server() {
  static const timing_wheel::test::private_postgres one;
  return one;
}

/// A database of its own, there.
class scratch_database {
 public:
  scratch_database() : name_("scratch_" + std::to_string(++number)) { server().execute("CREATE DATABASE " + name_); }
  scratch_database(const scratch_database&) = delete;
  scratch_database& operator=(const scratch_database&) = delete;
  ~scratch_database() { server().execute("DROP DATABASE " + name_ + " WITH (FORCE)"); }

  [[nodiscard]] std::string conninfo() const { return server().conninfo() + parameter(); }
  [[nodiscard]] std::string parameter() const { return " dbname=" + name_; }

 private:
  static inline int number = 0;
  std::string name_;
};
#endif

/// A shop in a new place, with a worker number 1 and the run 1, and with three orders of the first two products.
class shop_case : public testing::TestWithParam<const char*> {
 protected:
  shop_case() {
#ifdef ORDER_COMPENSATION_POSTGRES
    if (on_server()) {
      on_server_.emplace();
    }
#endif
    std::filesystem::remove(file_);
    place_ = make();
    place_->prepare();
    database_ = place_->connect();
    execute("INSERT INTO shop_run(begun) VALUES(0); INSERT INTO worker(run,birth,node,begun) VALUES(1,1,1,0)");
  }
  ~shop_case() override {
    database_.reset();
    place_.reset();
    std::filesystem::remove(file_);
  }

  [[nodiscard]] static bool on_server() { return std::string_view(GetParam()) == "postgres"; }
  [[nodiscard]] std::unique_ptr<shop_place> make() const {
#ifdef ORDER_COMPENSATION_POSTGRES
    if (on_server()) {
      return postgres_place(on_server_->conninfo());
    }
#endif
    return sqlite_place(file_);
  }

  void execute(const std::string& sql) { database_->execute(sql); }

  /// Places so many orders, with a check an hour later; every second one is approved at once.
  void place(int orders) {
    int placed = 0;
    shop one(*place_, 1, 1, 1h, [&]() -> std::optional<planned_order> {
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
    execute(std::string("DELETE FROM ") + database_->check_table() +
            " WHERE key=" + database_->bytes_of("'" + key_of_order(order) + "'"));
  }

#ifdef ORDER_COMPENSATION_POSTGRES
  std::optional<scratch_database> on_server_;
#endif
  const std::string file_ = testing::TempDir() + std::to_string(::getpid()) + ".shop.db";
  std::unique_ptr<shop_place> place_;
  std::unique_ptr<database> database_;
};

std::string name_of_place(const testing::TestParamInfo<const char*>& place) { return place.param; }

#ifdef ORDER_COMPENSATION_POSTGRES
const auto places = testing::Values("sqlite", "postgres");
#else
const auto places = testing::Values("sqlite");
#endif

using ShopLedger = shop_case;  // NOLINT(readability-identifier-naming)
INSTANTIATE_TEST_SUITE_P(On, ShopLedger, places, name_of_place);

TEST_P(ShopLedger, OfAnEmptyShopIsExact) {
  const verdict all = judge(*database_);
  EXPECT_TRUE(all.exact());
  EXPECT_EQ(all.orders, 0U);
}

TEST_P(ShopLedger, AccountsForOpenAndConfirmedOrders) {
  place(5);
  const verdict all = judge(*database_);
  EXPECT_TRUE(all.exact());
  EXPECT_THAT((std::vector{all.orders, all.cancelled, all.fired, all.pending}), ElementsAre(5, 2, 0, 3));
  EXPECT_THAT((std::vector{all.stock.reserved, all.stock.confirmed, all.stock.given_back, all.stock.still_reserved}),
              ElementsAre(15, 6, 0, 9));
}

TEST_P(ShopLedger, AccountsForWhatAWorkerGaveBack) {
  place(1);
  forget_check(1);
  fire(1, 0);
  const verdict all = judge(*database_);
  EXPECT_TRUE(all.exact());
  EXPECT_EQ(all.stock.given_back, 3U);
}

TEST_P(ShopLedger, SeesALostCheck) {
  place(3);
  forget_check(3);
  const verdict all = judge(*database_);
  EXPECT_EQ(all.lost, 1U);
  EXPECT_FALSE(all.exact());
}

TEST_P(ShopLedger, SeesACheckThatRanTwice) {
  place(1);
  forget_check(1);
  fire(1, 0);
  fire(1, 1);
  EXPECT_EQ(judge(*database_).doubled, 1U);
}

TEST_P(ShopLedger, SeesACheckThatRanAfterItsCancel) {
  place(2);
  fire(2, 0);
  const verdict all = judge(*database_);
  EXPECT_EQ(all.doubled, 1U);
  EXPECT_FALSE(all.stock.balanced());
}

TEST_P(ShopLedger, SeesACheckThatRanEarly) {
  place(1);
  forget_check(1);
  fire(1, -1);
  EXPECT_EQ(judge(*database_).early, 1U);
}

TEST_P(ShopLedger, SeesACheckThatRanAndStayed) {
  place(1);
  fire(1, 0);
  EXPECT_EQ(judge(*database_).strays, 1U);
}

TEST_P(ShopLedger, SeesChecksOfNoOrder) {
  database_->schedule({.kind = check_kind, .key = "order-7", .payload = {}, .due = 1h});
  execute("INSERT INTO firing VALUES(9,1,0)");
  EXPECT_EQ(judge(*database_).strays, 2U);
}

TEST_P(ShopLedger, SeesAUnitThatIsNotAccountedFor) {
  place(4);
  for (const char* column : {"on_hand", "reserved", "sold"}) {
    execute("UPDATE stock SET " + std::string(column) + "=" + column + "+1 WHERE product=1");
    EXPECT_EQ(judge(*database_).stock.wrong_products, 1U) << column;
    execute("UPDATE stock SET " + std::string(column) + "=" + column + "-1 WHERE product=1");
  }
  EXPECT_TRUE(judge(*database_).exact());
}

using ShopTimes = shop_case;  // NOLINT(readability-identifier-naming)
INSTANTIATE_TEST_SUITE_P(On, ShopTimes, places, name_of_place);

TEST_P(ShopTimes, CountARecoveryToTheLastProbeOfAKill) {
  execute("UPDATE worker SET killed=1000 WHERE number=1");
  execute("INSERT INTO worker(run,birth,node,begun,killed) VALUES(1,2,1,0,1500),(1,3,2,0,4000),(1,4,2,0,NULL)");
  execute("INSERT INTO firing VALUES(1,1,900); INSERT INTO probe VALUES(1,3,2000),(2,3,2100),(1,3,1999)");
  EXPECT_THAT(recoveries(*database_, 1), ElementsAre(600, 1000));
  EXPECT_THAT(recoveries(*database_, 2), IsEmpty());
}

TEST_P(ShopTimes, CountARecoveryOfTheServerToTheFirstCheck) {
  execute("INSERT INTO server_kill VALUES(1,1,1000),(1,2,2000),(1,3,3000)");
  execute("INSERT INTO firing VALUES(1,1,999),(2,1,1100); INSERT INTO probe VALUES(1,1,2050)");
  EXPECT_THAT(server_recoveries(*database_, 1), ElementsAre(50, 100));
}

TEST_P(ShopTimes, LeaveOutWhatWasDueDuringARecovery) {
  execute("UPDATE worker SET killed=1000 WHERE number=1; INSERT INTO worker(run,birth,node,begun) VALUES(1,2,1,0)");
  execute("INSERT INTO server_kill VALUES(1,1,3000)");
  execute(
      "INSERT INTO orders VALUES(1,1,0,3,900,NULL),(2,1,0,3,1100,NULL),(3,1,0,3,2500,NULL),(4,1,0,3,3100,NULL),"
      "(5,1,0,3,3300,NULL)");
  execute("INSERT INTO firing VALUES(1,1,905),(2,2,2000),(3,2,2501),(4,2,3200),(5,2,3307)");
  execute("INSERT INTO probe VALUES(1,2,2000)");
  EXPECT_THAT(lateness(*database_, 1, false), ElementsAre(1, 5, 7, 100, 900));
  EXPECT_THAT(lateness(*database_, 1, true), ElementsAre(1, 5, 7));
}

TEST_P(ShopTimes, CountWhatEachNodeDid) {
  execute(
      "UPDATE worker SET killed=1000 WHERE number=1; INSERT INTO worker(run,birth,node,begun) "
      "VALUES(1,2,1,0),(1,3,2,0)");
  execute("INSERT INTO firing VALUES(1,1,905),(2,2,2000),(3,3,2501); INSERT INTO probe VALUES(1,3,2000)");
  const auto all = nodes(*database_, 1);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_THAT((std::vector{all[0].node, all[0].processes, all[0].kills, all[0].fired, all[0].probes}),
              ElementsAre(1, 2, 1, 2, 0));
  EXPECT_THAT((std::vector{all[1].node, all[1].processes, all[1].kills, all[1].fired, all[1].probes}),
              ElementsAre(2, 1, 0, 1, 1));
}

TEST(Quantile, IsAnElementOfTheSorted) {
  EXPECT_EQ(quantile({7}, 0.5), 7);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 0.5), 3);
  EXPECT_EQ(quantile({1, 2, 3, 4}, 1), 4);
}

using ShopFile = shop_case;  // NOLINT(readability-identifier-naming)
INSTANTIATE_TEST_SUITE_P(On, ShopFile, places, name_of_place);

TEST_P(ShopFile, CanBeUsedAgain) {
  EXPECT_NO_THROW(make()->prepare());
  EXPECT_EQ(database_->ask("SELECT count(*) FROM stock"), product_count);
}

TEST_P(ShopFile, OfAnotherVersionIsRefused) {
  execute(on_server() ? "UPDATE order_compensation SET version=4" : "PRAGMA user_version=4");
  EXPECT_THROW(make()->prepare(), usage_error);
}

TEST_P(ShopFile, WithTheTablesOfSomethingElseIsRefused) {
  execute(on_server() ? "DROP TABLE order_compensation" : "PRAGMA application_id=0");
  EXPECT_THROW(make()->prepare(), usage_error);
}

TEST_P(ShopFile, WithoutTheTransactionThatWasUndoneIsAsBefore) {
  {
    write_transaction undone(*database_);
    execute("DELETE FROM stock");
  }
  EXPECT_EQ(database_->ask("SELECT count(*) FROM stock"), product_count);
}

TEST_P(ShopFile, IsUsedAgainAfterItLetSomebodyDown) {
  patient_connection patient(*place_);
  int times = 0;
  const auto answer = patient.get([&](database& in) {
    if (++times < 3) {
      throw try_again("away");
    }
    return in.ask("SELECT count(*) FROM stock");
  });
  EXPECT_EQ(answer, product_count);
  EXPECT_EQ(times, 3);
}

#ifdef ORDER_COMPENSATION_POSTGRES
TEST(ShopOnAServer, TellsNoPassword) {
  const std::string name = postgres_place("host=h dbname=d password=secret")->name();
  EXPECT_EQ(name.find("secret"), std::string::npos) << name;
  EXPECT_NE(name.find("dbname=d"), std::string::npos) << name;
}
#endif

using KeeperNotes = shop_case;  // NOLINT(readability-identifier-naming)
INSTANTIATE_TEST_SUITE_P(On, KeeperNotes, places, name_of_place);

TEST_P(KeeperNotes, AreReadInTheLedger) {
  keeper_notes notes(*place_, 1);
  EXPECT_EQ(notes.birth(1), 1);  // the one that is there, as when the answer was lost
  const std::int64_t worker = notes.birth(1);
  EXPECT_NE(worker, 1);
  notes.death(worker, 1000, 3);
  notes.server_kill(2000);
  const auto all = nodes(*database_, 1);
  EXPECT_THAT((std::vector{all.at(0).processes, all.at(0).kills}), ElementsAre(2, 1));
  EXPECT_EQ(takeovers(*database_, 1), 0U);
  EXPECT_EQ(database_->ask("SELECT count(*) FROM server_kill"), 1);
  EXPECT_EQ(database_->ask((std::string("SELECT count(*) FROM ") + database_->check_table()).c_str()), 3);
}

#ifdef ORDER_COMPENSATION_POSTGRES

TEST(Takeovers, AreSharesOfAKilledNodeThatAnotherHasNow) {
  const scratch_database there;
  const std::unique_ptr<shop_place> place = postgres_place(there.conninfo());
  place->prepare();
  const auto database = place->connect();
  database->execute("INSERT INTO shop_run(begun) VALUES(0)");
  keeper_notes notes(*place, 1);
  const std::int64_t killed = notes.birth(1);
  const std::vector<std::string> kinds{check_kind, probe_kind};
  const auto store = place->open_store();
  EXPECT_EQ(store->renew_shares(node_of_worker(killed), kinds, 1h).value().size(), 64U);
  notes.death(killed, 1000, 1);
  EXPECT_EQ(takeovers(*database, 1), 0U);
  database->execute("UPDATE timing_wheel.node SET until=0");
  EXPECT_EQ(store->renew_shares(node_of_worker(killed + 1), kinds, 1h).value().size(), 64U);
  EXPECT_EQ(takeovers(*database, 1), 64U);
  EXPECT_EQ(takeovers(*database, 2), 0U);
}

/// A shop on the far side of a network that loses answers.
class LostAnswers : public testing::Test {  // NOLINT(readability-identifier-naming): a suite
 protected:
  LostAnswers() {
    place_->prepare();
    database_->execute("INSERT INTO shop_run(begun) VALUES(0)");
  }
  void lose(const char* word) {
    proxy_.plan(timing_wheel::test::cutting_proxy::fault::cut_after, timing_wheel::test::begins_with(word));
  }
  [[nodiscard]] std::int64_t count(const std::string& table) {
    return database_->ask(("SELECT count(*) FROM " + table).c_str());
  }

  const scratch_database there_;
  timing_wheel::test::cutting_proxy proxy_{server().socket()};
  const std::unique_ptr<shop_place> place_ = postgres_place(proxy_.conninfo() + there_.parameter() + " user=postgres");
  const std::unique_ptr<database> database_ = postgres_place(there_.conninfo())->connect();
};

TEST_F(LostAnswers, DoubleNoWorkerAndNoKill) {
  keeper_notes notes(*place_, 1);
  lose("INSERT INTO worker");
  const std::int64_t worker = notes.birth(1);
  lose("COMMIT");
  notes.death(worker, 1000, 3);
  lose("INSERT INTO server_kill");
  notes.server_kill(2000);
  EXPECT_EQ(proxy_.faults(), 3);
  EXPECT_EQ(count("worker"), 1);
  EXPECT_EQ(count("server_kill"), 1);
  const std::vector<std::string> said = proxy_.statements();
  EXPECT_EQ(std::count_if(said.begin(), said.end(), timing_wheel::test::has("INSERT INTO \"timing_wheel\".check")), 3);
}

TEST_F(LostAnswers, DoubleNoOrder) {
  bool placed = false;
  shop one(*place_, 1, 1, 1h, [&]() -> std::optional<planned_order> {
    return std::exchange(placed, true) ? std::nullopt : std::optional(planned_order{0ns, {0, 3}, {}});
  });
  lose("COMMIT");
  one.work(0ns);
  EXPECT_EQ(proxy_.faults(), 1);
  EXPECT_EQ(count("orders"), 1);
  EXPECT_EQ(one.placed(), 1U);
  EXPECT_TRUE(judge(*database_).exact());
}

#endif

}  // namespace
}  // namespace order_compensation

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "common/orders_table.hpp"
#include "jobs.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using common::parse_time;
using std::chrono::nanoseconds;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

const std::string header = "order_id,order_status,order_purchase_timestamp,order_approved_at\n";
constexpr sys_seconds noon = sys_days(std::chrono::year(2018) / 1 / 1) + 12h;

orders_file read(const std::string& text) {
  common::progress none(true);
  std::istringstream in(text);
  return read_orders(in, "orders.csv", none);
}

/// Replays with a delay of 30 minutes. \returns the counts of orders, cancelled, fired, late and early ones, the most
/// lateness in microseconds, and the problems.
auto replay_all(const std::vector<order>& orders, std::uint64_t repeat = 1, nanoseconds tick = 1ms) {
  common::progress none(true);
  const std::atomic<bool> never{false};
  options chosen;
  chosen.delay = 30min;
  chosen.repeat = repeat;
  chosen.timer.tick = tick;
  report all("replay");
  replay(all, chosen, orders, none, never);
  all.close("");
  EXPECT_THAT(all.problems, IsEmpty());
  return all.figures;
}

std::vector<std::uint64_t> counts_of(const nlohmann::ordered_json& run) {
  return {run["orders"], run["cancelled"], run["fired"], run["late_approvals"], run["early"]};
}

TEST(ParseTime, KnowsTheTimesAroundTheEpochAndLeapDaysAndNoOtherForm) {
  EXPECT_EQ(parse_time("1970-01-02 01:02:03"), sys_seconds(24h + 1h + 2min + 3s));
  EXPECT_EQ(parse_time("1969-12-31 23:59:59"), sys_seconds(-1s));
  EXPECT_EQ(parse_time("2016-02-29 00:00:00"), sys_seconds(sys_days(std::chrono::year(2016) / 2 / 29)));
  EXPECT_NE(parse_time("2000-02-29 00:00:00"), std::nullopt);
  for (const char* text :
       {"2018-02-29 00:00:00", "1900-02-29 00:00:00", "2018-13-01 00:00:00", "2018-00-01 00:00:00",
        "2018-01-00 00:00:00", "2018-01-01 24:00:00", "2018-01-01 00:60:00", "2018-01-01 00:00:60", "", "2018-01-01",
        "2018-01-01T00:00:00", "2018-01-01 00:00:00Z", "2018-1-01 00:00:000", "+018-01-01 00:00:00"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

// The status of an order is none of them.
TEST(OrdersFile, FindsItsColumnsByNameInAnyOrderQuotedOrNot) {
  const orders_file file = read(
      "\xEF\xBB\xBFx,order_approved_at,\"order_id\",order_purchase_timestamp,\"no,te\"\r\n"
      "1,2018-01-01 12:00:01,\"a\"\"b\",\"2018-01-01 12:00:00\",\"x,y\"\r\n"
      "\r\n"
      "1,,c,2018-01-01 12:00:00,");
  EXPECT_THAT(file.reported, IsEmpty());
  ASSERT_THAT(file.orders, SizeIs(2));
  EXPECT_EQ(file.orders[0].purchased, noon);
  EXPECT_EQ(file.orders[0].approved, noon + 1s);
  EXPECT_EQ(file.orders[1].approved, std::nullopt);
}

TEST(OrdersFile, GoesOnAfterEachKindOfMalformedRow) {
  const orders_file file = read(header +
                                "a,created,yesterday,\n"
                                "b,created,2018-01-01 12:00:00,tomorrow\n"
                                "c,created,2018-01-01 12:00:00\n"
                                "d,created,2018-01-01 12:00:00,,\n"
                                "e,created,2018-01-01 12:00:00,2018-01-01 11:59:59\n"
                                ",created,2018-01-01 12:00:00,\n"
                                "\"g,created,2018-01-01 12:00:00,\n"
                                "h,created,,\n"
                                "i,created,1677-12-31 23:59:59,\n"
                                "k,created,\x1b[31mred,\n"
                                "j,created,2018-01-01 12:00:00,\n");
  EXPECT_EQ(file.malformed, 10U);
  ASSERT_THAT(file.reported, SizeIs(10));
  for (std::size_t i = 0; i < file.reported.size(); ++i) {
    EXPECT_THAT(file.reported[i], StartsWith(std::to_string(i + 2) + ": "));
  }
  EXPECT_THAT(file.reported.back(), HasSubstr("'?[31mred'"));
  EXPECT_THAT(file.orders, SizeIs(1));
}

TEST(OrdersFile, GoesOnAfterALineThatIsTooLongOrNoText) {
  const auto row = [](const std::string& id) { return id + ",created,2018-01-01 12:00:00,\n"; };
  const std::string longest = std::string((1U << 24U) - row("").size(), 'x');
  const orders_file file =
      read(header + row("a") + row(longest + "y") + row(std::string("b\0b", 3)) + row(longest) + row("c") + '\0');
  EXPECT_THAT(file.reported, ElementsAre("3: the line is longer than 16 MiB", StartsWith("4: there is a NUL byte"),
                                         StartsWith("7: there is a NUL byte")));
  EXPECT_THAT(file.orders, SizeIs(3));
}

TEST(OrdersFile, OfNoTextHasNoOrder) {
  for (const std::string& first :
       {std::string("ELF\0", 4), std::string("x\0", 2) + header, std::string(1U << 24U, 'x')}) {
    std::string text = first;
    text.append("\n").append(header).append("a,created,2018-01-01 12:00:00,\n");
    const orders_file file = read(text);
    EXPECT_THAT(file.reported, ElementsAre(StartsWith("1: ")));
    EXPECT_THAT(file.orders, IsEmpty());
  }
}

TEST(Replay, CancelsTheCheckWhenApprovedAtOnceOrExactlyAtItsDeadline) {
  const auto run = replay_all({{noon, noon + 30min}, {noon, noon}});
  EXPECT_THAT(counts_of(run), ElementsAre(2, 2, 0, 0, 0));
  EXPECT_EQ(run["stock"]["confirmed"], goods_of(0).units + goods_of(1).units);
}

TEST(Replay, GivesTheStockBackExactlyAtTheDeadlineWhenApprovedASecondTooLateOrNever) {
  const auto run = replay_all({{noon, noon + 30min + 1s}, {noon, {}}});
  EXPECT_THAT(counts_of(run), ElementsAre(2, 0, 2, 1, 0));
  EXPECT_EQ(run["lateness_us"]["max"], 0);
  EXPECT_EQ(run["stock"]["given_back"], run["stock"]["reserved"]);
}

TEST(Replay, TakesOrdersInAnyOrderOfTimeAndCopiesOfAll) {
  const std::vector<order> orders{{noon, noon + 1s}, {sys_seconds(-1000h), {}}, {noon - 1h, noon - 29min}};
  EXPECT_THAT(counts_of(replay_all(orders)), ElementsAre(3, 1, 2, 1, 0));
  const auto often = replay_all(orders, 3);
  EXPECT_THAT(counts_of(often), ElementsAre(9, 3, 6, 3, 0));
  EXPECT_EQ(often["lateness_us"]["max"], 0);
}

TEST(Replay, ReportsTheLatenessOfATickThatDoesNotDivideTheDelay) {
  // 30 min = 1800 s is not a multiple of 7 s; the tick after it begins at 1806 s.
  const auto run = replay_all({{noon, {}}, {noon, noon + 30min + 1s}}, 1, 7s);
  EXPECT_THAT(counts_of(run), ElementsAre(2, 0, 2, 1, 0));
  EXPECT_EQ(run["lateness_us"]["max"], 6e6);
}

TEST(Replay, RefusesMoreCopiesThanItCanNumber) {
  EXPECT_THROW(replay_all({{noon, {}}, {noon, {}}}, max_orders), common::usage_error);
}

TEST(Report, ReplacesWhatIsNotUtf8InItsJson) {
  report all("live");
  all.figures["store"] = "sqlite:s\xff.db";
  std::ostringstream out;
  all.write_json(out);
  EXPECT_THAT(out.str(), HasSubstr("sqlite:s\xef\xbf\xbd.db"));
}

TEST(Ledger, BalancesWithOrdersInEveryState) {
  ledger book(4);
  for (const order_index order : {0U, 1U, 2U}) {
    book.reserve(order, {5, 3});
  }
  book.confirm(0, {5, 3});
  book.give_back(1, {5, 3});
  const stock_figures stock = book.balance([](order_index) { return goods{5, 3}; });
  EXPECT_THAT((std::vector{stock.reserved, stock.confirmed, stock.given_back, stock.still_reserved}),
              ElementsAre(9, 3, 3, 3));
  EXPECT_TRUE(stock.balanced());
}

TEST(Ledger, NoticesAnOrderBookedTwiceAndGoodsGivenBackToAnotherProduct) {
  ledger book(1);
  book.reserve(0, {5, 3});
  EXPECT_TRUE(book.give_back(0, {5, 3}));
  EXPECT_FALSE(book.give_back(0, {5, 3}));
  EXPECT_FALSE(book.confirm(0, {5, 3}));
  EXPECT_FALSE(book.reserve(0, {5, 3}));
  const stock_figures stock = book.balance([](order_index) { return goods{5, 3}; });
  EXPECT_EQ(stock.given_back, 3U);
  EXPECT_EQ(stock.refused_bookings, 3U);
  EXPECT_FALSE(stock.balanced());
  ledger other(1);
  other.reserve(0, {5, 3});
  other.give_back(0, {6, 3});
  EXPECT_FALSE(other.balance([](order_index) { return goods{5, 3}; }).balanced());
}

std::vector<nanoseconds> times_of(const order_plan& next) {
  std::vector<nanoseconds> times;
  while (const auto one = next()) {
    times.push_back(one->at);
  }
  return times;
}

TEST(SteadyPlan, PlacesOrdersAtTheirRateAndApprovesMostInNineTenthsOfTheDelay) {
  EXPECT_THAT(times_of(steady_plan(2, 2s, 5s, 1)), ElementsAre(0s, 500ms, 1s, 1500ms));
  int approved = 0;
  for (const order_plan plan = steady_plan(10'000, 1s, 5s, 1); const auto one = plan();) {
    approved += one->approved ? 1 : 0;
    EXPECT_LE(one->approved.value_or(one->at), one->at + 4500ms);
  }
  EXPECT_NEAR(approved, 9500, 100);
}

TEST(PlanOfFile, SpreadsThePurchasesAndTheirCopiesOverTheRun) {
  const std::vector<order> far{{noon + 300h, {}}, {noon, {}}, {noon + 100h, {}}};
  EXPECT_DOUBLE_EQ(plan_of_file(far, 1, 5s, 30s).speed, 36'000);
  EXPECT_THAT(times_of(plan_of_file(far, 1, 5s, 30s).next), ElementsAre(0s, 10s, 30s));
  const std::vector<order> near{{noon, {}}, {noon + 2s, {}}};
  EXPECT_THAT(times_of(plan_of_file(near, 3, 5s, 4s).next), ElementsAre(0s, 1s, 2s, 2s, 3s, 4s));
}

TEST(PlanOfFile, MakesTheDelayOfHalfAnHour) {
  const std::vector<order> orders{{noon, noon + 15min}, {noon, noon + 30min}, {noon, noon + 30min + 1s}};
  const scaled_plan plan = plan_of_file(orders, 1, 6s, 30s);
  EXPECT_DOUBLE_EQ(plan.life_speed, 300);
  EXPECT_EQ(plan.next()->approved, 3s);
  EXPECT_EQ(plan.next()->approved, 6s);
  EXPECT_GT(plan.next()->approved, 6s);
}

}  // namespace
}  // namespace order_compensation

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <string>
#include <vector>

#include "ledger.hpp"
#include "options.hpp"
#include "orders_file.hpp"
#include "replay.hpp"
#include "report.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string header = "order_id,order_status,order_purchase_timestamp,order_approved_at\n";
constexpr sys_seconds noon = sys_days(std::chrono::year(2018) / 1 / 1) + 12h;

orders_file read(const std::string& text) {
  progress none(true);
  std::istringstream in(text);
  return read_orders(in, "orders.csv", none);
}

/// Replays with a delay of 30 minutes.
figures replay_all(const std::vector<order>& orders, std::uint64_t repeat = 1, std::chrono::nanoseconds tick = 1ms) {
  progress none(true);
  const std::atomic<bool> interrupted{false};
  return replay(orders, {30min, repeat, {.tick = tick}}, none, interrupted);
}

options parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "order_compensation");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(ParseTime, KnowsTheEpochAndTheTimesAroundIt) {
  EXPECT_EQ(parse_time("1970-01-01 00:00:00"), sys_seconds(0s));
  EXPECT_EQ(parse_time("1970-01-02 01:02:03"), sys_seconds(24h + 1h + 2min + 3s));
  EXPECT_EQ(parse_time("1969-12-31 23:59:59"), sys_seconds(-1s));
}

TEST(ParseTime, KnowsLeapDays) {
  EXPECT_EQ(parse_time("2016-02-29 00:00:00"), sys_seconds(sys_days(std::chrono::year(2016) / 2 / 29)));
  EXPECT_EQ(parse_time("2018-02-29 00:00:00"), std::nullopt);
  EXPECT_EQ(parse_time("1900-02-29 00:00:00"), std::nullopt);
  EXPECT_NE(parse_time("2000-02-29 00:00:00"), std::nullopt);
}

TEST(ParseTime, RefusesWhatIsNoTime) {
  for (const char* text :
       {"2018-02-30 00:00:00", "2018-13-01 00:00:00", "2018-00-01 00:00:00", "2018-01-00 00:00:00",
        "2018-01-01 24:00:00", "2018-01-01 25:00:00", "2018-01-01 00:60:00", "2018-01-01 00:00:60"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

TEST(ParseTime, RefusesOtherForms) {
  for (const char* text :
       {"", "2018-01-01", "2018-01-01T00:00:00", "2018-01-01 00:00:00Z", "2018-01-01 00:00:00.5", "2018-1-01 00:00:000",
        "+018-01-01 00:00:00", "2018-01-01 00:00:-1", "2018/01/01 00:00:00"}) {
    EXPECT_EQ(parse_time(text), std::nullopt) << text;
  }
}

TEST(Options, WaitHalfAnHourInAReplayAndFiveSecondsLive) {
  EXPECT_EQ(parse({"--orders", "orders.csv"}).delay, 30min);
  EXPECT_EQ(parse({}).delay, 5s);
  EXPECT_EQ(parse({"--live", "--delay", "250us"}).delay, 250us);
}

TEST(Options, TakeAnyFormOfADuration) {
  EXPECT_EQ(parse({"--delay", "0.5s"}).delay, 500ms);
  EXPECT_EQ(parse({"--delay", "1d"}).delay, 24h);
  EXPECT_EQ(parse({"--delay", "1h30m", "--tick", "2.5ms"}).delay, 90min);
}

TEST(Options, RefuseWhatMakesNoSense) {
  EXPECT_THROW(parse({"--live", "--orders", "orders.csv"}), usage_error);
  EXPECT_THROW(parse({"--orders", "orders.csv", "--repeat", "0"}), usage_error);
  EXPECT_THROW(parse({"--repeat", "3"}), usage_error);
  EXPECT_THROW(parse({"--checks", "-1"}), usage_error);
  EXPECT_THROW(parse({"--delay", "-5s"}), usage_error);
  EXPECT_THROW(parse({"--no-such-option"}), usage_error);
}

TEST(OrdersFile, FindsItsColumnsByName) {
  const orders_file file = read(
      "x,order_approved_at,order_id,y,order_purchase_timestamp,order_status\n"
      "1,2018-01-01 12:00:01,a,2,2018-01-01 12:00:00,created\n");

  EXPECT_EQ(file.malformed, 0U);
  ASSERT_THAT(file.orders, SizeIs(1));
  EXPECT_EQ(file.orders[0].id_hash, hash_of(std::string_view("a")));
  EXPECT_EQ(file.orders[0].purchased, noon);
  EXPECT_EQ(file.orders[0].approved, noon + 1s);
}

TEST(OrdersFile, TakesAnEmptyApprovalForNever) {
  const orders_file file = read(header + "a,created,2018-01-01 12:00:00,\n");

  ASSERT_THAT(file.orders, SizeIs(1));
  EXPECT_EQ(file.orders[0].approved, std::nullopt);
}

TEST(OrdersFile, ReadsQuotesCarriageReturnsAByteOrderMarkAndALastLineWithoutEnd) {
  const orders_file file = read(
      "\xEF\xBB\xBF\"order_id\",order_status,order_purchase_timestamp,order_approved_at,\"no,te\"\r\n"
      "\"a\"\"b\",created,\"2018-01-01 12:00:00\",,\"x,y\"\r\n"
      "\r\n"
      "c,created,2018-01-01 12:00:00,,");

  EXPECT_THAT(file.reported, IsEmpty());
  ASSERT_THAT(file.orders, SizeIs(2));
  EXPECT_EQ(file.orders[0].id_hash, hash_of(std::string_view("a\"b")));
}

TEST(OrdersFile, ReportsADuplicateIdWithItsLine) {
  const orders_file file = read(header + "a,created,2018-01-01 12:00:00,\na,created,2018-01-01 13:00:00,\n");

  ASSERT_THAT(file.reported, SizeIs(1));
  EXPECT_EQ(file.reported[0].line, 3U);
  EXPECT_EQ(file.reported[0].reason, "order_id 'a' was on line 2 already");
  ASSERT_THAT(file.orders, SizeIs(1));
  EXPECT_EQ(file.orders[0].purchased, noon);
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
                                "j,created,2018-01-01 12:00:00,\n");
  std::vector<std::uint64_t> lines;
  for (const malformed_row& row : file.reported) {
    lines.push_back(row.line);
  }

  EXPECT_EQ(file.malformed, 9U);
  EXPECT_THAT(lines, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 10));
  EXPECT_THAT(file.orders, SizeIs(1));
}

TEST(OrdersFile, ReportsOnlyTheFirstOfVeryManyButCountsAll) {
  std::string text = header;
  for (int i = 0; i < 100; ++i) {
    text += "a\n";
  }

  const orders_file file = read(text);

  EXPECT_EQ(file.malformed, 100U);
  EXPECT_THAT(file.reported, SizeIs(max_reported_rows));
}

TEST(OrdersFile, ReportsAMissingColumnOnLineOne) {
  const orders_file file = read("order_id,order_purchase_timestamp,order_approved_at\na,2018-01-01 12:00:00,\n");

  EXPECT_EQ(file.malformed, 1U);
  ASSERT_THAT(file.reported, SizeIs(1));
  EXPECT_EQ(file.reported[0].line, 1U);
  EXPECT_THAT(file.reported[0].reason, HasSubstr("order_status"));
  EXPECT_THAT(file.orders, IsEmpty());
}

TEST(OrdersFile, ReportsAnEmptyFile) {
  const orders_file file = read("");

  ASSERT_THAT(file.reported, SizeIs(1));
  EXPECT_EQ(file.reported[0].line, 1U);
  EXPECT_THAT(file.reported[0].reason, HasSubstr("empty"));
}

TEST(OrdersFile, OfBytesThatAreNoTextHasNoOrder) {
  using namespace std::string_literals;
  const orders_file file = read(header + "a,created,2018-01-01 12:00:00,\nb,\0created,2018-01-01 12:00:00,\n"s);

  EXPECT_THAT(file.orders, IsEmpty());
  ASSERT_THAT(file.reported, SizeIs(1));
  EXPECT_EQ(file.reported[0].line, 3U);
  EXPECT_THAT(file.reported[0].reason, HasSubstr("not text"));
}

TEST(OrdersFile, ShowsNoControlCharactersOfAField) {
  const orders_file file = read(header + "a,created,\x1b[31mred,\n");

  ASSERT_THAT(file.reported, SizeIs(1));
  EXPECT_THAT(file.reported[0].reason, HasSubstr("'?[31mred'"));
}

TEST(OrdersFile, CannotBeADirectoryOrMissing) {
  EXPECT_THROW(static_cast<void>(common::open_input("/")), usage_error);
  EXPECT_THROW(static_cast<void>(common::open_input("/no/such/file.csv")), usage_error);
}

TEST(Replay, CancelsTheCheckWhenApprovedExactlyAtItsDeadline) {
  const figures run = replay_all({{1, noon, noon + 30min}});

  EXPECT_EQ(run.cancelled, 1U);
  EXPECT_EQ(run.fired, 0U);
  EXPECT_EQ(run.stock.confirmed, goods_of(1).units);
  EXPECT_THAT(run.problems, IsEmpty());
}

TEST(Replay, GivesTheStockBackWhenApprovedASecondTooLate) {
  const figures run = replay_all({{1, noon, noon + 30min + 1s}});

  EXPECT_EQ(run.cancelled, 0U);
  EXPECT_EQ(run.fired, 1U);
  EXPECT_EQ(run.late_approvals, 1U);
  EXPECT_EQ(run.stock.given_back, goods_of(1).units);
  EXPECT_THAT(run.problems, IsEmpty());
}

TEST(Replay, GivesTheStockBackExactlyAtTheDeadlineWhenNeverApproved) {
  const figures run = replay_all({{1, noon, {}}});

  EXPECT_EQ(run.fired, 1U);
  EXPECT_EQ(run.early, 0U);
  EXPECT_EQ(run.lateness.count(), 1U);
  EXPECT_EQ(run.lateness.max(), 0ns);
  EXPECT_EQ(run.stock.still_reserved, 0U);
}

TEST(Replay, CancelsTheCheckWhenApprovedAtOnce) { EXPECT_EQ(replay_all({{1, noon, noon}}).cancelled, 1U); }

TEST(Replay, TakesOrdersInAnyOrderOfTime) {
  const sys_seconds before_the_epoch(-1000h);

  const figures run = replay_all({{1, noon, noon + 1s}, {2, before_the_epoch, {}}, {3, noon - 1h, noon - 30min}});

  EXPECT_EQ(run.cancelled, 2U);
  EXPECT_EQ(run.fired, 1U);
  EXPECT_EQ(run.lateness.max(), 0ns);
  EXPECT_THAT(run.problems, IsEmpty());
}

TEST(Replay, RepeatedThreeTimesGivesThreeTimesEverything) {
  const std::vector<order> orders{{1, noon, noon + 1s}, {2, noon + 1s, {}}, {3, noon + 1s, noon + 30min + 2s}};
  const figures once = replay_all(orders);

  const figures thrice = replay_all(orders, 3);

  EXPECT_EQ(thrice.orders, 9U);
  EXPECT_EQ(thrice.cancelled, 3 * once.cancelled);
  EXPECT_EQ(thrice.fired, 3 * once.fired);
  EXPECT_EQ(thrice.stock.reserved, 3 * once.stock.reserved);
  EXPECT_EQ(thrice.stock.given_back, 3 * once.stock.given_back);
  EXPECT_GT(thrice.peak_pending, once.peak_pending);
  EXPECT_THAT(thrice.problems, IsEmpty());
}

TEST(Replay, ReportsTheLatenessOfATickThatDoesNotDivideTheDelay) {
  // 30 min = 1800 s is not a multiple of 7 s; the tick after it begins at 1806 s.
  const figures run = replay_all({{1, noon, {}}, {2, noon, noon + 30min + 1s}}, 1, 7s);

  EXPECT_EQ(run.fired, 2U);
  EXPECT_EQ(run.late_approvals, 1U);
  EXPECT_EQ(run.early, 0U);
  EXPECT_EQ(run.lateness.max(), 6s);
  EXPECT_THAT(run.problems, IsEmpty());
}

TEST(Replay, OfNoOrdersDoesNothing) {
  const figures run = replay_all({}, 5);

  EXPECT_EQ(run.orders, 0U);
  EXPECT_THAT(run.problems, IsEmpty());
}

TEST(Replay, RefusesMoreCopiesThanItCanNumber) {
  EXPECT_THROW(replay_all({{1, noon, {}}, {2, noon, {}}}, max_orders), usage_error);
}

TEST(Ledger, BalancesWithOrdersInEveryState) {
  const auto three_of_product_five = [](order_index) { return goods{5, 3}; };
  ledger book(4);
  for (const order_index order : {0U, 1U, 2U}) {
    book.reserve(order, {5, 3});
  }
  book.confirm(0, {5, 3});
  book.give_back(1, {5, 3});

  const stock_figures stock = book.balance(three_of_product_five);

  EXPECT_EQ(stock.reserved, 9U);
  EXPECT_EQ(stock.confirmed, 3U);
  EXPECT_EQ(stock.given_back, 3U);
  EXPECT_EQ(stock.still_reserved, 3U);
  EXPECT_TRUE(stock.balanced());
}

TEST(Ledger, RefusesToBookAnOrderTwice) {
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
}

TEST(Ledger, NoticesGoodsGivenBackToAnotherProduct) {
  ledger book(1);
  book.reserve(0, {5, 3});
  book.give_back(0, {6, 3});

  EXPECT_FALSE(book.balance([](order_index) { return goods{5, 3}; }).balanced());
}

TEST(Goods, AreOneToFiveUnitsOfAProductThatExists) {
  for (order_index i = 0; i < 1000; ++i) {
    const goods what = goods_of(hash_of(i));
    EXPECT_LT(what.product, product_count);
    EXPECT_GE(what.units, 1U);
    EXPECT_LE(what.units, 5U);
  }
}

TEST(Audit, FindsWhatTheJobAndTheServiceDoNotAgreeOn) {
  figures run;
  run.orders = 2;
  run.fired = 2;
  timing_wheel::timer_stats service;
  service.scheduled = 2;
  service.fired = 1;

  audit(run, service);

  EXPECT_THAT(run.problems, ElementsAre("fired: the job counted 2, the timer service 1"));
}

TEST(Audit, FindsEarlyChecks) {
  figures run;
  timing_wheel::timer_stats service;
  service.early = 1;

  audit(run, service);

  EXPECT_EQ(run.early, 1U);
  EXPECT_THAT(run.problems, SizeIs(1));
}

TEST(Report, SaysThatNothingFiredInsteadOfALateness) {
  figures run;
  std::ostringstream table;
  std::ostringstream json;
  print_table(table, run);
  write_json(json, run);

  EXPECT_THAT(table.str(), HasSubstr("nothing fired"));
  EXPECT_THAT(table.str(), Not(HasSubstr("0.0 us")));
  EXPECT_THAT(json.str(), HasSubstr("\"max\": null"));
}

TEST(Report, ShowsALatenessOfZeroWhereSomethingFired) {
  figures run;
  run.lateness.record(0ns);
  std::ostringstream table;
  print_table(table, run);

  EXPECT_THAT(table.str(), HasSubstr("0.0 us"));
}

TEST(Grouped, SeparatesThousands) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1 000");
  EXPECT_EQ(grouped(1234567), "1 234 567");
}

}  // namespace
}  // namespace order_compensation

#include "durable_ledger.hpp"

#include <algorithm>
#include <cstddef>

namespace order_compensation {
namespace {

/// The orders and the runs of their checks say what the stock should be. `timing_wheel_check` is the table of the
/// checks, as docs/durable.md describes it.
constexpr const char* fate_of_all_orders =
    "WITH "
    "run(order_id,times) AS (SELECT order_id,count(*) FROM firing GROUP BY order_id),"
    "fate AS ("
    " SELECT o.product,o.units,o.confirmed IS NOT NULL AS confirmed,coalesce(r.times,0) AS times,"
    "  c.id IS NOT NULL AS pending"
    " FROM orders o LEFT JOIN run r ON r.order_id=o.id"
    " LEFT JOIN timing_wheel_check c ON c.kind='verify' AND c.key=CAST('order-'||o.id AS BLOB)),"
    "sums AS ("
    " SELECT product,count(*) AS orders,sum(confirmed) AS confirmed,sum(times) AS fired,sum(pending) AS pending,"
    "  sum(NOT confirmed AND times=0 AND NOT pending) AS lost,sum(confirmed+times>1) AS doubled,"
    "  sum(pending AND confirmed+times>0) AS strays,"
    "  sum(units) AS units,sum(units*confirmed) AS sold,sum(units*times) AS returned,"
    "  sum(units*(confirmed+times=0)) AS reserved"
    " FROM fate GROUP BY product) "
    "SELECT sum(orders),sum(confirmed),sum(fired),sum(pending),sum(lost),sum(doubled),"
    " (SELECT count(*) FROM firing f JOIN orders o ON o.id=f.order_id WHERE f.fired<o.due),"
    " coalesce(sum(strays),0)+(SELECT count(*) FROM firing WHERE order_id NOT IN (SELECT id FROM orders))"
    "  +(SELECT count(*) FROM timing_wheel_check WHERE kind='verify')-coalesce(sum(pending),0),"
    " sum(units),sum(p.sold),sum(returned),sum(p.reserved),"
    " sum(s.reserved<>coalesce(p.reserved,0) OR s.sold<>coalesce(p.sold,0)"
    "  OR s.on_hand<>s.delivered-coalesce(units,0)+coalesce(returned,0)) "
    "FROM stock s LEFT JOIN sums p ON p.product=s.product";

/// Kills of the run ?1, and when a later worker ran its first check.
#define KILLS_AND_RECOVERIES                                                                                         \
  "WITH first(worker,at) AS MATERIALIZED (SELECT worker,min(fired) FROM (SELECT worker,fired FROM firing UNION ALL " \
  "SELECT worker,fired FROM probe) GROUP BY worker),"                                                                \
  "recovery(killed,again) AS MATERIALIZED (SELECT killed,(SELECT min(at) FROM first WHERE worker>number) "           \
  "FROM worker WHERE run=?1 AND killed IS NOT NULL) "

constexpr const char* recovery_times =
    KILLS_AND_RECOVERIES "SELECT again-killed FROM recovery WHERE again IS NOT NULL ORDER BY 1";

constexpr const char* lateness_of_all =
    "SELECT f.fired-o.due FROM firing f JOIN orders o ON o.id=f.order_id "
    "WHERE o.due>=(SELECT begun FROM shop_run WHERE id=?1) ORDER BY 1";

constexpr const char* lateness_between_recoveries = KILLS_AND_RECOVERIES
    "SELECT f.fired-o.due FROM firing f JOIN orders o ON o.id=f.order_id "
    "WHERE o.due>=(SELECT begun FROM shop_run WHERE id=?1) "
    "AND NOT EXISTS(SELECT 1 FROM recovery WHERE o.due>=killed AND (again IS NULL OR o.due<=again)) ORDER BY 1";

#undef KILLS_AND_RECOVERIES

durations all_of(statement& query) {
  durations all;
  while (query.step()) {
    all.push_back(query.integer(0));
  }
  return all;
}

std::uint64_t count(const statement& row, int column) { return static_cast<std::uint64_t>(row.integer(column)); }

}  // namespace

verdict judge(connection& in) {
  statement query(in.get(), fate_of_all_orders);
  query.step();
  verdict all;
  int column = 0;
  for (auto* figure :
       {&all.orders, &all.cancelled, &all.fired, &all.pending, &all.lost, &all.doubled, &all.early, &all.strays,
        &all.stock.reserved, &all.stock.confirmed, &all.stock.given_back, &all.stock.still_reserved}) {
    *figure = count(query, column++);
  }
  all.stock.wrong_products = static_cast<std::uint32_t>(count(query, column));
  return all;
}

std::int64_t quantile(const durations& sorted, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(place, sorted.size() - 1)];
}

durations recoveries(connection& in, std::int64_t run) { return all_of(statement(in.get(), recovery_times).with(run)); }

durations lateness(connection& in, std::int64_t run, bool between_recoveries) {
  return all_of(statement(in.get(), between_recoveries ? lateness_between_recoveries : lateness_of_all).with(run));
}

}  // namespace order_compensation

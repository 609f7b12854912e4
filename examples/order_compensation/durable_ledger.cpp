#include "durable_ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace order_compensation {
namespace {

/// The orders and the runs of their checks say what the stock should be. Conditions are counted as numbers, which all
/// databases can sum.
std::string fate_of_all_orders(const database& in) {
  const std::string checks = in.check_table();
  return "WITH "
         "run AS (SELECT order_id,count(*) AS times FROM firing GROUP BY order_id),"
         "fate AS ("
         " SELECT o.product,o.units,CASE WHEN o.confirmed IS NULL THEN 0 ELSE 1 END AS confirmed,"
         "  coalesce(r.times,0) AS times,CASE WHEN c.kind IS NULL THEN 0 ELSE 1 END AS pending"
         " FROM orders o LEFT JOIN run r ON r.order_id=o.id"
         " LEFT JOIN " +
         checks + " c ON c.kind='verify' AND c.key=" + in.bytes_of("'order-'||o.id") +
         "),"
         "sums AS ("
         " SELECT product,count(*) AS orders,sum(confirmed) AS confirmed,sum(times) AS fired,sum(pending) AS pending,"
         "  sum(CASE WHEN confirmed=0 AND times=0 AND pending=0 THEN 1 ELSE 0 END) AS lost,"
         "  sum(CASE WHEN confirmed+times>1 THEN 1 ELSE 0 END) AS doubled,"
         "  sum(CASE WHEN pending=1 AND confirmed+times>0 THEN 1 ELSE 0 END) AS strays,"
         "  sum(units) AS units,sum(units*confirmed) AS sold,sum(units*times) AS returned,"
         "  sum(CASE WHEN confirmed+times=0 THEN units ELSE 0 END) AS reserved"
         " FROM fate GROUP BY product) "
         "SELECT sum(orders),sum(confirmed),sum(fired),sum(pending),sum(lost),sum(doubled),"
         " (SELECT count(*) FROM firing f JOIN orders o ON o.id=f.order_id WHERE f.fired<o.due),"
         " coalesce(sum(strays),0)+(SELECT count(*) FROM firing WHERE order_id NOT IN (SELECT id FROM orders))"
         "  +(SELECT count(*) FROM " +
         checks +
         " WHERE kind='verify')-coalesce(sum(pending),0),"
         " sum(units),sum(p.sold),sum(returned),sum(p.reserved),"
         " sum(CASE WHEN s.reserved<>coalesce(p.reserved,0) OR s.sold<>coalesce(p.sold,0)"
         "  OR s.on_hand<>s.delivered-coalesce(units,0)+coalesce(returned,0) THEN 1 ELSE 0 END) "
         "FROM stock s LEFT JOIN sums p ON p.product=s.product";
}

/// Kills of the run $1, and when all was well again.
#define KILLS_AND_RECOVERIES                                                                                         \
  "WITH recovery(killed,again) AS MATERIALIZED ("                                                                    \
  "SELECT killed,(SELECT max(fired) FROM probe WHERE probe.killed=number) FROM worker WHERE run=$1 AND killed IS "   \
  "NOT NULL),"                                                                                                       \
  "served(killed,again) AS MATERIALIZED (SELECT killed,(SELECT min(fired) FROM (SELECT fired FROM firing UNION ALL " \
  "SELECT fired FROM probe) AS ran WHERE fired>killed) FROM server_kill WHERE run=$1) "

constexpr const char* recovery_times =
    KILLS_AND_RECOVERIES "SELECT again-killed FROM recovery WHERE again IS NOT NULL ORDER BY 1";

constexpr const char* server_recovery_times =
    KILLS_AND_RECOVERIES "SELECT again-killed FROM served WHERE again IS NOT NULL ORDER BY 1";

constexpr const char* lateness_of_all =
    "SELECT f.fired-o.due FROM firing f JOIN orders o ON o.id=f.order_id "
    "WHERE o.due>=(SELECT begun FROM shop_run WHERE id=$1) ORDER BY 1";

constexpr const char* lateness_between_recoveries = KILLS_AND_RECOVERIES
    "SELECT f.fired-o.due FROM firing f JOIN orders o ON o.id=f.order_id "
    "WHERE o.due>=(SELECT begun FROM shop_run WHERE id=$1) "
    "AND NOT EXISTS(SELECT 1 FROM (SELECT * FROM recovery UNION ALL SELECT * FROM served) AS gap "
    "WHERE f.fired>=killed AND (again IS NULL OR o.due<=again)) ORDER BY 1";

#undef KILLS_AND_RECOVERIES

constexpr const char* of_each_node =
    "SELECT node,count(*),count(killed),"
    "sum((SELECT count(*) FROM firing WHERE firing.worker=worker.number)),"
    "sum((SELECT count(*) FROM probe WHERE probe.worker=worker.number)) "
    "FROM worker WHERE run=$1 GROUP BY node ORDER BY node";

}  // namespace

verdict judge(database& in) {
  const std::vector<std::int64_t> row = in.run(fate_of_all_orders(in).c_str());
  verdict all;
  std::size_t column = 0;
  for (auto* figure :
       {&all.orders, &all.cancelled, &all.fired, &all.pending, &all.lost, &all.doubled, &all.early, &all.strays,
        &all.stock.reserved, &all.stock.confirmed, &all.stock.given_back, &all.stock.still_reserved}) {
    *figure = static_cast<std::uint64_t>(row[column++]);
  }
  all.stock.wrong_products = static_cast<std::uint32_t>(row[column]);
  return all;
}

std::int64_t quantile(const durations& sorted, double share) {
  const auto place = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(place, sorted.size() - 1)];
}

durations recoveries(database& in, std::int64_t run) { return in.run(recovery_times, run); }

durations server_recoveries(database& in, std::int64_t run) { return in.run(server_recovery_times, run); }

durations lateness(database& in, std::int64_t run, bool between_recoveries) {
  return in.run(between_recoveries ? lateness_between_recoveries : lateness_of_all, run);
}

std::vector<node_figures> nodes(database& in, std::int64_t run) {
  const std::vector<std::int64_t> rows = in.run(of_each_node, run);
  std::vector<node_figures> all;
  for (std::size_t at = 0; at < rows.size();) {
    node_figures& one = all.emplace_back();
    for (auto* figure : {&one.node, &one.processes, &one.kills, &one.fired, &one.probes}) {
      *figure = static_cast<std::uint64_t>(rows[at++]);
    }
  }
  return all;
}

std::uint64_t takeovers(database& in, std::int64_t run) {
  if (in.share_table() == nullptr) {
    return 0;
  }
  const std::string sql = std::string("SELECT count(*) FROM lost_share l JOIN worker w ON w.number=l.worker JOIN ") +
                          in.share_table() +
                          " s ON s.kinds=l.kinds AND s.share=l.share WHERE w.run=$1 AND s.epoch>l.epoch";
  return static_cast<std::uint64_t>(in.ask(sql.c_str(), run));
}

}  // namespace order_compensation

#include "durable_report.hpp"

#include <nlohmann/json.hpp>
#include <ostream>

#include "common/program.hpp"
#include "report_table.hpp"

namespace order_compensation {
namespace {

using common::grouped;
using json_object = nlohmann::ordered_json;

double seconds_of(std::int64_t microseconds) { return static_cast<double>(microseconds) / 1e6; }

/// What it was, when it is gone.
std::string kind_of(const std::string& store) { return store.starts_with("sqlite:") ? "file" : "server"; }

void print_orders(table& rows, const durable_figures& run) {
  if (run.earlier_orders != 0) {
    rows.line("of earlier runs", run.earlier_orders, "orders");
    rows.line("of these pending", run.earlier_pending);
  }
  rows.line("orders", run.outcome.orders);
  rows.line("placed per second", per_second(run.placed, run.placing));
  rows.line("transactions of these", run.transactions);
  if (run.speeds) {
    rows.line("malformed rows", run.malformed);
    rows.line("from order to order", with_decimals(run.speeds->orders, 1), "times as fast");
    rows.line("to approval and check", with_decimals(run.speeds->lives, 1), "times as fast");
  }
}

void print_outcome(table& rows, const durable_figures& run) {
  const verdict& all = run.outcome;
  rows.line("cancelled by approval", all.cancelled);
  rows.line("fired", all.fired);
  rows.line("still pending", all.pending);
  rows.line("approved too late", run.late_approvals);
  rows.line("lost", all.lost);
  rows.line("doubled", all.doubled);
  rows.line("fired early", all.early);
}

void print_lateness(table& rows, const std::string& label, const durations& late) {
  if (late.empty()) {
    rows.line(label, "nothing fired");
    return;
  }
  rows.line(label + " p50", with_decimals(static_cast<double>(quantile(late, 0.5)) / 1000, 1), "ms");
  rows.line(label + " p99", with_decimals(static_cast<double>(quantile(late, 0.99)) / 1000, 1), "ms");
  rows.line(label + " max", with_decimals(static_cast<double>(late.back()) / 1000, 1), "ms");
}

void print_recovery(table& rows, const std::string& label, const durations& recovery) {
  if (!recovery.empty()) {
    rows.line(label + " p50", with_decimals(seconds_of(quantile(recovery, 0.5)), 3), "s");
    rows.line(label + " max", with_decimals(seconds_of(recovery.back()), 3), "s");
  }
}

void print_times(table& rows, const durable_figures& run) {
  rows.line("kills", run.kills);
  rows.line("recovered", run.recovery.size());
  if (run.takeovers != 0) {
    rows.line("shares taken over", run.takeovers);
  }
  print_recovery(rows, "recovery", run.recovery);
  if (run.with_server) {
    rows.line("kills of the server", run.server_kills);
    print_recovery(rows, "server recovery", run.server_recovery);
  }
  print_lateness(rows, "lateness", run.late);
  if (run.kills != 0) {
    print_lateness(rows, "undisturbed", run.late_undisturbed);
  }
  rows.line("elapsed", with_decimals(seconds(run.elapsed), 3), "s");
}

void print_nodes(table& rows, const durable_figures& run) {
  if (run.nodes.size() < 2) {
    return;
  }
  for (const node_figures& one : run.nodes) {
    rows.line("node " + std::to_string(one.node), per_second(one.fired, run.elapsed),
              "checks per second, " + grouped(one.fired) + " in all, " + grouped(one.kills) + " kills");
  }
}

void print_durable_stock(table& rows, const stock_figures& stock) {
  rows.line("stock reserved", stock.reserved, "units");
  rows.line("stock confirmed", stock.confirmed, "units");
  rows.line("stock given back", stock.given_back, "units");
  rows.line("stock still reserved", stock.still_reserved, "units");
}

void print_verdicts(table& rows, const durable_figures& run) {
  const stock_figures& stock = run.outcome.stock;
  rows.verdict("ledger",
               grouped(stock.reserved) + " reserved = " + grouped(stock.confirmed) + " confirmed + " +
                   grouped(stock.given_back) + " given back + " + grouped(stock.still_reserved) + " still reserved",
               stock.balanced());
  rows.verdict("exact",
               run.outcome.exact()
                   ? "nothing lost, nothing twice, nothing early, through " + grouped(run.kills) + " kills" +
                         (run.with_server ? " of nodes and " + grouped(run.server_kills) + " of the server" : "")
                   : "no",
               run.outcome.exact());
  for (const std::string& problem : run.problems) {
    rows.verdict("problem", problem, false);
  }
}

json_object quantiles_of(const durations& sorted, double unit, bool with_p99) {
  const auto at = [&](double share) {
    return sorted.empty() ? json_object(nullptr) : json_object(static_cast<double>(quantile(sorted, share)) / unit);
  };
  json_object all{{"p50", at(0.5)}};
  if (with_p99) {
    all["p99"] = at(0.99);
  }
  all["max"] = at(1);
  return all;
}

json_object stock_of(const stock_figures& stock) {
  return {{"reserved", stock.reserved},
          {"confirmed", stock.confirmed},
          {"given_back", stock.given_back},
          {"still_reserved", stock.still_reserved}};
}

void add_outcome(json_object& json, const verdict& all) {
  json["orders"] = all.orders;
  json["cancelled"] = all.cancelled;
  json["fired"] = all.fired;
  json["pending"] = all.pending;
  json["lost"] = all.lost;
  json["doubled"] = all.doubled;
  json["early"] = all.early;
  json["exact"] = all.exact();
  json["stock"] = stock_of(all.stock);
}

void add_times(json_object& json, const durable_figures& run) {
  json["kills"] = run.kills;
  json["server_kills"] = run.server_kills;
  json["recovered"] = run.recovery.size();
  json["takeovers"] = run.takeovers;
  json["server_recovery_s"] = quantiles_of(run.server_recovery, 1e6, false);
  json["recovery_s"] = quantiles_of(run.recovery, 1e6, false);
  json["lateness_us"] = quantiles_of(run.late, 1, true);
  json["lateness_undisturbed_us"] = quantiles_of(run.late_undisturbed, 1, true);
  json["placed"] = run.placed;
  json["placed_per_s"] = per_second(run.placed, run.placing);
  json["transactions"] = run.transactions;
  json["elapsed_s"] = seconds(run.elapsed);
}

json_object nodes_of(const durable_figures& run) {
  json_object all = json_object::array();
  for (const node_figures& one : run.nodes) {
    all.push_back({{"node", one.node},
                   {"processes", one.processes},
                   {"kills", one.kills},
                   {"fired", one.fired},
                   {"fired_per_s", per_second(one.fired, run.elapsed)},
                   {"probes", one.probes}});
  }
  return all;
}

void note(durable_figures& run, std::uint64_t count, const char* what) {
  if (count != 0) {
    run.problems.push_back(grouped(count) + " " + what);
  }
}

}  // namespace

void audit(durable_figures& run) {
  note(run, run.outcome.lost, "orders lost");
  note(run, run.outcome.doubled, "orders doubled");
  note(run, run.outcome.early, "checks ran before their time");
  note(run, run.outcome.strays, "checks of no open order");
  if (!run.outcome.stock.balanced()) {
    run.problems.push_back("the ledger does not balance: wrong products " + grouped(run.outcome.stock.wrong_products));
  }
}

void print_table(std::ostream& out, const durable_figures& run) {
  out << "order compensation, durable, in " << (run.removed() ? "a " + kind_of(run.store) + " of its own" : run.store);
  if (run.interrupted) {
    out << ", interrupted" << (run.interrupted_by.empty() ? "" : " by " + run.interrupted_by) << ": a part of the run";
  }
  out << '\n';
  table rows(out);
  print_orders(rows, run);
  print_outcome(rows, run);
  print_times(rows, run);
  print_nodes(rows, run);
  print_durable_stock(rows, run.outcome.stock);
  print_verdicts(rows, run);
}

void write_json(std::ostream& out, const durable_figures& run) {
  json_object json;
  json["mode"] = "durable";
  json["store"] = run.removed() ? json_object(nullptr) : json_object(run.store);
  add_outcome(json, run.outcome);
  add_times(json, run);
  json["nodes"] = nodes_of(run);
  json["malformed"] = run.malformed;
  json["late_approvals"] = run.late_approvals;
  json["earlier"] = {{"orders", run.earlier_orders}, {"pending", run.earlier_pending}};
  if (run.speeds) {
    json["speed"] = {{"orders", run.speeds->orders}, {"lives", run.speeds->lives}};
  }
  json["interrupted"] = run.interrupted;
  if (!run.interrupted_by.empty()) {
    json["interrupted_by"] = run.interrupted_by;
  }
  json["problems"] = run.problems;
  out << json.dump(2) << '\n';
}

}  // namespace order_compensation

#include "report.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string_view>
#include <utility>

#include "report_table.hpp"

namespace order_compensation {
namespace {

void print_checks(table& rows, const figures& run) {
  rows.line("orders", run.orders);
  if (run.mode == "live") {
    rows.line("created per second", per_second(run.orders, run.creating));
  } else {
    rows.line("replayed per second", per_second(run.orders, run.elapsed));
    rows.line("malformed rows", run.malformed);
  }
  rows.line("cancelled by approval", run.cancelled);
  rows.line("fired", run.fired);
  rows.line("still pending", run.pending);
  rows.line("approved too late", run.late_approvals);
  rows.line("fired early", run.early);
}

void print_costs(table& rows, const figures& run) {
  if (run.lateness.count() == 0) {
    rows.line("lateness", "nothing fired");
  } else {
    rows.line("lateness p50", with_decimals(microseconds(run.lateness.quantile(0.5)), 1), "us");
    rows.line("lateness p99", with_decimals(microseconds(run.lateness.quantile(0.99)), 1), "us");
    rows.line("lateness max", with_decimals(microseconds(run.lateness.max()), 1), "us");
  }
  rows.line("wake-ups", run.wakeups);
  rows.line("most pending at once", run.peak_pending);
  rows.line("memory of the service", with_decimals(mebibytes(run.peak_bytes), 1), "MiB");
  if (run.mode == "live") {
    rows.line("memory per check", with_decimals(run.bytes_per_check(), 1), "bytes");
  }
  if (run.resident_growth) {
    rows.line("process grew by", with_decimals(mebibytes(*run.resident_growth), 1), "MiB");
  }
  rows.line("elapsed", with_decimals(seconds(run.elapsed), 3), "s");
}

void print_stock(table& rows, const stock_figures& stock) {
  rows.line("stock reserved", stock.reserved, "units");
  rows.line("stock confirmed", stock.confirmed, "units");
  rows.line("stock given back", stock.given_back, "units");
  rows.line("stock still reserved", stock.still_reserved, "units");
}

void print_verdicts(table& rows, const figures& run) {
  const stock_figures& stock = run.stock;
  rows.verdict("ledger",
               grouped(stock.reserved) + " reserved = " + grouped(stock.confirmed) + " confirmed + " +
                   grouped(stock.given_back) + " given back + " + grouped(stock.still_reserved) + " still reserved",
               stock.balanced());
  rows.verdict("early", run.early == 0 ? "none" : grouped(run.early) + " checks", run.early == 0);
  for (const std::string& problem : run.problems) {
    rows.verdict("problem", problem, false);
  }
}

void compare(figures& run, const char* what, std::uint64_t job, std::uint64_t service) {
  if (job != service) {
    run.problems.push_back(std::string(what) + ": the job counted " + grouped(job) + ", the timer service " +
                           grouped(service));
  }
}

}  // namespace

double figures::bytes_per_check() const {
  return orders == 0 ? 0.0 : static_cast<double>(peak_bytes) / static_cast<double>(orders);
}

void audit(figures& run, const timing_wheel::timer_stats& service) {
  run.wakeups = service.wakeups;
  run.peak_bytes = std::max<std::uint64_t>(run.peak_bytes, service.bytes);
  compare(run, "orders", run.orders, service.scheduled);
  compare(run, "cancelled", run.cancelled, service.cancelled);
  compare(run, "fired", run.fired, service.fired);
  compare(run, "pending", run.pending, service.returned + service.pending);
  if (run.early != 0 || service.early != 0) {
    run.early = std::max(run.early, service.early);
    run.problems.push_back("checks ran before their time");
  }
  if (service.failed != 0) {
    run.problems.push_back("checks that threw: " + grouped(service.failed));
  }
  if (!run.stock.balanced()) {
    run.problems.push_back("the ledger does not balance: wrong products " + grouped(run.stock.wrong_products) +
                           ", refused bookings " + grouped(run.stock.refused_bookings));
  }
}

void print_table(std::ostream& out, const figures& run) {
  out << "order compensation, " << run.mode;
  if (run.interrupted) {
    out << ", interrupted" << (run.interrupted_by.empty() ? "" : " by " + run.interrupted_by) << ": a part of the run";
  }
  out << '\n';
  table rows(out);
  print_checks(rows, run);
  print_costs(rows, run);
  print_stock(rows, run.stock);
  print_verdicts(rows, run);
}

void write_json(std::ostream& out, const figures& run) {
  nlohmann::ordered_json json;
  json["mode"] = run.mode;
  json["orders"] = run.orders;
  json["cancelled"] = run.cancelled;
  json["fired"] = run.fired;
  json["malformed"] = run.malformed;
  json["early"] = run.early;
  json["lateness_us"] = {{"p50", nullptr}, {"p99", nullptr}, {"max", nullptr}};
  if (run.lateness.count() != 0) {
    json["lateness_us"] = {{"p50", microseconds(run.lateness.quantile(0.5))},
                           {"p99", microseconds(run.lateness.quantile(0.99))},
                           {"max", microseconds(run.lateness.max())}};
  }
  json["pending"] = run.pending;
  json["stock"] = {{"reserved", run.stock.reserved},
                   {"confirmed", run.stock.confirmed},
                   {"given_back", run.stock.given_back},
                   {"still_reserved", run.stock.still_reserved}};
  json["wakeups"] = run.wakeups;
  json["bytes_per_check"] = run.bytes_per_check();
  json["elapsed_s"] = seconds(run.elapsed);
  json["late_approvals"] = run.late_approvals;
  json["peak_pending"] = run.peak_pending;
  json["peak_bytes"] = run.peak_bytes;
  if (run.mode == "live") {
    json["created_per_s"] = per_second(run.orders, run.creating);
  }
  if (run.resident_growth) {
    json["resident_growth_bytes"] = *run.resident_growth;
  }
  json["interrupted"] = run.interrupted;
  if (!run.interrupted_by.empty()) {
    json["interrupted_by"] = run.interrupted_by;
  }
  json["problems"] = run.problems;
  out << json.dump(2) << '\n';
}

}  // namespace order_compensation

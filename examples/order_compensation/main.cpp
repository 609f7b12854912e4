#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/orders_table.hpp"
#include "common/program.hpp"
#include "common/progress.hpp"
#include "common/stop_signal.hpp"
#include "jobs.hpp"

namespace order_compensation {
namespace {

void check_json_target(const options& chosen) {
  std::error_code ignored;
  const std::string store = chosen.store.value_or("");
  for (const auto& [option, file] :
       {std::pair("--orders", chosen.orders.value_or("")), std::pair("--store", store.substr(store.find(':') + 1))}) {
    if (std::filesystem::equivalent(file, *chosen.json, ignored)) {
      throw common::usage_error(std::string("--json and ") + option + " name the same file, " + *chosen.json);
    }
  }
  common::check_target("--json", *chosen.json);
}

/// A signal ends the reading at once, because there is nothing to report yet.
orders_file read_all_orders(const std::string& path, std::istream& in, common::progress& shown) {
  orders_file file = read_orders(in, path, shown);
  shown.clear();
  for (const std::string& row : file.reported) {
    std::cerr << path << ':' << row << '\n';
  }
  if (const auto more = file.malformed - file.reported.size(); more != 0) {
    std::cerr << path << ": " << grouped(more) << " more malformed rows\n";
  }
  if (file.orders.empty()) {
    throw common::failure(path + ": there is no order to replay");
  }
  return file;
}

void run_job(report& all, const options& chosen, std::istream& in) {
  common::progress shown(chosen.quiet);
  orders_file file;
  if (chosen.orders) {
    file = read_all_orders(*chosen.orders, in, shown);
    all.malformed = file.malformed;
  }
  common::stop_on_signals();
  if (chosen.durable) {
    run_durable(all, chosen, chosen.orders ? &file.orders : nullptr, shown, common::stop_asked());
  } else if (chosen.orders) {
    replay(all, chosen, file.orders, shown, common::stop_asked());
  } else {
    run_live(all, chosen, shown, common::stop_asked());
  }
}

/// Of the two outputs, one that fails does not spoil the other.
int run_and_report(const options& chosen, std::istream& orders) {
  report all(chosen.durable ? "durable" : chosen.orders ? "replay" : "live");
  run_job(all, chosen, orders);
  all.close(all.interrupted ? common::stop_signal_name() : "");
  all.print(std::cout);
  if (chosen.json) {
    common::write_file(*chosen.json, [&](std::ostream& out) { all.write_json(out); });
  }
  common::finish_output(std::cout);
  if (all.problems.empty() && all.interrupted) {
    return common::exit_stopped();
  }
  return all.problems.empty() && all.malformed == 0 ? 0 : common::exit_failed;
}

int run(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--worker") {  // as `run_durable` starts it
    run_worker(std::stoll(argv[2]), std::chrono::nanoseconds(std::stoll(argv[3])));
    return 0;
  }
  const options chosen = parse_options(argc, argv);
  if (!chosen.help.empty()) {
    std::cout << chosen.help;
    common::finish_output(std::cout);
    return 0;
  }
  // What cannot be used is found before the long work: bad options of the timer first, then the files.
  static_cast<void>(timing_wheel::manual_timer(chosen.timer));
  std::ifstream orders = chosen.orders ? common::open_input(*chosen.orders) : std::ifstream();
  if (chosen.json) {
    check_json_target(chosen);
  }
  return run_and_report(chosen, orders);
}

}  // namespace

#ifndef ORDER_COMPENSATION_DURABLE
void run_durable(report& /*all*/, const options& /*chosen*/, const std::vector<order>* /*orders*/,
                 common::progress& /*shown*/, const std::atomic<bool>& /*stop*/) {
  throw common::usage_error("--durable: this program was built without SQLite and without PostgreSQL");
}
void run_worker(std::int64_t /*number*/, std::chrono::nanoseconds /*delay*/) {}
#endif

}  // namespace order_compensation

int main(int argc, char** argv) {
  return common::run_program("order_compensation", [&] {
    try {
      return order_compensation::run(argc, argv);
    } catch (const timing_wheel::timer_error& error) {
      throw common::usage_error(error.what());
    }
  });
}

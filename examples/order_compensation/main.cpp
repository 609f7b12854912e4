#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <system_error>

#include "common/orders_table.hpp"
#include "common/program.hpp"
#include "common/progress.hpp"
#include "common/stop_signal.hpp"
#ifdef ORDER_COMPENSATION_DURABLE
#include "durable.hpp"
#include "durable_place.hpp"
#include "durable_worker.hpp"
#endif
#include "live.hpp"
#include "options.hpp"
#include "orders_file.hpp"
#include "replay.hpp"
#include "report.hpp"

namespace order_compensation {
namespace {

namespace fs = std::filesystem;

/// None was given: a file of its own.
store_choice chosen_store(const options& chosen) {
  return chosen.durable.store ? read_store(*chosen.durable.store) : store_choice{};
}

void check_json_target(const options& chosen) {
  std::error_code ignored;
  if (chosen.orders && fs::equivalent(*chosen.orders, *chosen.json, ignored)) {
    throw usage_error("--json and --orders name the same file, " + *chosen.json);
  }
  const store_choice store = chosen_store(chosen);
  if (store.what == store_choice::kind::sqlite && fs::equivalent(store.where, *chosen.json, ignored)) {
    throw usage_error("--json and --store name the same file, " + *chosen.json);
  }
  common::check_target("--json", *chosen.json);
}

void report_malformed(const std::string& path, const orders_file& file) {
  for (const malformed_row& row : file.reported) {
    std::cerr << path << ':' << row.line << ": " << row.reason << '\n';
  }
  if (const auto more = file.malformed - file.reported.size(); more != 0) {
    std::cerr << path << ": " << grouped(more) << " more malformed rows\n";
  }
}

/// A signal ends the reading at once, because there is nothing to report yet.
orders_file read_all_orders(const options& chosen, std::istream& in, progress& shown) {
  orders_file file = read_orders(in, *chosen.orders, shown);
  shown.clear();
  report_malformed(*chosen.orders, file);
  if (file.orders.empty()) {
    throw common::failure(*chosen.orders + ": there is no order to replay");
  }
  return file;
}

figures run_replay(const options& chosen, std::istream& in, progress& shown) {
  const orders_file file = read_all_orders(chosen, in, shown);
  common::stop_on_signals();
  figures run = replay(file.orders, {chosen.delay, chosen.repeat, chosen.timer}, shown, common::stop_asked());
  run.malformed = file.malformed;
  return run;
}

figures run_job(const options& chosen, std::istream& orders) {
  progress shown(chosen.quiet);
  if (chosen.orders) {
    return run_replay(chosen, orders, shown);
  }
  common::stop_on_signals();
  return run_live({chosen.checks, chosen.delay, chosen.seed, chosen.timer}, shown, common::stop_asked());
}

/// Of the two outputs, one that fails does not spoil the other.
template <class Figures>
void write_outputs(const options& chosen, const Figures& result) {
  print_table(std::cout, result);
  if (chosen.json) {
    common::write_file(*chosen.json, [&](std::ostream& out) { write_json(out, result); });
  }
  common::finish_output(std::cout);
}

template <class Job>
int report(const options& chosen, Job job) {
  const auto begin = std::chrono::steady_clock::now();
  auto result = job();
  result.elapsed = std::chrono::steady_clock::now() - begin;
  if (result.interrupted) {
    result.interrupted_by = common::stop_signal_name();
  }
  write_outputs(chosen, result);
  if (!result.problems.empty()) {
    return common::exit_failed;
  }
  if (result.interrupted) {
    return common::exit_stopped();
  }
  return result.malformed == 0 ? 0 : common::exit_failed;
}

#ifdef ORDER_COMPENSATION_DURABLE

std::chrono::nanoseconds from_seconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

durable_job durable_job_of(const options& chosen) {
  durable_job job;
  job.delay = chosen.delay;
  job.length = from_seconds(chosen.durable.seconds);
  if (chosen.durable.kill) {
    job.between_kills = from_seconds(*chosen.durable.kill);
  }
  job.nodes = static_cast<std::size_t>(chosen.durable.nodes);
  job.kill_server = chosen.durable.kill_server;
  job.per_second = chosen.durable.per_second;
  job.seed = chosen.seed;
  job.repeat = chosen.repeat;
  job.quiet = chosen.quiet;
  return job;
}

durable_figures run_durable_job(const options& chosen, std::istream& orders) {
  progress shown(chosen.quiet);
  const durable_job job = durable_job_of(chosen);
  orders_file file;
  if (chosen.orders) {
    file = read_all_orders(chosen, orders, shown);
  }
  common::stop_on_signals();
  const std::unique_ptr<shop_place> place = make_place(chosen_store(chosen));
  durable_figures run = run_durable(*place, job, chosen.orders ? &file.orders : nullptr, shown, common::stop_asked());
  run.malformed = file.malformed;
  return run;
}

/// Where it works is told to a worker by its input, up to a zero byte: there may be a password in it, and everybody can
/// read arguments.
std::string told_store() {
  std::string store;
  for (char each = 0; ::read(STDIN_FILENO, &each, 1) == 1 && each != '\0';) {
    store.push_back(each);  // no more than that: the end of the input is waited for elsewhere
  }
  return store;
}

void run_as_worker(const options& chosen) {
  run_worker(*make_place(read_store(told_store())), *chosen.durable.worker, chosen.delay);
}

#else

figures run_durable_job(const options& /*chosen*/, std::istream& /*orders*/) {
  throw usage_error("--durable: this program was built without SQLite and without PostgreSQL");
}

void run_as_worker(const options& chosen) {
  std::istringstream none;
  static_cast<void>(run_durable_job(chosen, none));
}

#endif

int run(int argc, char** argv) {
  common::report_large_files();
  const options chosen = parse_options(argc, argv);
  if (!chosen.help.empty()) {
    std::cout << chosen.help;
    common::finish_output(std::cout);
    return 0;
  }
  if (chosen.durable.worker) {
    run_as_worker(chosen);
    return 0;
  }
  // What cannot be used is found before the long work: bad options of the timer first, then the files.
  static_cast<void>(timing_wheel::manual_timer(chosen.timer));
  std::ifstream orders = chosen.orders ? common::open_input(*chosen.orders) : std::ifstream();
  if (chosen.json) {
    check_json_target(chosen);
  }
  if (chosen.durable.chosen) {
    return report(chosen, [&] { return run_durable_job(chosen, orders); });
  }
  return report(chosen, [&] { return run_job(chosen, orders); });
}

int fail(const char* message, int status) {
  std::cerr << common::program_name("order_compensation") << ": " << message << '\n';
  return status;
}

int run_or_fail(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const usage_error& error) {
    return fail(error.what(), common::exit_usage);
  } catch (const timing_wheel::timer_error& error) {
    return fail(error.what(), common::exit_usage);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", common::exit_failed);
  } catch (const std::exception& error) {
    return fail(error.what(), common::exit_failed);
  }
}

}  // namespace
}  // namespace order_compensation

int main(int argc, char** argv) { return order_compensation::run_or_fail(argc, argv); }

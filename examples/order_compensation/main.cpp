#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <string>
#include <system_error>

#include "live.hpp"
#include "options.hpp"
#include "orders_file.hpp"
#include "progress.hpp"
#include "replay.hpp"
#include "report.hpp"

namespace order_compensation {
namespace {

namespace fs = std::filesystem;

constexpr int exit_wrong_data = 1;
constexpr int exit_usage = 2;
constexpr int exit_interrupted = 128 + SIGINT;

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

/// The first Ctrl-C ends the job in good order, a second one at once.
void end_on_interrupt() {
  std::signal(SIGINT, [](int) {
    interrupted.store(true, std::memory_order_relaxed);
    std::signal(SIGINT, SIG_DFL);
  });
}

/// Leaves the file as it is, so that a run that fails later does not destroy an older result.
void check_json_target(const options& chosen) {
  std::error_code ignored;
  if (chosen.orders && fs::equivalent(*chosen.orders, *chosen.json, ignored)) {
    throw usage_error("--json and --orders name the same file, " + *chosen.json);
  }
  if (!std::ofstream(*chosen.json, std::ios::app)) {
    throw usage_error("cannot write " + *chosen.json);
  }
}

void write_json_file(const std::string& path, const figures& run) {
  std::ofstream out(path);
  write_json(out, run);
  if (!out.flush()) {
    throw usage_error("cannot write " + path);
  }
}

void report_malformed(const std::string& path, const orders_file& file) {
  for (const malformed_row& row : file.reported) {
    std::cerr << path << ':' << row.line << ": " << row.reason << '\n';
  }
  if (const auto more = file.malformed - file.reported.size(); more != 0) {
    std::cerr << path << ": " << grouped(more) << " more malformed rows\n";
  }
}

figures run_replay(const options& chosen, std::istream& in, progress& shown) {
  const orders_file file = read_orders(in, *chosen.orders, shown);
  shown.clear();
  report_malformed(*chosen.orders, file);
  end_on_interrupt();
  figures run = replay(file.orders, {chosen.delay, chosen.repeat, chosen.timer}, shown, interrupted);
  run.malformed = file.malformed;
  return run;
}

figures run_job(const options& chosen, std::istream& orders) {
  progress shown(chosen.quiet);
  if (chosen.orders) {
    return run_replay(chosen, orders, shown);
  }
  end_on_interrupt();
  return run_live({chosen.checks, chosen.delay, chosen.seed, chosen.timer}, shown, interrupted);
}

int run(int argc, char** argv) {
  const options chosen = parse_options(argc, argv);
  if (!chosen.help.empty()) {
    std::cout << chosen.help;
    return 0;
  }
  // What cannot be used is found before the long work: bad options of the timer first, then the files.
  static_cast<void>(timing_wheel::manual_timer(chosen.timer));
  std::ifstream orders = chosen.orders ? open_orders(*chosen.orders) : std::ifstream();
  if (chosen.json) {
    check_json_target(chosen);
  }
  const auto begin = std::chrono::steady_clock::now();
  figures result = run_job(chosen, orders);
  result.elapsed = std::chrono::steady_clock::now() - begin;
  print_table(std::cout, result);
  if (chosen.json) {
    write_json_file(*chosen.json, result);
  }
  if (result.interrupted) {
    return exit_interrupted;
  }
  return result.problems.empty() && result.malformed == 0 ? 0 : exit_wrong_data;
}

int fail(const char* message, int status) {
  std::cerr << "order_compensation: " << message << '\n';
  return status;
}

int run_or_fail(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const usage_error& error) {
    return fail(error.what(), exit_usage);
  } catch (const timing_wheel::timer_error& error) {
    return fail(error.what(), exit_usage);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", exit_wrong_data);
  } catch (const std::exception& error) {
    return fail(error.what(), exit_wrong_data);
  }
}

}  // namespace
}  // namespace order_compensation

int main(int argc, char** argv) { return order_compensation::run_or_fail(argc, argv); }

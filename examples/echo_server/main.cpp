// An echo server that closes idle connections, on Asio's steady_timer or on a wheel_timer, and its load.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "client.hpp"
#include "common/duration.hpp"
#include "common/program.hpp"
#include "server.hpp"
#include "timing_wheel/asio.hpp"

namespace echo {
namespace {

enum class kind { steady, wheel, loop };

struct options {
  kind timer = kind::loop;
  std::size_t connections = 10'000;
  std::size_t at_once = 100;
  std::chrono::nanoseconds time = std::chrono::seconds(5);
  std::chrono::nanoseconds idle = std::chrono::seconds(10);
  bool json = false;
};

// Each connection has a file here and one in the client, which is another process.
void allow_files(std::size_t connections) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const rlim_t needed = connections + 64;
  if (files.rlim_cur >= needed) {
    return;
  }
  if (files.rlim_max < needed) {
    throw common::usage_error("a process may have " + std::to_string(files.rlim_max) + " files open, and " +
                              std::to_string(connections) + " connections need " + std::to_string(needed) +
                              ": raise the limit (ulimit -Hn), or ask for fewer");
  }
  files.rlim_cur = needed;
  setrlimit(RLIMIT_NOFILE, &files);
}

double peak_mebibytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) / 1024;
}

// What is in memory, counted page by page: the kernel's own peak may lack some dozens of them.
struct memory {
  double all = 0;
  double own = 0;  // no file's: heap, stacks and the like

  static memory now() {
    memory seen;
    std::ifstream file("/proc/self/smaps_rollup");
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string name;
      double kibibytes = 0;
      if (words >> name >> kibibytes) {
        seen.all = name == "Rss:" ? kibibytes / 1024 : seen.all;
        seen.own = name == "Anonymous:" ? kibibytes / 1024 : seen.own;
      }
    }
    return seen;
  }
};

double milliseconds_of(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void print(const options& chosen, const figures& seen, double processor, double peak, const memory& full) {
  const double time = std::chrono::duration<double>(seen.latest - seen.first).count();
  const double rate = time > 0 ? static_cast<double>(seen.messages) / time : 0;
  const char* const name = chosen.timer == kind::steady  ? "steady_timer"
                           : chosen.timer == kind::wheel ? "wheel_timer, thread of the wheel"
                                                         : "wheel_timer, loop_driver";
  if (chosen.json) {
    nlohmann::json all;
    all["timer"] = name;
    all["connections"] = seen.connections;
    all["messages"] = seen.messages;
    all["messages_per_second"] = rate;
    all["timed_out"] = seen.timed_out;
    all["early"] = seen.early;
    all["lateness_ms"] = {{"p50", milliseconds_of(seen.lateness.quantile(0.5))},
                          {"p99", milliseconds_of(seen.lateness.quantile(0.99))},
                          {"max", milliseconds_of(seen.lateness.max())}};
    all["processor_s"] = processor;
    all["peak_mib"] = peak;
    all["memory_mib"] = full.all;
    all["memory_own_mib"] = full.own;
    std::cout << all.dump(2) << '\n';
    return;
  }
  std::printf("timer:        %s\n", name);
  std::printf("connections:  %s\n", common::grouped(seen.connections).c_str());
  std::printf("messages:     %s, %.0f per second\n", common::grouped(seen.messages).c_str(), rate);
  std::printf("timed out:    %s, %s early\n", common::grouped(seen.timed_out).c_str(),
              common::grouped(seen.early).c_str());
  std::printf("lateness:     p50 %.2f ms, p99 %.2f ms, longest %.2f ms\n", milliseconds_of(seen.lateness.quantile(0.5)),
              milliseconds_of(seen.lateness.quantile(0.99)), milliseconds_of(seen.lateness.max()));
  std::printf("server:       %.2f s of processor, %.2f us per message\n", processor,
              seen.messages == 0 ? 0 : processor * 1e6 / static_cast<double>(seen.messages));
  std::printf("memory:       %.2f MiB after the messages, %.2f of it no file's; %.1f at most\n", full.all, full.own,
              peak);
}

pid_t start_client(const options& chosen, unsigned short port, boost::asio::io_context& context) {
  context.notify_fork(boost::asio::io_context::fork_prepare);
  const pid_t child = fork();
  if (child != 0) {
    context.notify_fork(boost::asio::io_context::fork_parent);
    return child;
  }
  int status = 0;
  try {
    load(port, chosen.connections, chosen.at_once, chosen.time);
  } catch (const std::exception& error) {
    std::cerr << "the client: " << error.what() << '\n';
    status = common::exit_failed;
  }
  _exit(status);
}

template <class Timer>
int serve(const options& chosen) {
  boost::asio::io_context context(1);
  figures seen;
  server<Timer> listening(context, chosen.connections, chosen.idle, seen);
  const pid_t child = start_client(chosen, listening.port(), context);
  if (child < 0) {
    throw common::failure("no process for the client");
  }
  std::optional<timing_wheel::asio::loop_driver> driver;
  if (chosen.timer == kind::loop) {
    driver.emplace(context);
    timing_wheel::asio::use_timer(context, driver->timer());
  }
  // After the messages and before the time-outs, it has all connections.
  memory full;
  boost::asio::steady_timer look(context, chosen.time + chosen.idle / 4);
  look.async_wait([&full](const error_code& /*error*/) { full = memory::now(); });
  context.run();
  const double processor = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  const double peak = peak_mebibytes();
  int status = 0;
  waitpid(child, &status, 0);
  print(chosen, seen, processor, peak, full);
  common::finish_output(std::cout);
  if (status != 0 || seen.timed_out != chosen.connections || seen.early != 0) {
    throw common::failure("not every connection has timed out at its time");
  }
  return 0;
}

int run(int argc, char** argv) {
  options chosen;
  std::string time = "5s";
  std::string idle = "10s";
  CLI::App app("An echo server that closes idle connections, with its load: each message moves a time-out.",
               common::program_name("echo_server"));
  const std::map<std::string, kind> kinds{{"steady", kind::steady}, {"wheel", kind::wheel}, {"loop", kind::loop}};
  app.add_option("--timer", chosen.timer,
                 "steady: Asio's steady_timer. wheel: a wheel_timer on a thread of the wheel. loop: a wheel_timer in "
                 "the io_context (default)")
      ->transform(CLI::CheckedTransformer(kinds, CLI::ignore_case));
  app.add_option("--connections", chosen.connections, "how many (default 10000)")->check(CLI::Range(1, 25'000));
  app.add_option("--at-once", chosen.at_once, "messages on their way (default 100)")->check(CLI::Range(1, 25'000));
  app.add_option("--time", time, "how long messages are sent (default 5s)");
  app.add_option("--idle", idle, "without a message for so long, a connection is closed (default 10s)");
  app.add_flag("--json", chosen.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : common::exit_usage;
  }
  try {
    chosen.time = common::read_duration(time);
    chosen.idle = common::read_duration(idle);
  } catch (const common::duration_error& error) {
    throw common::usage_error(std::string("a duration is wrong: ") + error.what());
  }
  allow_files(chosen.connections);
  return chosen.timer == kind::steady ? serve<boost::asio::steady_timer>(chosen)
                                      : serve<timing_wheel::asio::wheel_timer>(chosen);
}

}  // namespace
}  // namespace echo

int main(int argc, char** argv) {
  return common::run_program("echo_server", [&] { return echo::run(argc, argv); });
}

#include "options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <type_traits>

#include "common/duration.hpp"
#include "common/number.hpp"
#include "common/orders_table.hpp"
#include "common/program.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;

constexpr const char* purpose =
    "An order reserves stock; an approval cancels its check; a check that fires gives the stock back.\n"
    "The report says what became of the orders, and whether every unit of the stock is accounted for.";

std::string footer() {
  return std::string("A DURATION is ") + common::duration_forms +
         ".\nFILE.csv has a header that names, among others, the columns\n" + common::order_columns +
         ".\nTimes are UTC, YYYY-MM-DD HH:MM:SS; an empty order_approved_at says that the order is never approved.\n"
         "Only the approval counts: order_status and any other column may be there, and are not read.\n"
         "A malformed row is told and left out.\n"
         "With --durable, an order's row, its reservation and its check are one transaction; so are a confirmation\n"
         "and the cancel of the check, and the end of a check and what it gives back. At the end the orders must\n"
         "account for every unit of the stock, of earlier runs too: nothing lost, nothing twice, nothing early.\n"
         "Recovery is the time from a kill until others have run the checks that are due at it; some are.\n"
         "On a server, nodes divide the table in 64 shares; those of a killed one are taken over by others.\n"
         "'Undisturbed' is the lateness without what was due, or ran, during a recovery. The orders of a file are\n"
         "spread over --seconds, each copy 1 s of the file after the one before; 30 min in the life of an order "
         "become\n"
         "the delay.\n"
         "The new file is durable-PID.db, beside this program. It stays there if a signal kills this program, such as\n"
         "SIGKILL, SIGHUP as its terminal closes, or SIGPIPE as the reader of its messages goes away.\n"
         "Where a new file or server is, is told first: you can look at it while this runs.\n"
         "A server of its own does not sync: what it has written survives its kills, though not a loss of power.\n"
         "The first Ctrl-C or SIGTERM ends the run with a report of its part, a second one at once.\n"
         "Exit status: 0; 1 if a row is malformed, there is no order in the file, the outcome is wrong, or it could "
         "not\n"
         "be written; 2 if an argument or a file cannot be used; 130 after Ctrl-C, 143 after SIGTERM.";
}

CLI::Option* add_duration(CLI::App& app, const std::string& name, std::chrono::nanoseconds& target,
                          const std::string& description) {
  const auto store = [name, &target](const std::string& text) {
    try {
      target = common::read_duration(text);
    } catch (const common::duration_error& error) {
      throw CLI::ValidationError(
          name, common::quoted(text) + " is not a duration: " + error.what() + " (" + common::duration_forms + ")");
    }
  };
  return app.add_option_function<std::string>(name, store, description)->type_name("DURATION");
}

/// CLI11 would take 010 for 8.
template <class Target, class Number>
CLI::Option* add_whole(CLI::App& app, const std::string& name, Target& target, Number least, Number most,
                       const std::string& description) {
  const auto store = [name, &target, least, most](const std::string& text) {
    try {
      target = common::read_whole(text, least, most);
    } catch (const std::invalid_argument& error) {
      throw CLI::ValidationError(name, error.what());
    }
  };
  CLI::Option* const added = app.add_option_function<std::string>(name, store, description)->type_name("NUMBER");
  if constexpr (std::is_same_v<Target, Number>) {  // else there may be none
    added->default_str(std::to_string(target));
  }
  return added;
}

/// CLI::Range takes a `nan` for a number in it.
CLI::Validator number_in(double least, double most) {
  const CLI::Range range(least, most);
  const auto check = [range](std::string& text) {
    return std::isnan(std::strtod(text.c_str(), nullptr)) ? "Value " + text + " is not a number" : range(text);
  };
  return {check, range.get_description()};
}

/// \returns the one that the others need.
CLI::Option* add_durable_options(CLI::App& app, options& parsed, CLI::Option* orders) {
  const CLI::Validator some_seconds = number_in(0.01, 1e7);
  auto* durable = app.add_flag("--durable", parsed.durable,
                               "Keep orders, stock and checks in a database, the checks run by another process");
  app.add_option(
         "--store", parsed.store,
         "The database; it is continued if there is one; 'postgres' is a new server [a new file, removed at the end]")
      ->type_name("sqlite:FILE|postgres[:CONNINFO]")
      ->needs(durable);
  add_whole(app, "--nodes", parsed.nodes, std::int64_t{1}, std::int64_t{64}, "How many processes run checks")
      ->needs(durable);
  auto* kill =
      app.add_option("--kill", parsed.kill, "Kill a process of the checks at random, after so many seconds on average")
          ->type_name("SECONDS")
          ->check(some_seconds)
          ->needs(durable);
  app.add_flag("--kill-server", parsed.kill_server,
               "Kill the server too, and start it again, a fifth as often; with --store postgres only")
      ->needs(kill);
  app.add_option("--seconds", parsed.seconds, "Place orders for so long; those of a file are spread over it")
      ->type_name("SECONDS")
      ->check(some_seconds)
      ->capture_default_str()
      ->needs(durable);
  app.add_option("--orders-per-second", parsed.per_second, "How many orders to place")
      ->check(number_in(0.001, 1e6))
      ->capture_default_str()
      ->needs(durable)
      ->excludes(orders);
  return durable;
}

void add_options(CLI::App& app, options& parsed) {
  auto* live = app.add_flag("--live")->description("Create checks in real time (this is the default)");
  auto* orders = app.add_option("--orders", parsed.orders, "Replay the orders of this CSV file in virtual time")
                     ->type_name("FILE.csv")
                     ->excludes(live);
  add_duration(app, "--delay", parsed.delay,
               "From an order to its check [30min with --orders, else 5s; 5s with --durable]");
  constexpr std::uint64_t none = 0;
  constexpr std::uint64_t largest_seed = std::numeric_limits<std::int64_t>::max();
  add_whole(app, "--repeat", parsed.repeat, std::uint64_t{1}, max_orders,
            "Replay so many copies, each 1 s after the one before")
      ->needs(orders);
  auto* checks =
      add_whole(app, "--checks", parsed.checks, none, max_orders, "How many checks to create")->excludes(orders);
  add_whole(app, "--seed", parsed.seed, none, largest_seed, "Which orders are approved, and when")->excludes(orders);
  auto* tick = add_duration(app, "--tick", parsed.timer.tick, "The grain of time of the wheel [1ms]");
  auto* wheel = add_whole(app, "--wheel-size", parsed.timer.wheel_size, std::uint32_t{2}, std::uint32_t{1} << 24U,
                          "Slots of each wheel [1024 of the lowest, 2048 above]");
  auto* durable = add_durable_options(app, parsed, orders);
  for (CLI::Option* other : {live, checks, tick, wheel}) {
    durable->excludes(other);
  }
  app.add_option("--json", parsed.json, "Write every figure to this file")->type_name("FILE");
  app.add_flag("--quiet", parsed.quiet, "Do not show the progress");
}

void check_store(const options& chosen) {
  const std::string store = chosen.store.value_or("sqlite:new");
  if (chosen.kill_server && store != "postgres") {
    throw common::usage_error("--kill-server: only with --store postgres, a server of its own");
  }
  const bool is_named = (store.starts_with("sqlite:") || store.starts_with("postgres:")) && !store.ends_with(':');
  if (!is_named && store != "postgres") {
    throw common::usage_error("--store: " + common::quoted(store) +
                              " is not sqlite:FILE, postgres or postgres:CONNINFO");
  }
}

}  // namespace

options parse_options(int argc, const char* const* argv) {
  CLI::App app(purpose, common::program_name("order_compensation"));
  app.footer(footer());
  options parsed;
  add_options(app, parsed);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    throw common::usage_error(std::string(error.what()) + "; see " + app.get_name() + " --help");
  }
  check_store(parsed);
  if (app.count("--delay") == 0) {
    parsed.delay = parsed.orders && !parsed.durable ? 30min : 5s;
  }
  return parsed;
}

}  // namespace order_compensation

#include "options.hpp"

#include <CLI/CLI.hpp>
#include <array>
#include <charconv>
#include <utility>

namespace order_compensation {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::pair<std::string_view, std::chrono::nanoseconds>, 6> units{
    {{"ns", 1ns}, {"us", 1us}, {"ms", 1ms}, {"s", 1s}, {"min", 1min}, {"h", 1h}}};

CLI::Option* add_duration(CLI::App& app, const std::string& name, std::optional<std::chrono::nanoseconds>& target,
                          const std::string& description) {
  const auto store = [name, &target](const std::string& text) {
    target = parse_duration(text);
    if (!target) {
      throw CLI::ValidationError(name, "'" + text + "' is not a duration such as 250us, 1500ms, 5s, 30min or 2h");
    }
  };
  return app.add_option_function<std::string>(name, store, description)->type_name("DURATION");
}

struct raw_options {
  options parsed;
  bool live = false;
  std::optional<std::chrono::nanoseconds> delay;
  std::optional<std::chrono::nanoseconds> tick;
};

void add_options(CLI::App& app, raw_options& raw) {
  options& parsed = raw.parsed;
  auto* live = app.add_flag("--live", raw.live, "Create checks in real time (this is the default)");
  auto* orders = app.add_option("--orders", parsed.orders, "Replay the orders of this CSV file in virtual time")
                     ->type_name("FILE.csv")
                     ->excludes(live);
  add_duration(app, "--delay", raw.delay, "From an order to its check [30min with --orders, else 5s]");
  app.add_option("--repeat", parsed.repeat, "Replay so many copies, each 1 s after the one before")
      ->check(CLI::Range(std::uint64_t{1}, max_orders))
      ->capture_default_str()
      ->needs(orders);
  app.add_option("--checks", parsed.checks, "How many checks to create")
      ->check(CLI::Range(std::uint64_t{0}, max_orders))
      ->capture_default_str()
      ->excludes(orders);
  app.add_option("--seed", parsed.seed, "Which orders are approved, and when")->capture_default_str()->excludes(orders);
  add_duration(app, "--tick", raw.tick, "The grain of time of the wheel [1ms]");
  app.add_option("--wheel-size", parsed.timer.wheel_size, "Slots of each wheel")->capture_default_str();
  app.add_option("--json", parsed.json, "Write every figure to this file")->type_name("FILE");
  app.add_flag("--quiet", parsed.quiet, "Do not show the progress");
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) {
    return std::nullopt;
  }
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, length] : units) {
    if (unit == name && number <= static_cast<std::uint64_t>(std::chrono::nanoseconds::max() / length)) {
      return static_cast<std::int64_t>(number) * length;
    }
  }
  return std::nullopt;
}

options parse_options(int argc, const char* const* argv) {
  CLI::App app("An order reserves stock; an approval cancels its check; a check that fires gives the stock back.",
               "order_compensation");
  raw_options raw;
  add_options(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    raw.parsed.help = app.help();
    return raw.parsed;
  } catch (const CLI::ParseError& error) {
    throw usage_error(error.what());
  }
  raw.parsed.delay = raw.delay.value_or(raw.parsed.orders ? 30min : 5s);
  raw.parsed.timer.tick = raw.tick.value_or(raw.parsed.timer.tick);
  return raw.parsed;
}

}  // namespace order_compensation

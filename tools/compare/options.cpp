#include "compare/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "common/number.hpp"
#include "common/orders_table.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::compare {
namespace {

using namespace std::chrono_literals;
using common::parse_number;

constexpr const char* delay_forms =
    "constant:30min, uniform:1ms,30min, exponential:5s, bimodal:100ms,30min,0.5, list:2,10,60 (milliseconds), or "
    "csv:FILE";
constexpr const char* arrival_forms = "burst, even:10s (all within 10 s), or poisson:555 (per second)";
constexpr const char* cancel_forms =
    "a share in [0, 1] and when: 0.95 (anywhere within the delay), 0.95,1min, or 0.95,uniform:0s,10min";
constexpr const char* engine_forms =
    "hierarchical:tick=1ms,size=512, hashed:tick=10ms,slots=512, heap, heap:tick=1ms, flat, flat:tick=10ms, default, "
    "noncascading:tick=1ms,size=64,levels=8, sorted:tick=10ms,slots=512, threads:tick=1ms,size=512, or session:tick=1s";
constexpr const char* engine_notes =
    "Engines: hierarchical, hashed and heap are the library's, and default is hierarchical as the library ships it.\n"
    "hashed rounds its slots up to a power of two.\n"
    "For comparison only: flat is one wheel with a slot for each tick of the longest delay. noncascading is Linux's "
    "wheel\n"
    "since 4.8: level k has ticks of 8^k, and a timer fires from the level where it was put, rounded up to the tick of "
    "this\n"
    "level, so it is late by up to 8 / (size - 1) of its delay. sorted counts rounds, but each slot is a heap, of "
    "which "
    "a tick\n"
    "looks at what is due only. threads is hierarchical with a thread for each level, which wakes at each tick of its "
    "level;\n"
    "the races of real threads are left out. session keeps a map from each tick to the timers that end then, as "
    "ZooKeeper\n"
    "does: with a tick of 1s, a timer is late by up to 1s. No engine is early.\n"
    "A window lets a timer fire that much later, where hierarchical, flat, default and heap find it cheapest; the "
    "others\n"
    "know no windows.\n";
constexpr std::uint32_t smallest_wheel = 2;
constexpr std::uint32_t largest_wheel = 1U << 24U;
constexpr std::uint32_t most_levels = 12;

[[noreturn]] void refuse(const std::string& option, const std::string& text, const std::string& why,
                         const std::string& forms) {
  throw usage_error(option + ": '" + text + "': " + why + "; accepted: " + forms);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(at, begin);
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

std::pair<std::string, std::string> name_and_rest(const std::string& text) {
  const std::size_t colon = text.find(':');
  return {text.substr(0, colon), colon == std::string::npos ? "" : text.substr(colon + 1)};
}

/// The parts of one value of an option, and the errors that name them.
class value {
 public:
  value(std::string option, std::string text, std::string forms)
      : option_(std::move(option)), text_(std::move(text)), forms_(std::move(forms)) {}

  [[noreturn]] void refuse(const std::string& why) const { compare::refuse(option_, text_, why, forms_); }

  [[nodiscard]] nanoseconds duration(const std::string& part) const {
    try {
      return common::read_duration(part, longest_delay);
    } catch (const common::duration_error& error) {
      refuse(common::quoted(part) + " is not a duration: " + error.what() + " (" + common::duration_forms + ")");
    }
  }

  [[nodiscard]] nanoseconds positive(const std::string& part) const {
    const nanoseconds parsed = duration(part);
    if (parsed <= 0ns) {
      refuse("'" + part + "' must be longer than 0");
    }
    return parsed;
  }

  [[nodiscard]] double share(const std::string& part) const {
    const std::optional<double> parsed = parse_number(part, 0.0, 1.0);
    if (!parsed) {
      refuse("'" + part + "' is not a share in [0, 1]");
    }
    return *parsed;
  }

  [[nodiscard]] nanoseconds milliseconds(const std::string& part) const {
    const std::optional<double> parsed = parse_number(part, 0.0, static_cast<double>(longest_delay / 1ms));
    if (!parsed) {
      refuse("'" + part + "' is not a number of milliseconds in [0, 100 years]");
    }
    return nanoseconds(std::llround(*parsed * 1e6));
  }

  void expect(const std::vector<std::string>& parts, std::size_t count) const {
    if (parts.size() != count) {
      refuse("it has " + std::to_string(parts.size()) + " values instead of " + std::to_string(count));
    }
  }

 private:
  std::string option_;
  std::string text_;
  std::string forms_;
};

duration_spec parse_two(const value& from, duration_spec spec, const std::vector<std::string>& parts) {
  spec.first = from.duration(parts[0]);
  spec.second = from.duration(parts[1]);
  if (spec.shape == duration_spec::kind::uniform && spec.first > spec.second) {
    from.refuse("the lower end is after the upper one");
  }
  return spec;
}

duration_spec parse_spec(const value& from, const std::string& text) {
  using kind = duration_spec::kind;
  const auto [name, rest] = name_and_rest(text);
  const std::vector<std::string> parts = split(rest, ',');
  duration_spec spec;
  spec.text = text;
  if (name == "constant") {
    from.expect(parts, 1);
    spec.first = from.duration(rest);
  } else if (name == "uniform") {
    from.expect(parts, 2);
    spec.shape = kind::uniform;
    spec = parse_two(from, spec, parts);
  } else if (name == "exponential") {
    from.expect(parts, 1);
    spec.shape = kind::exponential;
    spec.first = from.positive(rest);
  } else if (name == "bimodal") {
    from.expect(parts, 3);
    spec.shape = kind::bimodal;
    spec = parse_two(from, spec, parts);
    spec.share_of_first = from.share(parts[2]);
  } else if (name == "list") {
    spec.shape = kind::list;
    for (const std::string& part : parts) {
      spec.list.push_back(from.milliseconds(part));
    }
  } else if (name == "csv") {
    if (rest.empty()) {
      from.refuse("the name of the file is missing");
    }
    spec.shape = kind::csv;
    spec.file = rest;
  } else {
    from.refuse("there is no '" + name + "'");
  }
  return spec;
}

std::uint32_t parse_count(const value& from, const std::string& part, const std::string& what, std::uint32_t least,
                          std::uint32_t most) {
  const auto count = parse_number(part, least, most);
  if (!count) {
    from.refuse("'" + part + "' is not a number of " + what + " in [" + std::to_string(least) + ", " +
                std::to_string(most) + "]");
  }
  return *count;
}

/// The engines, each as it is without settings, and what its settings are called.
struct engine_family {
  const char* name;
  engine_spec spec;
  const char* slots_key = nullptr;
  bool has_tick = true;
};

std::vector<engine_family> engine_families() {
  using kind = engine_spec::kind;
  return {{"hierarchical", {kind::hierarchical, 1ms}, "size"},
          {"hashed", {kind::hashed, 1ms}, "slots"},
          {"heap", {kind::heap, 1ms}},
          {"flat", {kind::flat, 1ms}},
          {"default", {kind::shipped, timer_options().tick}, nullptr, false},
          {"noncascading", {kind::noncascading, 1ms, 64}, "size"},
          {"sorted", {kind::sorted, 1ms}, "slots"},
          {"threads", {kind::threads, 1ms}, "size"},
          {"session", {kind::session, 1s}}};
}

bool knows_windows(engine_spec::kind type) {
  using kind = engine_spec::kind;
  return type == kind::hierarchical || type == kind::flat || type == kind::shipped || type == kind::heap;
}

std::uint64_t whole(const std::string& option, const std::string& text, std::uint64_t least, std::uint64_t most) {
  try {
    return common::read_whole(text, least, most);
  } catch (const std::invalid_argument& error) {
    throw usage_error(option + ": " + error.what());
  }
}

struct raw_options {
  options parsed;
  std::optional<std::string> timers;
  std::string delays = "constant:30min";
  std::optional<std::string> arrivals;
  std::optional<std::string> cancel;
  std::optional<std::string> window;
  std::string seed = "1";
  std::vector<std::string> engines;
};

std::string footer() {
  return std::string(engine_notes) + "A duration is " + common::duration_forms +
         ".\nA file has a row for each timer: its delay in milliseconds, under the header delay_ms or none; or it is\n"
         "one of orders, with the columns " +
         common::order_columns +
         ": then an order comes when it is\n"
         "purchased, is due half an hour later, and is cancelled by the approval.\n"
         "The first Ctrl-C or SIGTERM ends the run, with the table and the JSON of what was counted until then, but\n"
         "without the report; a second one ends it at once.\n"
         "Exit status: 0; 1 if a count is not what the rules say, or an output could not be written; 2 if an argument "
         "or a\n"
         "file cannot be used; 130 after Ctrl-C, 143 after SIGTERM.";
}

void add_options(CLI::App& app, raw_options& raw) {
  options& parsed = raw.parsed;
  app.add_option("--timers", raw.timers, "How many [1000000, or all of a list or file]")->type_name("COUNT");
  app.add_option("--delays", raw.delays, delay_forms)->type_name("DELAYS")->capture_default_str();
  app.add_option("--arrivals", raw.arrivals, std::string(arrival_forms) + " [burst]")->type_name("ARRIVALS");
  app.add_option("--cancel", raw.cancel, std::string(cancel_forms) + " [0]")->type_name("SHARE[,WHEN]");
  app.add_option("--window", raw.window, "How much later a timer may fire, in engines that know windows [0s]")
      ->type_name("DURATION");
  app.add_option("--seed", raw.seed, "Of the random delays, arrivals and cancellations")
      ->type_name("NUMBER")
      ->capture_default_str();
  app.add_option("--engine", raw.engines, std::string(engine_forms) + "; repeatable")
      ->type_name("ENGINE")
      ->expected(1)
      ->take_all();
  app.add_option("--json", parsed.json, "Write every count to this file")->type_name("FILE");
  app.add_option("--report", parsed.report, "Write the pictures, one page that a browser opens offline")
      ->type_name("FILE.html");
  app.add_flag("--trace", parsed.trace, "Show each wake-up and each move; for small workloads");
  app.add_flag("--timed", parsed.timed, "Take times too, in runs of their own");
  app.add_flag("--quiet", parsed.quiet, "Do not show the progress");
  app.footer(footer());
}

/// An output must not destroy another, or the input.
void check_files(const options& chosen) {
  namespace fs = std::filesystem;
  std::map<fs::path, std::string> taken;
  for (const auto& [option, file] :
       {std::pair("--delays", chosen.workload.delays.file), std::pair("--json", chosen.json.value_or("")),
        std::pair("--report", chosen.report.value_or(""))}) {
    if (file.empty()) {
      continue;
    }
    std::error_code ignored;
    const fs::path path = fs::weakly_canonical(fs::absolute(file, ignored), ignored);
    const auto [first, is_new] = taken.try_emplace(path, option);
    if (!is_new) {
      throw usage_error(first->second + " and " + option + " name the same file, " + file);
    }
  }
}

options checked(raw_options raw) {
  options& parsed = raw.parsed;
  if (raw.timers) {
    parsed.workload.timers = whole("--timers", *raw.timers, 1, max_timers);
  }
  parsed.workload.seed = whole("--seed", raw.seed, 0, std::numeric_limits<std::int64_t>::max());
  parsed.workload.delays = parse_delays(raw.delays);
  check_files(parsed);
  if (raw.arrivals) {
    parsed.workload.arrivals = parse_arrivals(*raw.arrivals);
  }
  if (raw.cancel) {
    parsed.workload.cancel = parse_cancel(*raw.cancel);
  }
  if (raw.window) {
    parsed.workload.window = value("--window", *raw.window, common::duration_forms).duration(*raw.window);
  }
  if (raw.engines.empty()) {
    raw.engines = {"hierarchical:tick=1ms,size=512", "hashed:tick=1ms,slots=512", "heap"};
  }
  for (const std::string& text : raw.engines) {
    parsed.engines.push_back(parse_engine(text));
    if (knows_windows(parsed.engines.back().type)) {
      parsed.engines.back().window = parsed.workload.window;
    }
  }
  return std::move(parsed);
}

}  // namespace

duration_spec parse_delays(const std::string& text) { return parse_spec({"--delays", text, delay_forms}, text); }

arrival_spec parse_arrivals(const std::string& text) {
  const value from("--arrivals", text, arrival_forms);
  const auto [name, rest] = name_and_rest(text);
  arrival_spec spec;
  spec.text = text;
  if (text == "burst") {
    return spec;
  }
  if (name == "even") {
    spec.shape = arrival_spec::kind::even;
    spec.over = from.positive(rest);
  } else if (name == "poisson") {
    spec.shape = arrival_spec::kind::poisson;
    const std::optional<double> rate = parse_number(rest, 1e-3, 1e9);
    if (!rate) {
      from.refuse("'" + rest + "' is not a rate per second in [0.001, 1000000000]");
    }
    spec.per_second = *rate;
  } else {
    from.refuse("there is no '" + name + "'");
  }
  return spec;
}

cancel_spec parse_cancel(const std::string& text) {
  const value from("--cancel", text, cancel_forms);
  const std::size_t comma = text.find(',');
  cancel_spec spec;
  spec.text = text;
  spec.share = from.share(text.substr(0, comma));
  if (comma != std::string::npos) {
    const std::string when = text.substr(comma + 1);
    const bool bare = when.find(':') == std::string::npos;
    spec.when = parse_spec(from, bare ? "constant:" + when : when);
    if (spec.when->shape == duration_spec::kind::csv || spec.when->shape == duration_spec::kind::list) {
      from.refuse("when to cancel is not told by a list or a file");
    }
  }
  return spec;
}

engine_spec parse_engine(const std::string& text) {
  const value from("--engine", text, engine_forms);
  const std::pair<std::string, std::string> parts = name_and_rest(text);
  const std::vector<engine_family> families = engine_families();
  const auto family =
      std::find_if(families.begin(), families.end(), [&](const auto& one) { return one.name == parts.first; });
  if (family == families.end()) {
    from.refuse("there is no engine '" + parts.first + "'");
  }
  engine_spec spec = family->spec;
  spec.text = text;
  if (text.find(':') == std::string::npos) {
    return spec;
  }
  std::set<std::string> given_keys;
  for (const std::string& setting : split(parts.second, ',')) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    if (!given_keys.insert(key).second) {
      from.refuse(key + " is given twice");
    }
    const std::string given = equals == std::string::npos ? "" : setting.substr(equals + 1);
    if (key == "tick" && family->has_tick) {
      spec.tick = from.positive(given);
    } else if (family->slots_key != nullptr && key == family->slots_key) {
      spec.size = parse_count(from, given, "slots", smallest_wheel, largest_wheel);
    } else if (key == "levels" && spec.type == engine_spec::kind::noncascading) {
      spec.levels = parse_count(from, given, "levels", 1, most_levels);
    } else {
      from.refuse("'" + setting + "' is no setting of it");
    }
  }
  return spec;
}

options parse_options(int argc, const char* const* argv) {
  CLI::App app(
      "Puts timer engines side by side on one workload, in virtual time, and counts what each does: moves between "
      "wheels,\n"
      "looks at timers whose rounds are not over, wake-ups, and the largest piece of work. Every count is checked.",
      common::program_name("timing_wheel_compare"));
  raw_options raw;
  add_options(app, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    raw.parsed.help = app.help();
    return raw.parsed;
  } catch (const CLI::ParseError& error) {
    throw usage_error(std::string(error.what()) + "; see " + app.get_name() + " --help");
  }
  return checked(std::move(raw));
}

}  // namespace timing_wheel::compare

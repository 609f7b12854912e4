#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>
#include <ostream>
#include <sstream>
#include <thread>
#include <utility>

#include "common/program.hpp"
#include "common/stop_signal.hpp"
#include "desk/commands.hpp"
#include "timing_wheel/durable/metrics.hpp"

namespace timing_wheel::desk {

namespace {

using durable::kind_counts;
using durable::node_info;

// All at one moment, as far as a store has one.
struct snapshot {
  instant now;
  std::vector<kind_counts> kinds;
  std::optional<std::vector<node_info>> nodes;
  std::vector<durable::drained_node> drained;
  std::string tables;
  std::chrono::microseconds clock_difference{};
  std::optional<durable::run_counts> runs;  // of the last minute
};

snapshot look(durable::store& store, std::size_t most, bool with_waits) {
  snapshot seen;
  seen.tables = store.plan_migration().from;
  if (seen.tables.empty()) {
    throw failure(exit_status::no_store,
                  "there are no tables of durable checks; timing-wheel migrate --create makes them");
  }
  seen.kinds = store.count_kinds(most, with_waits);
  seen.runs = store.runs_of_last_minute();
  seen.nodes = store.nodes();
  seen.drained = store.drained_nodes();
  seen.clock_difference = store.clock_difference();
  seen.now = store.now();
  return seen;
}

// Why the oldest check of the kind waits, in few words.
std::string reason(const kind_counts& of, const snapshot& seen) {
  if (of.waiting == 0) {
    return of.paused ? "paused" : "";
  }
  if (of.paused) {
    return "paused";
  }
  if (live_handlers(of.kind, seen.nodes, seen.now) == std::size_t{0}) {
    return silent_handlers(of.kind, seen.nodes, seen.now) ? "its nodes are silent"
           : seen.drained.empty()                         ? "no live node has a handler"
                                                          : "no live node has a handler; some are drained";
  }
  if (of.suspect == of.waiting) {
    return "its node has died or hangs";
  }
  return of.running > 0 ? "handlers are busy" : "no node has claimed it";
}

// A node that is drained has left its shares, so it may be known by its drain alone.
struct node_row {
  std::string name;
  const node_info* known = nullptr;
  bool drained = false;
};

std::vector<node_row> node_rows(const snapshot& seen) {
  std::vector<node_row> rows;
  if (seen.nodes) {
    std::transform(seen.nodes->begin(), seen.nodes->end(), std::back_inserter(rows), [&](const node_info& of) {
      return node_row{of.name, &of, std::any_of(seen.drained.begin(), seen.drained.end(), [&](const auto& drain) {
                        return drain.node == of.name;
                      })};
    });
  }
  for (const durable::drained_node& of : seen.drained) {
    if (std::none_of(rows.begin(), rows.end(), [&](const node_row& row) { return row.name == of.node; })) {
      rows.push_back({.name = of.node, .drained = true});
    }
  }
  return rows;
}

double per_second(std::uint64_t in_a_minute) { return static_cast<double>(in_a_minute) / 60; }

json json_of(const snapshot& seen, const desk& with) {
  json all;
  all["kinds"] = json::array();
  for (const kind_counts& of : seen.kinds) {
    json kind;
    set_kind(kind, of.kind);
    kind["pending"] = of.pending;
    kind["due"] = of.due;
    kind["waiting"] = of.waiting;
    kind["running"] = of.running;
    kind["suspect"] = of.suspect;
    kind["retrying"] = of.retrying;
    kind["dead"] = of.dead;
    kind["dead_last_minute"] = of.dead_lately;
    kind["oldest_due_s"] = of.oldest_waiting ? seconds_since(*of.oldest_waiting, seen.now) : 0.0;
    kind["wait_p50_s"] = of.median_waiting ? seconds_since(*of.median_waiting, seen.now) : 0.0;
    kind["wait_p99_s"] = of.p99_waiting ? seconds_since(*of.p99_waiting, seen.now) : 0.0;
    kind["paused"] = of.paused;
    const std::optional<std::size_t> handlers = live_handlers(of.kind, seen.nodes, seen.now);
    kind["live_handlers"] = handlers ? json(*handlers) : json();
    kind["at_least"] = of.at_least;
    kind["why"] = reason(of, seen);
    all["kinds"].push_back(std::move(kind));
  }
  all["nodes"] = json::array();
  for (const node_row& of : node_rows(seen)) {
    json node;
    node["node"] = of.name;
    node["kinds"] = of.known ? json(of.known->kinds) : json::array();
    node["alive"] = of.known ? json(of.known->until > seen.now) : json();
    node["until"] = of.known ? json(time_text(of.known->until)) : json();
    node["shares"] = of.known ? of.known->shares : 0;
    node["drained"] = of.drained;
    all["nodes"].push_back(std::move(node));
  }
  all["drained"] = json::array();
  for (const durable::drained_node& of : seen.drained) {
    all["drained"].push_back(
        {{"node", of.node}, {"since", time_text(of.since)}, {"held", of.held ? json(*of.held) : json()}});
  }
  all["rates"] = !seen.runs ? json()
                            : json{{"begun_per_s", per_second(seen.runs->begun)},
                                   {"ended_per_s", per_second(seen.runs->ended)},
                                   {"failed_per_s", per_second(seen.runs->failed)}};
  all["store"] = {{"type", with.where.type},
                  {"name", with.where.where},
                  {"tables", seen.tables},
                  {"now", time_text(seen.now)},
                  {"clock_difference_s", std::chrono::duration<double>(seen.clock_difference).count()}};
  return all;
}

std::string rate_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 10 ? "%.2f" : "%.0f", value);
  return text.data();
}

// How fast it goes, as far as that is known.
void write_rates(const snapshot& seen, std::ostream& out) {
  std::size_t died = 0;
  for (const kind_counts& of : seen.kinds) {
    died += of.dead_lately;
  }
  if (seen.runs) {
    out << "\nin the last minute, runs per second: " << rate_text(per_second(seen.runs->begun)) << " begun, "
        << rate_text(per_second(seen.runs->ended)) << " ended, " << rate_text(per_second(seen.runs->failed))
        << " failed\n";
  }
  if (died > 0) {
    out << "\nin the last minute " << common::grouped(died) << " of the dead checks have died\n";
  }
}

void write_nodes(const snapshot& seen, std::ostream& out) {
  table nodes({"node", "alive", "shares", "kinds"});
  const std::vector<node_row> rows = node_rows(seen);
  for (const node_row& of : rows) {
    if (of.known == nullptr) {
      nodes.add({one_line(of.name), "drained", "-", "-"});
      continue;
    }
    std::string names;
    for (const std::string& kind : of.known->kinds) {
      names += (names.empty() ? "" : ", ") + one_line(kind);
    }
    nodes.add({one_line(of.name),
               (of.known->until > seen.now ? "yes" : "not for " + since(of.known->until, seen.now)) +
                   (of.drained ? ", drained" : ""),
               common::grouped(of.known->shares), of.known->kinds.empty() ? "too many to be kept" : names});
  }
  if (!rows.empty()) {
    out << '\n';
    nodes.write(out);
  } else if (seen.nodes) {
    out << "\nno node\n";
  }
}

// One that waits, with the command that says why; nothing while nodes are about to claim all that waits.
void write_oldest(const snapshot& seen, const desk& with) {
  constexpr std::chrono::seconds some_polls(5);
  const bool is_late = std::any_of(seen.kinds.begin(), seen.kinds.end(), [&](const kind_counts& of) {
    return of.oldest_waiting && seen.now - *of.oldest_waiting > some_polls;
  });
  if (!is_late) {
    return;
  }
  for (const durable::stored_check& of :
       with.store.list({.limit = 1, .which = {.state = durable::check_state::waiting}})) {
    with.out << "\nthe check of the earliest deadline that waits: " << one_line(of.kind) << ' ' << one_line(of.key)
             << ", due " << from_now(of.due, seen.now) << ". Why:\n-> "
             << command_line(with.chosen, "why", {of.kind, of.key}) << '\n';
  }
}

// Their deadline is that of the next run, so that they do not wait by their deadlines, however late they are.
void write_failing(const snapshot& seen, const desk& with) {
  for (const kind_counts& of : seen.kinds) {
    if (of.retrying > 0) {
      with.out << "\nof kind " << one_line(of.kind)
               << ", checks that have failed and run again: " << common::grouped(of.retrying) << "; their errors:\n-> "
               << command_line(with.chosen, "list", {}, "--state retrying", {{"kind", of.kind}}) << '\n';
    }
  }
}

void write(const snapshot& seen, const desk& with) {
  std::ostream& out = with.out;
  out << with.where.type << ' ' << one_line(with.where.where, 200) << ", tables " << seen.tables << ", "
      << time_text(std::chrono::floor<std::chrono::seconds>(seen.now)) << "\n\n";
  table kinds({"kind", "pending", "due", "waiting", "running", "retrying", "suspects", "dead", "oldest waits", "why"});
  for (const kind_counts& of : seen.kinds) {
    const auto number = [&](std::size_t count) { return at_least(of, count, with.chosen.counted); };
    const bool are_more = of.at_least && of.pending + of.running + of.suspect >= with.chosen.counted;
    kinds.add({one_line(of.kind), are_more ? "> " + common::grouped(of.pending) : number(of.pending), number(of.due),
               number(of.waiting), number(of.running), number(of.retrying), number(of.suspect), number(of.dead),
               of.oldest_waiting ? since(*of.oldest_waiting, seen.now) : "-", reason(of, seen)});
  }
  if (seen.kinds.empty()) {
    out << "no check\n";
  } else {
    kinds.write(out);
  }
  write_oldest(seen, with);
  write_failing(seen, with);
  write_rates(seen, out);
  write_nodes(seen, out);
  for (const durable::drained_node& of : seen.drained) {
    out << '\n'
        << one_line(of.node) << " is drained since " << time_text(std::chrono::floor<std::chrono::seconds>(of.since))
        << (!of.held        ? ", and has not answered yet"
            : *of.held == 0 ? ", and ran nothing when it told so last"
                            : ", and still runs " + common::grouped(*of.held) + " checks")
        << '\n';
  }
  if (std::chrono::abs(seen.clock_difference) > std::chrono::seconds(1)) {
    out << "\nthe clock here is " << std::chrono::duration<double>(seen.clock_difference).count()
        << " s ahead of the store's\n";
  }
}

// Until the time is over, or somebody presses Ctrl-C.
void wait(double seconds) {
  const auto pause = std::chrono::duration<double>(seconds);
  const auto end = std::chrono::steady_clock::now() + pause;
  while (!common::stop_asked() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(pause, std::chrono::milliseconds(50)));
  }
}

// As Prometheus wants it: https://prometheus.io/docs/instrumenting/exposition_formats.
std::string label_of(const std::string& kind) {
  std::string value;
  for (const char each : kind) {
    if (each == '"' || each == '\\') {
      value += '\\';
    }
    each == '\n' ? value.append("\\n") : value.append(1, each);
  }
  return value;
}

// Where the store knows its nodes.
void write_live_handlers(const desk& with, const snapshot& seen) {
  constexpr auto metric = std::pair("timing_wheel_durable_store_live_handlers", "gauge");
  const auto [name, type] = metric;
  bool is_first = true;
  for (const kind_counts& of : seen.kinds) {
    if (const std::optional<std::size_t> handlers = live_handlers(of.kind, seen.nodes, seen.now)) {
      if (std::exchange(is_first, false)) {
        with.out << "# HELP " << name << " Live nodes that have a handler.\n# TYPE " << name << ' ' << type << '\n';
      }
      with.out << name << "{kind=\"" << label_of(kind_text(of.kind)) << "\"} " << *handlers << '\n';
    }
  }
}

void write_one(const desk& with) {
  const snapshot seen = look(with.store, with.chosen.counted, with.chosen.as_json);
  if (with.chosen.as_metrics) {
    durable::write_prometheus(with.out, seen.kinds, seen.now);
    write_live_handlers(with, seen);
  } else if (with.chosen.as_json) {
    with.out << text_of(json_of(seen, with)) << '\n';
  } else {
    write(seen, with);
  }
}

}  // namespace

exit_status status(const desk& with) {
  if (!with.chosen.watch) {
    write_one(with);
    return exit_status::done;
  }
  const bool on_terminal = ::isatty(STDOUT_FILENO) == 1 && !with.chosen.as_json;
  for (common::stop_on_signals(); !common::stop_asked();) {
    std::ostringstream screen;
    write_one({with.chosen, with.store, with.where, with.in, screen, with.err});
    with.out << (on_terminal ? "\x1b[H\x1b[2J" : "") << screen.str() << std::flush;
    if (!with.out) {
      break;
    }
    wait(with.chosen.every);
  }
  return exit_status::done;
}

}  // namespace timing_wheel::desk

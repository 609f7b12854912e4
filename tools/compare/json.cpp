#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "compare/output.hpp"

namespace timing_wheel::compare {
namespace {

using nlohmann::ordered_json;

double milliseconds(nanoseconds duration) { return std::chrono::duration<double, std::milli>(duration).count(); }
double microseconds(nanoseconds duration) { return std::chrono::duration<double, std::micro>(duration).count(); }

ordered_json workload_json(const workload& plan) {
  return {{"timers", plan.timers.size()},
          {"delays", plan.delays},
          {"arrivals", plan.arrivals},
          {"cancel", plan.cancel},
          {"window_ms", milliseconds(plan.window)},
          {"seed", plan.seed},
          {"cancelled_too_late", plan.too_late},
          {"longest_delay_ms", milliseconds(plan.longest())},
          {"median_delay_ms", milliseconds(plan.median())},
          {"ends_at_ms", milliseconds(plan.end())}};
}

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

/// What this program runs on, and what has compiled it.
ordered_json machine_json() {
#if defined(__clang__)
  constexpr const char* compiler = "clang " __clang_version__;
#else
  constexpr const char* compiler = "g++ " __VERSION__;
#endif
#if defined(__OPTIMIZE__)
  constexpr bool optimised = true;
#else
  constexpr bool optimised = false;
#endif
  utsname name{};
  const bool is_named = ::uname(&name) == 0;
  return {{"processor", processor_name()},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_bytes", ::sysconf(_SC_PHYS_PAGES) * ::sysconf(_SC_PAGESIZE)},
          {"system", is_named ? std::string(name.sysname) + " " + name.release + " " + name.machine : ""},
          {"compiler", compiler},
          {"optimised", optimised}};
}

ordered_json levels_json(const std::vector<level_stats>& levels) {
  ordered_json list = ordered_json::array();
  for (const level_stats& level : levels) {
    list.push_back({{"tick_length", level.tick_length},
                    {"wheel_size", level.wheel_size},
                    {"moves", level.moves},
                    {"flushes", level.flushes},
                    {"largest_flush", level.largest_flush},
                    {"buckets_queued", level.buckets_queued}});
  }
  return list;
}

ordered_json moves_json(const engine_result& one) {
  ordered_json moves = {{"total", one.moves}, {"per_level", ordered_json::array()}};
  for (const level_stats& level : one.levels) {
    moves["per_level"].push_back(level.moves);
  }
  if (one.traced) {
    moves["per_timer"] = one.traced->moves_per_timer;
    moves["steps"] = ordered_json::array();
    for (const traced_move& move : one.traced->moves) {
      moves["steps"].push_back({{"timer", move.timer}, {"at", move.when}, {"from", move.from}, {"to", move.to}});
    }
  }
  return moves;
}

ordered_json histogram_json(const engine_result& one) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < one.flush_classes.size(); ++i) {
    if (one.flush_classes[i] != 0) {
      const std::uint64_t from = i == 0 ? 0 : std::uint64_t{1} << (i - 1);
      list.push_back({{"from", from}, {"to", i == 0 ? 0 : 2 * from - 1}, {"wakeups", one.flush_classes[i]}});
    }
  }
  return list;
}

ordered_json engine_json(const engine_result& one) {
  ordered_json json;
  json["engine"] = one.spec.text;
  json["kind"] = one.spec.text.substr(0, one.spec.text.find(':'));
  json["tick_ns"] = one.spec.tick.count();
  json["window_ms"] = milliseconds(one.spec.window);
  json["slots"] = one.slots;
  json["wheel_sizes"] = one.wheel_sizes;
  json["added"] = one.added;
  json["fired"] = one.fired;
  json["cancelled"] = one.cancelled;
  json["early"] = one.early;
  const auto if_fired = [&](const ordered_json& value) { return one.fired == 0 ? ordered_json(nullptr) : value; };
  json["lateness_ticks"] = {{"max", if_fired(one.lateness_ticks.max)},
                            {"p50", if_fired(one.lateness_ticks.p50)},
                            {"p99", if_fired(one.lateness_ticks.p99)}};
  json["lateness_us"] = {{"max", if_fired(microseconds(one.lateness.max))},
                         {"p50", if_fired(microseconds(one.lateness.p50))},
                         {"p99", if_fired(microseconds(one.lateness.p99))},
                         {"twentieth", microseconds(one.lateness_width) / 20},
                         {"by_twentieth_of_a_tick", one.lateness_parts}};
  json["moves"] = moves_json(one);
  json["looks"] = one.looks;
  json["wakeups"] = one.wakeups;
  json["empty_wakeups"] = one.empty_wakeups;
  const auto per_second = one.wakeups_per_second();
  json["wakeups_per_s"] = per_second ? ordered_json(*per_second) : ordered_json(nullptr);
  if (one.traced) {
    json["wakeups_at"] = ordered_json::array();
    for (const traced_wakeup& wakeup : one.traced->wakeups) {
      json["wakeups_at"].push_back(wakeup.when);
    }
  }
  json["levels"] = levels_json(one.levels);
  json["flush_max"] = one.flush_max;
  json["flush_histogram"] = histogram_json(one);
  json["heap_pushes"] = one.heap_pushes;
  json["heap_operations"] = one.heap_operations;
  json["bytes"] = one.bytes;
  json["peak_pending"] = one.peak_pending;
  json["bytes_per_timer"] = one.bytes_per_timer();
  if (one.timed) {
    json["ns_per_operation"] = one.timed->ns_per_operation;
    json["longest_step_us"] = one.timed->longest_step_us;
  }
  json["timeline"] = {
      {"width_ms", milliseconds(one.along.width)}, {"handled", one.along.handled}, {"wakeups", one.along.wakeups}};
  return json;
}

ordered_json curves_json(const std::vector<curve>& curves) {
  ordered_json list = ordered_json::array();
  for (const curve& one : curves) {
    ordered_json work = ordered_json::array();
    for (const double value : one.work) {
      work.push_back(value < 0 ? ordered_json(nullptr) : ordered_json(value));
    }
    list.push_back({{"engine", one.engine}, {"work_per_timer", work}});
  }
  return list;
}

void add_sweeps(ordered_json& json, const comparison& all) {
  if (all.by_delay) {
    ordered_json delays = ordered_json::array();
    for (const nanoseconds delay : all.by_delay->delays) {
      delays.push_back(milliseconds(delay));
    }
    json["by_delay"] = {
        {"timers", all.by_delay->timers}, {"delay_ms", delays}, {"engines", curves_json(all.by_delay->curves)}};
  }
  if (all.by_cancel) {
    json["by_share_cancelled"] = {{"timers", all.by_cancel->timers},
                                  {"delay_ms", milliseconds(all.by_cancel->delay)},
                                  {"when", all.by_cancel->when},
                                  {"share", all.by_cancel->shares},
                                  {"engines", curves_json(all.by_cancel->curves)}};
  }
  if (all.even) {
    const break_even& even = *all.even;
    ordered_json runs = ordered_json::array();
    for (const break_even_run& run : even.runs) {
      runs.push_back({{"timers_per_tick", run.timers_per_tick},
                      {"hierarchical_ns_per_timer", run.hierarchical},
                      {"hashed_ns_per_timer", run.hashed},
                      {"crossing_ticks", run.crossing}});
    }
    json["break_even"] = {{"timers", even.timers},           {"size", even.size},
                          {"delay_ticks", even.delays},      {"runs", runs},
                          {"ns_per_move", even.ns_per_move}, {"ns_per_look", even.ns_per_look},
                          {"move_per_look", even.ratio()}};
  }
}

}  // namespace

void write_json(std::ostream& out, const comparison& all) {
  ordered_json json;
  json["workload"] = workload_json(all.plan);
  json["machine"] = machine_json();
  json["engines"] = ordered_json::array();
  for (const engine_result& one : all.engines) {
    json["engines"].push_back(engine_json(one));
  }
  add_sweeps(json, all);
  json["problems"] = all.problems;
  if (!all.interrupted_by.empty()) {
    json["interrupted_by"] = all.interrupted_by;
  }
  out << json.dump(1, ' ', false, ordered_json::error_handler_t::replace) << '\n';  // a name may not be UTF-8
}

}  // namespace timing_wheel::compare

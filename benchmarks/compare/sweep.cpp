#include "compare/sweep.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "compare/rules.hpp"

namespace timing_wheel::compare {
namespace {

using namespace std::chrono_literals;
using kind = engine_spec::kind;

constexpr std::uint64_t delay_sweep_timers = 2'000;
constexpr std::uint64_t cancel_sweep_timers = 10'000;
constexpr std::uint32_t largest_flat_in_a_sweep = 1U << 22U;

std::vector<nanoseconds> delays_up_to(nanoseconds longest) {
  std::vector<nanoseconds> delays;
  for (nanoseconds decade = 1ms; delays.empty() || delays.back() < longest; decade *= 10) {
    for (const int step : {1, 2, 5}) {
      delays.push_back(decade * step);
    }
  }
  while (delays.size() > 1 && delays[delays.size() - 2] >= longest) {
    delays.pop_back();
  }
  return delays;
}

/// Arrivals at odd distances within one delay, so that the clock is anywhere within every level's tick.
workload spread(nanoseconds delay, std::uint64_t timers, const std::optional<cancel_spec>& cancel) {
  workload_spec spec;
  spec.timers = timers;
  spec.delays.first = delay;
  spec.arrivals = arrival_spec{arrival_spec::kind::even, delay * 1'000'003 / 1'000'000 + 7ns, 0, "even"};
  spec.cancel = cancel;
  return make_workload(spec);
}

double work_of(const workload& plan, const engine_spec& spec, std::vector<std::string>& problems) {
  if (spec.type == kind::flat && plan.longest() / spec.tick + 2 > largest_flat_in_a_sweep) {
    return -1;
  }
  const engine_result result = run_engine(plan, spec, false);
  const std::vector<std::string> found = check(plan, spec, result);
  problems.insert(problems.end(), found.begin(), found.end());
  return result.work_per_timer();
}

/// The middle of three.
double time_per_timer(const workload& plan, const engine_spec& spec) {
  std::array<double, 3> times{};
  for (double& one : times) {
    one = 2 * time_engine(plan, spec).ns_per_operation;  // each timer is added and fires
  }
  std::sort(times.begin(), times.end());
  return times[1];
}

/// Where the second line falls below the first for good, in between by a straight line over the logarithm of the delay.
double crossing_of(const break_even& measured) {
  std::size_t last = measured.delays.size();
  while (last > 0 && measured.hierarchical[last - 1] < measured.hashed[last - 1]) {
    --last;
  }
  if (last == 0 || last == measured.delays.size()) {
    return 0;
  }
  const double before = measured.hierarchical[last - 1] - measured.hashed[last - 1];
  const double after = measured.hashed[last] - measured.hierarchical[last];
  const double share = before / (before + after);
  const double low = std::log(static_cast<double>(measured.delays[last - 1]));
  const double high = std::log(static_cast<double>(measured.delays[last]));
  return std::exp(low + share * (high - low));
}

}  // namespace

delay_sweep sweep_delays(const workload& plan, const std::vector<engine_spec>& engines,
                         std::vector<std::string>& problems, const tell& progress) {
  delay_sweep sweep;
  sweep.timers = delay_sweep_timers;
  sweep.delays = delays_up_to(std::clamp<nanoseconds>(plan.longest(), 1min, 24h));
  for (const engine_spec& spec : engines) {
    sweep.curves.push_back({spec.text, {}});
  }
  for (const nanoseconds delay : sweep.delays) {
    progress("counting with delays of " + format_duration(delay));
    const workload some = spread(delay, sweep.timers, {});
    for (std::size_t i = 0; i < engines.size(); ++i) {
      sweep.curves[i].work.push_back(work_of(some, engines[i], problems));
    }
  }
  return sweep;
}

cancel_sweep sweep_cancels(const workload& plan, const workload_spec& spec, const std::vector<engine_spec>& engines,
                           std::vector<std::string>& problems, const tell& progress) {
  cancel_sweep sweep;
  sweep.timers = cancel_sweep_timers;
  sweep.delay = std::clamp<nanoseconds>(plan.median(), 1s, 24h);
  sweep.shares = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99};
  cancel_spec cancel;
  if (spec.cancel && spec.cancel->when) {
    cancel.when = spec.cancel->when;
    sweep.when = cancel.when->text;
  } else {
    cancel.when = duration_spec{};
    cancel.when->shape = duration_spec::kind::uniform;
    cancel.when->second = sweep.delay / 3;
    sweep.when = "anywhere in the first third of the delay";
  }
  for (const engine_spec& engine : engines) {
    sweep.curves.push_back({engine.text, {}});
  }
  for (const double share : sweep.shares) {
    progress("counting with " + std::to_string(std::lround(share * 100)) + " % cancelled");
    cancel.share = share;
    const workload some = spread(sweep.delay, sweep.timers, cancel);
    for (std::size_t i = 0; i < engines.size(); ++i) {
      sweep.curves[i].work.push_back(work_of(some, engines[i], problems));
    }
  }
  return sweep;
}

break_even measure_break_even(const tell& progress) {
  break_even measured;
  measured.timers = 1U << 18U;
  measured.timers_per_tick = 8;
  measured.size = 512;
  engine_spec hierarchy;
  engine_spec hashed;
  hashed.type = kind::hashed;
  const auto ticks = static_cast<std::int64_t>(measured.timers / measured.timers_per_tick);
  for (std::int64_t delay = 64; delay <= 1 << 17; delay *= 2) {
    progress("timing rounds and cascades with delays of " + std::to_string(delay) + " ticks");
    workload_spec spec;
    spec.timers = measured.timers;
    spec.delays.shape = duration_spec::kind::uniform;  // around the delay, so that no digit is special
    spec.delays.first = hierarchy.tick * (delay - delay / 8);
    spec.delays.second = hierarchy.tick * (delay + delay / 8);
    spec.arrivals = arrival_spec{arrival_spec::kind::even, hierarchy.tick * ticks, 0, "even"};
    const workload plan = make_workload(spec);
    measured.delays.push_back(static_cast<std::uint64_t>(delay));
    measured.moves.push_back(run_engine(plan, hierarchy, false).work_per_timer());
    measured.looks.push_back(run_engine(plan, hashed, false).work_per_timer());
    measured.hierarchical.push_back(time_per_timer(plan, hierarchy));
    measured.hashed.push_back(time_per_timer(plan, hashed));
  }
  const std::size_t last = measured.delays.size() - 1;
  const std::size_t far = last - 2;
  measured.ns_per_look = (measured.hashed[last] - measured.hashed[far]) / (measured.looks[last] - measured.looks[far]);
  measured.ns_per_move = (measured.hierarchical[far] - measured.hierarchical[0]) / measured.moves[far];
  measured.crossing = crossing_of(measured);
  return measured;
}

}  // namespace timing_wheel::compare

#include "compare/cascades_against_rounds.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/rules.hpp"

namespace timing_wheel::compare {
namespace {

using namespace std::chrono_literals;
using kind = engine_spec::kind;

constexpr std::uint64_t delay_sweep_timers = 2'000;
constexpr std::uint64_t cancel_sweep_timers = 10'000;
constexpr std::uint32_t largest_flat_in_a_sweep = 1U << 22U;

/// 1, 2 and 5 ms, and so on, and the longest itself.
std::vector<nanoseconds> delays_up_to(nanoseconds longest) {
  std::vector<nanoseconds> delays;
  for (nanoseconds decade = 1ms; decade < longest; decade *= 10) {
    for (const int step : {1, 2, 5}) {
      if (decade * step * 5 / 4 < longest) {
        delays.push_back(decade * step);
      }
    }
  }
  delays.push_back(longest);
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
  const auto longest = static_cast<tick>(plan.longest() / spec.tick + 2);
  if ((spec.type == kind::flat && longest > largest_flat_in_a_sweep) ||
      (spec.type == kind::noncascading && longest > reach_of(spec))) {
    return -1;
  }
  const engine_result result = run_engine(plan, spec, false);
  const std::vector<std::string> found = check(plan, spec, result);
  problems.insert(problems.end(), found.begin(), found.end());
  return result.work_per_timer();
}

/// The best of five, because what disturbs a run only makes it longer.
double time_per_timer(const workload& plan, const engine_spec& spec) {
  constexpr int repetitions = 5;
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < repetitions; ++i) {
    best = std::min(best, 2 * time_engine(plan, spec, false).ns_per_operation);  // each timer is added and fires
  }
  return best;
}

double mean(const std::vector<double>& values, std::size_t from, std::size_t to) {
  double sum = 0;
  for (std::size_t i = from; i < to; ++i) {
    sum += values[i];
  }
  return sum / static_cast<double>(to - from);
}

/// Of the straight line that lies nearest to the points from `from` on.
double slope(const std::vector<double>& x, const std::vector<double>& y, std::size_t from) {
  const double middle_x = mean(x, from, x.size());
  const double middle_y = mean(y, from, y.size());
  double above = 0;
  double below = 0;
  for (std::size_t i = from; i < x.size(); ++i) {
    above += (x[i] - middle_x) * (y[i] - middle_y);
    below += (x[i] - middle_x) * (x[i] - middle_x);
  }
  return above / below;
}

/// Where the second line falls below the first for good, in between by a straight line over the logarithm of the delay.
double crossing_of(const std::vector<std::uint64_t>& delays, const break_even_run& run) {
  std::size_t last = delays.size();
  while (last > 0 && run.hierarchical[last - 1] < run.hashed[last - 1]) {
    --last;
  }
  if (last == 0 || last == delays.size()) {
    return 0;
  }
  const double before = run.hierarchical[last - 1] - run.hashed[last - 1];
  const double after = run.hashed[last] - run.hierarchical[last];
  const double share = before / (before + after);
  const double low = std::log(static_cast<double>(delays[last - 1]));
  const double high = std::log(static_cast<double>(delays[last]));
  return std::exp(low + share * (high - low));
}

/// Each engine at each of the points. \param load makes the workload of one.
template <class Point, class Load>
std::vector<curve> count_curves(const std::vector<Point>& points, const std::vector<engine_spec>& engines,
                                std::vector<std::string>& problems, const Load& load) {
  std::vector<curve> curves;
  curves.reserve(engines.size());
  for (const engine_spec& engine : engines) {
    curves.push_back({engine.text, {}});
  }
  for (const Point& point : points) {
    const workload some = load(point);
    for (std::size_t i = 0; i < engines.size(); ++i) {
      curves[i].work.push_back(work_of(some, engines[i], problems));
    }
  }
  return curves;
}

}  // namespace

delay_sweep sweep_delays(const workload& plan, const std::vector<engine_spec>& engines,
                         std::vector<std::string>& problems, const tell& progress) {
  delay_sweep sweep;
  sweep.timers = delay_sweep_timers;
  sweep.delays = delays_up_to(std::clamp<nanoseconds>(plan.longest(), 1min, 24h));
  sweep.curves = count_curves(sweep.delays, engines, problems, [&](nanoseconds delay) {
    progress("counting with delays of " + format_duration(delay));
    return spread(delay, sweep.timers, {});
  });
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
  sweep.curves = count_curves(sweep.shares, engines, problems, [&](double share) {
    progress("counting with " + std::to_string(std::lround(share * 100)) + " % cancelled");
    cancel.share = share;
    return spread(sweep.delay, sweep.timers, cancel);
  });
  return sweep;
}

break_even measure_break_even(const workload& plan, const tell& progress) {
  break_even measured;
  measured.timers = std::clamp<std::uint64_t>(plan.timers.size(), 1U << 14U, 1U << 18U);
  measured.size = 512;
  measured.delays = {64, 128, 256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 8192, 16384};
  engine_spec hierarchy;
  engine_spec hashed;
  hashed.type = kind::hashed;
  std::vector<double> looks(measured.delays.size());
  for (const double rate : {1.0, 8.0, 64.0}) {
    break_even_run& run = measured.runs.emplace_back();
    run.timers_per_tick = rate;
    const auto ticks = static_cast<std::int64_t>(static_cast<double>(measured.timers) / rate);
    for (std::size_t i = 0; i < measured.delays.size(); ++i) {
      progress("timing rounds and cascades with delays of " + std::to_string(measured.delays[i]) + " ticks");
      workload_spec spec;
      spec.timers = measured.timers;
      spec.delays.first = hierarchy.tick * static_cast<std::int64_t>(measured.delays[i]);
      spec.arrivals = arrival_spec{arrival_spec::kind::even, hierarchy.tick * ticks, 0, "even"};
      const workload some = make_workload(spec);
      looks[i] = run_engine(some, hashed, false).work_per_timer();
      run.hierarchical.push_back(time_per_timer(some, hierarchy));
      run.hashed.push_back(time_per_timer(some, hashed));
    }
    run.crossing = crossing_of(measured.delays, run);
  }
  const auto of = [&](std::uint64_t delay) {
    return static_cast<std::size_t>(std::lower_bound(measured.delays.begin(), measured.delays.end(), delay) -
                                    measured.delays.begin());
  };
  const break_even_run& dense = measured.runs.back();
  measured.ns_per_look = slope(looks, dense.hashed, of(512));
  measured.ns_per_move = mean(dense.hierarchical, of(1024), of(16384)) - mean(dense.hierarchical, 0, of(384));
  return measured;
}

}  // namespace timing_wheel::compare

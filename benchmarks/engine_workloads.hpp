#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "measurement.hpp"
#include "timing_wheel/histogram.hpp"
#include "workload.hpp"

/// The workloads, one body each for every engine and every peer.
///
/// A contender is a class of timers in virtual time, made by a function of N and driven through these members:
///
/// - `arm(number, delay)`: the timer fires `delay` milliseconds from now. It is not pending; `delay` is at least 1.
/// - `cancel(number)`: it does not fire. It is pending.
/// - `advance(by, again)`: lets `by` milliseconds pass, and fires what is due: each touches its `payload` and, unless
///   `again` is null, is armed again with a delay from there. Returns how many fired.
/// - `more()`, if it works within a budget: whether the last `advance` left something to do, for `advance(0, again)`.
/// - `bytes()`: the memory that all timers take, with their payloads; 0 if unknown.
///
/// Each workload checks itself: at the end, as many timers have fired as were armed and not cancelled. `step` also sees
/// that they did so on time.
namespace timing_wheel::bench {

template <class Timers>
void arm_all(Timers& timers, timer_number count, delays& random) {
  for (timer_number s = 0; s < count; ++s) {
    timers.arm(s, random.next());
  }
}

template <class Make>
auto armed(const Make& make, timer_number count, delays& random) {
  auto timers = make(count);
  arm_all(*timers, count, random);
  return timers;
}

/// Lets the time pass millisecond by millisecond. \returns how many timers fired.
template <class Timers>
std::uint64_t pass(Timers& timers, tick time, delays* again = nullptr) {
  std::uint64_t fired = 0;
  for (tick t = 0; t < time; ++t) {
    fired += timers.advance(1, again);
  }
  return fired;
}

/// A: arm N timers. Begins with an empty structure and with no memory kept from before, so that the first touch of each
/// page, and all growing, is part of it.
template <class Make>
void arm(benchmark::State& state, const Make& make) {
  figures found(state);
  const timer_number count = found.timers();
  decltype(make(count)) timers;
  for ([[maybe_unused]] auto round : state) {
    untimed(state, [&] {
      timers.reset();
      return_freed_memory();
      timers = make(count);
    });
    delays random(1);
    arm_all(*timers, count, random);
  }
  found.report_handled(static_cast<std::uint64_t>(state.iterations()) * count);
  found.report_bytes(timers->bytes());
  found.expect("timers fired", timers->advance(half_hour, nullptr), count);
}

template <class Timers>
void churn_once(Timers& timers, timer_number count, delays& random) {
  for (timer_number i = 0; i < count; ++i) {
    const auto s = static_cast<timer_number>(random.below(count));
    timers.cancel(s);
    timers.arm(s, random.next());
  }
}

/// B: with N pending, cancel a random one and arm a new one; per pair. Each round is N pairs, and one goes before.
template <class Make>
void churn(benchmark::State& state, const Make& make) {
  figures found(state);
  const timer_number count = found.timers();
  delays random(2);
  const auto timers = armed(make, count, random);
  churn_once(*timers, count, random);
  for ([[maybe_unused]] auto round : state) {
    churn_once(*timers, count, random);
  }
  found.report_handled(static_cast<std::uint64_t>(state.iterations()) * count);
  found.report_bytes(timers->bytes());
  found.expect("timers fired", timers->advance(half_hour, nullptr), count);
}

/// C: from A, millisecond by millisecond to the end, cascades included; per timer.
template <class Make>
void fire(benchmark::State& state, const Make& make) {
  figures found(state);
  const timer_number count = found.timers();
  decltype(make(count)) timers;
  std::uint64_t fired = 0;
  for ([[maybe_unused]] auto round : state) {
    untimed(state, [&] {
      delays random(3);
      timers.reset();
      timers = armed(make, count, random);
    });
    fired += pass(*timers, half_hour);
  }
  found.report_handled(fired);
  found.expect("timers fired", fired, static_cast<std::uint64_t>(state.iterations()) * count);
}

/// The length of each step of C.
using step_lengths = std::vector<std::chrono::nanoseconds>;

struct firings {
  std::uint64_t count = 0;
  std::uint64_t times = 0;  ///< The sum of the times at which they fired.
};

template <class Timers>
bool has_more(const Timers& timers) {
  if constexpr (requires { timers.more(); }) {
    return timers.more();
  } else {
    return false;
  }
}

/// C once more, by the clock. Keeps the shorter of each step's length and what `shortest` has for it.
template <class Timers>
void pass_by_the_clock(Timers& timers, step_lengths& shortest, firings& fired) {
  using clock = std::chrono::steady_clock;
  auto before = clock::now();
  std::size_t step = 0;
  for (tick t = 1; t <= half_hour; ++t) {
    for (tick by = 1; by == 1 || has_more(timers); by = 0) {
      const std::uint64_t due = timers.advance(by, nullptr);
      if (step == shortest.size()) {
        shortest.push_back(std::chrono::nanoseconds::max());
      }
      const auto after = clock::now();
      shortest[step] = std::min<std::chrono::nanoseconds>(shortest[step], after - before);
      before = after;
      ++step;
      fired.count += due;
      fired.times += t * due;
    }
  }
}

inline std::uint64_t sum_of(timer_number count, delays random) {
  std::uint64_t sum = 0;
  for (timer_number s = 0; s < count; ++s) {
    sum += random.next();
  }
  return sum;
}

inline void report_steps(benchmark::State& state, const step_lengths& lengths) {
  using microseconds = std::chrono::duration<double, std::micro>;
  histogram all;
  for (const auto length : lengths) {
    all.record(length);
  }
  state.counters["step_p50_us"] = microseconds(all.quantile(0.5)).count();
  state.counters["step_p99.9_us"] = microseconds(all.quantile(0.999)).count();
  state.counters["step_max_us"] = microseconds(all.max()).count();
}

/// How long a single advance takes in C. A round is three passes of the same work, and the shortest counts of what each
/// step took in them: an interruption by another process, which is longer than any step, hardly hits the same one
/// thrice. Reading the clock is part of a step, about 20 ns.
template <class Make>
void step(benchmark::State& state, const Make& make) {
  constexpr int passes = 3;
  figures found(state);
  const timer_number count = found.timers();
  decltype(make(count)) timers;
  step_lengths shortest;
  firings fired;
  for ([[maybe_unused]] auto round : state) {
    untimed(state, [&] {
      shortest.clear();
      shortest.reserve(2 * half_hour);
    });
    for (int i = 0; i < passes; ++i) {
      untimed(state, [&] {
        delays random(3);
        timers.reset();
        timers = armed(make, count, random);
      });
      pass_by_the_clock(*timers, shortest, fired);
    }
  }
  found.report_handled(fired.count);
  report_steps(state, shortest);
  const auto all_passes = static_cast<std::uint64_t>(state.iterations()) * passes;
  found.expect("timers fired", fired.count, all_passes * count);
  found.expect("sum of the times of firing", fired.times, all_passes * sum_of(count, delays(3)));
}

/// D: each timer that fires is armed again; per fire. Begins with the population of the steady state, and each round is
/// ten minutes; one goes before.
template <class Make>
void hold(benchmark::State& state, const Make& make) {
  constexpr tick round_length = 10 * minute;
  figures found(state);
  const timer_number count = found.timers();
  delays random(4);
  const auto timers = make(count);
  for (const timer_number s : random_order(count, random)) {
    timers->arm(s, random.residual());
  }
  pass(*timers, round_length, &random);
  std::uint64_t fired = 0;
  for ([[maybe_unused]] auto round : state) {
    fired += pass(*timers, round_length, &random);
  }
  found.report_handled(fired);
  found.report_bytes(timers->bytes());
  found.expect("timers fired", timers->advance(half_hour, nullptr), count);
}

template <class Timers>
std::uint64_t play(const compensation_plan& plan, Timers& timers) {
  std::uint64_t fired = 0;
  for (tick now = 1; now <= compensation_plan::last_cancel; ++now) {
    fired += timers.advance(1, nullptr);
    if (now <= compensation_plan::last_arrival) {
      for (const timer_number s : plan.arriving_at(now)) {
        timers.arm(s, half_hour);
      }
    }
    for (const timer_number s : plan.cancelled_at(now)) {
      timers.cancel(s);
    }
  }
  return fired + pass(timers, compensation_plan::end - compensation_plan::last_cancel);
}

/// E: N checks of half an hour arrive within 10 s; `percent` of them are cancelled within 10 min, the rest fire; per
/// timer.
template <class Make>
void compensation(benchmark::State& state, const Make& make, unsigned percent) {
  figures found(state);
  const timer_number count = found.timers();
  const compensation_plan plan(count, percent);
  decltype(make(count)) timers;
  std::uint64_t fired = 0;
  for ([[maybe_unused]] auto round : state) {
    untimed(state, [&] {
      timers.reset();
      timers = make(count);
    });
    fired += play(plan, *timers);
  }
  const auto rounds = static_cast<std::uint64_t>(state.iterations());
  found.report_handled(rounds * count);
  found.expect("timers fired", fired, rounds * plan.survivors());
}

}  // namespace timing_wheel::bench

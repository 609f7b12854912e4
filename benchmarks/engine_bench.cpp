// The engines alone, in virtual time, one thread, ticks of one millisecond. Workloads as in docs/benchmarks.md.

#include <benchmark/benchmark.h>

#include <memory>

#include "timing_wheel/hierarchical_wheel.hpp"
#include "workload.hpp"

namespace timing_wheel::bench {
namespace {

template <timer_engine Engine>
std::unique_ptr<Engine> armed(slot count, delays& random) {
  auto engine = std::make_unique<Engine>(engine_options{});
  for (slot s = 0; s < count; ++s) {
    engine->insert(s, random.next());
  }
  return engine;
}

void per_timer(benchmark::State& state, std::uint64_t timers) {
  state.SetItemsProcessed(static_cast<std::int64_t>(timers));
  state.counters["per_timer"] =
      benchmark::Counter(static_cast<double>(timers), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// A: N timers from nothing.
template <timer_engine Engine>
void arm(benchmark::State& state) {
  const auto count = static_cast<slot>(state.range(0));
  std::uint64_t timers = 0;
  for ([[maybe_unused]] auto round : state) {
    delays random(1);
    auto engine = armed<Engine>(count, random);
    timers += count;
    state.PauseTiming();
    engine.reset();
    state.ResumeTiming();
  }
  per_timer(state, timers);
}

// B: with N pending, cancel a random one and arm a new one.
template <timer_engine Engine>
void churn(benchmark::State& state) {
  const auto count = static_cast<slot>(state.range(0));
  delays random(2);
  const auto engine = armed<Engine>(count, random);
  std::uint64_t timers = 0;
  for ([[maybe_unused]] auto round : state) {
    const auto s = static_cast<slot>(random.below(count));
    engine->erase(s);
    engine->insert(s, random.next());
    ++timers;
  }
  per_timer(state, timers);
  state.counters["bytes_per_timer"] = static_cast<double>(engine->stats().bytes) / count;
}

// C: from A, millisecond by millisecond to the end, cascades included.
template <timer_engine Engine>
void fire(benchmark::State& state) {
  const auto count = static_cast<slot>(state.range(0));
  std::uint64_t timers = 0;
  for ([[maybe_unused]] auto round : state) {
    state.PauseTiming();
    delays random(3);
    auto engine = armed<Engine>(count, random);
    payloads lines(count);
    state.ResumeTiming();
    for (tick now = 1; now <= half_hour; ++now) {
      const advance_result result = engine->advance(now);
      lines.fire(result.due);
      timers += result.due.size();
    }
    state.PauseTiming();
    engine.reset();
    state.ResumeTiming();
  }
  per_timer(state, timers);
}

// D: each fired timer is armed again.
template <timer_engine Engine>
void hold(benchmark::State& state) {
  const auto count = static_cast<slot>(state.range(0));
  delays random(4);
  const auto engine = armed<Engine>(count, random);
  payloads lines(count);
  std::uint64_t timers = 0;
  tick now = 0;
  for ([[maybe_unused]] auto round : state) {
    const advance_result result = engine->advance(++now);
    lines.fire(result.due);
    for (const slot s : result.due) {
      engine->insert(s, now + random.next());
    }
    timers += result.due.size();
  }
  per_timer(state, timers);
}

void sizes(benchmark::internal::Benchmark* b) { b->Arg(10'000)->Arg(1'000'000); }

BENCHMARK_TEMPLATE(arm, hierarchical_wheel)->Apply(sizes);
BENCHMARK_TEMPLATE(churn, hierarchical_wheel)->Apply(sizes);
BENCHMARK_TEMPLATE(fire, hierarchical_wheel)->Apply(sizes)->Unit(benchmark::kMillisecond);
BENCHMARK_TEMPLATE(hold, hierarchical_wheel)->Apply(sizes);

}  // namespace
}  // namespace timing_wheel::bench

BENCHMARK_MAIN();

// The service with its clock, its locks and its poller.

#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <vector>

#include "timing_wheel/timer.hpp"

namespace timing_wheel::bench {
namespace {

constexpr std::chrono::minutes half_hour{30};

std::vector<timer_handle> scheduled(timer& service, std::size_t count) {
  std::vector<timer_handle> checks;
  checks.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    checks.push_back(service.schedule_after(half_hour, [i] { benchmark::DoNotOptimize(i); }));
  }
  return checks;
}

// Schedule N half-hour checks, then cancel them all; memory is warm from the second round on.
void schedule_then_cancel(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  timer service;
  std::size_t checks = 0;
  for ([[maybe_unused]] auto round : state) {
    for (const timer_handle& check : scheduled(service, count)) {
      check.cancel();
    }
    checks += count;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(checks));
  state.counters["bytes_per_check"] = static_cast<double>(service.stats().bytes) / static_cast<double>(count);
}

// With N checks pending, schedule one more and cancel it at once, from several threads.
void start_and_stop(benchmark::State& state) {
  static std::unique_ptr<timer> service;
  static std::vector<timer_handle> checks;
  if (state.thread_index() == 0) {
    service = std::make_unique<timer>();
    checks = scheduled(*service, static_cast<std::size_t>(state.range(0)));
  }
  for ([[maybe_unused]] auto round : state) {
    service->schedule_after(std::chrono::seconds(1), [] {}).cancel();
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    checks.clear();
    service.reset();
  }
}

BENCHMARK(schedule_then_cancel)->Arg(10'000)->Arg(1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(start_and_stop)->Arg(10'000)->Arg(1'000'000)->Threads(1)->Threads(2);

}  // namespace
}  // namespace timing_wheel::bench

BENCHMARK_MAIN();

// The engines and their peers on the same work: virtual time, one thread, ticks of one millisecond.
//
// Names are WORKLOAD/CONTENDER/N; N is 10^4 and 10^6, and up to 5 * 10^7 with TIMING_WHEEL_BENCH_LARGEST. With 10^7,
// the event loops need 3 GB; with 5 * 10^7, the engines need 5 GB, and the event loops 16. All of them take six minutes
// of processor time with the default; a filter takes a part, for instance
//
//   TIMING_WHEEL_BENCH_LARGEST=1e7 ./dev bench --benchmark_filter='(churn|hold)/.*/10000000$'
//
// What a workload does is said at its body in engine_workloads.hpp; what a counter means, in measurement.hpp.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench_sizes.hpp"
#include "contender.hpp"
#include "measurement.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/engine/hashed_wheel.hpp"
#include "timing_wheel/engine/heap_queue.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "workload.hpp"

namespace timing_wheel::bench {
namespace {

template <timer_engine Engine>
class engine_timers {
 public:
  engine_timers(timer_number count, std::uint32_t wheel_size, std::size_t budget = no_limit)
      : engine_({.wheel_size = wheel_size}), lines_(count), budget_(budget) {}

  void arm(timer_number s, tick delay) { engine_.insert(s, now_ + delay); }
  void cancel(timer_number s) { engine_.erase(s); }

  std::size_t advance(tick by, delays* again) {
    now_ += by;
    const advance_result result = engine_.advance(now_, budget_);
    more_ = result.more;
    lines_.fire(result);
    if (again != nullptr) {
      for (const timer_number s : result.due) {
        arm(s, again->next());
      }
    }
    return result.due.size();
  }
  [[nodiscard]] bool more() const { return more_; }

  [[nodiscard]] std::size_t bytes() const { return engine_.stats().bytes + lines_.bytes(); }

 private:
  Engine engine_;
  payloads lines_;
  std::size_t budget_;
  tick now_ = 0;
  bool more_ = false;
};

template <timer_engine Engine>
contender engine(const std::string& name, std::uint32_t wheel_size) {
  return contend<engine_timers<Engine>>(name, std::to_string(wheel_size) + " slots", wheel_size);
}

// With 512 slots of 1 ms, the wheel that counts rounds looks at each timer once in half a second: 1.8 thousand million
// looks to fire a million. With 16 384 a timer is looked at 55 times on average, and with a million pending a slot
// fills a chunk.
constexpr std::uint32_t slots_for_rounds = 16'384;

// So many that nothing ever needs a second wheel.
constexpr std::uint32_t slots_of_a_flat_wheel = half_hour + 1;

std::vector<contender> contenders() {
  std::vector<contender> all = {engine<hierarchical_wheel>("hierarchical_wheel", 512),
                                engine<hashed_wheel>("hashed_wheel", slots_for_rounds),
                                contend<engine_timers<heap_queue>>("heap_queue", "", 512U),
                                engine<hierarchical_wheel>("flat", slots_of_a_flat_wheel)};
  all.insert(all.end(), peers().begin(), peers().end());
  return all;
}

// As the service drives its engine: it lets go of the lock after so many timers.
contender engine_in_steps() {
  constexpr std::size_t budget = 256;
  return contend<engine_timers<hierarchical_wheel>>(
      "hierarchical_wheel_in_steps", "512 slots, " + std::to_string(budget) + " timers a step", 512U, budget);
}

// The hierarchical wheel alone. With half an hour to cover, 16 slots make six levels, and 4096 make two.
std::vector<contender> wheel_sizes() {
  std::vector<contender> all;
  for (std::uint32_t size = 16; size <= 4096; size *= 2) {
    all.push_back(engine<hierarchical_wheel>(std::to_string(size), size));
  }
  return all;
}

benchmark::internal::Benchmark* add(const std::string& name, const workload& body) {
  const char* const shown = name.c_str();  // older versions of Google Benchmark take no std::string
  return benchmark::RegisterBenchmark(shown, body)->Unit(benchmark::kMillisecond);
}

workload labelled(const contender& one, workload contender::*body) {
  return [run = one.*body, remark = one.remark](benchmark::State& state) {
    run(state);
    state.SetLabel(remark);
  };
}

void add_family(const std::string& family, std::int64_t timers, const std::vector<contender>& all,
                workload contender::*body) {
  for (const contender& one : all) {
    add(family + '/' + one.name, labelled(one, body))->Arg(timers);
  }
}

void add_by_share(std::int64_t timers, const std::vector<contender>& all) {
  for (const contender& one : all) {
    add("compensation_by_share/" + one.name, labelled(one, &contender::compensation_by_share))
        ->ArgNames({"timers", "cancelled"})
        ->ArgsProduct({{timers}, {0, 50, 90, 99}});
  }
}

// A million accesses in each round.
template <class Probe>
void add_probe(const std::string& name, std::int64_t lines, Probe probe) {
  add(name, [probe](benchmark::State& state) {
    constexpr std::size_t times = 1'000'000;
    probe_lines all(static_cast<std::size_t>(state.range(0)));
    for ([[maybe_unused]] auto round : state) {
      (all.*probe)(times);
    }
    const auto accesses = static_cast<double>(state.iterations()) * times;
    state.counters["per_access"] =
        benchmark::Counter(accesses, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  })->Arg(lines);
}

void add_all(std::int64_t timers) {
  add_probe("probe/P1", timers, &probe_lines::touch_at_random);
  add_probe("probe/P2", timers, &probe_lines::follow_chain);
  const std::vector<contender> all = contenders();
  add_family("arm", timers, all, &contender::arm);
  add_family("churn", timers, all, &contender::churn);
  add_family("fire", timers, all, &contender::fire);
  add_family("step", timers, {engine_in_steps()}, &contender::step);
  add_family("step", timers, all, &contender::step);
  add_family("hold", timers, all, &contender::hold);
  add_family("compensation", timers, all, &contender::compensation);
  add_by_share(timers, all);
  add_family("churn_by_wheel_size", timers, wheel_sizes(), &contender::churn);
  add_family("fire_by_wheel_size", timers, wheel_sizes(), &contender::fire);
}

}  // namespace
}  // namespace timing_wheel::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    return EXIT_FAILURE;
  }
  for (const std::int64_t timers : timing_wheel::bench::sizes_to_run({10'000, 1'000'000, 10'000'000, 50'000'000})) {
    timing_wheel::bench::add_all(timers);
  }
  benchmark::RunSpecifiedBenchmarks();
  return EXIT_SUCCESS;
}

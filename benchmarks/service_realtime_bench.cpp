// The services on the real clock: how late timers fire, what that costs, and whether an idle service sleeps.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <thread>
#include <vector>

#include "bench_sizes.hpp"
#include "process_usage.hpp"
#include "service_peers.hpp"

namespace timing_wheel::bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

double seconds_of(nanoseconds time) { return time / std::chrono::duration<double>(1); }
double microseconds_of(nanoseconds time) { return time / std::chrono::duration<double, std::micro>(1); }

/// The same numbers in every run.
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : random_(seed) {}
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  nanoseconds between(nanoseconds least, nanoseconds most) {
    return least + std::uniform_int_distribution<std::int64_t>(0, (most - least) / 1ns)(random_) * 1ns;
  }

 private:
  std::mt19937_64 random_;
};

/// How late callbacks were. They write, on the thread of the service; another may ask how many there were, and for more
/// than that only when the last has ended.
class lateness_record {
 public:
  explicit lateness_record(std::size_t most) { values_.reserve(most); }

  void add(time_point deadline) {
    values_.push_back(steady_clock::now() - deadline);
    count_.store(values_.size(), std::memory_order_release);
  }

  [[nodiscard]] std::size_t count() const noexcept { return count_.load(std::memory_order_acquire); }

  [[nodiscard]] std::size_t early() const {
    return static_cast<std::size_t>(
        std::count_if(values_.begin(), values_.end(), [](nanoseconds v) { return v < 0ns; }));
  }

  void report(benchmark::State& state) {
    std::sort(values_.begin(), values_.end());
    state.counters["early"] = static_cast<double>(early());
    state.counters["p50_us"] = microseconds_of(quantile(0.5));
    state.counters["p99_us"] = microseconds_of(quantile(0.99));
    state.counters["max_us"] = microseconds_of(quantile(1));
  }

 private:
  // Of sorted values: that which `share` of them do not exceed.
  [[nodiscard]] nanoseconds quantile(double share) const {
    if (values_.empty()) {
      return 0ns;
    }
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(values_.size()));
    return values_[std::min(rank, values_.size() - 1)];
  }

  std::vector<nanoseconds> values_;
  std::atomic<std::size_t> count_ = 0;
};

void report_usage(benchmark::State& state, const process_usage& used) {
  state.counters["cpu_s"] = seconds_of(used.cpu);
  state.counters["service_cpu_s"] = std::max(0.0, seconds_of(used.others_cpu));  // a difference of two readings
  state.counters["wakes"] = static_cast<double>(used.others_wakes);
}

/// N checks, scheduled one after the other, that are due at random times of a span that begins when all of them are
/// there.
struct spread {
  std::size_t timers;
  nanoseconds span;

  /// For scheduling them: 2 us each.
  [[nodiscard]] nanoseconds lead() const noexcept { return 50ms + static_cast<std::int64_t>(timers) * 2us; }
};

template <benched_service Service>
void schedule_spread(Service& service, std::vector<typename Service::handle>& checks, time_point begin,
                     const spread& load, lateness_record& late) {
  random_numbers random(20);
  for (auto& check : checks) {
    const time_point deadline = begin + random.between(0ns, load.span);
    service.schedule_at(check, deadline, [&late, deadline] { late.add(deadline); });
  }
}

/// \returns whether `count` callbacks have run by `until`.
bool wait_for(const lateness_record& late, std::size_t count, time_point until) {
  while (late.count() < count && steady_clock::now() < until) {
    std::this_thread::sleep_for(20ms);
  }
  return late.count() >= count;
}

// The CPU time is that of scheduling and of firing.
template <benched_service Service>
void fire_spread(benchmark::State& state, Service& service, const spread& load) {
  lateness_record late(load.timers);
  auto checks = make_handles(service, load.timers);
  process_usage used;
  bool all_fired = false;
  for ([[maybe_unused]] auto round : state) {
    const process_usage before = usage_now();
    const time_point begin = steady_clock::now() + load.lead();
    schedule_spread(service, checks, begin, load, late);
    state.counters["behind_s"] = std::max(0.0, seconds_of(steady_clock::now() - begin));
    all_fired = wait_for(late, load.timers, begin + load.span + 30s);
    used = usage_now() - before;
  }
  const std::size_t pending = service.stop(checks);
  late.report(state);
  report_usage(state, used);
  if (!all_fired || pending != 0 || late.count() != load.timers || late.early() != 0 || !service.is_sound()) {
    state.SkipWithError("a timer was early or lost, or fired twice");
  }
}

spread usual_spread(std::size_t timers) {
  return timers <= 10'000 ? spread{timers, 200ms} : spread{timers, static_cast<std::int64_t>(timers) * 10us};
}

template <benched_service Service>
void lateness(benchmark::State& state) {
  Service service;
  fire_spread(state, service, usual_spread(static_cast<std::size_t>(state.range(0))));
}

// The same span for few timers and for many: a light load and a heavy one.
spread short_spread(const benchmark::State& state) {
  return {static_cast<std::size_t>(state.range(0)), largest_size() <= 10'000 ? 200ms : 2s};
}

void lateness_by_tick(benchmark::State& state) {
  hierarchical service({.tick = state.range(1) * 1us});
  fire_spread(state, service, short_spread(state));
}
void lateness_without_tick(benchmark::State& state) {
  boost_asio service;
  fire_spread(state, service, short_spread(state));
}

/// Waits until the other threads sleep, 2 s at most: a sanitizer's own thread never does for long.
void settle_threads() {
  bool awake = true;
  for (int tries = 0; awake && tries < 10; ++tries) {
    const std::uint64_t before = usage_now().others_wakes;
    std::this_thread::sleep_for(200ms);
    awake = usage_now().others_wakes != before;
  }
}

// One timer an hour away.
template <benched_service Service>
void idle(benchmark::State& state) {
  Service service;
  auto far = make_handles(service, 1);
  service.schedule_after(far.front(), 1h, [] {});
  if constexpr (!Service::wakes_when_idle) {
    settle_threads();
  }
  process_usage used;
  for ([[maybe_unused]] auto round : state) {
    const process_usage before = usage_now();
    std::this_thread::sleep_for(state.range(0) * 1ms);
    used = usage_now() - before;
  }
  report_usage(state, used);
  if (service.stop(far) != 1 || !service.is_sound()) {
    state.SkipWithError("the timer was lost");
  } else if (!Service::wakes_when_idle && used.others_wakes != 0) {
    state.SkipWithError("an idle service woke");
  }
}

/// What a poller has run of a volley that several may share; on a line of its own.
struct alignas(64) part_of_volley {
  std::atomic<std::size_t> fired{0};
  steady_clock::time_point first;
  steady_clock::time_point last;

  // On the poller only.
  void fire(std::size_t all, nanoseconds work) {
    const std::size_t before = fired.load(std::memory_order_relaxed);
    if (before == 0) {
      first = steady_clock::now();
    }
    for (const auto end = work == 0ns ? first : steady_clock::now() + work; work != 0ns && steady_clock::now() < end;) {
    }
    if (before + 1 == all) {
      last = steady_clock::now();
    }
    fired.store(before + 1, std::memory_order_release);
  }
};

/// Timers of one moment, as many in each of `Shards`; each callback computes for as long as `work`. `fire_ns` is for
/// each of them, from the first callback of its shard to the last, and the rate counts from the moment on.
template <std::size_t Shards>
void fire_volleys(benchmark::State& state, timer& service, nanoseconds work) {
  const std::size_t each = static_cast<std::size_t>(state.range(0)) / Shards;
  std::array<part_of_volley, Shards> parts;
  nanoseconds firing{};
  for ([[maybe_unused]] auto round : state) {
    const time_point moment = steady_clock::now() + 1s;
    for (part_of_volley& part : parts) {
      part.fired = 0;
      // Each thread is dealt to the next shard.
      std::thread([&service, &part, moment, work, each] {
        for (std::size_t i = 0; i < each; ++i) {
          service.schedule_at(moment, [&part, each, work] { part.fire(each, work); });
        }
      }).join();
    }
    nanoseconds longest{};
    for (const part_of_volley& part : parts) {
      while (part.fired.load(std::memory_order_acquire) < each) {
        std::this_thread::sleep_for(1ms);
      }
      firing += part.last - part.first;
      longest = std::max(longest, part.last - moment);
    }
    state.SetIterationTime(seconds_of(longest));
  }
  const std::size_t all = each * Shards * static_cast<std::size_t>(state.iterations());
  state.counters["fire_ns"] = seconds_of(firing) * 1e9 / static_cast<double>(all);
  state.counters["fires_per_s"] = benchmark::Counter(static_cast<double>(all), benchmark::Counter::kIsRate);
  const timer_stats counts = service.stats();
  if (counts.fired != all || counts.early != 0) {
    state.SkipWithError("a timer was early or lost, or fired twice");
  }
}

// In one shard; with `busy`, another thread schedules and cancels there meanwhile, as fast as it can.
void volleys(benchmark::State& state) {
  timer service({.shards = 1});
  std::atomic<bool> stop_it = state.range(1) == 0;
  std::thread neighbour([&] {
    while (!stop_it.load(std::memory_order_relaxed)) {
      service.schedule_after(1h, [] {}).cancel();
    }
  });
  fire_volleys<1>(state, service, 0ns);
  stop_it = true;
  neighbour.join();
}

// On two shards, with one poller for both or one for each.
void volleys_on_pollers(benchmark::State& state) {
  timer service({.shards = 2, .pollers = static_cast<unsigned>(state.range(1))});
  fire_volleys<2>(state, service, state.range(2) * 1ns);
}

// One timer each millisecond: what a wake-up of the poller costs, by the shards that it looks at.
void wakeups_by_shards(benchmark::State& state) {
  timer service({.shards = static_cast<unsigned>(state.range(1))});
  service.schedule_every(1ms, [] {});
  process_usage used;
  timer_stats counts;
  for ([[maybe_unused]] auto round : state) {
    const process_usage before = usage_now();
    const std::uint64_t wakeups = service.stats().wakeups;
    std::this_thread::sleep_for(state.range(0) * 1ms);
    used = usage_now() - before;
    counts = service.stats();
    counts.wakeups -= wakeups;
  }
  const auto wakeups = static_cast<double>(std::max<std::uint64_t>(counts.wakeups, 1));
  state.counters["cpu_us_per_wakeup"] = microseconds_of(used.others_cpu) / wakeups;
  state.counters["wakeups"] = wakeups;
  if (counts.early != 0 || counts.fired == 0) {
    state.SkipWithError("the timer was early, or did not fire");
  }
}

/// Nine of ten arrivals are requests with a timeout, nearly all of which are answered in time, the tenth is a check of
/// half an hour. Heartbeats go on meanwhile. One thread makes all of that.
template <benched_service Service>
class traffic {
 public:
  /// Time goes in slices of about a millisecond. A heartbeat begins in each of the first fifth, which is about its
  /// period.
  struct shape {
    std::size_t arrivals;
    std::size_t slices;

    [[nodiscard]] std::size_t heartbeats() const noexcept { return slices / 5; }
    [[nodiscard]] nanoseconds period() const noexcept { return static_cast<std::int64_t>(heartbeats()) * 1ms; }
  };

  traffic(Service& service, const shape& load)
      : service_(service), load_(load), late_(load.arrivals), heartbeats_(make_handles(service, load.heartbeats())) {}

  void run() {
    const time_point start = steady_clock::now();
    for (std::size_t slice = 0; slice < load_.slices; ++slice) {
      const time_point now = steady_clock::now();
      answer(slice);
      if (slice < heartbeats_.size()) {
        begin_heartbeat(heartbeats_[slice]);
      }
      for (std::size_t i = 0; i < load_.arrivals / load_.slices; ++i) {
        arrive(slice, now);
      }
      std::this_thread::sleep_until(start + static_cast<std::int64_t>(slice + 1) * slice_length);
    }
    took_ = steady_clock::now() - start;
  }

  /// \returns whether each arrival was answered, or has fired, or was still pending, and the hearts have beaten.
  [[nodiscard]] bool stop() {
    std::size_t pending = service_.stop(unanswered_);
    for (auto& answered_together : answers_) {
      pending += service_.stop(answered_together);
    }
    const std::size_t fired = late_.count() - beats_;  // no check of half an hour
    return answered_ + fired + pending == load_.arrivals && beats_ >= load_.heartbeats();
  }

  /// \pre stopped.
  void report(benchmark::State& state, const process_usage& used) {
    const double millions = static_cast<double>(load_.arrivals + beats_) / 1e6;
    report_usage(state, used);
    state.counters["cpu_s_per_million"] = seconds_of(used.cpu) / millions;
    state.counters["service_cpu_s_per_million"] = seconds_of(used.others_cpu) / millions;
    state.counters["wakes_per_s"] = static_cast<double>(used.others_wakes) / seconds_of(took_);
    state.counters["fired"] = static_cast<double>(late_.count());
    late_.report(state);
  }

  [[nodiscard]] std::size_t early() const { return late_.early(); }

 private:
  static constexpr nanoseconds slice_length = 1009us;  // not in step with the ticks of a service
  static constexpr std::size_t slowest_answer = 50;    // slices, half of the shortest timeout

  void begin_heartbeat(typename Service::handle& timer) {
    // A little before the deadline that the service works out, so that nothing looks late that is early.
    const time_point first = steady_clock::now() + load_.period();
    service_.schedule_every(timer, load_.period(), [this, next = first]() mutable {
      late_.add(next);
      ++beats_;
      next += load_.period();
    });
  }

  void arrive(std::size_t slice, time_point now) {
    if (random_.below(10) == 0) {
      service_.schedule_after(unanswered_.emplace_back(service_.make_handle()), 30min, [] {});
      return;
    }
    const time_point deadline = now + random_.between(100ms, 30s);
    const bool is_lost = random_.below(100) == 0;
    auto& place = is_lost ? unanswered_ : answers_[(slice + 1 + random_.below(slowest_answer)) % answers_.size()];
    service_.schedule_at(place.emplace_back(service_.make_handle()), deadline,
                         [this, deadline] { late_.add(deadline); });
  }

  void answer(std::size_t slice) {
    auto& requests = answers_[slice % answers_.size()];
    for (auto& request : requests) {
      answered_ += service_.cancel(request) ? 1U : 0U;
    }
    requests.clear();
  }

  using handles = std::deque<typename Service::handle>;  // which does not move them

  Service& service_;
  const shape load_;
  random_numbers random_{21};
  std::size_t answered_ = 0;
  nanoseconds took_{};
  // Of the service's thread, until it is stopped.
  lateness_record late_;
  std::size_t beats_ = 0;

  std::vector<typename Service::handle> heartbeats_;
  handles unanswered_;
  std::array<handles, slowest_answer + 1> answers_;  // by the slice of the answer, round and round
};

template <benched_service Service>
void mixed(benchmark::State& state) {
  const auto arrivals = static_cast<std::size_t>(state.range(0));
  Service service;
  traffic<Service> load(service, {arrivals, arrivals <= 10'000 ? arrivals / 50 : arrivals / 200});
  process_usage used;
  for ([[maybe_unused]] auto round : state) {
    const process_usage before = usage_now();
    load.run();
    used = usage_now() - before;
  }
  const bool all_there = load.stop();
  load.report(state, used);
  if (!all_there || load.early() != 0 || !service.is_sound()) {
    state.SkipWithError("a timer was early or lost, or fired twice");
  }
}

void once(benchmark::internal::Benchmark* b) { b->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond); }

void small_and_large(benchmark::internal::Benchmark* b) {
  b->ArgName("timers")->ArgsProduct({sizes_to_run({10'000, 1'000'000})})->Apply(once);
}

std::vector<std::int64_t> some_timers() { return {sizes_to_run({10'000, 200'000}).back()}; }

std::vector<std::int64_t> light_and_heavy() { return {2'000, some_timers().front()}; }

void ticks(benchmark::internal::Benchmark* b) {
  b->ArgNames({"timers", "tick_us"})->ArgsProduct({light_and_heavy(), {20, 50, 100, 200, 1'000, 10'000}})->Apply(once);
}

void watched(benchmark::internal::Benchmark* b) {
  b->ArgName("ms")->Arg(largest_size() <= 10'000 ? 200 : 10'000)->Apply(once);
}

void some_volleys(benchmark::internal::Benchmark* b) {
  b->Iterations(largest_size() <= 10'000 ? 1 : 5)->UseManualTime()->Unit(benchmark::kMillisecond);
}

void by_shards(benchmark::internal::Benchmark* b) {
  b->ArgNames({"ms", "shards"})->ArgsProduct({{largest_size() <= 10'000 ? 200 : 5'000}, {1, 2, 8, 64}})->Apply(once);
}

BENCHMARK_TEMPLATE(lateness, hierarchical)->Apply(small_and_large);
BENCHMARK_TEMPLATE(lateness, boost_asio)->Apply(small_and_large);

BENCHMARK(lateness_by_tick)->Apply(ticks);
BENCHMARK(lateness_without_tick)->ArgName("timers")->ArgsProduct({light_and_heavy()})->Apply(once);

BENCHMARK(volleys)->ArgNames({"timers", "busy"})->ArgsProduct({some_timers(), {0, 1}})->Apply(some_volleys);
BENCHMARK(volleys_on_pollers)
    ->ArgNames({"timers", "pollers", "work_ns"})
    ->ArgsProduct({some_timers(), {1, 2}, {0, 500}})
    ->Apply(some_volleys);
BENCHMARK(wakeups_by_shards)->Apply(by_shards);

BENCHMARK_TEMPLATE(mixed, hierarchical)->Apply(small_and_large);
BENCHMARK_TEMPLATE(mixed, boost_asio)->Apply(small_and_large);

BENCHMARK_TEMPLATE(idle, hierarchical)->Apply(watched);
BENCHMARK_TEMPLATE(idle, hashed)->Apply(watched);
BENCHMARK_TEMPLATE(idle, heap)->Apply(watched);
BENCHMARK_TEMPLATE(idle, boost_asio)->Apply(watched);

}  // namespace
}  // namespace timing_wheel::bench

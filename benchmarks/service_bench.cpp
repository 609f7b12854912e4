// The services as fast as they go: half-hour checks scheduled and cancelled, and their memory. None of these timers
// fires.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench_sizes.hpp"
#include "process_usage.hpp"
#include "producers.hpp"
#include "service_peers.hpp"

namespace timing_wheel::bench {
namespace {

constexpr std::chrono::minutes half_hour{30};

/// A callback with that many bytes of captures.
template <std::size_t Bytes>
struct check {
  std::array<std::uint64_t, Bytes / sizeof(std::uint64_t)> captured;
  void operator()() const {
    std::uint64_t first = captured.front();
    benchmark::DoNotOptimize(first);
  }
};

/// What most checks carry, and what fits into a `task`: a pointer and two numbers.
using usual_check = check<24>;
static_assert(sizeof(usual_check) == 24 && sizeof(usual_check) <= task::inline_size);

double nanoseconds_each(std::chrono::nanoseconds total, std::size_t timers) {
  return total / std::chrono::duration<double, std::nano>(1) / static_cast<double>(timers);
}

double per_second(std::size_t timers, std::chrono::nanoseconds total) {
  return static_cast<double>(timers) / (total / std::chrono::duration<double>(1));
}

template <class Callback, benched_service Service>
void schedule_all(Service& service, std::span<typename Service::handle> checks) {
  for (std::size_t i = 0; i < checks.size(); ++i) {
    service.schedule_after(checks[i], half_hour, Callback{{i}});
  }
}

template <benched_service Service>
std::size_t cancel_all(Service& service, std::span<typename Service::handle> checks) {
  std::size_t cancelled = 0;
  for (auto& check : checks) {
    cancelled += service.cancel(check) ? 1U : 0U;
  }
  return cancelled;
}

/// N checks of half an hour: scheduled by all producers at once, each with an equal share, and then cancelled so.
template <benched_service Service, class Callback>
class rounds {
 public:
  template <class... Options>
  rounds(std::size_t checks, std::size_t threads, const Options&... options)
      : service_(options...), checks_(make_handles(service_, checks)), producers_(threads) {}

  /// \returns false if a check got lost.
  bool run() {
    schedule_ += producers_.run([this](std::size_t i) { schedule_all<Callback>(service_, share(i)); });
    std::atomic<std::size_t> cancelled = 0;
    cancel_ += producers_.run([&](std::size_t i) { cancelled += cancel_all(service_, share(i)); });
    service_.settle();
    ++rounds_;
    return cancelled == checks_.size() && service_.is_sound();
  }

  void forget_times() {
    schedule_ = cancel_ = {};
    rounds_ = 0;
  }

  [[nodiscard]] std::chrono::nanoseconds wall() const noexcept { return schedule_.wall + cancel_.wall; }

  [[nodiscard]] double schedule_ns() const { return nanoseconds_each(schedule_.all_threads, timers()); }

  void report(benchmark::State& state) const {
    state.counters["schedule_ns"] = schedule_ns();
    state.counters["cancel_ns"] = nanoseconds_each(cancel_.all_threads, timers());
    state.counters["schedules_per_s"] = per_second(timers(), schedule_.wall);
    state.counters["cancels_per_s"] = per_second(timers(), cancel_.wall);
  }

 private:
  [[nodiscard]] std::size_t timers() const noexcept { return rounds_ * checks_.size(); }

  std::span<typename Service::handle> share(std::size_t producer) {
    const std::size_t begin = checks_.size() * producer / producers_.size();
    const std::size_t end = checks_.size() * (producer + 1) / producers_.size();
    return std::span(checks_).subspan(begin, end - begin);
  }

  Service service_;
  std::vector<typename Service::handle> checks_;
  producers producers_;
  work_time schedule_;
  work_time cancel_;
  std::size_t rounds_ = 0;
};

// `schedule_ns` and `cancel_ns` are those of a thread, the rates those of all; the first round, whose memory is new, is
// apart.
template <benched_service Service, class Callback, class... Options>
void run_rounds(benchmark::State& state, const Options&... options) {
  const auto checks = static_cast<std::size_t>(state.range(0));
  rounds<Service, Callback> work(checks, static_cast<std::size_t>(state.range(1)), options...);
  bool all_there = work.run();
  state.counters["cold_schedule_ns"] = work.schedule_ns();
  work.forget_times();
  std::chrono::nanoseconds before{};
  for ([[maybe_unused]] auto round : state) {
    all_there = work.run() && all_there;
    state.SetIterationTime((work.wall() - before) / std::chrono::duration<double>(1));
    before = work.wall();
  }
  work.report(state);
  if (!all_there) {
    state.SkipWithError("not every check was cancelled");
  }
}

template <benched_service Service>
void schedule_then_cancel(benchmark::State& state) {
  run_rounds<Service, usual_check>(state);
}

template <benched_service Service, std::size_t Bytes>
void captures(benchmark::State& state) {
  run_rounds<Service, check<Bytes>>(state);
}

template <benched_service Service>
std::size_t cancel_in_order(Service& service, std::vector<typename Service::handle>& checks,
                            const std::vector<std::uint32_t>& order) {
  std::size_t cancelled = 0;
  for (const std::uint32_t i : order) {
    cancelled += service.cancel(checks[i]) ? 1U : 0U;
  }
  return cancelled;
}

// Groups as they come together in a program: its handles lie anywhere too.
std::size_t cancel_in_groups(std::vector<timer_handle>& checks, const std::vector<std::uint32_t>& order) {
  std::array<timer_handle, 32> group;
  std::size_t cancelled = 0;
  for (std::size_t begin = 0; begin < order.size(); begin += group.size()) {
    const std::size_t count = std::min(group.size(), order.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      group[i] = std::move(checks[order[begin + i]]);
    }
    cancelled += cancel_many(std::span(group).first(count));
  }
  return cancelled;
}

// N checks of 10 to 40 minutes, cancelled in another order than scheduled; then each schedule meets memory that lies
// anywhere, and so does each cancel.
template <benched_service Service, class Cancel>
void run_in_random_order(benchmark::State& state, Cancel cancel) {
  using clock = std::chrono::steady_clock;
  const auto count = static_cast<std::size_t>(state.range(0));
  std::mt19937_64 random(1);
  std::vector<std::chrono::nanoseconds> delays(count);
  std::generate(delays.begin(), delays.end(),
                [&] { return std::chrono::minutes(10) + std::chrono::nanoseconds(random() % 1'800'000'000'000); });
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  Service service;
  auto checks = make_handles(service, count);
  std::chrono::nanoseconds schedule{};
  std::chrono::nanoseconds cancels{};
  bool all_there = true;
  const auto run = [&] {
    std::shuffle(order.begin(), order.end(), random);
    const auto begin = clock::now();
    for (std::size_t i = 0; i < count; ++i) {
      service.schedule_after(checks[i], delays[i], usual_check{{i}});
    }
    const auto middle = clock::now();
    all_there = cancel(service, checks, order) == count && all_there;
    service.settle();
    schedule += middle - begin;
    cancels += clock::now() - middle;
  };
  run();  // to warm up
  schedule = cancels = {};
  for ([[maybe_unused]] auto round : state) {
    const std::chrono::nanoseconds before = schedule + cancels;
    run();
    state.SetIterationTime((schedule + cancels - before) / std::chrono::duration<double>(1));
  }
  const std::size_t timers = count * static_cast<std::size_t>(state.iterations());
  state.counters["schedule_ns"] = nanoseconds_each(schedule, timers);
  state.counters["cancel_ns"] = nanoseconds_each(cancels, timers);
  if (!all_there || !service.is_sound()) {
    state.SkipWithError("not every check was cancelled");
  }
}

template <benched_service Service>
void random_order(benchmark::State& state) {
  run_in_random_order<Service>(state, cancel_in_order<Service>);
}
void random_order_in_groups(benchmark::State& state) {
  run_in_random_order<hierarchical>(
      state, [](hierarchical&, auto& checks, const auto& order) { return cancel_in_groups(checks, order); });
}

void shards(benchmark::State& state) {
  run_rounds<hierarchical, usual_check>(state, timer_options{.shards = static_cast<unsigned>(state.range(2))});
}

// With a limit that is never reached: all threads count in one place.
void limited(benchmark::State& state) {
  run_rounds<hierarchical, usual_check>(state, timer_options{.max_pending = 1'000'000'000});
}

/// A service with checks that stay pending, and for each thread a timer of its own.
template <benched_service Service>
struct crowd {
  struct alignas(128) seat {  // two cache lines, because they are fetched in pairs
    explicit seat(typename Service::handle own) : timer(std::move(own)) {}

    typename Service::handle timer;
    std::atomic<std::int64_t> fired = 0;
  };

  crowd(std::size_t count, std::size_t threads) : checks(make_handles(service, count)) {
    schedule_all<usual_check>(service, std::span(checks));
    for (std::size_t i = 0; i < threads; ++i) {
      seats.push_back(std::make_unique<seat>(service.make_handle()));
    }
  }

  Service service;
  std::vector<typename Service::handle> checks;
  std::vector<std::unique_ptr<seat>> seats;
};

/// That of the benchmark that runs.
template <benched_service Service>
std::unique_ptr<crowd<Service>> present;

template <benched_service Service>
void gather(const benchmark::State& state) {
  present<Service> = std::make_unique<crowd<Service>>(static_cast<std::size_t>(state.range(0)),
                                                      static_cast<std::size_t>(state.threads()));
}

template <benched_service Service>
void disperse(const benchmark::State& /*state*/) {
  present<Service>.reset();
}

// With N checks pending, schedule one of a second and cancel it at once.
template <benched_service Service>
void start_and_stop(benchmark::State& state) {
  Service& service = present<Service>->service;
  auto& mine = *present<Service>->seats[static_cast<std::size_t>(state.thread_index())];
  std::int64_t cancelled = 0;
  for ([[maybe_unused]] auto round : state) {
    service.schedule_after(mine.timer, std::chrono::seconds(1), [&fired = mine.fired] { ++fired; });
    cancelled += service.cancel(mine.timer) ? 1 : 0;
  }
  state.SetItemsProcessed(state.iterations());
  service.settle();
  if (cancelled + mine.fired != static_cast<std::int64_t>(state.iterations()) || !service.is_sound()) {
    state.SkipWithError("a timer was lost");
  }
}

template <benched_service Service>
std::size_t held_by(const Service& service) {
  if constexpr (requires { service.bytes(); }) {
    return service.bytes();
  } else {
    return 0;
  }
}

double difference(std::size_t later, std::size_t earlier) {
  return static_cast<double>(later) - static_cast<double>(earlier);
}

// Resident bytes of a pending check, and of its handle alone; and how much memory grows when all of them are cancelled
// and as many others scheduled.
template <benched_service Service>
void memory(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  bool all_there = true;
  for ([[maybe_unused]] auto round : state) {
    const std::size_t nothing = resident_bytes();
    Service service;
    auto checks = make_handles(service, count);
    const std::size_t handles = resident_bytes();
    schedule_all<usual_check>(service, std::span(checks));
    const std::size_t first = resident_bytes();
    const std::size_t held = held_by(service);
    all_there = cancel_all(service, std::span(checks)) == count;
    service.settle();
    schedule_all<usual_check>(service, std::span(checks));
    state.counters["bytes_per_check"] = difference(first, nothing) / static_cast<double>(count);
    state.counters["bytes_per_handle"] = difference(handles, nothing) / static_cast<double>(count);
    state.counters["growth_bytes"] = difference(resident_bytes(), first);
    state.counters["growth_held_bytes"] = difference(held_by(service), held);
    all_there = all_there && cancel_all(service, std::span(checks)) == count && service.is_sound();
  }
  if (!all_there) {
    state.SkipWithError("not every check was cancelled");
  }
}

// What a service of one shard holds at each step of a peak: resident bytes, and those of `stats()`. Twice as many
// checks as there are leave at random, and each lets a new one in.
void peak(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(0));
  for ([[maybe_unused]] auto round : state) {
    std::mt19937_64 random(1);
    std::vector<timer_handle> handles(count);
    const std::size_t nothing = resident_bytes();
    timer service{{.shards = 1}};
    const auto add = [&](timer_handle& handle) {
      handle = service.schedule_after(half_hour + std::chrono::nanoseconds(random() % 1'800'000'000'000),
                                      usual_check{{random()}});
    };
    const auto note = [&](const std::string& step) {
      state.counters[step] = difference(resident_bytes(), nothing);
      state.counters[step + "_held"] = static_cast<double>(service.stats().bytes);
    };
    std::for_each(handles.begin(), handles.end(), add);
    note("full");
    for (std::size_t i = 0; i < 2 * count; ++i) {
      timer_handle& one = handles[random() % count];
      one.cancel();
      add(one);
    }
    note("churned");
    cancel_many(handles);
    note("empty");
    service.shrink_to_fit();
    note("shrunk");
    std::for_each(handles.begin(), handles.end(), add);
    note("filled_again");
  }
}

// What a test of a user pays: a service made, one check scheduled, and all of it destroyed. And the resident bytes of
// each of many that live side by side, with the stack of the poller if there is one.
template <class Timer>
void one_check(benchmark::State& state) {
  constexpr std::size_t many = 100;
  {
    const std::size_t before = resident_bytes();
    std::vector<std::unique_ptr<Timer>> services(many);
    for (auto& one : services) {
      one = std::make_unique<Timer>();
      one->schedule_after(half_hour, usual_check{{1}});
    }
    state.counters["bytes_per_service"] = difference(resident_bytes(), before) / many;
  }
  for ([[maybe_unused]] auto round : state) {
    Timer one;
    one.schedule_after(half_hour, usual_check{{1}});
  }
}

benchmark::internal::Benchmark* of_rounds(benchmark::internal::Benchmark* b,
                                          const std::vector<std::string>& names = {"timers", "producers"}) {
  return b->ArgNames(names)->UseManualTime()->Unit(benchmark::kMillisecond);
}
std::vector<std::int64_t> a_million() { return {sizes_to_run({10'000, 1'000'000}).back()}; }

void checks_and_producers(benchmark::internal::Benchmark* b) {
  of_rounds(b)->ArgsProduct({sizes_to_run({10'000, 1'000'000, 10'000'000}), {1, 2}});
}
void one_producer(benchmark::internal::Benchmark* b) { of_rounds(b)->ArgsProduct({a_million(), {1}}); }
void in_random_order(benchmark::internal::Benchmark* b) {
  of_rounds(b, {"timers"})->ArgsProduct({sizes_to_run({10'000, 1'000'000, 10'000'000})})->Iterations(3);
}
void two_producers(benchmark::internal::Benchmark* b) { of_rounds(b)->ArgsProduct({a_million(), {1, 2}}); }
void several_shards(benchmark::internal::Benchmark* b) {
  of_rounds(b, {"timers", "producers", "shards"})->ArgsProduct({a_million(), {1, 2}, {1, 2, 4, 8}});
}

// Also five times as many as elsewhere, as in the benchmark of Kafka's Go port, whose question this is. The number of
// pairs is given, because a crowd would be gathered anew for each attempt to find one.
void crowds(benchmark::internal::Benchmark* b) {
  b->ArgName("pending")
      ->ArgsProduct({sizes_to_run({10'000, 1'000'000, 5'000'000, 10'000'000}, 5 * largest_size())})
      ->ThreadRange(1, 2)
      ->Iterations(largest_size() <= 10'000 ? 10'000 : 1'000'000)
      ->UseRealTime();
}

void memory_sizes(benchmark::internal::Benchmark* b) {
  b->ArgName("timers")
      ->ArgsProduct({sizes_to_run({10'000, 1'000'000, 10'000'000})})
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

BENCHMARK_TEMPLATE(schedule_then_cancel, hierarchical)->Apply(checks_and_producers);
BENCHMARK_TEMPLATE(schedule_then_cancel, hashed)->Apply(checks_and_producers);
BENCHMARK_TEMPLATE(schedule_then_cancel, heap)->Apply(checks_and_producers);
BENCHMARK_TEMPLATE(schedule_then_cancel, boost_asio)->Apply(checks_and_producers);
BENCHMARK_TEMPLATE(schedule_then_cancel, windowed)->Apply(one_producer);

BENCHMARK_TEMPLATE(captures, hierarchical, 8)->Apply(one_producer);
BENCHMARK_TEMPLATE(captures, hierarchical, 24)->Apply(one_producer);
BENCHMARK_TEMPLATE(captures, hierarchical, 64)->Apply(one_producer);
BENCHMARK_TEMPLATE(captures, boost_asio, 8)->Apply(one_producer);
BENCHMARK_TEMPLATE(captures, boost_asio, 24)->Apply(one_producer);
BENCHMARK_TEMPLATE(captures, boost_asio, 64)->Apply(one_producer);

BENCHMARK_TEMPLATE(random_order, hierarchical)->Apply(in_random_order);
BENCHMARK(random_order_in_groups)->Apply(in_random_order);
BENCHMARK_TEMPLATE(random_order, boost_asio)->Apply(in_random_order);

BENCHMARK(shards)->Apply(several_shards);

BENCHMARK(limited)->Apply(two_producers);

BENCHMARK_TEMPLATE(start_and_stop, hierarchical)
    ->Apply(crowds)
    ->Setup(gather<hierarchical>)
    ->Teardown(disperse<hierarchical>);
BENCHMARK_TEMPLATE(start_and_stop, boost_asio)
    ->Apply(crowds)
    ->Setup(gather<boost_asio>)
    ->Teardown(disperse<boost_asio>);

BENCHMARK_TEMPLATE(start_and_stop, windowed)->Apply(crowds)->Setup(gather<windowed>)->Teardown(disperse<windowed>);

BENCHMARK_TEMPLATE(memory, hierarchical)->Apply(memory_sizes);
BENCHMARK_TEMPLATE(memory, hashed)->Apply(memory_sizes);
BENCHMARK_TEMPLATE(memory, heap)->Apply(memory_sizes);
BENCHMARK_TEMPLATE(memory, boost_asio)->Apply(memory_sizes);

BENCHMARK(peak)->Apply(memory_sizes);

BENCHMARK_TEMPLATE(one_check, manual_timer)->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_TEMPLATE(one_check, timer)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace timing_wheel::bench

BENCHMARK_MAIN();

#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench_sizes.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

// What the benchmarks of durable checks share, whatever the store.

namespace timing_wheel::bench {

using namespace timing_wheel::durable;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

inline constexpr int batch = 500;
inline const std::vector<std::string> kinds = {"close"};

/// The disk to be measured: TIMING_WHEEL_BENCH_FOLDER, or else that of temporary files.
inline std::filesystem::path parent() {
  const char* chosen = std::getenv("TIMING_WHEEL_BENCH_FOLDER");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return chosen == nullptr ? std::filesystem::temp_directory_path() : std::filesystem::path(chosen);
}

inline bool is_small() { return largest_size() < 1'000'000; }

/// The n-th check: its key has 18 bytes, in order or at random.
inline request request_of(std::int64_t number, due_time due, bool random = true, const std::string& kind = kinds[0]) {
  char key[32];
  std::snprintf(key, sizeof key, "%018llx",
                static_cast<unsigned long long>(number) * (random ? 0x9E3779B97F4A7C15ULL : 1ULL));
  return {.kind = kind, .key = key, .payload = std::string(48, 'p'), .due = due};
}

/// Calls with the checks of each batch of so many. \param due of the n-th.
template <class Due, class Call>
void in_batches(std::int64_t first, std::int64_t count, const Due& due, bool random, const std::string& kind,
                const Call& call) {
  for (std::int64_t done = 0; done < count; done += batch) {
    std::vector<request> asked;
    for (std::int64_t number = done; number < std::min<std::int64_t>(count, done + batch); ++number) {
      asked.push_back(request_of(first + number, due(number), random, kind));
    }
    call(asked);
  }
}

/// Writes checks from number `first` on, 500 in each transaction.
inline void fill(store& into, std::int64_t first, std::int64_t count, due_time due, bool random = true) {
  const auto same = [due](std::int64_t) { return due; };
  in_batches(first, count, same, random, kinds[0], [&](const std::vector<request>& asked) {
    std::vector<append_op> ops;
    std::transform(asked.begin(), asked.end(), std::back_inserter(ops),
                   [](const request& each) { return append_op{&each}; });
    into.transact([&](store_transaction& open) { open.append(ops); });
  });
}

inline std::vector<upcoming> due_rows(store& in) {
  std::vector<upcoming> wanted;
  in.read_ahead({.until = in.now(), .limit = batch, .kinds = kinds}, wanted);
  return wanted;
}

inline std::vector<ticket> tickets_of(const std::vector<claimed>& got) {
  std::vector<ticket> held;
  std::transform(got.begin(), got.end(), std::back_inserter(held), [](const claimed& each) {
    return ticket{each.id, each.fence};
  });
  return held;
}

/// With the look that finds them.
inline std::vector<claimed> claim_due(store& in) {
  const std::vector<upcoming> wanted = due_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) { open.claim(wanted, open.now() + 1min, got); });
  return got;
}

inline void complete_all(store& in, const std::vector<claimed>& got) {
  std::vector<ticket> held = tickets_of(got);
  in.transact([&](store_transaction& open) { open.complete(held); });
}

/// So many live and end, 500 at a time. \returns the number of the next.
inline std::int64_t live(store& in, std::int64_t next, std::int64_t count) {
  for (const std::int64_t end = next + count; next < end; next += batch) {
    fill(in, next, batch, -1s);
    const std::vector<upcoming> wanted = due_rows(in);
    std::vector<claimed> got;
    in.transact([&](store_transaction& open) { open.consume(wanted, got); });
  }
  return next;
}

enum class handled : std::uint8_t { leased, transactional };

/// A handler that does nothing.
inline void serve(scheduler& by, const std::string& kind, handled how) {
  if (how == handled::leased) {
    by.on(kind, [](const job& /*what*/) {});
  } else {
    by.on(kind, [](transaction& /*open*/, std::span<const job> /*some*/) {});
  }
}

inline void wait_for_done(const scheduler& by, std::int64_t count, std::chrono::milliseconds between) {
  while (by.stats().done < static_cast<std::uint64_t>(count)) {
    std::this_thread::sleep_for(between);
  }
}

/// What a scheduler did with checks that were due one after another.
struct run_of_due {
  scheduler_stats all;
  double statements = 0;  // for a check
  double count = 0;
};

/// `per_second` checks are due each second, for five seconds. They are scheduled before. \param begin is called when
/// they are.
template <class Begin>
run_of_due run_due(store& in, handled how, std::int64_t per_second, bool starts_first, const Begin& begin) {
  const std::int64_t count = is_small() ? std::max<std::int64_t>(1, per_second / 20) : per_second * 5;
  static std::int64_t round = 0;
  const std::string kind = "due" + std::to_string(++round);
  scheduler checks(in, {.tick = 1ms});
  serve(checks, kind, how);
  if (starts_first) {
    checks.start();
  }
  const instant first = in.now() + (is_small() ? 50ms : 3s);
  const auto due = [&](std::int64_t number) {
    return first + std::chrono::microseconds(number * 1'000'000 / per_second);
  };
  in_batches(0, count, due, true, kind, [&](const std::vector<request>& asked) { checks.schedule(asked); });
  const store_counts before = in.counts();
  begin();
  if (!starts_first) {
    checks.start();
  }
  wait_for_done(checks, count, 10ms);
  return {checks.stats(), static_cast<double>(in.counts().statements - before.statements) / static_cast<double>(count),
          static_cast<double>(count)};
}

inline double in_milliseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

/// For each number of rows that are there, `one_of_rows`, and the lateness of each kind of handlers. In this order, as
/// rows are kept until another number of them is wanted.
template <class OfRows, class Lateness>
bool register_beside_rows(const OfRows& one_of_rows, Lateness lateness) {
  for (const std::int64_t rows : sizes_to_run({0, 1'000'000, 10'000'000})) {
    one_of_rows(rows);
    for (const std::int64_t per_second : {10, 6000}) {
      for (const auto& [name, how] : {std::pair{"lateness/leased", handled::leased},
                                      std::pair{"lateness/transactional", handled::transactional}}) {
        benchmark::RegisterBenchmark(name, lateness, how)
            ->ArgNames({"rows", "due_per_s"})
            ->Args({rows, per_second})
            ->Iterations(1)
            ->UseRealTime();
      }
    }
  }
  return true;
}

}  // namespace timing_wheel::bench

#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <numeric>
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
inline std::int64_t sized(std::int64_t wanted) { return std::min(wanted, largest_size()); }

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

/// Completes what is held, if something is, and claims what is due in the same transaction, with the look that finds
/// it.
inline std::vector<claimed> claim_due(store& in, std::vector<ticket> held = {}) {
  const std::vector<upcoming> wanted = due_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) {
    if (!held.empty()) {
      open.complete(held);
    }
    open.claim(wanted, open.now() + 1min, got);
  });
  return got;
}

/// Reads what is due and takes 500 of it. \returns whether there was something.
template <class And>
bool consume_due(store& in, const And& and_in_the_transaction) {
  const std::vector<upcoming> wanted = due_rows(in);
  std::vector<claimed> got;
  in.transact([&](store_transaction& open) {
    got.clear();
    open.consume(wanted, got);
    and_in_the_transaction(open, got);
  });
  return !got.empty();
}
constexpr auto nothing_else = [](store_transaction& /*open*/, const std::vector<claimed>& /*got*/) {};

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

/// \param nodes pointers to what has a scheduler `checks`.
template <class Nodes>
void wait_for_done_of(const Nodes& nodes, std::int64_t count, std::chrono::milliseconds between) {
  const auto done = [&nodes] {
    return std::accumulate(nodes.begin(), nodes.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& each) { return sum + each->checks.stats().done; });
  };
  while (done() < static_cast<std::uint64_t>(count)) {
    std::this_thread::sleep_for(between);
  }
}

inline double in_milliseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Runs a call on each of so many threads, and waits for all.
template <class Call>
void on_threads(std::int64_t count, const Call& call) {
  std::vector<std::thread> all;
  all.reserve(static_cast<std::size_t>(count));
  for (std::int64_t number = 0; number < count; ++number) {
    all.emplace_back([&call, number] { call(number); });
  }
  for (std::thread& each : all) {
    each.join();
  }
}

}  // namespace timing_wheel::bench

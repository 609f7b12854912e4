#include <benchmark/benchmark.h>
#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench_sizes.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// SQLite's store alone: no handlers, no scheduler. TIMING_WHEEL_BENCH_FOLDER says on which disk (else that of temporary
// files). A disk that syncs slowly makes each commit slow: so items per second are those of one run on one disk.

namespace {

using namespace timing_wheel::durable;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

constexpr int batch = 500;
const std::vector<std::string> kinds = {"close"};

std::filesystem::path parent() {
  const char* chosen = std::getenv("TIMING_WHEEL_BENCH_FOLDER");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return chosen == nullptr ? std::filesystem::temp_directory_path() : std::filesystem::path(chosen);
}

/// A file with our tables in a folder that is gone afterwards.
class store_file {
 public:
  store_file() {
    std::string name = (parent() / "timing_wheel_bench.XXXXXX").string();
    folder_ = mkdtemp(name.data());
    open();
    store_->migrate();
  }
  store_file(const store_file&) = delete;
  store_file& operator=(const store_file&) = delete;
  ~store_file() {
    store_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  sqlite_store& operator*() { return *store_; }
  sqlite_store* operator->() { return store_.get(); }
  [[nodiscard]] std::string name() const { return (folder_ / "checks.db").string(); }
  void open() {
    store_.reset();
    store_ = std::make_unique<sqlite_store>(name());
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<sqlite_store> store_;
};

/// The key of the n-th check, of 18 bytes: in order, or at random.
std::string key_of(std::int64_t number, bool random) {
  char text[32];
  const auto shown = static_cast<unsigned long long>(number) * (random ? 0x9E3779B97F4A7C15ULL : 1ULL);
  std::snprintf(text, sizeof text, "%018llx", shown);
  return text;
}

const std::string& payload() {
  static const std::string bytes(48, 'p');
  return bytes;
}

/// Writes checks from number `first` on, `batch` in each transaction.
void fill(sqlite_store& store, std::int64_t first, std::int64_t count, due_time due, bool random) {
  for (std::int64_t done = 0; done < count; done += batch) {
    std::vector<request> asked;
    const std::int64_t end = std::min<std::int64_t>(count, done + batch);
    for (std::int64_t number = done; number < end; ++number) {
      asked.push_back({.kind = kinds[0], .key = key_of(first + number, random), .payload = payload(), .due = due});
    }
    std::vector<append_op> ops;
    std::transform(asked.begin(), asked.end(), std::back_inserter(ops),
                   [](const request& each) { return append_op{&each}; });
    store.transact([&](store_transaction& open) { open.append(ops); });
  }
}

std::int64_t sized(std::int64_t wanted) { return std::min(wanted, timing_wheel::bench::largest_size()); }

// 500 checks in one transaction, beside range(0) that are there; keys in order, or at random.
void schedule(benchmark::State& state) {
  store_file store;
  const bool random = state.range(1) != 0;
  std::int64_t next = sized(state.range(0));
  fill(*store, 0, next, 1h, random);
  for (auto _ : state) {
    fill(*store, next, batch, 1h, random);
    next += batch;
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(schedule)->ArgNames({"rows", "random"})->ArgsProduct({{0, 100000, 1000000}, {0, 1}})->UseRealTime();

void schedule_alone(benchmark::State& state) {
  store_file store;
  std::int64_t next = 0;
  for (auto _ : state) {
    fill(*store, next++, 1, 1h, true);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(schedule_alone)->UseRealTime();

// The same by a user's own connection, in a transaction of its own.
void schedule_by_user(benchmark::State& state) {
  store_file store;
  sqlite3* connection = nullptr;
  sqlite3_open(store.name().c_str(), &connection);
  sqlite3_exec(connection, "PRAGMA synchronous=FULL", nullptr, nullptr, nullptr);
  std::int64_t next = 0;
  for (auto _ : state) {
    sqlite3_exec(connection, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr);
    for (int turn = 0; turn < batch; ++turn) {
      timing_wheel::durable::schedule(connection,
                                      {.kind = kinds[0], .key = key_of(next++, true), .payload = payload(), .due = 1h});
    }
    sqlite3_exec(connection, "COMMIT", nullptr, nullptr, nullptr);
  }
  sqlite3_close(connection);
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(schedule_by_user)->UseRealTime();

std::vector<upcoming> due_rows(sqlite_store& store) {
  std::vector<upcoming> wanted;
  store.read_ahead({.until = store.now(), .limit = batch, .kinds = kinds}, wanted);
  return wanted;
}

// Reads 500 rows, claims them, and completes them in the transaction that claims the next.
void claim_and_complete(benchmark::State& state) {
  store_file store;
  std::int64_t next = 0;
  std::vector<ticket> held;
  for (auto _ : state) {
    state.PauseTiming();
    fill(*store, next, batch, -1s, true);
    next += batch;
    state.ResumeTiming();
    const auto wanted = due_rows(*store);
    std::vector<claimed> got;
    store->transact([&](store_transaction& open) {
      open.claim(wanted, open.now() + 1min, got);
      open.complete(held);
    });
    held.clear();
    std::transform(got.begin(), got.end(), std::back_inserter(held), [](const claimed& each) {
      return ticket{each.id, each.fence};
    });
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(claim_and_complete)->UseRealTime();

// Reads 500 rows and takes them, with an update of the user's for each in the same transaction.
void take_with_users_update(benchmark::State& state) {
  store_file store;
  sqlite3_stmt* update = nullptr;
  store->transact([&](store_transaction& open) {
    sqlite3* connection = sqlite_connection(open);
    sqlite3_exec(connection, "CREATE TABLE orders(id INTEGER PRIMARY KEY, status INTEGER)", nullptr, nullptr, nullptr);
    sqlite3_exec(connection,
                 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<99999) "
                 "INSERT INTO orders SELECT i,0 FROM n",
                 nullptr, nullptr, nullptr);
    sqlite3_prepare_v2(connection, "UPDATE orders SET status=status+1 WHERE id=?", -1, &update, nullptr);
  });
  std::int64_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    fill(*store, next, batch, -1s, true);
    next += batch;
    state.ResumeTiming();
    const auto wanted = due_rows(*store);
    std::vector<claimed> got;
    store->transact([&](store_transaction& open) {
      open.take(wanted, got);
      for (const claimed& each : got) {
        sqlite3_bind_int64(update, 1, each.id % 100000);
        sqlite3_step(update);
        sqlite3_reset(update);
      }
    });
  }
  sqlite3_finalize(update);
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(take_with_users_update)->UseRealTime();

void empty_poll(benchmark::State& state) {
  store_file store;
  fill(*store, 0, sized(state.range(0)), 24h, false);
  std::vector<upcoming> found;
  for (auto _ : state) {
    store->read_ahead({.until = store->now() + 1s, .limit = 1000, .kinds = kinds}, found);
  }
}
BENCHMARK(empty_poll)->ArgName("rows")->Arg(0)->Arg(1000000);

void clock_reading(benchmark::State& state) {
  store_file store;
  for (auto _ : state) {
    benchmark::DoNotOptimize(store->now());
  }
}
BENCHMARK(clock_reading);

// Opens the file and looks ahead.
void start(benchmark::State& state) {
  store_file store;
  fill(*store, 0, sized(state.range(0)), 24h, false);
  std::vector<upcoming> found;
  for (auto _ : state) {
    store.open();
    store->read_ahead({.until = store->now() + 1s, .limit = 1000, .kinds = kinds}, found);
  }
}
BENCHMARK(start)->ArgName("rows")->Arg(0)->Arg(1000000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();

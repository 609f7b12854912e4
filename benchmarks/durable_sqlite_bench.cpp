#include <benchmark/benchmark.h>
#include <sqlite3.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench_sizes.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// Durable checks on SQLite: the store alone, and what a scheduler makes of it. TIMING_WHEEL_BENCH_FOLDER says on which
// disk (else that of temporary files). A disk that syncs slowly makes each commit slow: so items per second are those
// of one run on one disk. durable_table.py runs it on the disk as it is and on one that is made slow, and prints the
// table.

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
  /// In megabytes; of the log with "-wal".
  [[nodiscard]] double megabytes(const char* end = "") const {
    std::error_code none;
    const auto bytes = std::filesystem::file_size(name() + end, none);
    return none ? 0 : static_cast<double>(bytes) / 1e6;
  }
  void close() { store_.reset(); }
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

/// Writes checks from number `first` on, `size` in each transaction.
void fill(sqlite_store& store, std::int64_t first, std::int64_t count, due_time due, bool random, int size = batch) {
  for (std::int64_t done = 0; done < count; done += size) {
    std::vector<request> asked;
    const std::int64_t end = std::min<std::int64_t>(count, done + size);
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

/// The same as `fill` for a day from now with keys in order, in a third of the time.
void fill_by_sql(store_file& file, std::int64_t rows) {
  constexpr std::int64_t part = 500'000;
  const std::int64_t due = (file->now() + 24h).time_since_epoch().count();
  sqlite3* user = nullptr;
  sqlite3_open(file.name().c_str(), &user);
  const auto run = [&](const std::string& sql) {
    char* words = nullptr;
    if (sqlite3_exec(user, sql.c_str(), nullptr, nullptr, &words) != SQLITE_OK) {
      throw std::runtime_error(words);
    }
  };
  run("PRAGMA synchronous=OFF; PRAGMA wal_autocheckpoint=16000; PRAGMA cache_size=-64000");
  for (std::int64_t from = 0; from < rows; from += part) {
    run("INSERT INTO timing_wheel_check(due,kind,key,payload) WITH RECURSIVE g(n) AS (SELECT " + std::to_string(from) +
        " UNION ALL SELECT n+1 FROM g WHERE n<" + std::to_string(std::min(rows, from + part) - 1) + ") SELECT " +
        std::to_string(due) + ",'" + kinds[0] + "',CAST(printf('%018x',n) AS BLOB),CAST('" + payload() +
        "' AS BLOB) FROM g");
  }
  sqlite3_close(user);
}

/// A file with so many checks of a far future. It takes a minute to fill one with ten million, so neighbours share it.
store_file& filled(std::int64_t rows) {
  static std::optional<store_file> file;
  static std::int64_t has = -1;
  rows = sized(rows);
  if (has != rows) {
    file.reset();
    file.emplace();
    fill_by_sql(*file, rows);
    has = rows;
  }
  return *file;
}

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
// So many turns, since what is there is written anew each time that the number of turns is tried.
BENCHMARK(schedule)
    ->ArgNames({"rows", "random"})
    ->ArgsProduct({{0, 100000, 1000000}, {0, 1}})
    ->Iterations(sized(100'000) < 100'000 ? 1 : 100)
    ->UseRealTime();

// One at a time, by so many threads that share commits.
void schedule_alone(benchmark::State& state) {
  store_file store;
  scheduler checks(*store);
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t each = sized(1'000'000) < 1'000'000 ? 5 : 20'000 / (threads + 40);
  std::int64_t next = 0;
  for (auto _ : state) {
    std::barrier begin(threads + 1);
    std::vector<std::thread> callers;
    callers.reserve(static_cast<std::size_t>(threads));
    for (int caller = 0; caller < threads; ++caller) {
      callers.emplace_back([&, first = next + (caller * each)] {
        begin.arrive_and_wait();
        for (std::int64_t number = first; number < first + each; ++number) {
          checks.schedule({.kind = kinds[0], .key = key_of(number, true), .payload = payload(), .due = 1h});
        }
      });
    }
    begin.arrive_and_wait();
    const auto from = std::chrono::steady_clock::now();
    for (std::thread& one : callers) {
      one.join();
    }
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count());
    next += threads * each;
  }
  state.SetItemsProcessed(next);
  state.counters["per_commit"] = static_cast<double>(next) / static_cast<double>(store->counts().commits);
}
BENCHMARK(schedule_alone)->ArgName("threads")->Arg(1)->Arg(8)->Arg(64)->Arg(256)->UseManualTime();

/// A user's own connection, with a table of orders.
class users_connection {
 public:
  explicit users_connection(const std::string& file) {
    sqlite3_open(file.c_str(), &connection_);
    run("PRAGMA synchronous=FULL");
    run("PRAGMA wal_autocheckpoint=16000");
    run("CREATE TABLE IF NOT EXISTS orders(id INTEGER PRIMARY KEY, state INTEGER, note TEXT)");
    for (auto [sql, into] : {std::pair{"BEGIN IMMEDIATE", &begin_}, std::pair{"COMMIT", &commit_},
                             std::pair{"INSERT INTO orders VALUES(?,0,'waiting for payment')", &insert_}}) {
      sqlite3_prepare_v2(connection_, sql, -1, into, nullptr);
    }
  }
  users_connection(const users_connection&) = delete;
  users_connection& operator=(const users_connection&) = delete;
  ~users_connection() {
    for (sqlite3_stmt* each : {begin_, commit_, insert_}) {
      sqlite3_finalize(each);
    }
    sqlite3_close(connection_);
  }

  [[nodiscard]] sqlite3* get() const { return connection_; }
  void run(const char* sql) const { sqlite3_exec(connection_, sql, nullptr, nullptr, nullptr); }
  void begin() const { step(begin_); }
  void commit() const { step(commit_); }
  void order(std::int64_t number) const {
    sqlite3_bind_int64(insert_, 1, number);
    step(insert_);
  }

 private:
  static void step(sqlite3_stmt* which) {
    if (sqlite3_step(which) != SQLITE_DONE) {
      std::fprintf(stderr, "%s\n", sqlite3_errmsg(sqlite3_db_handle(which)));
      std::abort();
    }
    sqlite3_reset(which);
  }

  sqlite3* connection_ = nullptr;
  sqlite3_stmt* begin_ = nullptr;
  sqlite3_stmt* commit_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
};

enum class by : std::uint8_t { nobody, function, session };

// The user's transaction: so many orders, each with its check or without one.
void users_transaction(benchmark::State& state, by whom) {
  store_file store;
  const users_connection user(store.name());
  sqlite_session session(user.get());
  std::int64_t next = 0;
  for (auto _ : state) {
    user.begin();
    for (std::int64_t turn = 0; turn < state.range(0); ++turn) {
      user.order(++next);
      const request asked{.kind = kinds[0], .key = key_of(next, false), .payload = payload(), .due = 1h};
      if (whom == by::function) {
        timing_wheel::durable::schedule(user.get(), asked);
      } else if (whom == by::session) {
        session.schedule(asked);
      }
    }
    user.commit();
  }
  state.SetItemsProcessed(next);
}
BENCHMARK_CAPTURE(users_transaction, bare, by::nobody)->ArgName("orders")->Arg(500)->UseRealTime();
BENCHMARK_CAPTURE(users_transaction, session, by::session)->ArgName("orders")->Arg(500)->UseRealTime();
BENCHMARK_CAPTURE(users_transaction, function, by::function)->ArgName("orders")->Arg(500)->UseRealTime();

// Transactions of one order: bare, with its check by a session, and by the function; in turns, since disks have moods.
void users_transactions_in_turns(benchmark::State& state) {
  store_file store;
  const users_connection user(store.name());
  sqlite_session session(user.get());
  std::int64_t next = 0;
  std::array<double, 3> seconds{};
  for (auto _ : state) {
    for (std::size_t whom = 0; whom < 3; ++whom) {
      const request asked{.kind = kinds[0], .key = key_of(++next, true), .payload = payload(), .due = 1h};
      const auto begin = std::chrono::steady_clock::now();
      user.begin();
      user.order(next);
      if (whom == 1) {
        session.schedule(asked);
      } else if (whom == 2) {
        timing_wheel::durable::schedule(user.get(), asked);
      }
      user.commit();
      seconds[whom] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
  }
  state.counters["bare_per_s"] = static_cast<double>(state.iterations()) / seconds[0];
  state.counters["session_to_bare"] = seconds[0] / seconds[1];
  state.counters["function_to_bare"] = seconds[0] / seconds[2];
}
BENCHMARK(users_transactions_in_turns)->UseRealTime()->MinTime(2);

std::vector<upcoming> due_rows(sqlite_store& store) {
  std::vector<upcoming> wanted;
  store.read_ahead({.until = store.now(), .limit = batch, .kinds = kinds}, wanted);
  return wanted;
}

std::vector<ticket> tickets_of(const std::vector<claimed>& got) {
  std::vector<ticket> held;
  std::transform(got.begin(), got.end(), std::back_inserter(held), [](const claimed& each) {
    return ticket{each.id, each.fence};
  });
  return held;
}

// Reads 500 rows and claims them; they are completed outside of the time.
void claim(benchmark::State& state) {
  store_file store;
  std::int64_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    fill(*store, next, batch, -1s, true);
    next += batch;
    state.ResumeTiming();
    const auto wanted = due_rows(*store);
    std::vector<claimed> got;
    store->transact([&](store_transaction& open) { open.claim(wanted, open.now() + 1min, got); });
    state.PauseTiming();
    auto held = tickets_of(got);
    store->transact([&](store_transaction& open) { open.complete(held); });
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(claim)->UseRealTime();

void complete(benchmark::State& state) {
  store_file store;
  std::int64_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    fill(*store, next, batch, -1s, true);
    next += batch;
    const auto wanted = due_rows(*store);
    std::vector<claimed> got;
    store->transact([&](store_transaction& open) { open.claim(wanted, open.now() + 1min, got); });
    auto held = tickets_of(got);
    state.ResumeTiming();
    store->transact([&](store_transaction& open) { open.complete(held); });
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK(complete)->UseRealTime();

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
      open.complete(held);
      open.claim(wanted, open.now() + 1min, got);
    });
    held = tickets_of(got);
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
      open.consume(wanted, got);
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

void clock_reading(benchmark::State& state) {
  store_file store;
  for (auto _ : state) {
    benchmark::DoNotOptimize(store->now());
  }
}
BENCHMARK(clock_reading);

// ---- with many rows of a far future

void empty_poll(benchmark::State& state) {
  store_file& store = filled(state.range(0));
  std::vector<upcoming> found;
  for (auto _ : state) {
    store->read_ahead({.until = store->now() + 1s, .limit = 1000, .kinds = kinds}, found);
  }
  state.counters["MB"] = store.megabytes();
}

/// The kernel's copy of the file, which a start after a crash of the machine does not have.
void forget_pages(const std::string& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  fdatasync(descriptor);
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  close(descriptor);
}

// Opens the file, of which nothing is in memory, and makes a scheduler that has looked ahead.
void start(benchmark::State& state) {
  store_file& store = filled(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    store.close();
    forget_pages(store.name());
    state.ResumeTiming();
    store.open();
    scheduler checks(*store);
    checks.on(kinds[0], [](const job& /*what*/) {});
    checks.start();
    while (checks.stats().store.statements < 2) {
      std::this_thread::sleep_for(100us);
    }
  }
}

enum class handled : std::uint8_t { leased, transactional };

// `per_second` checks are due each second, beside so many of a far future. They were scheduled before.
void lateness(benchmark::State& state, handled how) {
  store_file& store = filled(state.range(0));
  const bool small = sized(1'000'000) < 1'000'000;
  const std::int64_t per_second = state.range(1);
  const std::int64_t count = small ? std::max<std::int64_t>(1, per_second / 20) : per_second * 5;
  static std::int64_t round = 0;
  for (auto _ : state) {
    const std::string kind = "due" + std::to_string(++round);
    scheduler checks(*store, {.tick = 1ms});
    if (how == handled::leased) {
      checks.on(kind, [](const job& /*what*/) {});
    } else {
      checks.on(kind, [](transaction& /*open*/, std::span<const job> /*some*/) {});
    }
    const instant first = store->now() + (small ? 50ms : 3s);
    for (std::int64_t from = 0; from < count; from += batch) {
      std::vector<request> asked;
      for (std::int64_t number = from; number < std::min<std::int64_t>(count, from + batch); ++number) {
        const instant due = first + std::chrono::microseconds(number * 1'000'000 / per_second);
        asked.push_back({.kind = kind, .key = key_of(number, true), .payload = payload(), .due = due});
      }
      checks.schedule(asked);
    }
    const store_counts before = store->counts();
    checks.start();
    while (checks.stats().done < static_cast<std::uint64_t>(count)) {
      std::this_thread::sleep_for(10ms);
    }
    const scheduler_stats all = checks.stats();
    const auto microseconds = [](std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1000; };
    state.counters["p50_us"] = microseconds(all.lateness.quantile(0.5));
    state.counters["p99_us"] = microseconds(all.lateness.quantile(0.99));
    state.counters["max_us"] = microseconds(all.lateness.max());
    state.counters["early"] = static_cast<double>(all.early);
    state.counters["statements"] =
        static_cast<double>(store->counts().statements - before.statements) / static_cast<double>(count);
  }
}

// In this order, since a file is kept until one of another size is wanted.
[[maybe_unused]] const bool registered = [] {
  for (const std::int64_t rows : timing_wheel::bench::sizes_to_run({0, 1'000'000, 10'000'000})) {
    benchmark::RegisterBenchmark("empty_poll", empty_poll)->ArgName("rows")->Arg(rows);
    benchmark::RegisterBenchmark("start", start)
        ->ArgName("rows")
        ->Arg(rows)
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
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
}();

// ---- the size of the file

// So many checks come and go, beside 100 000 that are pending, and then a peak of half a million, which is worked off.
void churn(benchmark::State& state) {
  for (auto _ : state) {
    store_file store;
    const std::int64_t lives = sized(state.range(0));
    std::int64_t next = sized(100'000);
    fill(*store, 0, next, 24h, true);
    const auto live = [&](std::int64_t count) {
      for (const std::int64_t end = next + count; next < end; next += batch) {
        fill(*store, next, batch, -1s, true);
        const auto wanted = due_rows(*store);
        std::vector<claimed> got;
        store->transact([&](store_transaction& open) { open.consume(wanted, got); });
      }
    };
    const auto begin = std::chrono::steady_clock::now();
    live(lives / 10);
    state.counters["MB_after_a_tenth"] = store.megabytes();
    live(lives - (lives / 10));
    state.counters["lives_per_s"] =
        static_cast<double>(lives) / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    state.counters["MB_after_all"] = store.megabytes();
    state.counters["MB_of_log"] = store.megabytes("-wal");
    fill(*store, next, sized(500'000), -1s, true);
    for (auto wanted = due_rows(*store); !wanted.empty(); wanted = due_rows(*store)) {
      std::vector<claimed> got;
      store->transact([&](store_transaction& open) { open.consume(wanted, got); });
    }
    const users_connection user(store.name());
    user.run("PRAGMA wal_checkpoint(TRUNCATE)");
    state.counters["MB_after_a_peak"] = store.megabytes();
    const auto vacuum = std::chrono::steady_clock::now();
    user.run("PRAGMA incremental_vacuum");
    user.run("PRAGMA wal_checkpoint(TRUNCATE)");
    state.counters["MB_vacuumed"] = store.megabytes();
    state.counters["vacuum_s"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - vacuum).count();
  }
}
BENCHMARK(churn)->ArgName("lives")->Arg(4'320'000)->Iterations(1)->UseRealTime()->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();

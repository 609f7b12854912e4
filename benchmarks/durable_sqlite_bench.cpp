#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <memory>
#include <optional>
#include <stdexcept>

#include "durable_bench.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

// Durable checks on SQLite: the store alone, and what a scheduler makes of it. TIMING_WHEEL_BENCH_FOLDER says on which
// disk (else that of temporary files). A disk that syncs slowly makes each commit slow: so items per second are those
// of one run on one disk. durable_table.py runs it on the disk as it is and on one that is made slow, and prints the
// table.

namespace {

using namespace timing_wheel::bench;  // NOLINT(google-build-using-namespace)

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

std::int64_t sized(std::int64_t wanted) { return std::min(wanted, largest_size()); }

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
        std::to_string(due) + ",'" + kinds[0] + "',CAST(printf('%018x',n) AS BLOB),CAST('" + std::string(48, 'p') +
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
    ->Iterations(is_small() ? 1 : 100)
    ->UseRealTime();

// One at a time, by so many threads that share commits.
void schedule_alone(benchmark::State& state) {
  store_file store;
  scheduler checks(*store);
  const auto threads = static_cast<int>(state.range(0));
  const std::int64_t each = is_small() ? 5 : 20'000 / (threads + 40);
  std::int64_t next = 0;
  for (auto _ : state) {
    std::barrier begin(threads + 1);
    std::vector<std::thread> callers;
    callers.reserve(static_cast<std::size_t>(threads));
    for (int caller = 0; caller < threads; ++caller) {
      callers.emplace_back([&, first = next + (caller * each)] {
        begin.arrive_and_wait();
        for (std::int64_t number = first; number < first + each; ++number) {
          checks.schedule(request_of(number, 1h));
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
      const request asked = request_of(next, 1h, false);
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
      const request asked = request_of(++next, 1h);
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

/// Turns of 500 checks that are due. They are written outside of the time, and what `prepare` returns is for `work`.
template <class Prepare, class Work>
void turns(benchmark::State& state, store_file& store, const Prepare& prepare, const Work& work) {
  std::int64_t next = 0;
  for (auto _ : state) {
    state.PauseTiming();
    fill(*store, next, batch, -1s);
    next += batch;
    auto prepared = prepare();
    state.ResumeTiming();
    work(prepared);
  }
  state.SetItemsProcessed(state.iterations() * batch);
}
constexpr auto nothing = [] { return 0; };

// Reads 500 rows and claims them; they are completed outside of the time.
void claim(benchmark::State& state) {
  store_file store;
  std::vector<claimed> got;
  const auto end_last = [&] {
    complete_all(*store, got);
    return 0;
  };
  turns(state, store, end_last, [&](int) { got = claim_due(*store); });
}
BENCHMARK(claim)->UseRealTime();

void complete(benchmark::State& state) {
  store_file store;
  turns(
      state, store, [&] { return tickets_of(claim_due(*store)); },
      [&](std::vector<ticket>& held) { store->transact([&](store_transaction& open) { open.complete(held); }); });
}
BENCHMARK(complete)->UseRealTime();

// Reads 500 rows, claims them, and completes them in the transaction that claims the next.
void claim_and_complete(benchmark::State& state) {
  store_file store;
  std::vector<ticket> held;
  turns(state, store, nothing, [&](int) {
    const auto wanted = due_rows(*store);
    std::vector<claimed> got;
    store->transact([&](store_transaction& open) {
      open.complete(held);
      open.claim(wanted, open.now() + 1min, got);
    });
    held = tickets_of(got);
  });
}
BENCHMARK(claim_and_complete)->UseRealTime();

// Reads 500 rows and takes them, with an update of the user's for each in the same transaction.
void take_with_users_update(benchmark::State& state) {
  store_file store;
  sqlite3_stmt* update = nullptr;
  store->transact([&](store_transaction& open) {
    sqlite3* connection = sqlite_connection(open);
    sqlite3_exec(connection,
                 "CREATE TABLE orders(id INTEGER PRIMARY KEY, status INTEGER); "
                 "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM n WHERE i<99999) "
                 "INSERT INTO orders SELECT i,0 FROM n",
                 nullptr, nullptr, nullptr);
    sqlite3_prepare_v2(connection, "UPDATE orders SET status=status+1 WHERE id=?", -1, &update, nullptr);
  });
  turns(state, store, nothing, [&](int) {
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
  });
  sqlite3_finalize(update);
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

// `per_second` checks are due each second, beside so many of a far future. They were scheduled before.
void lateness(benchmark::State& state, handled how) {
  store_file& store = filled(state.range(0));
  for (auto _ : state) {
    const run_of_due run = run_due(*store, how, state.range(1), false, [] {});
    const auto microseconds = [](std::chrono::nanoseconds time) { return in_milliseconds(time) * 1000; };
    state.counters["p50_us"] = microseconds(run.all.lateness.quantile(0.5));
    state.counters["p99_us"] = microseconds(run.all.lateness.quantile(0.99));
    state.counters["max_us"] = microseconds(run.all.lateness.max());
    state.counters["early"] = static_cast<double>(run.all.early);
    state.counters["statements"] = run.statements;
  }
}

[[maybe_unused]] const bool registered = register_beside_rows(
    [](std::int64_t rows) {
      benchmark::RegisterBenchmark("empty_poll", empty_poll)->ArgName("rows")->Arg(rows);
      benchmark::RegisterBenchmark("start", start)
          ->ArgName("rows")
          ->Arg(rows)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    },
    lateness);

// ---- the size of the file

// So many checks come and go, beside 100 000 that are pending, and then a peak of half a million, which is worked off.
void churn(benchmark::State& state) {
  for (auto _ : state) {
    store_file store;
    const std::int64_t lives = sized(state.range(0));
    std::int64_t next = sized(100'000);
    fill(*store, 0, next, 24h);
    const auto begin = std::chrono::steady_clock::now();
    next = live(*store, next, lives / 10);
    state.counters["MB_after_a_tenth"] = store.megabytes();
    next = live(*store, next, lives - (lives / 10));
    state.counters["lives_per_s"] =
        static_cast<double>(lives) / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    state.counters["MB_after_all"] = store.megabytes();
    state.counters["MB_of_log"] = store.megabytes("-wal");
    fill(*store, next, sized(500'000), -1s);
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

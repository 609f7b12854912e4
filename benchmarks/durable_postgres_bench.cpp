#include <benchmark/benchmark.h>
#include <libpq-fe.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench_sizes.hpp"
#include "durable/support/private_postgres.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"

// Durable checks on PostgreSQL: the store alone, and what a scheduler makes of it, on a server of this program's own
// that syncs. TIMING_WHEEL_BENCH_FOLDER says on which disk (else that of temporary files). Client and server share the
// machine. `cpu_us` is the processor time of the server's processes for one check, which other programs disturb less
// than the rate; `wal` is what it has written to its log for it, whole pages after a checkpoint included.
// durable_table.py runs it on the disk as it is and on one that is made slow, and prints the table.

namespace {

using namespace timing_wheel::durable;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using timing_wheel::test::private_postgres;
using user_session = timing_wheel::test::postgres_session;

constexpr int batch = 500;
const std::vector<std::string> kinds = {"close"};

std::filesystem::path parent() {
  const char* chosen = std::getenv("TIMING_WHEEL_BENCH_FOLDER");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  return chosen == nullptr ? std::filesystem::temp_directory_path() : std::filesystem::path(chosen);
}

private_postgres& server() {
  static private_postgres one({.settings = {{"fsync", "on"},
                                            {"synchronous_commit", "on"},
                                            {"shared_buffers", "512MB"},
                                            {"max_wal_size", "8GB"},
                                            {"checkpoint_timeout", "1h"},
                                            {"autovacuum_naptime", "10s"}},
                               .parent = parent()});
  return one;
}

const user_session& admin() {
  static const user_session one(server().conninfo());
  return one;
}

bool is_small() { return timing_wheel::bench::largest_size() < 1'000'000; }

/// In seconds, of the server's processes for clients but the admin's.
double server_cpu() {
  double nanoseconds = 0;
  for (const auto& row : admin().rows("SELECT pid FROM pg_stat_activity WHERE backend_type='client backend' AND "
                                      "pid<>pg_backend_pid()")) {
    double on_processor = 0;
    std::ifstream("/proc/" + row.at(0) + "/schedstat") >> on_processor;
    nanoseconds += on_processor;
  }
  return nanoseconds / 1e9;
}

/// What the server has done between two readings, as counters of a benchmark.
class server_work {
 public:
  void begin() {
    cpu_ -= server_cpu();
    log_ -= log_position();
  }
  void end() {
    cpu_ += server_cpu();
    log_ += log_position();
  }
  void report(benchmark::State& state, double checks) const {
    state.counters["cpu_us"] = cpu_ * 1e6 / checks;
    state.counters["wal"] = log_ / checks;
  }

 private:
  static double log_position() { return std::stod(admin().ask("SELECT pg_current_wal_insert_lsn()-'0/0'::pg_lsn")); }
  double cpu_ = 0;
  double log_ = 0;
};

/// Empty tables, and a store on them.
class tables {
 public:
  tables() {
    admin().execute("DROP SCHEMA IF EXISTS timing_wheel CASCADE");
    store_ = std::make_unique<postgres_store>(server().conninfo());
    store_->migrate();
    admin().execute("CHECKPOINT");
  }
  postgres_store& operator*() { return *store_; }
  postgres_store* operator->() { return store_.get(); }

 private:
  std::unique_ptr<postgres_store> store_;
};

/// The key of the n-th check, of 18 bytes, at random.
std::string key_of(std::int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%018llx", static_cast<unsigned long long>(number) * 0x9E3779B97F4A7C15ULL);
  return text;
}

const std::string& payload() {
  static const std::string bytes(48, 'p');
  return bytes;
}

/// Writes checks from number `first` on, 500 in each transaction.
void fill(postgres_store& store, std::int64_t first, std::int64_t count, due_time due) {
  for (std::int64_t done = 0; done < count; done += batch) {
    std::vector<request> asked;
    for (std::int64_t number = done; number < std::min<std::int64_t>(count, done + batch); ++number) {
      asked.push_back({.kind = kinds[0], .key = key_of(first + number), .payload = payload(), .due = due});
    }
    std::vector<append_op> ops;
    std::transform(asked.begin(), asked.end(), std::back_inserter(ops),
                   [](const request& each) { return append_op{&each}; });
    store.transact([&](store_transaction& open) { open.append(ops); });
  }
}

/// So many checks of a far future. It takes minutes to make ten million, so neighbours share them.
postgres_store& filled(std::int64_t rows) {
  static std::unique_ptr<tables> made;
  static std::int64_t has = -1;
  rows = std::min(rows, timing_wheel::bench::largest_size());
  const bool kept = has == rows && !admin().ask("SELECT to_regclass('timing_wheel.check')").empty();
  if (!kept) {
    made.reset();
    made = std::make_unique<tables>();
    admin().execute(
        "INSERT INTO timing_wheel.check(due,kind,key,payload) SELECT "
        "(extract(epoch FROM now()+interval '1 day')*1000000)::bigint+g,'far',int8send(g),"
        "convert_to(repeat('p',48),'UTF8') FROM generate_series(1," +
        std::to_string(rows) + ") g");
    admin().execute("VACUUM ANALYZE timing_wheel.check");
    admin().execute("CHECKPOINT");
    has = rows;
  }
  return **made;
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

// 500 checks in one transaction, on so many connections at a time.
void schedule_500(benchmark::State& state) {
  tables all;
  fill(*all, 0, is_small() ? batch : 20'000, 1h);
  const std::int64_t connections = state.range(0);
  constexpr std::int64_t turns = 10;
  std::int64_t next = 1'000'000;
  server_work work;
  work.begin();
  for (auto _ : state) {
    on_threads(connections,
               [&](std::int64_t number) { fill(*all, next + (number * turns * batch), turns * batch, 1h); });
    next += connections * turns * batch;
  }
  work.end();
  const auto checks = state.iterations() * connections * turns * batch;
  work.report(state, static_cast<double>(checks));
  state.SetItemsProcessed(checks);
}
BENCHMARK(schedule_500)->ArgName("connections")->Arg(1)->Arg(2)->UseRealTime();

std::vector<upcoming> due_rows(postgres_store& store) {
  std::vector<upcoming> wanted;
  store.read_ahead({.until = store.now(), .limit = batch, .kinds = kinds}, wanted);
  return wanted;
}

std::vector<claimed> claim_all(postgres_store& store, const std::vector<upcoming>& wanted) {
  std::vector<claimed> got;
  store.transact([&](store_transaction& open) { open.claim(wanted, open.now() + 1min, got); });
  return got;
}

void complete_all(postgres_store& store, const std::vector<claimed>& got) {
  std::vector<ticket> held;
  std::transform(got.begin(), got.end(), std::back_inserter(held), [](const claimed& each) {
    return ticket{each.id, each.fence};
  });
  store.transact([&](store_transaction& open) { open.complete(held); });
}

/// The steps of 500 lives. Those that are to be measured are in the time, the others are not.
struct steps {
  bool schedule = false;
  bool claim = false;  // with the look that finds them
  bool complete = false;
};

void lives(benchmark::State& state, steps measured) {
  tables all;
  std::int64_t next = 0;
  server_work work;
  const auto step = [&](bool is_measured, const auto& call) {
    if (!is_measured) {
      state.PauseTiming();
    } else {
      work.begin();
    }
    call();
    if (!is_measured) {
      state.ResumeTiming();
    } else {
      state.PauseTiming();
      work.end();
      state.ResumeTiming();
    }
  };
  std::vector<claimed> got;
  for (auto _ : state) {
    step(measured.schedule, [&] { fill(*all, next, batch, -1s); });
    step(measured.claim, [&] { got = claim_all(*all, due_rows(*all)); });
    step(measured.complete, [&] { complete_all(*all, got); });
    next += batch;
  }
  work.report(state, static_cast<double>(state.iterations() * batch));
  state.SetItemsProcessed(state.iterations() * batch);
}
BENCHMARK_CAPTURE(lives, claim, steps{.claim = true})->UseRealTime();
BENCHMARK_CAPTURE(lives, complete, steps{.complete = true})->UseRealTime();
BENCHMARK_CAPTURE(lives, all, steps{true, true, true})->UseRealTime();

// Reads 500 rows and takes them, with the user's update of an order for each in the same transaction.
void take_with_users_update(benchmark::State& state, bool whole_life) {
  tables all;
  admin().execute(
      "DROP TABLE IF EXISTS orders; CREATE TABLE orders(id bigint PRIMARY KEY,state int) WITH (fillfactor=70); "
      "INSERT INTO orders SELECT g,0 FROM generate_series(0,99999) g; ANALYZE orders");
  std::int64_t next = 0;
  server_work work;
  for (auto _ : state) {
    if (!whole_life) {
      state.PauseTiming();
    } else {
      work.begin();
    }
    fill(*all, next, batch, -1s);
    next += batch;
    if (!whole_life) {
      work.begin();
      state.ResumeTiming();
    }
    const auto wanted = due_rows(*all);
    all->transact([&](store_transaction& open) {
      std::vector<claimed> got;
      open.consume(wanted, got);
      open.savepoint();
      std::string ids;
      for (const claimed& each : got) {
        ids.append(ids.empty() ? "{" : ",").append(std::to_string(each.id % 100'000));
      }
      ids += "}";
      const char* const values[] = {ids.c_str()};
      PQclear(PQexecParams(static_cast<PGconn*>(open.native_handle("postgres")),
                           "UPDATE orders SET state=state+1 WHERE id=ANY($1::bigint[])", 1, nullptr, values, nullptr,
                           nullptr, 0));
      open.release_savepoint();
    });
    state.PauseTiming();
    work.end();
    state.ResumeTiming();
  }
  work.report(state, static_cast<double>(next));
  state.SetItemsProcessed(next);
}
BENCHMARK_CAPTURE(take_with_users_update, from_the_deadline, false)->UseRealTime();
BENCHMARK_CAPTURE(take_with_users_update, whole_life, true)->UseRealTime();

// Scheduled and cancelled, 500 at a time: a whole life.
void cancelled(benchmark::State& state) {
  tables all;
  std::int64_t next = 0;
  server_work work;
  work.begin();
  for (auto _ : state) {
    fill(*all, next, batch, 1h);
    std::vector<std::string> keys;
    for (std::int64_t number = next; number < next + batch; ++number) {
      keys.push_back(key_of(number));
    }
    std::vector<cancel_op> ops;
    std::transform(keys.begin(), keys.end(), std::back_inserter(ops), [](const std::string& key) {
      return cancel_op{kinds[0], key};
    });
    all->transact([&](store_transaction& open) { open.cancel(ops); });
    next += batch;
  }
  work.end();
  work.report(state, static_cast<double>(next));
  state.SetItemsProcessed(next);
}
BENCHMARK(cancelled)->UseRealTime();

// ---- in the caller's transaction

enum class by : std::uint8_t { nobody, session, function, pipeline };
constexpr std::array ways = {by::nobody, by::session, by::function, by::pipeline};

/// A client: an order is written and its units are taken from the stock, with its check or without one.
class client {
 public:
  client() {
    for (const auto& [name, sql] :
         {std::pair{"begin", "BEGIN"}, std::pair{"commit", "COMMIT"},
          std::pair{"insert_order", "INSERT INTO orders(id,state) VALUES($1::bigint,0)"},
          std::pair{"take_units", "UPDATE stock SET units=units-1 WHERE id=$1::bigint"},
          std::pair{"insert_check",
                    "INSERT INTO timing_wheel.check(due,kind,key,payload) VALUES((extract(epoch FROM "
                    "clock_timestamp()+interval '30 minutes')*1000000)::bigint,'close',$1::bytea,$2::bytea) "
                    "ON CONFLICT(kind,key) DO NOTHING"}}) {
      PQclear(PQprepare(user_.get(), name, sql, 0, nullptr));
    }
  }

  void transact(by whom, std::int64_t number) {
    const request asked{.kind = kinds[0], .key = key_of(number), .payload = payload(), .due = 30min};
    const std::string order = std::to_string(number);
    const std::string place = std::to_string(static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15ULL % 10'000);
    if (whom == by::pipeline) {
      PQenterPipelineMode(user_.get());
    }
    run(whom, "begin", {});
    run(whom, "insert_order", {&order});
    run(whom, "take_units", {&place});
    switch (whom) {
      case by::nobody:
        break;
      case by::session:
        session_.schedule(asked);
        break;
      case by::function:
        schedule(user_.get(), asked);
        break;
      case by::pipeline:
        run(whom, "insert_check", {&asked.key, &asked.payload});
        break;
    }
    run(whom, "commit", {});
    if (whom == by::pipeline) {
      finish_pipeline();
    }
  }

 private:
  void run(by whom, const char* name, const std::vector<const std::string*>& values) {
    std::vector<const char*> texts;
    std::transform(values.begin(), values.end(), std::back_inserter(texts),
                   [](const std::string* each) { return each->c_str(); });
    const int count = static_cast<int>(texts.size());
    if (whom == by::pipeline) {
      PQsendQueryPrepared(user_.get(), name, count, texts.data(), nullptr, nullptr, 0);
      ++sent_;
      return;
    }
    check(PQexecPrepared(user_.get(), name, count, texts.data(), nullptr, nullptr, 0));
  }
  void finish_pipeline() {
    PQpipelineSync(user_.get());
    for (; sent_ > 0; --sent_) {
      check(PQgetResult(user_.get()));
      PQclear(PQgetResult(user_.get()));
    }
    PQclear(PQgetResult(user_.get()));
    PQexitPipelineMode(user_.get());
  }
  void check(PGresult* answer) {
    const bool good = PQresultStatus(answer) == PGRES_COMMAND_OK;
    PQclear(answer);
    if (!good) {
      std::fprintf(stderr, "%s\n", PQerrorMessage(user_.get()));
      std::abort();
    }
  }

  user_session user_{server().conninfo()};
  postgres_session session_{user_.get()};
  int sent_ = 0;
};

// So many clients, each with a connection: without checks, with them by a session, by the function, and by the page's
// SQL in a pipeline; in turns, since disks have moods.
void users_transaction(benchmark::State& state) {
  tables all;
  admin().execute(
      "DROP TABLE IF EXISTS orders,stock; CREATE TABLE orders(id bigint PRIMARY KEY,state int); "
      "CREATE TABLE stock(id bigint PRIMARY KEY,units int) WITH (fillfactor=70); "
      "INSERT INTO stock SELECT g,0 FROM generate_series(0,9999) g; ANALYZE stock");
  std::vector<client> clients(static_cast<std::size_t>(state.range(0)));
  std::atomic<std::int64_t> next = 0;
  std::array<double, ways.size()> rates{};
  std::array<double, ways.size()> cpu{};
  const auto slice = is_small() ? 10ms : 500ms;
  const int rounds = is_small() ? 1 : 6;
  for (auto _ : state) {
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t way = 0; way < ways.size(); ++way) {
        const std::int64_t before = next;
        const double cpu_before = server_cpu();
        const auto begin = std::chrono::steady_clock::now();
        on_threads(state.range(0), [&](std::int64_t number) {
          while (std::chrono::steady_clock::now() < begin + slice) {
            clients[static_cast<std::size_t>(number)].transact(ways[way], ++next);
          }
        });
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        rates[way] += static_cast<double>(next - before) / took.count() / rounds;
        cpu[way] += (server_cpu() - cpu_before) * 1e6 / static_cast<double>(next - before) / rounds;
      }
    }
  }
  state.counters["bare_per_s"] = rates[0];
  state.counters["session_to_bare"] = rates[1] / rates[0];
  state.counters["function_to_bare"] = rates[2] / rates[0];
  state.counters["pipeline_to_bare"] = rates[3] / rates[0];
  state.counters["bare_cpu_us"] = cpu[0];
  state.counters["session_cpu_us"] = cpu[1] - cpu[0];
  state.counters["function_cpu_us"] = cpu[2] - cpu[0];
}
BENCHMARK(users_transaction)->ArgName("clients")->Arg(1)->Arg(8)->Arg(32)->Iterations(1)->UseRealTime();

// ---- with many rows of a far future

void empty_poll(benchmark::State& state) {
  postgres_store& store = filled(state.range(0));
  std::vector<upcoming> found;
  server_work work;
  work.begin();
  for (auto _ : state) {
    store.read_ahead({.until = store.now() + 1s, .limit = 1000, .kinds = kinds}, found);
  }
  work.end();
  work.report(state, static_cast<double>(state.iterations()));
}

enum class handled : std::uint8_t { leased, transactional };

/// What a scheduler did with checks that were due one after another.
struct run_of_due {
  scheduler_stats all;
  double cpu_us = 0;      // of the server, for a check
  double statements = 0;  // for a check
};

// `per_second` checks are due each second, for five seconds. They were scheduled before.
run_of_due run_due(postgres_store& store, handled how, std::int64_t per_second) {
  const std::int64_t count = is_small() ? std::max<std::int64_t>(1, per_second / 20) : per_second * 5;
  static std::int64_t round = 0;
  const std::string kind = "due" + std::to_string(++round);
  scheduler checks(store, {.tick = 1ms});
  if (how == handled::leased) {
    checks.on(kind, [](const job& /*what*/) {});
  } else {
    checks.on(kind, [](transaction& /*open*/, std::span<const job> /*some*/) {});
  }
  checks.start();
  const instant first = store.now() + (is_small() ? 50ms : 3s);
  for (std::int64_t from = 0; from < count; from += batch) {
    std::vector<request> asked;
    for (std::int64_t number = from; number < std::min<std::int64_t>(count, from + batch); ++number) {
      const instant due = first + std::chrono::microseconds(number * 1'000'000 / per_second);
      asked.push_back({.kind = kind, .key = key_of(number), .payload = payload(), .due = due});
    }
    checks.schedule(asked);
  }
  const store_counts before = store.counts();
  const double cpu_before = server_cpu();
  while (checks.stats().done < static_cast<std::uint64_t>(count)) {
    std::this_thread::sleep_for(10ms);
  }
  const auto checks_done = static_cast<double>(count);
  return {checks.stats(), (server_cpu() - cpu_before) * 1e6 / checks_done,
          static_cast<double>(store.counts().statements - before.statements) / checks_done};
}

double milliseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

// Beside so many of a far future.
void lateness(benchmark::State& state, handled how) {
  postgres_store& store = filled(state.range(0));
  for (auto _ : state) {
    const run_of_due run = run_due(store, how, state.range(1));
    state.counters["p50_ms"] = milliseconds(run.all.lateness.quantile(0.5));
    state.counters["p99_ms"] = milliseconds(run.all.lateness.quantile(0.99));
    state.counters["max_ms"] = milliseconds(run.all.lateness.max());
    state.counters["early"] = static_cast<double>(run.all.early);
    state.counters["cpu_us"] = run.cpu_us;
    state.counters["statements"] = run.statements;
  }
}

// ---- beside rows that are dead, and stay

/// How long a look that finds nothing takes, from a time on.
double look_us(postgres_store& store, instant from) {
  const int looks = is_small() ? 1 : 100;
  std::vector<upcoming> found;
  const auto begin = std::chrono::steady_clock::now();
  for (int count = 0; count < looks; ++count) {
    store.read_ahead({.from = from, .until = store.now(), .limit = 1000, .kinds = kinds}, found);
  }
  return milliseconds(std::chrono::steady_clock::now() - begin) * 1000 / looks;
}

// So many rows have died since a snapshot was taken that is still held. Looks from the low-water mark, as a node's are,
// and from the beginning; and what the server needs for a check, with 1 000 due per second.
void beside_the_dead(benchmark::State& state) {
  tables all;
  const std::int64_t per_second = 1000;
  const auto low_water = [&] { return all->now() - 1s; };
  for (auto _ : state) {
    look_us(*all, low_water());
    const double clean = look_us(*all, low_water());
    const double cpu_clean = run_due(*all, handled::leased, per_second).cpu_us;
    const user_session holding(server().conninfo());
    holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    static_cast<void>(holding.ask("SELECT count(*) FROM timing_wheel.check"));
    fill(*all, 0, is_small() ? batch : state.range(0), all->now() - 1h);
    admin().execute("DELETE FROM timing_wheel.check");
    const double beside = look_us(*all, low_water());
    const double from_the_start = look_us(*all, instant());
    const double cpu_beside = run_due(*all, handled::leased, per_second).cpu_us;
    holding.execute("COMMIT");
    state.counters["look_clean_us"] = clean;
    state.counters["look_us"] = beside;
    state.counters["look_from_the_start_us"] = from_the_start;
    state.counters["cpu_clean_us"] = cpu_clean;
    state.counters["cpu_us"] = cpu_beside;
  }
}
BENCHMARK(beside_the_dead)->ArgName("rows")->Arg(250'000)->Iterations(1)->UseRealTime();

// ---- the size of the table

double megabytes() { return std::stod(admin().ask("SELECT pg_total_relation_size('timing_wheel.check')")) / 1e6; }

// So many checks come and go beside 100 000 that are pending, with the server's autovacuum.
void growth(benchmark::State& state) {
  tables all;
  const std::int64_t lives = std::min(state.range(0), 2 * timing_wheel::bench::largest_size());
  std::int64_t next = is_small() ? batch : 100'000;
  fill(*all, 0, next, 24h);
  state.counters["MB_before"] = megabytes();
  const auto live = [&](std::int64_t count) {
    for (const std::int64_t end = next + count; next < end; next += batch) {
      fill(*all, next, batch, -1s);
      const auto wanted = due_rows(*all);
      std::vector<claimed> got;
      all->transact([&](store_transaction& open) { open.consume(wanted, got); });
    }
  };
  for (auto _ : state) {
    live(lives / 2);
    state.counters["MB_after_half"] = megabytes();
    live(lives - (lives / 2));
    state.counters["MB_after_all"] = megabytes();
  }
}
BENCHMARK(growth)->ArgName("lives")->Arg(2'000'000)->Iterations(1)->UseRealTime();

// Trivial handlers, and a backlog from the first moment on: what a node works off in a second.
void backlog(benchmark::State& state, handled how) {
  const std::int64_t count = is_small() ? batch : 100'000;
  double seconds = 0;
  server_work work;
  for (auto _ : state) {
    tables all;
    fill(*all, 0, count, -1s);
    scheduler checks(*all);
    if (how == handled::leased) {
      checks.on(kinds[0], [](const job& /*what*/) {});
    } else {
      checks.on(kinds[0], [](transaction& /*open*/, std::span<const job> /*some*/) {});
    }
    work.begin();
    const auto begin = std::chrono::steady_clock::now();
    checks.start();
    while (checks.stats().done < static_cast<std::uint64_t>(count)) {
      std::this_thread::sleep_for(1ms);
    }
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    work.end();
  }
  work.report(state, static_cast<double>(state.iterations() * count));
  state.counters["jobs_per_s"] = static_cast<double>(state.iterations() * count) / seconds;
}
BENCHMARK_CAPTURE(backlog, leased, handled::leased)->Iterations(1)->UseRealTime();
BENCHMARK_CAPTURE(backlog, transactional, handled::transactional)->Iterations(1)->UseRealTime();

// In this order, since rows are kept until another number of them is wanted.
[[maybe_unused]] const bool registered = [] {
  for (const std::int64_t rows : timing_wheel::bench::sizes_to_run({0, 1'000'000, 10'000'000})) {
    benchmark::RegisterBenchmark("empty_poll", empty_poll)->ArgName("rows")->Arg(rows)->UseRealTime();
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

}  // namespace

BENCHMARK_MAIN();

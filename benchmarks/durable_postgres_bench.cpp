#include <libpq-fe.h>

#include <array>
#include <atomic>
#include <memory>

#include "durable_bench_server.hpp"

// Durable checks on PostgreSQL: the store alone, and what a scheduler makes of it, on a server of this program's own
// that syncs. TIMING_WHEEL_BENCH_FOLDER says on which disk (else that of temporary files). Client and server share the
// machine. `cpu_us` is the processor time of the server's processes for one check, which other programs disturb less
// than the rate; `wal` is what it has written to its log for it, whole pages after a checkpoint included.
// durable_table.py runs it on the disk as it is and on one that is made slow, and prints the table.

namespace {

using namespace timing_wheel::bench;  // NOLINT(google-build-using-namespace)

bench_server& server() {
  static bench_server one("512MB");
  return one;
}
const user_session& admin() { return server().admin; }

/// What the server has done between two readings, as counters of a benchmark.
class server_work {
 public:
  void begin() {
    cpu_ -= server().processor_time();
    log_ -= server().log_position();
  }
  void end() {
    cpu_ += server().processor_time();
    log_ += server().log_position();
  }
  void report(benchmark::State& state, double checks) const {
    state.counters["cpu_us"] = cpu_ * 1e6 / checks;
    state.counters["wal"] = log_ / checks;
  }

 private:
  double cpu_ = 0;
  double log_ = 0;
};

/// Empty tables, and a store on them.
class tables {
 public:
  tables() {
    server().clear();
    store_ = std::make_unique<postgres_store>(server().conninfo());
  }
  postgres_store& operator*() { return *store_; }
  postgres_store* operator->() { return store_.get(); }

 private:
  std::unique_ptr<postgres_store> store_;
};

/// So many checks of a far future. It takes minutes to make ten million, so neighbours share them.
postgres_store& filled(std::int64_t rows) {
  static std::unique_ptr<tables> made;
  static std::int64_t has = -1;
  rows = std::min(rows, largest_size());
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
    step(measured.claim, [&] { got = claim_due(*all); });
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
      keys.push_back(request_of(number, 1h).key);
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
    const request asked = request_of(number, 30min);
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
    judge(PQexecPrepared(user_.get(), name, count, texts.data(), nullptr, nullptr, 0));
  }
  void finish_pipeline() {
    PQpipelineSync(user_.get());
    for (; sent_ > 0; --sent_) {
      judge(PQgetResult(user_.get()));
      PQclear(PQgetResult(user_.get()));
    }
    PQclear(PQgetResult(user_.get()));
    PQexitPipelineMode(user_.get());
  }
  void judge(PGresult* answer) {
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
        const double cpu_before = server().processor_time();
        const auto begin = std::chrono::steady_clock::now();
        on_threads(state.range(0), [&](std::int64_t number) {
          while (std::chrono::steady_clock::now() < begin + slice) {
            clients[static_cast<std::size_t>(number)].transact(ways[way], ++next);
          }
        });
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        rates[way] += static_cast<double>(next - before) / took.count() / rounds;
        cpu[way] += (server().processor_time() - cpu_before) * 1e6 / static_cast<double>(next - before) / rounds;
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

/// Of the server, for a check.
run_of_due run_due(store& in, handled how, std::int64_t per_second, double& cpu_us) {
  double before = 0;
  run_of_due run = timing_wheel::bench::run_due(in, how, per_second, true, [&] { before = server().processor_time(); });
  cpu_us = (server().processor_time() - before) * 1e6 / run.count;
  return run;
}

// Beside so many of a far future.
void lateness(benchmark::State& state, handled how) {
  postgres_store& store = filled(state.range(0));
  for (auto _ : state) {
    double cpu_us = 0;
    const run_of_due run = run_due(store, how, state.range(1), cpu_us);
    state.counters["p50_ms"] = in_milliseconds(run.all.lateness.quantile(0.5));
    state.counters["p99_ms"] = in_milliseconds(run.all.lateness.quantile(0.99));
    state.counters["max_ms"] = in_milliseconds(run.all.lateness.max());
    state.counters["early"] = static_cast<double>(run.all.early);
    state.counters["cpu_us"] = cpu_us;
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
  return in_milliseconds(std::chrono::steady_clock::now() - begin) * 1000 / looks;
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
    double cpu_clean = 0;
    run_due(*all, handled::leased, per_second, cpu_clean);
    const user_session holding(server().conninfo());
    holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    static_cast<void>(holding.ask("SELECT count(*) FROM timing_wheel.check"));
    fill(*all, 0, is_small() ? batch : state.range(0), all->now() - 1h);
    admin().execute("DELETE FROM timing_wheel.check");
    const double beside = look_us(*all, low_water());
    const double from_the_start = look_us(*all, instant());
    double cpu_beside = 0;
    run_due(*all, handled::leased, per_second, cpu_beside);
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
  const std::int64_t lives = std::min(state.range(0), 2 * largest_size());
  std::int64_t next = is_small() ? batch : 100'000;
  fill(*all, 0, next, 24h);
  state.counters["MB_before"] = megabytes();
  for (auto _ : state) {
    next = live(*all, next, lives / 2);
    state.counters["MB_after_half"] = megabytes();
    next = live(*all, next, lives - (lives / 2));
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
    serve(checks, kinds[0], how);
    work.begin();
    const auto begin = std::chrono::steady_clock::now();
    checks.start();
    wait_for_done(checks, count, 1ms);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    work.end();
  }
  work.report(state, static_cast<double>(state.iterations() * count));
  state.counters["jobs_per_s"] = static_cast<double>(state.iterations() * count) / seconds;
}
BENCHMARK_CAPTURE(backlog, leased, handled::leased)->Iterations(1)->UseRealTime();
BENCHMARK_CAPTURE(backlog, transactional, handled::transactional)->Iterations(1)->UseRealTime();

[[maybe_unused]] const bool registered = register_beside_rows(
    [](std::int64_t rows) {
      benchmark::RegisterBenchmark("empty_poll", empty_poll)->ArgName("rows")->Arg(rows)->UseRealTime();
    },
    lateness);

}  // namespace

BENCHMARK_MAIN();

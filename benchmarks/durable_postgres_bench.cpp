#include <libpq-fe.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "durable_bench_server.hpp"
#include "durable_store_bench.hpp"

// Durable checks on PostgreSQL, on a server of this program's own that syncs. TIMING_WHEEL_BENCH_FOLDER says on which
// disk (else that of temporary files), or TIMING_WHEEL_BENCH_SERVER on which other server. Client and server share the
// machine. `cpu_us` is the processor time of the server's processes for one check, which other programs disturb less
// than the rate; `wal` is what it has written to its log for it, whole pages after a checkpoint included. With
// TIMING_WHEEL_DESK, such as build/release/tools/desk/timing-wheel, `desk` is measured, too.

namespace {

using namespace timing_wheel::bench;  // NOLINT(google-build-using-namespace)

bench_server& server() {
  static bench_server one("512MB");
  return one;
}
const user_session& admin() { return server().admin; }

/// What the server has done between its readings.
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
  void report(benchmark::State& state, double checks, const std::string& prefix) const {
    state.counters[prefix + "cpu_us"] = cpu_ * 1e6 / checks;
    state.counters[prefix + "wal"] = log_ / checks;
  }

 private:
  double cpu_ = 0;
  double log_ = 0;
};

/// Tables that are made anew, and a store on them.
class tables {
 public:
  class client;
  using work = server_work;

  tables() {
    server().clear();
    store_ = std::make_unique<postgres_store>(server().conninfo());
  }
  postgres_store& operator*() { return *store_; }
  postgres_store* operator->() { return store_.get(); }

  static void fill_with_far(std::int64_t rows) {
    admin().execute(
        "INSERT INTO timing_wheel.check(due,kind,key,payload) SELECT "
        "(extract(epoch FROM now()+interval '1 day')*1000000)::bigint+g,'far',int8send(g),"
        "convert_to(repeat('p',48),'UTF8') FROM generate_series(1," +
        std::to_string(rows) + ") g");
    admin().execute("VACUUM ANALYZE timing_wheel.check");
    admin().execute("CHECKPOINT");
  }

  static void make_orders() {
    admin().execute(
        "DROP TABLE IF EXISTS orders,stock; CREATE TABLE orders(id bigint PRIMARY KEY,state int) WITH (fillfactor=70); "
        "CREATE TABLE stock(id bigint PRIMARY KEY,units int) WITH (fillfactor=70); "
        "INSERT INTO orders SELECT g,0 FROM generate_series(0,99999) g; "
        "INSERT INTO stock SELECT g,0 FROM generate_series(0,9999) g; ANALYZE orders,stock");
  }
  static void update_orders(store_transaction& open, const std::vector<claimed>& got) {
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
  }

  /// With the indexes.
  static double megabytes(const benchmark::UserCounters& /*counters*/) {
    return std::stod(admin().ask("SELECT pg_total_relation_size('timing_wheel.check')")) / 1e6;
  }
  static void vacuum() { admin().execute("VACUUM timing_wheel.check"); }

 private:
  std::unique_ptr<postgres_store> store_;
};

/// Writes orders and takes their units from the stock.
class tables::client {
 public:
  static constexpr std::array ways = {by::nobody, by::session, by::function, by::pipeline};

  explicit client(const tables& /*all*/) {
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

  void transact(by whom, std::int64_t first, std::int64_t orders) {
    if (whom == by::pipeline) {
      PQenterPipelineMode(user_.get());
    }
    run(whom, "begin", {});
    for (std::int64_t number = first; number < first + orders; ++number) {
      order(whom, number);
    }
    run(whom, "commit", {});
    if (whom == by::pipeline) {
      finish_pipeline();
    }
  }

 private:
  void order(by whom, std::int64_t number) {
    const request asked = request_of(number, 30min);
    const std::string order = std::to_string(number);
    const std::string place = std::to_string(static_cast<std::uint64_t>(number) * 0x9E3779B97F4A7C15ULL % 10'000);
    run(whom, "insert_order", {&order});
    run(whom, "take_units", {&place});
    if (whom == by::session) {
      session_.schedule(asked);
    } else if (whom == by::function) {
      timing_wheel::durable::schedule(user_.get(), asked);
    } else if (whom == by::pipeline) {
      run(whom, "insert_check", {&asked.key, &asked.payload});
    }
  }
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

/// The statement of a handler that is called once for each job; or, in a batch, of one that is called with many.
enum class per_job : std::uint8_t { nothing, update, prepared_update, in_batches };

std::string order_of(const job& what) { return std::to_string(std::stoull(what.key(), nullptr, 16) % 100'000); }

void run_for(transaction& open, per_job statement, const std::string& sql, const std::string& value) {
  PGconn* const on = postgres_connection(open);
  const char* const text = value.c_str();
  const std::unique_ptr<PGresult, void (*)(PGresult*)> answer(
      statement == per_job::update ? PQexecParams(on, sql.c_str(), 1, nullptr, &text, nullptr, nullptr, 0)
                                   : PQexecPrepared(on, postgres_prepare(open, sql), 1, &text, nullptr, nullptr, 0),
      PQclear);
  if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK) {
    throw std::runtime_error(PQerrorMessage(on));
  }
}

void update_order(transaction& open, const job& what, per_job statement) {
  static const std::string sql = "UPDATE orders SET state=state+1 WHERE id=$1::bigint";
  run_for(open, statement, sql, order_of(what));
}

// One statement for a batch. An order that is in it twice is updated once, as by any UPDATE.
void update_orders(transaction& open, std::span<const job> some) {
  static const std::string sql = "UPDATE orders SET state=state+1 WHERE id=ANY($1::bigint[])";
  std::string ids;
  for (const job& each : some) {
    ids.append(ids.empty() ? "{" : ",").append(order_of(each));
  }
  run_for(open, per_job::in_batches, sql, ids + "}");
}

void serve_with(scheduler& checks, per_job statement) {
  if (statement == per_job::in_batches) {
    checks.on(kinds[0], update_orders);
  } else {
    checks.on(kinds[0], [statement](transaction& open, const job& what) {
      if (statement != per_job::nothing) {
        update_order(open, what, statement);
      }
    });
  }
}

// A backlog of jobs, each of which has a call of its own (`in_batches` does not), on so many nodes in this process: a
// node runs all of its transactional handlers on one thread and one connection.
void one_job_per_call(benchmark::State& state) {
  const auto statement = static_cast<per_job>(state.range(0));
  const std::int64_t count = sized(statement == per_job::nothing ? 200'000 : 60'000);
  struct node {
    postgres_store connected{server().conninfo()};
    scheduler checks{connected};
  };
  for (auto _ : state) {
    tables all;
    tables::make_orders();
    fill(*all, 0, count, -1s);
    std::vector<std::unique_ptr<node>> nodes;
    for (std::int64_t number = 0; number < state.range(1); ++number) {
      nodes.push_back(std::make_unique<node>());
      serve_with(nodes.back()->checks, statement);
    }
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& each : nodes) {
      each->checks.start();
    }
    wait_for_done_of(nodes, count, 1ms);
    state.counters["jobs_per_s"] = static_cast<double>(count) / seconds_since(begin);
  }
}

/// How long a look that finds nothing takes, from a time on.
double look_us(postgres_store& store, instant from) {
  const int looks = is_small() ? 1 : 100;
  std::vector<upcoming> found;
  const auto begin = std::chrono::steady_clock::now();
  for (int count = 0; count < looks; ++count) {
    store.read_ahead({.from = from, .until = store.now(), .limit = 1000, .kinds = kinds}, found);
  }
  return seconds_since(begin) * 1e6 / looks;
}

// So many rows have died since a snapshot was taken that is still held. Looks from the low-water mark, as a node's are,
// and from the beginning; and what the server needs for a check, with 1 000 due per second.
void beside_the_dead(benchmark::State& state) {
  tables all;
  const auto low_water = [&] { return all->now() - 1s; };
  for (auto _ : state) {
    look_us(*all, low_water());
    state.counters["look_clean_us"] = look_us(*all, low_water());
    run_due<server_work>(state, *all, handled::leased, 1000, "clean_");
    const user_session holding(server().conninfo());
    holding.execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    static_cast<void>(holding.ask("SELECT count(*) FROM timing_wheel.check"));
    fill(*all, 0, sized(state.range(0)), all->now() - 1h);
    admin().execute("DELETE FROM timing_wheel.check");
    state.counters["look_us"] = look_us(*all, low_water());
    state.counters["look_from_the_start_us"] = look_us(*all, instant());
    run_due<server_work>(state, *all, handled::leased, 1000);
    holding.execute("COMMIT");
  }
}

/// The program for operators, from the environment: without it, nothing of it is measured.
const char* desk_program() { return std::getenv("TIMING_WHEEL_DESK"); }

/// A command that runs until the end. What it says is read no further than asked for.
class running {
 public:
  explicit running(const std::string& command) : out_(::popen(("echo $$; exec " + command).c_str(), "r")) {
    check(std::fscanf(out_, "%d", &process_) == 1);
  }
  running(const running&) = delete;
  running& operator=(const running&) = delete;
  ~running() {
    ::kill(process_, SIGTERM);
    ::pclose(out_);
  }

  [[nodiscard]] std::string word() const {
    std::array<char, 256> text{};
    check(std::fscanf(out_, "%255s", text.data()) == 1);
    return text.data();
  }

 private:
  static void check(bool good) {
    if (!good) {
      std::abort();
    }
  }

  FILE* out_;
  int process_ = 0;
};

std::string desk_command(const std::string& words, const std::string& options = "") {
  return std::string(desk_program()) + " " + words + " '" + server().conninfo() + "'" + options;
}

// What an operator's commands take, starts of the program included, beside `rows` that are pending and 100 000 dead;
// and how late 1 000 due per second are, alone and beside a console that somebody looks at.
void desk(benchmark::State& state) {
  auto& all = filled<tables>(state.range(0));
  admin().execute(
      "INSERT INTO timing_wheel.dead(kind,key,payload,due,fence,attempt,died,error) SELECT "
      "'died',int8send(g),convert_to(repeat('p',48),'UTF8'),0,g,3,(extract(epoch FROM now())*1000000)::bigint,'no' "
      "FROM generate_series(1," +
      std::to_string(sized(100'000)) + ") g; ANALYZE timing_wheel.dead");
  const auto seconds = [](const std::string& words, const std::string& options = "") {
    const auto begin = std::chrono::steady_clock::now();
    const int status = std::system((desk_command(words, options) + " >/dev/null").c_str());
    if (WEXITSTATUS(status) > 1) {  // 1: nothing matched
      std::abort();
    }
    return seconds_since(begin);
  };
  for (auto _ : state) {
    for (const char* const words : {"list", "status"}) {
      double longest = 0;
      for (int times = 0; times < 5; ++times) {
        longest = std::max(longest, seconds(words));
      }
      state.counters[std::string(words) + "_ms"] = longest * 1e3;
    }
    constexpr std::int64_t long_enough = 30;  // for several looks of the console
    run_due<server_work>(state, *all, handled::leased, 1000, "alone_", long_enough);
    {
      const running console(desk_command("serve", " --listen 127.0.0.1:0"));
      const running watcher("curl -sNo /dev/null " + console.word() + "v1/events");
      run_due<server_work>(state, *all, handled::leased, 1000, "console_", long_enough);
    }
    state.counters["retry_s"] = seconds("retry", " --kind died --yes");
    state.counters["cancel_s"] = seconds("cancel", " --kind died --yes");
    tables::vacuum();
  }
}

[[maybe_unused]] const bool registered = [] {
  add("schedule", schedule<tables>)
      ->ArgNames({"rows", "random", "connections"})
      ->ArgsProduct({{20'000}, {1}, {1, 2}})
      ->Iterations(is_small() ? 1 : 10);
  add("users_transaction", users_transaction<tables>)
      ->ArgNames({"clients", "orders"})
      ->ArgsProduct({{1, 8, 32}, {1}})
      ->Iterations(1);
  add("schedule_alone", schedule_alone<tables>)->ArgName("threads")->Arg(1)->Arg(8);
  add("one_job_per_call", one_job_per_call)
      ->ArgNames({"statement", "nodes"})
      ->ArgsProduct({{0, 1, 2, 3}, {1, 2, 4}})
      ->Iterations(1);
  add("beside_the_dead", beside_the_dead)->ArgName("rows")->Arg(250'000)->Iterations(1);
  add("growth", growth<tables>)->ArgName("lives")->Arg(2'000'000)->Iterations(1);
  register_all<tables>([](std::int64_t rows) {
    if (desk_program() != nullptr) {
      add("desk", desk)->ArgName("rows")->Arg(rows)->Iterations(1);
    }
  });
  return true;
}();

}  // namespace

BENCHMARK_MAIN();

#pragma once

#include <array>

#include "durable_bench.hpp"

// The benchmarks of a store, one body each for all stores, and what a scheduler makes of it. A disk that syncs slowly
// makes each commit slow: so items per second are those of one run on one disk. durable_table.py runs them on the disk
// as it is and on one that is made slow, and prints the table.
//
// A store is given by a class of tables, which are empty when it is made:
//
// - `*tables`, `tables->`: the store.
// - `fill_with_far(rows)`: writes so many checks of a far future, faster than the store does.
// - `make_orders()`, and `update_orders(transaction, claimed)`: a user's table, and an update of it for each check.
// - `megabytes(counters)`, `vacuum()`: the size of the tables, and how to make it smaller.
// - `client`: a user's connection. `transact(by, number, orders)` writes so many orders in a transaction, from the
//   number on, with their checks or without. `ways` are those that it knows.
// - `work`: what a server does from `begin()` to `end()`, and `report(state, checks, prefix)` as counters for a check.

namespace timing_wheel::bench {

/// How a user's transaction writes a check.
enum class by : std::uint8_t { nobody, session, function, pipeline };
constexpr std::array names_of_ways = {"bare", "session", "function", "pipeline"};

template <class Work>
void report(benchmark::State& state, const Work& work, std::int64_t checks) {
  work.report(state, static_cast<double>(checks), "");
  state.SetItemsProcessed(checks);
}

/// Calls within the time and the server's work that count, or outside of both.
template <class Work, class Call>
void step(benchmark::State& state, Work& work, bool counts, const Call& call) {
  state.PauseTiming();
  if (counts) {
    work.begin();
    state.ResumeTiming();
  }
  call();
  if (counts) {
    state.PauseTiming();
    work.end();
  }
  state.ResumeTiming();
}

// 500 checks in one transaction, beside `rows` that are there, on so many connections at a time; keys in order, or at
// random.
template <class Tables>
void schedule(benchmark::State& state) {
  constexpr std::int64_t turn = 10 * batch;
  Tables all;
  const bool random = state.range(1) != 0;
  const std::int64_t connections = state.range(2);
  std::int64_t next = sized(state.range(0));
  fill(*all, 0, next, 1h, random);
  typename Tables::work work;
  work.begin();
  for (auto _ : state) {
    on_threads(connections, [&](std::int64_t number) { fill(*all, next + (number * turn), turn, 1h, random); });
    next += connections * turn;
  }
  work.end();
  report(state, work, state.iterations() * connections * turn);
}

// One at a time, by so many threads that share commits.
template <class Tables>
void schedule_alone(benchmark::State& state) {
  Tables all;
  scheduler checks(*all);
  const std::int64_t threads = state.range(0);
  const std::int64_t each = is_small() ? 5 : 20'000 / (threads + 40);
  std::int64_t next = 0;
  for (auto _ : state) {
    on_threads(threads, [&](std::int64_t caller) {
      for (std::int64_t number = 0; number < each; ++number) {
        checks.schedule(request_of(next + (caller * each) + number, 1h));
      }
    });
    next += threads * each;
  }
  state.SetItemsProcessed(next);
}

/// The steps of 500 lives. Those that are to be measured are in the time, the others are not.
struct steps {
  bool schedule = false;
  bool claim = false;  // with the look that finds them
  bool complete = false;
};

template <class Tables>
void lives(benchmark::State& state, steps measured) {
  Tables all;
  std::int64_t next = 0;
  typename Tables::work work;
  std::vector<claimed> got;
  for (auto _ : state) {
    step(state, work, measured.schedule, [&] { fill(*all, next, batch, -1s); });
    step(state, work, measured.claim, [&] { got = claim_due(*all); });
    step(state, work, measured.complete, [&] {
      std::vector<ticket> held = tickets_of(got);
      all->transact([&](store_transaction& open) { open.complete(held); });
    });
    next += batch;
  }
  report(state, work, next);
}

// Reads 500 rows, claims them, and completes them in the transaction that claims the next.
template <class Tables>
void claim_and_complete(benchmark::State& state) {
  Tables all;
  std::int64_t next = 0;
  typename Tables::work work;
  std::vector<claimed> got;
  for (auto _ : state) {
    step(state, work, false, [&] { fill(*all, next, batch, -1s); });
    step(state, work, true, [&] { got = claim_due(*all, tickets_of(got)); });
    next += batch;
  }
  report(state, work, next);
}

// Reads 500 rows and takes them, with the user's update of an order for each in the same transaction.
template <class Tables>
void take_with_users_update(benchmark::State& state, bool whole_life) {
  Tables all;
  all.make_orders();
  std::int64_t next = 0;
  typename Tables::work work;
  const auto update = [&](store_transaction& open, const std::vector<claimed>& got) { all.update_orders(open, got); };
  for (auto _ : state) {
    step(state, work, whole_life, [&] { fill(*all, next, batch, -1s); });
    step(state, work, true, [&] { consume_due(*all, update); });
    next += batch;
  }
  report(state, work, next);
}

// Scheduled and cancelled, 500 at a time: a whole life.
template <class Tables>
void cancelled(benchmark::State& state) {
  Tables all;
  std::int64_t next = 0;
  typename Tables::work work;
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
  report(state, work, next);
}

// So many clients, each with a connection, write so many orders in a transaction: without checks, and in each of the
// ways; in turns, since disks have moods.
template <class Tables>
void users_transaction(benchmark::State& state) {
  using client = typename Tables::client;
  Tables all;
  all.make_orders();
  std::vector<std::unique_ptr<client>> clients;
  for (std::int64_t number = 0; number < state.range(0); ++number) {
    clients.push_back(std::make_unique<client>(all));
  }
  const std::int64_t orders = state.range(1);
  constexpr std::size_t ways = std::size(client::ways);
  std::atomic<std::int64_t> next = 100'000;
  std::array<double, ways> rates{};
  std::array<double, ways> written{};
  std::array<typename Tables::work, ways> works{};
  const auto slice = is_small() ? 10ms : 500ms;
  const int rounds = is_small() ? 1 : 6;
  for (auto _ : state) {
    for (int turn = 0; turn < rounds * static_cast<int>(ways); ++turn) {
      const std::size_t way = static_cast<std::size_t>(turn) % ways;
      const std::int64_t before = next;
      works[way].begin();
      const auto begin = std::chrono::steady_clock::now();
      on_threads(state.range(0), [&](std::int64_t number) {
        while (std::chrono::steady_clock::now() < begin + slice) {
          clients[static_cast<std::size_t>(number)]->transact(client::ways[way], next.fetch_add(orders), orders);
        }
      });
      const auto count = static_cast<double>(next - before);
      rates[way] += count / seconds_since(begin) / rounds;
      works[way].end();
      written[way] += count;
    }
  }
  for (std::size_t way = 0; way < ways; ++way) {
    const std::string name = names_of_ways[static_cast<std::size_t>(client::ways[way])];
    state.counters[name + "_per_s"] = rates[way];
    state.counters[name + "_to_bare"] = rates[way] / rates[0];
    works[way].report(state, written[way], name + "_");
  }
}

/// The size after a number of lives, and after a peak of half a million, which is worked off, beside 100 000 that are
/// pending.
template <class Tables>
void growth(benchmark::State& state) {
  for (auto _ : state) {
    Tables all;
    std::int64_t next = sized(100'000);
    fill(*all, 0, next, 24h);
    const auto live = [&](std::int64_t count) {
      for (const std::int64_t end = next + count; next < end; next += batch) {
        fill(*all, next, batch, -1s);
        consume_due(*all, nothing_else);
      }
    };
    const std::int64_t half = sized(state.range(0)) / 2;
    const auto begin = std::chrono::steady_clock::now();
    live(half);
    state.counters["MB_after_half"] = all.megabytes(state.counters);
    live(half);
    state.counters["lives_per_s"] = static_cast<double>(2 * half) / seconds_since(begin);
    state.counters["MB_after_all"] = all.megabytes(state.counters);
    fill(*all, next, sized(500'000), -1s);
    while (consume_due(*all, nothing_else)) {
    }
    state.counters["MB_after_a_peak"] = all.megabytes(state.counters);
    const auto vacuum = std::chrono::steady_clock::now();
    all.vacuum();
    state.counters["vacuum_s"] = seconds_since(vacuum);
    state.counters["MB_vacuumed"] = all.megabytes(state.counters);
  }
}

// Trivial handlers, and a backlog from the first moment on: what a node works off in a second.
template <class Tables>
void backlog(benchmark::State& state, handled how) {
  const std::int64_t count = sized(100'000);
  typename Tables::work work;
  for (auto _ : state) {
    Tables all;
    fill(*all, 0, count, -1s);
    scheduler checks(*all);
    serve(checks, kinds[0], how);
    work.begin();
    const auto begin = std::chrono::steady_clock::now();
    checks.start();
    wait_for_done(checks, count, 1ms);
    state.counters["jobs_per_s"] = static_cast<double>(count) / seconds_since(begin);
    work.end();
  }
  report(state, work, count);
}

// Checks that are due at once, 500 in a commit, while a node runs them: whole lives in a second.
template <class Tables>
void schedule_and_run(benchmark::State& state, handled how) {
  const std::int64_t count = sized(100'000);
  typename Tables::work work;
  for (auto _ : state) {
    Tables all;
    scheduler checks(*all);
    serve(checks, kinds[0], how);
    checks.start();
    work.begin();
    const auto begin = std::chrono::steady_clock::now();
    in_batches(
        0, count, [](std::int64_t) { return 0s; }, true, kinds[0],
        [&](const std::vector<request>& asked) { checks.schedule(asked); });
    wait_for_done(checks, count, 1ms);
    state.counters["lives_per_s"] = static_cast<double>(count) / seconds_since(begin);
    work.end();
  }
  report(state, work, count);
}

// ---- with many rows of a far future

/// It takes minutes to write ten million, so neighbours share them.
template <class Tables>
Tables& filled(std::int64_t rows) {
  static std::unique_ptr<Tables> made;
  static std::int64_t has = -1;
  rows = sized(rows);
  if (has != rows) {
    made.reset();
    made = std::make_unique<Tables>();
    made->fill_with_far(rows);
    has = rows;
  }
  return *made;
}

template <class Tables>
void empty_poll(benchmark::State& state) {
  auto& all = filled<Tables>(state.range(0));
  std::vector<upcoming> found;
  typename Tables::work work;
  work.begin();
  for (auto _ : state) {
    all->read_ahead({.until = all->now() + 1s, .limit = 1000, .kinds = kinds}, found);
  }
  work.end();
  report(state, work, state.iterations());
}

/// `per_second` checks are due each second, for so many seconds, and their scheduler runs when they are scheduled.
template <class Work>
void run_due(benchmark::State& state, store& in, handled how, std::int64_t per_second, const std::string& prefix = "",
             std::int64_t seconds = 5) {
  const std::int64_t count = is_small() ? std::max<std::int64_t>(1, per_second / 20) : per_second * seconds;
  static std::int64_t round = 0;
  const std::string kind = "due" + std::to_string(++round);
  scheduler checks(in, {.tick = 1ms});
  serve(checks, kind, how);
  checks.start();
  const instant first = in.now() + (is_small() ? 50ms : 3s);
  const auto due = [&](std::int64_t number) {
    return first + std::chrono::microseconds(number * 1'000'000 / per_second);
  };
  in_batches(0, count, due, true, kind, [&](const std::vector<request>& asked) { checks.schedule(asked); });
  const auto statements = static_cast<double>(in.counts().statements);
  Work work;
  work.begin();
  wait_for_done(checks, count, 10ms);
  work.end();
  work.report(state, static_cast<double>(count), prefix);
  const scheduler_stats all = checks.stats();
  state.counters[prefix + "p50_ms"] = in_milliseconds(all.lateness.quantile(0.5));
  state.counters[prefix + "p99_ms"] = in_milliseconds(all.lateness.quantile(0.99));
  state.counters[prefix + "max_ms"] = in_milliseconds(all.lateness.max());
  state.counters[prefix + "early"] = static_cast<double>(all.early);
  state.counters[prefix + "statements"] =
      (static_cast<double>(in.counts().statements) - statements) / static_cast<double>(count);
}

template <class Tables>
void lateness(benchmark::State& state, handled how) {
  auto& all = filled<Tables>(state.range(0));
  for (auto _ : state) {
    run_due<typename Tables::work>(state, *all, how, state.range(1));
  }
}

template <class Body>
benchmark::internal::Benchmark* add(const std::string& name, const Body& body) {
  return benchmark::RegisterBenchmark(name.c_str(), body)->UseRealTime();
}

/// Those that both stores have. \param beside_rows registers more, which use `filled`, with that number of rows.
template <class Tables, class BesideRows>
void register_all(const BesideRows& beside_rows) {
  using benchmark::State;
  add("lives/claim", [](State& state) { lives<Tables>(state, {.claim = true}); });
  add("lives/complete", [](State& state) { lives<Tables>(state, {.complete = true}); });
  add("lives/all", [](State& state) { lives<Tables>(state, {true, true, true}); });
  add("claim_and_complete", claim_and_complete<Tables>);
  add("take_with_users_update/from_the_deadline", [](State& state) { take_with_users_update<Tables>(state, false); });
  add("take_with_users_update/whole_life", [](State& state) { take_with_users_update<Tables>(state, true); });
  add("cancelled", cancelled<Tables>);
  constexpr std::array both = {std::pair{"leased", handled::leased},
                               std::pair{"transactional", handled::transactional}};
  for (const auto& [name, way] : both) {
    add(std::string("backlog/") + name, [how = way](State& state) { backlog<Tables>(state, how); })->Iterations(1);
    add(std::string("schedule_and_run/") + name, [how = way](State& state) {
      schedule_and_run<Tables>(state, how);
    })->Iterations(1);
  }
  // In this order, as rows are kept until another number of them is wanted.
  for (const std::int64_t rows : sizes_to_run({0, 1'000'000, 10'000'000})) {
    add("empty_poll", empty_poll<Tables>)->ArgName("rows")->Arg(rows);
    beside_rows(rows);
    for (const std::int64_t per_second : {10, 500, 6000}) {
      for (const auto& [name, way] : both) {
        add(std::string("lateness/") + name, [how = way](State& state) { lateness<Tables>(state, how); })
            ->ArgNames({"rows", "due_per_s"})
            ->Args({rows, per_second})
            ->Iterations(1);
      }
    }
  }
}

}  // namespace timing_wheel::bench

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench_sizes.hpp"
#include "durable/support/private_postgres.hpp"
#include "timing_wheel/durable/postgres_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"

// Nodes that share a table, on private servers that sync. Each node is a scheduler with a store of its own; all are in
// this process, and all servers on this machine, so more of them have no more processors. Where there are two servers,
// each has half of the checks, and each node is two schedulers, one for each server.
//
// First some checks become due per second, of which the lateness is taken. Then many at one moment: that is the rate.
// What is counted for each check is counted over the second part.

namespace {

using namespace timing_wheel::durable;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using timing_wheel::test::postgres_session;
using timing_wheel::test::private_postgres;

enum class handled : std::uint8_t { leased, transactional };

bool is_small() { return timing_wheel::bench::largest_size() < 1'000'000; }

/// A server, with tables that are made anew for each run.
class place {
 public:
  void clear() const {
    admin_.execute("DROP SCHEMA IF EXISTS timing_wheel CASCADE");
    postgres_store(server_.conninfo()).migrate();
    admin_.execute("CHECKPOINT");
  }
  [[nodiscard]] std::string conninfo() const { return server_.conninfo(); }
  [[nodiscard]] double log_position() const {
    return std::stod(admin_.ask("SELECT pg_current_wal_insert_lsn()-'0/0'::pg_lsn"));
  }
  /// In seconds, of the server's processes for clients but ours.
  [[nodiscard]] double processor_time() const {
    double nanoseconds = 0;
    for (const auto& row : admin_.rows("SELECT pid FROM pg_stat_activity WHERE backend_type='client backend' AND "
                                       "pid<>pg_backend_pid()")) {
      double on_processor = 0;
      std::ifstream("/proc/" + row.at(0) + "/schedstat") >> on_processor;
      nanoseconds += on_processor;
    }
    return nanoseconds / 1e9;
  }

 private:
  static std::filesystem::path parent() {
    const char* chosen = std::getenv("TIMING_WHEEL_BENCH_FOLDER");  // NOLINT(concurrency-mt-unsafe): nothing sets it
    return chosen == nullptr ? std::filesystem::temp_directory_path() : std::filesystem::path(chosen);
  }

  private_postgres server_{{.settings = {{"fsync", "on"},
                                         {"synchronous_commit", "on"},
                                         {"shared_buffers", "256MB"},
                                         {"max_wal_size", "8GB"},
                                         {"checkpoint_timeout", "1h"},
                                         {"autovacuum_naptime", "10s"}},
                            .parent = parent()}};
  const postgres_session admin_{server_.conninfo()};
};

std::span<const place> places(std::size_t count) {
  static const std::array<place, 2> all;
  return std::span(all).first(count);
}

/// A scheduler with its store.
struct node {
  node(const place& where, handled how) : store(where.conninfo()), checks(store, {.tick = 1ms}) {
    for (const char* kind : {"steady", "burst"}) {
      if (how == handled::leased) {
        checks.on(kind, [](const job& /*what*/) {});
      } else {
        checks.on(kind, [](transaction& /*open*/, std::span<const job> /*some*/) {});
      }
    }
    checks.start();
  }
  postgres_store store;
  scheduler checks;  // destroyed first
};
using node_list = std::vector<std::unique_ptr<node>>;

/// What all nodes have done together.
struct totals {
  explicit totals(const node_list& nodes, std::span<const place> servers) {
    for (const auto& each : nodes) {
      const scheduler_stats stats = each->checks.stats();
      done += static_cast<double>(stats.done);
      early += static_cast<double>(stats.early);
      statements += static_cast<double>(stats.store.statements);
      rows += static_cast<double>(stats.store.rows_read);
      commits += static_cast<double>(stats.store.commits);
    }
    for (const place& server : servers) {
      log += server.log_position();
      processor += server.processor_time();
    }
  }
  double done = 0;
  double early = 0;
  double statements = 0;
  double rows = 0;
  double commits = 0;
  double log = 0;
  double processor = 0;
};

double done_of(const node_list& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), 0.0, [](double sum, const auto& each) {
    return sum + static_cast<double>(each->checks.stats().done);
  });
}

void wait_for(const node_list& nodes, double done) {
  while (done_of(nodes) < done) {
    std::this_thread::sleep_for(2ms);
  }
}

/// The nodes of a server have about as many shares each.
void wait_for_shares(const node_list& nodes, std::size_t of_each_server) {
  const auto has_part = [&](const auto& each) {
    const std::size_t part = 64 / of_each_server;
    const std::size_t has = each->checks.stats().shares;
    return has == part || has == part + (64 % of_each_server == 0 ? 0 : 1);
  };
  while (!std::all_of(nodes.begin(), nodes.end(), has_part)) {
    std::this_thread::sleep_for(10ms);
  }
}

/// Half of them on each server, if there are two. \param between from one deadline to the next.
void schedule(const node_list& nodes, std::size_t servers, const char* kind, std::int64_t count, instant first,
              std::chrono::microseconds between) {
  constexpr std::int64_t batch = 500;
  for (std::int64_t from = 0; from < count; from += batch) {
    std::vector<std::vector<request>> asked(servers);
    for (std::int64_t number = from; number < std::min(count, from + batch); ++number) {
      asked[static_cast<std::size_t>(number) % servers].push_back({.kind = kind,
                                                                   .key = kind + std::to_string(number * 7919),
                                                                   .payload = std::string(48, 'p'),
                                                                   .due = first + number * between});
    }
    for (std::size_t server = 0; server < servers; ++server) {
      if (!asked[server].empty()) {
        nodes[server]->checks.schedule(asked[server]);
      }
    }
  }
}

double milliseconds(std::chrono::nanoseconds time) { return static_cast<double>(time.count()) / 1e6; }

timing_wheel::histogram lateness_of(const node_list& nodes, const char* kind) {
  timing_wheel::histogram all;
  for (const auto& each : nodes) {
    for (const kind_stats& of : each->checks.stats().kinds) {
      if (of.kind == kind) {
        all.merge(of.lateness);
      }
    }
  }
  return all;
}

void nodes(benchmark::State& state, handled how) {
  const auto count = static_cast<std::size_t>(state.range(0));
  const std::span<const place> servers = places(static_cast<std::size_t>(state.range(1)));
  const std::int64_t per_second = 1000;
  const std::int64_t steady = is_small() ? 20 : 4 * per_second;
  const std::int64_t burst = is_small() ? 200 : 50'000;
  for (auto _ : state) {
    node_list all;
    for (const place& server : servers) {
      server.clear();
    }
    for (std::size_t n = 0; n < count * servers.size(); ++n) {
      all.push_back(std::make_unique<node>(servers[n % servers.size()], how));
    }
    wait_for_shares(all, count);
    const std::chrono::microseconds lead = is_small() ? 1s : 2500ms;
    const instant first = all[0]->store.now() + lead;
    schedule(all, servers.size(), "steady", steady, first, 1'000'000us / per_second);
    const instant written = all[0]->store.now();
    wait_for(all, static_cast<double>(steady));
    const auto late = lateness_of(all, "steady");

    // Twice as long as it should take, by what the others took.
    const auto for_one = (written - (first - lead)) / steady;
    const instant at = all[0]->store.now() + lead + 2 * burst * for_one;
    schedule(all, servers.size(), "burst", burst, at, 0us);
    if (!is_small() && (written > first - 1s || all[0]->store.now() > at - 1s)) {  // nodes have begun to read them
      state.SkipWithError("the checks were not written in time: run it on a machine that has less to do");
      return;
    }
    const totals before(all, servers);
    wait_for(all, static_cast<double>(steady + burst));
    const double seconds = std::chrono::duration<double>(all[0]->store.now() - at).count();
    const totals after(all, servers);
    const auto checks = static_cast<double>(burst);
    state.counters["per_s"] = checks / seconds;
    state.counters["statements"] = (after.statements - before.statements) / checks;
    state.counters["commits"] = (after.commits - before.commits) / checks;
    state.counters["rows_read"] = (after.rows - before.rows) / checks;
    state.counters["wal"] = (after.log - before.log) / checks;
    state.counters["cpu_us"] = (after.processor - before.processor) * 1e6 / checks;
    state.counters["p50_ms"] = milliseconds(late.quantile(0.5));
    state.counters["p99_ms"] = milliseconds(late.quantile(0.99));
    state.counters["early"] = after.early;
  }
}

void each_number(benchmark::internal::Benchmark* of) {
  of->ArgNames({"nodes", "servers"})->Iterations(1)->UseRealTime();
  for (const std::int64_t count : timing_wheel::bench::sizes_to_run({1, 2, 4, 8}, is_small() ? 2 : 8)) {
    of->Args({count, 1});
  }
  for (const std::int64_t count : timing_wheel::bench::sizes_to_run({1, 2, 4}, is_small() ? 1 : 4)) {
    of->Args({count, 2});
  }
}
BENCHMARK_CAPTURE(nodes, leased, handled::leased)->Apply(each_number);
BENCHMARK_CAPTURE(nodes, transactional, handled::transactional)->Apply(each_number);

}  // namespace

BENCHMARK_MAIN();

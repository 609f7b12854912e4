#include <array>
#include <memory>

#include "durable_bench_server.hpp"

// Nodes that share a table, on private servers that sync. Each node is a scheduler with a store of its own; all are in
// this process, and all servers on this machine, so more of them have no more processors. Where there are two servers,
// each has half of the checks, and each node is two schedulers, one for each server.
//
// First some checks become due per second, of which the lateness is taken. Then many at one moment: that is the rate.
// What is counted for each check is counted over the second part.

namespace {

using namespace timing_wheel::bench;  // NOLINT(google-build-using-namespace)

std::span<const bench_server> places(std::size_t count) {
  static const std::array<bench_server, 2> all{bench_server("256MB"), bench_server("256MB")};
  return std::span(all).first(count);
}

/// A scheduler with its store.
struct node {
  node(const bench_server& where, handled how) : store(where.conninfo()), checks(store, {.tick = 1ms}) {
    for (const char* kind : {"steady", "burst"}) {
      serve(checks, kind, how);
    }
    checks.start();
  }
  postgres_store store;
  scheduler checks;  // destroyed first
};
using node_list = std::vector<std::unique_ptr<node>>;

/// What all nodes have done together.
struct totals {
  explicit totals(const node_list& nodes, std::span<const bench_server> servers) {
    for (const auto& each : nodes) {
      const scheduler_stats stats = each->checks.stats();
      early += static_cast<double>(stats.early);
      statements += static_cast<double>(stats.store.statements);
      rows += static_cast<double>(stats.store.rows_read);
      commits += static_cast<double>(stats.store.commits);
    }
    for (const bench_server& server : servers) {
      log += server.log_position();
      processor += server.processor_time();
    }
  }
  double early = 0;
  double statements = 0;
  double rows = 0;
  double commits = 0;
  double log = 0;
  double processor = 0;
};

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
  const std::span<const bench_server> servers = places(static_cast<std::size_t>(state.range(1)));
  const std::int64_t per_second = 1000;
  const std::int64_t steady = is_small() ? 20 : 4 * per_second;
  const std::int64_t burst = is_small() ? 200 : 50'000;
  for (auto _ : state) {
    node_list all;
    for (const bench_server& server : servers) {
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
    wait_for_done_of(all, steady, 2ms);
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
    wait_for_done_of(all, steady + burst, 2ms);
    const double seconds = std::chrono::duration<double>(all[0]->store.now() - at).count();
    const totals after(all, servers);
    const auto checks = static_cast<double>(burst);
    state.counters["per_s"] = checks / seconds;
    state.counters["statements"] = (after.statements - before.statements) / checks;
    state.counters["commits"] = (after.commits - before.commits) / checks;
    state.counters["rows_read"] = (after.rows - before.rows) / checks;
    state.counters["wal"] = (after.log - before.log) / checks;
    state.counters["cpu_us"] = (after.processor - before.processor) * 1e6 / checks;
    state.counters["p50_ms"] = in_milliseconds(late.quantile(0.5));
    state.counters["p99_ms"] = in_milliseconds(late.quantile(0.99));
    state.counters["early"] = after.early;
  }
}

void each_number(benchmark::internal::Benchmark* of) {
  of->ArgNames({"nodes", "servers"})->Iterations(1)->UseRealTime();
  for (const std::int64_t count : sizes_to_run({1, 2, 4, 8}, is_small() ? 2 : 8)) {
    of->Args({count, 1});
  }
  for (const std::int64_t count : sizes_to_run({1, 2, 4}, is_small() ? 1 : 4)) {
    of->Args({count, 2});
  }
}
BENCHMARK_CAPTURE(nodes, leased, handled::leased)->Apply(each_number);
BENCHMARK_CAPTURE(nodes, transactional, handled::transactional)->Apply(each_number);

}  // namespace

BENCHMARK_MAIN();

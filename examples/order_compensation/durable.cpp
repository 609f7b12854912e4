#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "common/program.hpp"
#include "durable/support/keeper.hpp"
#include "jobs.hpp"
#include "shop.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using std::chrono::nanoseconds;
using steady = std::chrono::steady_clock;

/// Numbers of the workers of one run.
constexpr std::int64_t most_workers = 100'000'000;

std::string own_file() {
  return fs::read_symlink("/proc/self/exe").parent_path() / ("durable-" + std::to_string(::getpid()) + ".db");
}

void check_file(const std::string& file) {
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    throw common::usage_error("--store: " + file + " is a directory");
  }
  common::check_target("--store", file);
}

/// Where this run keeps everything. One that was made for this run goes with it, unless something is wrong with it.
class run_place {
 public:
  explicit run_place(const options& chosen) : own_(!chosen.store || *chosen.store == "postgres") {
    const std::string store = chosen.store.value_or("sqlite:" + own_file());
    try {
      site_ = store == "postgres" ? rig::private_site() : rig::site_of(store);
    } catch (const std::runtime_error& error) {
      throw common::usage_error(std::string("--store: ") + error.what());
    }
    if (own_) {
      site_->remove();  // of an earlier process with our number, which was killed
    } else if (store.starts_with("sqlite:")) {
      check_file(store.substr(store.find(':') + 1));
    }
    prepare(*site_);
    if (own_ && !chosen.quiet) {
      const std::string where = site_->argument();
      const std::string address = where.substr(where.find(':') + 1);
      std::cerr << "while this runs, look at its tables with "
                << (site_->on_server() ? "psql '" + address + "'" : "sqlite3 " + address)
                << ", or on a page: ./dev desk serve '" << where << "'\n";
    }
  }
  run_place(const run_place&) = delete;
  run_place& operator=(const run_place&) = delete;
  ~run_place() {
    if (own_ && !kept_) {
      site_->remove();
    }
  }

  [[nodiscard]] rig::site& get() const { return *site_; }
  /// \returns its name; empty if it goes with this run.
  std::string close(bool good) {
    kept_ = !good;
    return !own_ ? site_->name() : good ? "" : site_->keep();
  }

 private:
  const bool own_;
  bool kept_ = false;
  std::unique_ptr<rig::site> site_;
};

/// Sorted. \returns the value that so many are not above.
template <class Value>
double quantile(const std::vector<Value>& sorted, double share) {
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(at, sorted.size() - 1)]);
}

void write_recovery(report& all, const std::string& label, const char* key,
                    const std::vector<rig::keeper::kill>& kills) {
  std::vector<std::int64_t> took;
  for (const rig::keeper::kill& each : kills) {
    if (each.again != 0) {
      took.push_back(each.again - each.at);
    }
  }
  std::sort(took.begin(), took.end());
  for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("max", 1.0)}) {
    all.figures[key][name] = nullptr;
    if (!took.empty()) {
      all.line(label + " " + name, with_decimals(quantile(took, share) / 1e6, 3), "s");
      all.figures[key][name] = quantile(took, share) / 1e6;
    }
  }
}

class durable_run {
 public:
  /// \param whole_plan all of it is placed, however long that takes.
  durable_run(report& all, rig::site& where, const options& chosen, order_plan plan, bool whole_plan,
              common::progress& shown, const std::atomic<bool>& stop)
      : report_(all),
        site_(where),
        options_(chosen),
        whole_plan_(whole_plan),
        progress_(shown),
        stop_(stop),
        database_(where),
        earlier_orders_(database_.ask("SELECT count(*) FROM orders")),
        earlier_pending_(pending()),
        run_(begin_run()),
        began_(database_.now()),
        shop_(where, run_, earlier_orders_ + 1, chosen.delay, std::move(plan)),
        keeper_(where, {chosen.nodes,
                        chosen.kill,
                        chosen.kill_server,
                        chosen.seed,
                        run_ * most_workers,
                        {std::to_string(chosen.delay.count())}}) {}

  void run() {
    place_orders();
    keeper_.stop_killing();
    wait_for_the_end();
    keeper_.finish();
    report_.interrupted = stop_;
    database_.use([this](rig::database& in) { return judge(in, site_); });  // waits for a server that comes back
    write_report();
  }

 private:
  [[nodiscard]] std::int64_t pending() {
    return database_.ask("SELECT count(*) FROM " + site_.table("check") + " WHERE kind IN ('verify','probe')");
  }
  [[nodiscard]] static std::string grouped(std::int64_t count) {
    return common::grouped(static_cast<std::uint64_t>(count));
  }
  [[nodiscard]] std::string kills() const { return common::grouped(keeper_.kills()) + " kills"; }
  [[nodiscard]] nanoseconds since_begin() const { return steady::now() - begin_; }

  std::int64_t begin_run() {
    if (earlier_orders_ != 0 && !options_.quiet) {
      std::cerr << site_.name() << ": continued, after " << grouped(earlier_orders_) << " orders of earlier runs, "
                << grouped(earlier_pending_) << " checks of them pending\n";
    }
    return database_.ask("INSERT INTO shop_run SELECT coalesce(max(id),0)+1,0 FROM shop_run RETURNING id");
  }

  /// Until the plan, or its time, is at its end.
  void place_orders() {
    while (!stop_ && !shop_.all_placed() && (whole_plan_ || since_begin() < rig::from_seconds(options_.seconds))) {
      work();
      if (progress_.due()) {
        progress_.show("placed " + common::grouped(shop_.placed()) + " orders, " + grouped(pending()) +
                       " checks pending, " + kills());
      }
    }
    placing_ = since_begin();
    shop_.close();
  }

  /// SQLite gives its lock to the process that asks at the right moment: between transactions of a shop that does not
  /// catch up, the workers need such moments.
  void work() {
    keeper_.look();
    const auto begin = steady::now();
    const bool more = shop_.work(since_begin());
    std::this_thread::sleep_for(more ? std::max<nanoseconds>(2ms, (steady::now() - begin) / 8) : 5ms);
  }

  /// Checks that are overdue by a minute, while none comes to its end, will not run.
  void wait_for_the_end() {
    std::int64_t last = -1;
    auto since = steady::now();  // nothing has come to its end, though it is due
    for (auto next_look = since; !stop_;) {
      work();
      if (steady::now() < next_look) {
        continue;
      }
      next_look = steady::now() + 50ms;
      const std::int64_t left = pending();
      if (left == 0) {
        return;
      }
      progress_.show(grouped(left) + " checks pending, " + kills());
      if (left != last || database_.ask("SELECT min(due) FROM " + site_.table("check")) > database_.now()) {
        last = left;
        since = steady::now();
      }
      if (steady::now() - since > 60s) {
        report_.problems.push_back(grouped(left) + " checks are due and do not run");
        return;
      }
    }
  }

  void write_report() {
    const std::unique_ptr<rig::database> in = site_.connect();
    const verdict outcome = judge(*in, site_);
    write_orders(outcome);
    write_times(*in);
    write_nodes(*in);
    report_.stock(outcome.stock);
    report_.figures["exact"] = outcome.exact();
    const std::string of_server =
        options_.kill_server ? " of nodes and " + common::grouped(keeper_.server_kills()) + " of the server" : "";
    report_.verdict(
        "exact", outcome.exact() ? "nothing lost, nothing twice, nothing early, through " + kills() + of_server : "no",
        outcome.exact());
    report_.expect_none(outcome.lost, "orders lost");
    report_.expect_none(outcome.doubled, "orders doubled");
    report_.expect_none(outcome.early, "checks ran before their time");
    report_.expect_none(outcome.strays, "checks of no open order");
    for (const auto& [what, times] : outcome.faults) {
      report_.expect_none(static_cast<std::uint64_t>(times), "runs in the ledger are wrong: " + what);
    }
    report_.expect_none(keeper_.crashes(), "workers ended although nobody killed them");
  }

  void write_orders(const verdict& outcome) {
    report_.figures["earlier"] = {{"orders", earlier_orders_}, {"pending", earlier_pending_}};
    if (earlier_orders_ != 0) {
      report_.line("of earlier runs", grouped(earlier_orders_), "orders");
      report_.line("of these pending", grouped(earlier_pending_));
    }
    report_.count("orders", "orders", outcome.orders);
    report_.count("placed per second", "placed_per_s", per_second(shop_.placed(), placing_));
    report_.figures["placed"] = shop_.placed();
    report_.count("transactions of these", "transactions", static_cast<std::uint64_t>(shop_.transactions()));
    if (options_.orders) {
      report_.line("malformed rows", common::grouped(report_.malformed));
    }
    report_.count("cancelled by approval", "cancelled", outcome.cancelled);
    report_.count("fired", "fired", outcome.fired);
    report_.count("still pending", "pending", outcome.pending);
    report_.count("approved too late", "late_approvals", shop_.late_approvals());
    report_.count("lost", "lost", outcome.lost);
    report_.count("doubled", "doubled", outcome.doubled);
    report_.count("fired early", "early", outcome.early);
  }

  void write_times(rig::database& in) {
    std::vector<rig::keeper::kill> workers = keeper_.recoveries(in);
    const std::vector<rig::keeper::kill> servers = keeper_.server_recoveries(in);
    const auto recovered =
        std::count_if(workers.begin(), workers.end(), [](const auto& each) { return each.again != 0; });
    report_.count("kills", "kills", workers.size());
    report_.count("recovered", "recovered", static_cast<std::uint64_t>(recovered));
    report_.count("shares taken over", "takeovers", static_cast<std::uint64_t>(keeper_.takeovers(in)));
    write_recovery(report_, "recovery", "recovery_s", workers);
    if (options_.kill_server) {
      report_.line("kills of the server", common::grouped(servers.size()));
    }
    report_.figures["server_kills"] = servers.size();
    write_recovery(report_, "server recovery", "server_recovery_s", servers);
    write_lateness(in, "lateness", "lateness_us", {});
    workers.insert(workers.end(), servers.begin(), servers.end());
    write_lateness(in, "undisturbed", "lateness_undisturbed_us", workers);
  }

  /// How late the checks ran that have become due since this run began, without those that were due, or ran, between a
  /// kill and the end of its recovery.
  void write_lateness(rig::database& in, const std::string& label, const char* key,
                      const std::vector<rig::keeper::kill>& without) {
    const std::vector<std::int64_t> runs =
        in.run("SELECT due,at FROM run WHERE kind='verify' AND due>=$1 ORDER BY at-due", began_);
    std::vector<double> late;
    for (std::size_t i = 0; i < runs.size(); i += 2) {
      const auto disturbs = [due = runs[i], at = runs[i + 1]](const rig::keeper::kill& gap) {
        return at >= gap.at && (gap.again == 0 || due <= gap.again);
      };
      if (std::none_of(without.begin(), without.end(), disturbs)) {
        late.push_back(static_cast<double>(runs[i + 1] - runs[i]));
      }
    }
    report_.lateness(label, key,
                     late.empty() ? late : std::vector{quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1)},
                     "ms");
  }

  /// What each node has done, in all its processes.
  void write_nodes(rig::database& in) {
    report_.figures["nodes"] = nlohmann::ordered_json::array();
    for (std::int64_t node = 1; node <= options_.nodes; ++node) {
      const auto ran = [&](const char* kind) {
        return static_cast<std::uint64_t>(
            in.ask("SELECT count(*) FROM run WHERE worker>$1 AND worker%$2=$3 AND kind='" + std::string(kind) + "'",
                   run_ * most_workers, rig::keeper::most_nodes, node));
      };
      const std::size_t kills = keeper_.kills_of(node);
      const std::uint64_t fired = ran(check_kind);
      const std::uint64_t speed = per_second(fired, report_.elapsed());
      if (options_.nodes > 1) {
        report_.line("node " + std::to_string(node), common::grouped(speed),
                     "checks per second, " + common::grouped(fired) + " in all, " + std::to_string(kills) + " kills");
      }
      report_.figures["nodes"].push_back({{"node", node},
                                          {"kills", kills},
                                          {"fired", fired},
                                          {"fired_per_s", speed},
                                          {"probes", ran(rig::probe_kind)}});
    }
  }

  report& report_;
  rig::site& site_;
  const options& options_;
  const bool whole_plan_;
  common::progress& progress_;
  const std::atomic<bool>& stop_;
  rig::patient_connection database_;
  const std::int64_t earlier_orders_;
  const std::int64_t earlier_pending_;  // checks of earlier runs that were not over
  const std::int64_t run_;
  const std::int64_t began_;  // by the clock of the checks
  const steady::time_point begin_ = steady::now();
  nanoseconds placing_{};
  shop shop_;
  rig::keeper keeper_;
};

}  // namespace

void run_durable(report& all, const options& chosen, const std::vector<order>* orders, common::progress& shown,
                 const std::atomic<bool>& stop) {
  constexpr std::uint64_t most_planned = 100'000'000;  // each copy is remembered
  const nanoseconds length = rig::from_seconds(chosen.seconds);
  scaled_plan plan;
  if (orders == nullptr) {
    plan.next = steady_plan(chosen.per_second, length, chosen.delay, chosen.seed);
  } else if (chosen.repeat > most_planned / orders->size()) {
    throw common::usage_error("--repeat: more than " + grouped(most_planned) + " orders");
  } else if (chosen.delay <= 0ns) {
    throw common::usage_error("--delay: must be positive, because 30 min in the life of each order become the delay");
  } else {
    plan = plan_of_file(*orders, chosen.repeat, chosen.delay, length);
    all.line("from order to order", with_decimals(plan.speed, 1), "times as fast");
    all.line("to approval and check", with_decimals(plan.life_speed, 1), "times as fast");
    all.figures["speed"] = {{"orders", plan.speed}, {"lives", plan.life_speed}};
  }
  run_place where(chosen);
  durable_run(all, where.get(), chosen, std::move(plan.next), orders != nullptr, shown, stop).run();
  const std::string kept = where.close(all.problems.empty());
  all.title += ", in " + (!kept.empty() ? kept : where.get().on_server() ? "a server of its own" : "a file of its own");
  all.figures["store"] = kept.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(kept);
}

void run_worker(std::int64_t number, nanoseconds delay) {
  const std::unique_ptr<rig::site> where = rig::told_site();
  // What is due before the next look is late by a poll: with a short delay that is each check.
  const auto poll = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(delay / 10), 10ms, 250ms);
  rig::be_a_node(number, *where, {.poll = poll},
                 [&](timing_wheel::durable::scheduler& checks) { serve(checks, *where, number); });
}

}  // namespace order_compensation

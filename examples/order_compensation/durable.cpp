#include "durable.hpp"

#include <algorithm>
#include <csignal>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include "common/program.hpp"
#include "durable_database.hpp"
#include "durable_keeper.hpp"
#include "durable_shop.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using common::grouped;
using std::chrono::nanoseconds;
using steady = std::chrono::steady_clock;

/// How often there is a transaction, if there is something to do in it.
constexpr auto shop_pause = 5ms;
/// How often is looked whether checks are pending, when all orders are placed.
constexpr auto pending_pause = 50ms;
/// Checks that are overdue by as much, while none comes to its end, will not run.
constexpr auto patience = 60s;

/// The most orders of a file: each copy is remembered.
constexpr std::uint64_t most_planned = 100'000'000;

std::int64_t pending_in(database& in) {
  const std::string sql = std::string("SELECT count(*) FROM ") + in.check_table() + " WHERE kind IN ('verify','probe')";
  return in.ask(sql.c_str());
}

std::int64_t earliest_due(database& in) {
  return in.ask((std::string("SELECT min(due) FROM ") + in.check_table()).c_str());
}

/// Between transactions of a shop that does not catch up. SQLite gives its lock to whoever asks at the right moment:
/// the worker needs such moments.
nanoseconds pause_after(nanoseconds transaction) { return std::max<nanoseconds>(2ms, transaction / 8); }

/// Sees when checks that are due do not run any more.
class overdue_watch {
 public:
  /// \returns whether to give up.
  bool look(std::int64_t pending, std::int64_t earliest_due, std::int64_t clock) {
    const auto now = steady::now();
    if (pending != last_ || earliest_due > clock) {
      last_ = pending;
      since_ = now;
    }
    return now - since_ > patience;
  }

 private:
  std::int64_t last_ = -1;
  steady::time_point since_ = steady::now();
};

class durable_run {
 public:
  /// \param whole_plan all of it is placed, however long that takes.
  durable_run(shop_place& place, const durable_job& job, order_plan plan, bool whole_plan, progress& shown,
              const std::atomic<bool>& interrupted)
      : place_(place),
        job_(job),
        whole_plan_(whole_plan),
        progress_(shown),
        interrupted_(interrupted),
        database_(place),
        run_(begin_run()),
        shop_(place, run_, static_cast<std::int64_t>(figures_.earlier_orders) + 1, job.delay, std::move(plan)),
        keeper_({run_, job.delay, job.nodes, job.between_kills, job.kill_server, job.seed}, place) {}

  durable_figures run() {
    place_orders();
    keeper_.stop_killing();
    wait_for_the_end();
    keeper_.finish();
    keeper_.rethrow_failure();
    read_figures();
    return std::move(figures_);
  }

 private:
  [[nodiscard]] bool stopping() const { return interrupted_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t clock() {
    return database_.get([](database& in) { return in.now(); });
  }
  [[nodiscard]] std::int64_t pending() { return database_.get(pending_in); }

  std::int64_t begin_run() {
    figures_.earlier_orders = static_cast<std::uint64_t>(database_.ask("SELECT count(*) FROM orders"));
    figures_.earlier_pending = static_cast<std::uint64_t>(pending());
    if (figures_.earlier_orders != 0 && !job_.quiet) {
      std::cerr << place_.name() << ": continued, after " << grouped(figures_.earlier_orders)
                << " orders of earlier runs, " << grouped(figures_.earlier_pending) << " checks of them pending\n";
    }
    return database_.get(
        [](database& in) { return in.ask("INSERT INTO shop_run(begun) VALUES($1) RETURNING id", in.now()); });
  }

  /// Until the plan, or its time, is at its end.
  void place_orders() {
    while (!stopping() && !shop_.all_placed() && (whole_plan_ || since_begin() < job_.length)) {
      work();
      if (progress_.due()) {
        progress_.show("placed " + grouped(shop_.placed()) + " orders, " + grouped(pending_now()) +
                       " checks pending, " + grouped(keeper_.kills()) + " kills");
      }
    }
    figures_.placing = since_begin();
    shop_.close();
  }

  nanoseconds since_begin() const { return steady::now() - begin_; }
  std::uint64_t pending_now() { return static_cast<std::uint64_t>(pending()); }

  void work() {
    keeper_.rethrow_failure();
    const auto begin = steady::now();
    const bool more = shop_.work(since_begin());
    std::this_thread::sleep_for(more ? pause_after(steady::now() - begin) : shop_pause);
  }

  void wait_for_the_end() {
    overdue_watch watch;
    auto next_look = steady::now();
    while (!stopping()) {
      work();
      if (steady::now() < next_look) {
        continue;
      }
      next_look = steady::now() + pending_pause;
      const std::int64_t left = pending();
      if (left == 0) {
        return;
      }
      progress_.show(grouped(static_cast<std::uint64_t>(left)) + " checks pending, " + grouped(keeper_.kills()) +
                     " kills");
      if (watch.look(left, database_.get(earliest_due), clock())) {
        figures_.problems.push_back(grouped(static_cast<std::uint64_t>(left)) + " checks are due and do not run");
        return;
      }
    }
  }

  void read_figures() {
    figures_.interrupted = stopping();
    figures_.store = place_.name();
    figures_.own = place_.own();
    figures_.placed = shop_.placed();
    figures_.late_approvals = shop_.late_approvals();
    figures_.transactions = shop_.transactions();
    figures_.kills = keeper_.kills();
    figures_.server_kills = keeper_.server_kills();
    figures_.with_server = job_.kill_server;
    database_.use([this](database& in) {
      figures_.outcome = judge(in);
      figures_.recovery = recoveries(in, run_);
      figures_.server_recovery = server_recoveries(in, run_);
      figures_.late = lateness(in, run_, false);
      figures_.late_undisturbed = lateness(in, run_, true);
      figures_.nodes = nodes(in, run_);
      figures_.takeovers = takeovers(in, run_);
    });
    if (keeper_.crashes() != 0) {
      figures_.problems.push_back("workers that ended although nobody killed them: " + grouped(keeper_.crashes()));
    }
    audit(figures_);
  }

  shop_place& place_;
  const durable_job& job_;
  const bool whole_plan_;
  progress& progress_;
  const std::atomic<bool>& interrupted_;
  durable_figures figures_;
  patient_connection database_;
  const std::int64_t run_;
  const steady::time_point begin_ = steady::now();
  shop shop_;
  keeper keeper_;
};

}  // namespace

durable_figures run_durable(shop_place& place, const durable_job& job, const std::vector<order>* orders,
                            progress& shown, const std::atomic<bool>& interrupted) {
  std::signal(SIGCHLD, SIG_DFL);  // whoever ignored it would leave us without the ends of the workers
  const auto run = [&](order_plan plan, bool whole_plan) {
    place.prepare();
    durable_figures figures = durable_run(place, job, std::move(plan), whole_plan, shown, interrupted).run();
    if (!figures.problems.empty()) {
      place.keep();
    }
    return figures;
  };
  if (orders == nullptr) {
    return run(steady_plan(job.per_second, job.length, job.delay, job.seed), false);
  }
  if (job.repeat > most_planned / orders->size()) {
    throw common::usage_error("--repeat: more than " + grouped(most_planned) + " orders");
  }
  if (job.delay <= 0ns) {
    throw common::usage_error("--delay: must be positive, because 30 min in the life of each order become the delay");
  }
  scaled_plan plan = plan_of_file(*orders, job.repeat, job.delay, job.length);
  durable_figures figures = run(std::move(plan.next), true);
  figures.speeds = {plan.speed, plan.life_speed};
  return figures;
}

}  // namespace order_compensation

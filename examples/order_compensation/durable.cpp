#include "durable.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "common/program.hpp"
#include "durable_database.hpp"
#include "durable_keeper.hpp"
#include "durable_options.hpp"
#include "durable_shop.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;
namespace fs = std::filesystem;
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

constexpr const char* count_pending = "SELECT count(*) FROM timing_wheel_check WHERE kind IN ('verify','probe')";

/// With all tables.
std::unique_ptr<durable::sqlite_store> open_store(const std::string& file) {
  auto store = std::make_unique<durable::sqlite_store>(file);
  store->migrate();
  connection database(file);
  make_shop(database);
  return store;
}

void remove_file(const std::string& file) {
  std::error_code ignored;
  for (const char* part : {"", "-wal", "-shm"}) {
    fs::remove(file + part, ignored);
  }
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
  durable_run(const durable_job& job, order_plan plan, bool whole_plan, progress& shown,
              const std::atomic<bool>& interrupted)
      : job_(job),
        whole_plan_(whole_plan),
        progress_(shown),
        interrupted_(interrupted),
        store_(open_store(job.file)),
        database_(job.file),
        run_(begin_run()),
        shop_(job.file, *store_, run_, job.delay, std::move(plan)),
        keeper_({job.file, run_, job.delay, job.between_kills, job.seed}, *store_) {}

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
  [[nodiscard]] std::int64_t clock() { return store_->now().time_since_epoch().count(); }
  [[nodiscard]] std::int64_t pending() { return ask(database_, count_pending); }

  std::int64_t begin_run() {
    figures_.earlier_orders = static_cast<std::uint64_t>(ask(database_, "SELECT count(*) FROM orders"));
    figures_.earlier_pending = static_cast<std::uint64_t>(pending());
    statement(database_.get(), "INSERT INTO shop_run(begun) VALUES(?1)").with(clock()).run();
    if (figures_.earlier_orders != 0 && !job_.quiet) {
      std::cerr << job_.file << ": continued, after " << grouped(figures_.earlier_orders) << " orders of earlier runs, "
                << grouped(figures_.earlier_pending) << " checks of them pending\n";
    }
    return sqlite3_last_insert_rowid(database_.get());
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
      if (watch.look(left, ask(database_, "SELECT min(due) FROM timing_wheel_check"), clock())) {
        figures_.problems.push_back(grouped(static_cast<std::uint64_t>(left)) + " checks are due and do not run");
        return;
      }
    }
  }

  void read_figures() {
    figures_.interrupted = stopping();
    figures_.file = job_.file;
    figures_.own_file = job_.own_file;
    figures_.outcome = judge(database_);
    figures_.placed = shop_.placed();
    figures_.late_approvals = shop_.late_approvals();
    figures_.transactions = shop_.transactions();
    figures_.kills = keeper_.kills();
    figures_.recovery = recoveries(database_, run_);
    figures_.late = lateness(database_, run_, false);
    figures_.late_undisturbed = lateness(database_, run_, true);
    if (keeper_.crashes() != 0) {
      figures_.problems.push_back("workers that ended although nobody killed them: " + grouped(keeper_.crashes()));
    }
    audit(figures_);
  }

  const durable_job& job_;
  const bool whole_plan_;
  progress& progress_;
  const std::atomic<bool>& interrupted_;
  durable_figures figures_;
  const std::unique_ptr<durable::sqlite_store> store_;
  connection database_;
  const std::int64_t run_;
  const steady::time_point begin_ = steady::now();
  shop shop_;
  keeper keeper_;
};

durable_figures run_and_remove(const durable_job& job, order_plan plan, bool whole_plan, progress& shown,
                               const std::atomic<bool>& interrupted) {
  durable_figures figures = durable_run(job, std::move(plan), whole_plan, shown, interrupted).run();
  if (figures.file_removed()) {
    remove_file(job.file);
  }
  return figures;
}

}  // namespace

std::string own_file() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  return folder / ("durable-" + std::to_string(::getpid()) + ".db");
}

durable_figures run_durable(const durable_job& job, const std::vector<order>* orders, progress& shown,
                            const std::atomic<bool>& interrupted) {
  sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);  // a count of memory that nobody asks for, under a lock
  if (job.own_file) {
    remove_file(job.file);  // of an earlier process with our number, which was killed
  }
  check_store(job.file);
  std::signal(SIGCHLD, SIG_DFL);  // whoever ignored it would leave us without the ends of the workers
  if (orders == nullptr) {
    return run_and_remove(job, steady_plan(job.per_second, job.length, job.delay, job.seed), false, shown, interrupted);
  }
  if (job.repeat > most_planned / orders->size()) {
    throw common::usage_error("--repeat: more than " + grouped(most_planned) + " orders");
  }
  if (job.delay <= 0ns) {
    throw common::usage_error("--delay: must be positive, because 30 min in the life of each order become the delay");
  }
  scaled_plan plan = plan_of_file(*orders, job.repeat, job.delay, job.length);
  durable_figures figures = run_and_remove(job, std::move(plan.next), true, shown, interrupted);
  figures.speeds = {plan.speed, plan.life_speed};
  return figures;
}

}  // namespace order_compensation

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "common/program.hpp"
#include "durable/support/child_process.hpp"
#include "jobs.hpp"
#include "shop.hpp"
#include "timing_wheel/error.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
namespace durable = timing_wheel::durable;
namespace fs = std::filesystem;
using std::chrono::nanoseconds;
using steady = std::chrono::steady_clock;

/// How often there is a transaction, if there is something to do in it.
constexpr auto shop_pause = 5ms;
/// How often is looked whether checks are pending, when all orders are placed.
constexpr auto pending_pause = 50ms;
/// How often workers are looked at that should not have ended.
constexpr auto look_pause = 20ms;
/// Checks that are overdue by as much, while none comes to its end, will not run.
constexpr auto patience = 60s;
/// A worker that does not live as long, and three more like it, will not come to work.
constexpr auto short_life = 1s;
constexpr unsigned most_short_lives = 3;
/// Probes of a kill where several nodes divide the table: some of them fall to the one that was killed.
constexpr int probes_of_many = 16;
/// Kills of nodes to one of the server.
constexpr double kills_to_one = 5;
/// The most orders of a file: each copy is remembered.
constexpr std::uint64_t most_planned = 100'000'000;
/// Numbers of the workers of one run.
constexpr std::int64_t most_workers = 1'000'000;

nanoseconds from_seconds(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

// ---- the place

std::string own_file() {
  return fs::read_symlink("/proc/self/exe").parent_path() / ("durable-" + std::to_string(::getpid()) + ".db");
}

/// Where this run keeps everything. One that was made for this run goes with it, unless something is wrong with it.
class run_place {
 public:
  explicit run_place(const options& chosen) : own_(!chosen.store || *chosen.store == "postgres") {
    const std::string store = chosen.store.value_or("sqlite:" + own_file());
    try {
      place_ = store == "postgres" ? rig::private_place() : rig::place_of(store);
    } catch (const std::runtime_error& error) {
      throw common::usage_error(std::string("--store: ") + error.what());
    }
    if (own_) {
      place_->remove();  // of an earlier process with our number, which was killed
    } else if (store.starts_with("sqlite:")) {
      check_file(store.substr(store.find(':') + 1));
    }
    prepare(*place_);
    if (own_ && !chosen.quiet) {
      const std::string where = place_->argument();
      std::cerr << "while this runs, look at its tables with "
                << (place_->on_server() ? "psql '" + where.substr(where.find(':') + 1) + "'"
                                        : "sqlite3 " + where.substr(where.find(':') + 1))
                << '\n';
    }
  }
  run_place(const run_place&) = delete;
  run_place& operator=(const run_place&) = delete;
  ~run_place() {
    if (own_ && !kept_) {
      place_->remove();
    }
  }

  [[nodiscard]] rig::place& get() const { return *place_; }
  /// \returns its name; empty if it goes with this run.
  std::string close(bool good) {
    kept_ = !good;
    return !own_ ? place_->name() : good ? "" : place_->keep();
  }

 private:
  static void check_file(const std::string& file) {
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
      throw common::usage_error("--store: " + file + " is a directory");
    }
    common::check_target("--store", file);
  }

  const bool own_;
  bool kept_ = false;
  std::unique_ptr<rig::place> place_;
};

// ---- the keeper

/// Keeps nodes at work, each a process that runs checks, and kills them at random moments, if asked to; and the server.
///
/// At each kill, the row of the worker is marked with the time, and probes are written: checks that are due at once. So
/// there is something to take over, and the time of the last of them says when all of it was. Each of its transactions
/// says the same again if the answer to its commit was lost: nothing is there twice.
///
/// Thread safety: the members may be called by one thread, beside the one that this has.
class keeper {
 public:
  /// Starts the first workers. \param where must outlive this. \param run the row of this run.
  keeper(const options& chosen, rig::place& where, std::int64_t run)
      : options_(chosen),
        place_(where),
        run_(run),
        killing_(chosen.kill.has_value()),
        database_(where),
        random_(chosen.seed),
        next_kill_(random_moment(1)),
        next_server_kill_(random_moment(kills_to_one)),
        keeping_(std::async(std::launch::async, [this] { keep(); })) {}
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;
  ~keeper() { over_ = true; }

  /// No kill from now on.
  void stop_killing() noexcept { killing_ = false; }
  /// Lets the workers end, and waits for them. \throws what has gone wrong on the other thread.
  void finish() {
    over_ = true;
    keeping_.get();
  }
  /// \throws what has gone wrong on the other thread.
  void rethrow_failure() {
    if (keeping_.wait_for(0s) == std::future_status::ready) {
      keeping_.get();
    }
  }

  [[nodiscard]] std::uint64_t kills() const noexcept { return kills_; }
  [[nodiscard]] std::int64_t server_kills() const noexcept { return server_kills_; }
  /// Workers that ended although nobody killed them.
  [[nodiscard]] std::uint64_t crashes() const noexcept { return crashes_; }

 private:
  /// One worker, from its start to its end.
  struct worker {
    std::int64_t node;
    std::int64_t number;
    steady::time_point born;
    std::unique_ptr<rig::child_process> process;
  };

  void keep() {
    for (std::int64_t node = 1; node <= options_.nodes; ++node) {
      nodes_.push_back(start(node));
    }
    for (; !over_; std::this_thread::sleep_for(look_pause)) {
      look();
    }
    for (worker& each : nodes_) {
      crashes_ += each.process->finish() ? 0U : 1U;
    }
  }

  /// Starts those anew that have ended, and kills what is to be killed now.
  /// \throws common::failure if workers do not come to work.
  void look() {
    for (worker& each : nodes_) {
      if (each.process->has_ended()) {
        note_crash(each.born);
        each = start(each.node);
      }
    }
    if (killing_ && steady::now() >= next_kill_) {
      next_kill_ = random_moment(1);
      kill_one();
    }
    if (killing_ && options_.kill_server && steady::now() >= next_server_kill_) {
      kill_server();
      next_server_kill_ = random_moment(kills_to_one);  // from its new start: else a slow one would never be up
    }
  }

  [[nodiscard]] worker start(std::int64_t node) {
    const std::int64_t number = run_ * most_workers + ++births_;
    database_.use([&](rig::database& in) {
      in.run("INSERT INTO worker(number,run,node) VALUES($1,$2,$3) ON CONFLICT(number) DO NOTHING", number, run_, node);
    });
    std::vector<std::string> words{"/proc/self/exe",       "--durable", "--worker",
                                   std::to_string(number), "--delay",   std::to_string(options_.delay.count()) + "ns"};
    return {node, number, steady::now(),
            std::make_unique<rig::child_process>(std::move(words), place_.argument() + '\0')};
  }

  void kill_one() {
    worker& one = nodes_[random_() % nodes_.size()];
    const std::int64_t killed = database_.now();
    if (one.process->kill()) {
      ++kills_;
      short_lives_ = 0;
      note_death(one.number, killed);
      one = start(one.node);
    }
  }

  // The dead one renews no share, so until another takes it the epoch stays.
  void note_death(std::int64_t number, std::int64_t killed) {
    database_.use([&](rig::database& in) {
      rig::write_transaction open(in);
      if (in.run("UPDATE worker SET killed=$1 WHERE number=$2 AND killed IS NULL RETURNING number", killed, number)
              .empty()) {
        return;  // it was committed, and the answer was lost
      }
      if (place_.on_server()) {
        in.run("INSERT INTO lost_share SELECT $1,kinds,share,epoch FROM " + place_.table("share") + " WHERE owner='" +
                   node_of_worker(number) + "'",
               number);
      }
      for (int probe = 0; probe < (nodes_.size() == 1 ? 1 : probes_of_many); ++probe) {
        const std::string key = node_of_worker(number) + "-" + std::to_string(probe);
        in.schedule({.kind = probe_kind, .key = key, .payload = {}, .due = {}});
      }
      open.commit();
    });
  }

  void note_crash(steady::time_point born) {
    ++crashes_;
    short_lives_ = steady::now() - born < short_life ? short_lives_ + 1 : 0;
    if (short_lives_ > most_short_lives) {
      throw common::failure("a worker ends as soon as it is started");
    }
  }

  void kill_server() {
    const std::int64_t killed = database_.now();
    place_.kill_server();
    ++server_kills_;
    database_.use([&](rig::database& in) {
      in.run("INSERT INTO server_kill(run,number,killed) VALUES($1,$2,$3) ON CONFLICT(run,number) DO NOTHING", run_,
             server_kills_, killed);
    });
  }

  /// Uniform up to twice as much as on average.
  [[nodiscard]] steady::time_point random_moment(double times) {
    const double part = 2 * times * static_cast<double>(random_() >> 11) * 0x1p-53;
    return steady::now() + from_seconds(options_.kill.value_or(0) * part);
  }

  const options& options_;
  rig::place& place_;
  const std::int64_t run_;
  std::atomic<bool> killing_;
  std::atomic<bool> over_{false};
  std::atomic<std::uint64_t> kills_{0};

  // The keeper's thread only, until it has ended.
  patient_connection database_;
  std::vector<worker> nodes_;
  std::mt19937_64 random_;
  steady::time_point next_kill_;
  steady::time_point next_server_kill_;
  std::int64_t births_ = 0;
  std::int64_t server_kills_ = 0;
  std::uint64_t crashes_ = 0;
  unsigned short_lives_ = 0;  // in a row

  std::future<void> keeping_;  // last: it uses the others
};

// ---- the figures

/// Microseconds, sorted.
using durations = std::vector<std::int64_t>;

double quantile(const durations& sorted, double share) {
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return static_cast<double>(sorted[std::min(at, sorted.size() - 1)]);
}

/// Kills of the run $1: of workers, and when others had run all probes; of servers, and when the first check ran.
const std::string kills_and_recoveries =
    "WITH recovery(killed,again) AS MATERIALIZED (SELECT killed,(SELECT max(at) FROM run WHERE kind='probe' AND "
    "run.number=worker.number) FROM worker WHERE worker.run=$1 AND killed IS NOT NULL),"
    "served(killed,again) AS MATERIALIZED (SELECT killed,(SELECT min(at) FROM run WHERE at>killed) FROM server_kill "
    "WHERE server_kill.run=$1) ";

durations recoveries(rig::database& in, const char* of, std::int64_t run) {
  return in.run(kills_and_recoveries + "SELECT again-killed FROM " + of + " WHERE again IS NOT NULL ORDER BY 1", run);
}

/// How late the checks ran that have become due since a run began.
/// \param undisturbed leaves out those that were due, or ran, between a kill and the end of its recovery.
durations lateness(rig::database& in, std::int64_t run, bool undisturbed) {
  return in.run(kills_and_recoveries +
                    "SELECT at-due FROM run WHERE kind='verify' AND due>=(SELECT begun FROM shop_run WHERE id=$1)" +
                    (undisturbed ? " AND NOT EXISTS(SELECT 1 FROM (SELECT * FROM recovery UNION ALL SELECT * FROM "
                                   "served) AS gap WHERE at>=killed AND (again IS NULL OR due<=again))"
                                 : "") +
                    " ORDER BY 1",
                run);
}

void write_lateness(report& all, const std::string& label, const char* key, const durations& late) {
  all.lateness(
      label, key,
      late.empty() ? std::vector<double>{} : std::vector{quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1)},
      "ms");
}

void write_recovery(report& all, const std::string& label, const char* key, const durations& took) {
  for (const auto& [name, share] : {std::pair("p50", 0.5), std::pair("max", 1.0)}) {
    all.figures[key][name] = nullptr;
    if (!took.empty()) {
      all.line(label + " " + name, with_decimals(quantile(took, share) / 1e6, 3), "s");
      all.figures[key][name] = quantile(took, share) / 1e6;
    }
  }
}

/// What each node has done, in all its processes.
void write_nodes(report& all, rig::database& in, std::int64_t run) {
  const std::vector<std::int64_t> rows = in.run(
      "SELECT node,count(*),count(killed),"
      "sum((SELECT count(*) FROM run WHERE run.worker=w.number AND kind='verify')),"
      "sum((SELECT count(*) FROM run WHERE run.worker=w.number AND kind='probe')) "
      "FROM worker w WHERE w.run=$1 GROUP BY node ORDER BY node",
      run);
  constexpr std::size_t columns = 5;
  all.figures["nodes"] = nlohmann::ordered_json::array();
  for (std::size_t at = 0; at < rows.size(); at += columns) {
    const auto fired = static_cast<std::uint64_t>(rows[at + 3]);
    const std::uint64_t speed = per_second(fired, all.elapsed());
    if (rows.size() > columns) {
      all.line("node " + std::to_string(rows[at]), grouped(speed),
               "checks per second, " + grouped(fired) + " in all, " + std::to_string(rows[at + 2]) + " kills");
    }
    all.figures["nodes"].push_back({{"node", rows[at]},
                                    {"processes", rows[at + 1]},
                                    {"kills", rows[at + 2]},
                                    {"fired", fired},
                                    {"fired_per_s", speed},
                                    {"probes", rows[at + 4]}});
  }
}

/// How many shares of the table others have taken over from workers that were killed.
std::uint64_t takeovers(rig::database& in, const rig::place& where, std::int64_t run) {
  return static_cast<std::uint64_t>(
      where.on_server()
          ? in.ask("SELECT count(*) FROM lost_share l JOIN worker w ON w.number=l.worker JOIN " + where.table("share") +
                       " s ON s.kinds=l.kinds AND s.share=l.share WHERE w.run=$1 AND s.epoch>l.epoch",
                   run)
          : 0);
}

// ---- the run

class durable_run {
 public:
  /// \param whole_plan all of it is placed, however long that takes.
  durable_run(report& all, rig::place& where, const options& chosen, order_plan plan, bool whole_plan,
              common::progress& shown, const std::atomic<bool>& stop)
      : report_(all),
        place_(where),
        options_(chosen),
        whole_plan_(whole_plan),
        progress_(shown),
        stop_(stop),
        database_(where),
        earlier_orders_(database_.ask("SELECT count(*) FROM orders")),
        earlier_pending_(pending()),
        run_(begin_run()),
        shop_(where, run_, earlier_orders_ + 1, chosen.delay, std::move(plan)),
        keeper_(chosen, where, run_) {}

  void run() {
    place_orders();
    keeper_.stop_killing();
    wait_for_the_end();
    keeper_.finish();
    report_.interrupted = stop_;
    database_.use([this](rig::database& in) { return judge(in, place_); });  // waits for a server that comes back
    write_report();
  }

 private:
  [[nodiscard]] std::int64_t pending() {
    return database_.ask("SELECT count(*) FROM " + place_.table("check") + " WHERE kind IN ('verify','probe')");
  }
  [[nodiscard]] static std::string grouped(std::int64_t count) {
    return common::grouped(static_cast<std::uint64_t>(count));
  }

  std::int64_t begin_run() {
    if (earlier_orders_ != 0 && !options_.quiet) {
      std::cerr << place_.name() << ": continued, after " << grouped(earlier_orders_) << " orders of earlier runs, "
                << grouped(earlier_pending_) << " checks of them pending\n";
    }
    return database_.use([](rig::database& in) {
      return in.ask("INSERT INTO shop_run SELECT coalesce(max(id),0)+1,$1,0 FROM shop_run RETURNING id", in.now());
    });
  }

  /// Until the plan, or its time, is at its end.
  void place_orders() {
    while (!stop_ && !shop_.all_placed() && (whole_plan_ || since_begin() < from_seconds(options_.seconds))) {
      work();
      if (progress_.due()) {
        progress_.show("placed " + common::grouped(shop_.placed()) + " orders, " + grouped(pending()) +
                       " checks pending, " + common::grouped(keeper_.kills()) + " kills");
      }
    }
    placing_ = since_begin();
    shop_.close();
  }

  [[nodiscard]] nanoseconds since_begin() const { return steady::now() - begin_; }

  /// SQLite gives its lock to whoever asks at the right moment: between transactions of a shop that does not catch up,
  /// the workers need such moments.
  void work() {
    keeper_.rethrow_failure();
    const auto begin = steady::now();
    const bool more = shop_.work(since_begin());
    std::this_thread::sleep_for(more ? std::max<nanoseconds>(2ms, (steady::now() - begin) / 8) : shop_pause);
  }

  void wait_for_the_end() {
    std::int64_t last = -1;
    auto since = steady::now();  // nothing has come to its end, though it is due
    for (auto next_look = since; !stop_;) {
      work();
      if (steady::now() < next_look) {
        continue;
      }
      next_look = steady::now() + pending_pause;
      const std::int64_t left = pending();
      if (left == 0) {
        return;
      }
      progress_.show(grouped(left) + " checks pending, " + common::grouped(keeper_.kills()) + " kills");
      if (left != last || database_.ask("SELECT min(due) FROM " + place_.table("check")) > database_.now()) {
        last = left;
        since = steady::now();
      }
      if (steady::now() - since > patience) {
        report_.problems.push_back(grouped(left) + " checks are due and do not run");
        return;
      }
    }
  }

  void write_report() {
    const std::unique_ptr<rig::database> in = place_.connect();
    const verdict outcome = judge(*in, place_);
    write_orders(outcome);
    write_times(*in);
    write_nodes(report_, *in, run_);
    report_.stock(outcome.stock);
    report_.figures["exact"] = outcome.exact();
    report_.verdict(
        "exact",
        outcome.exact()
            ? "nothing lost, nothing twice, nothing early, through " + common::grouped(keeper_.kills()) + " kills" +
                  (options_.kill_server ? " of nodes and " + grouped(keeper_.server_kills()) + " of the server" : "")
            : "no",
        outcome.exact());
    note(outcome.lost, "orders lost");
    note(outcome.doubled, "orders doubled");
    note(outcome.early, "checks ran before their time");
    note(outcome.strays, "checks of no open order");
    for (const auto& [what, times] : rig::faults_in(*in, place_)) {
      note(static_cast<std::uint64_t>(times), "runs in the ledger are wrong: " + what);
    }
    note(keeper_.crashes(), "workers ended although nobody killed them");
  }

  void note(std::uint64_t count, const std::string& what) {
    if (count != 0) {
      report_.problems.push_back(common::grouped(count) + " " + what);
    }
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
    const durations recovery = recoveries(in, "recovery", run_);
    report_.count("kills", "kills", keeper_.kills());
    report_.count("recovered", "recovered", recovery.size());
    report_.count("shares taken over", "takeovers", takeovers(in, place_, run_));
    write_recovery(report_, "recovery", "recovery_s", recovery);
    if (options_.kill_server) {
      report_.line("kills of the server", grouped(keeper_.server_kills()));
    }
    report_.figures["server_kills"] = keeper_.server_kills();
    write_recovery(report_, "server recovery", "server_recovery_s", recoveries(in, "served", run_));
    write_lateness(report_, "lateness", "lateness_us", lateness(in, run_, false));
    write_lateness(report_, "undisturbed", "lateness_undisturbed_us", lateness(in, run_, true));
  }

  report& report_;
  rig::place& place_;
  const options& options_;
  const bool whole_plan_;
  common::progress& progress_;
  const std::atomic<bool>& stop_;
  patient_connection database_;
  const std::int64_t earlier_orders_;
  const std::int64_t earlier_pending_;  // checks of earlier runs that were not over
  const std::int64_t run_;
  const steady::time_point begin_ = steady::now();
  nanoseconds placing_{};
  shop shop_;
  keeper keeper_;
};

// ---- a worker

/// Where it works is told to a worker by its input, up to a zero byte: there may be a password in it, and everybody can
/// read arguments.
std::string told_store() {
  std::string store;
  for (char each = 0; ::read(STDIN_FILENO, &each, 1) == 1 && each != '\0';) {
    store.push_back(each);  // no more than that: the end of the input is waited for elsewhere
  }
  return store;
}

/// \returns whether it has ended.
bool wait_for_end_of_input(int timeout_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&input, 1, timeout_ms);
  char ignored = 0;
  return ready > 0 && ::read(STDIN_FILENO, &ignored, 1) == 0;
}

/// A database that is away for a while is nothing to tell: `stats` counts it.
void tell(const durable::failure& what) {
  try {
    std::rethrow_exception(what.error);
  } catch (const rig::try_again&) {             // NOLINT(bugprone-empty-catch): see above
  } catch (const timing_wheel::timer_error&) {  // NOLINT(bugprone-empty-catch): see above
  } catch (const std::exception& error) {
    std::cerr << "worker: " << what.what << ": " << error.what() << '\n';
  }
}

/// Until `work` has been done, or nobody waits for it any more. A server may just be starting.
template <class Work>
bool persistently(Work work) {
  constexpr int pause_ms = 50;
  for (const auto end = steady::now() + patience;;) {
    try {
      work();
      return true;
    } catch (const timing_wheel::timer_error&) {
      if (steady::now() > end) {
        throw;
      }
    }
    if (wait_for_end_of_input(pause_ms)) {
      return false;
    }
  }
}

}  // namespace

void run_durable(report& all, const options& chosen, const std::vector<order>* orders, common::progress& shown,
                 const std::atomic<bool>& stop) {
  std::signal(SIGCHLD, SIG_DFL);  // whoever ignored it would leave us without the ends of the workers
  const nanoseconds length = from_seconds(chosen.seconds);
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

void run_worker(const options& chosen) {
  const std::unique_ptr<rig::place> where = rig::place_of(told_store());
  // What is due before the next look is late by a poll: with a short delay that is each check.
  const auto poll = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(chosen.delay / 10), 10ms, 250ms);
  std::unique_ptr<durable::store> store;
  std::optional<durable::scheduler> checks;
  const bool started = persistently([&] {
    checks.reset();
    store = where->open_store({});
    checks.emplace(
        *store, durable::scheduler_options{.poll = poll, .node = node_of_worker(*chosen.worker), .on_failure = tell});
    serve(*checks, *where, *chosen.worker);
    checks->start();
  });
  while (started && !wait_for_end_of_input(-1)) {
  }
  if (started) {
    constexpr unsigned patience_s = 10;
    ::alarm(patience_s);  // whatever hangs: it does not outlive its parent by more
    checks->stop();
  }
}

}  // namespace order_compensation

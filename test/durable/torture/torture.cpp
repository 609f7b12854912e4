// A node that dies at every point of its way, again and again, and a ledger in the same database as judge.
//
//     durable_torture FILE [ROUNDS]
//     durable_torture --store postgres [ROUNDS]
//
// The second is on a private server. In each round orders are written with their checks, some are approved, and a
// worker process is started that dies at one of the named points (src/durable/store/fail_point.hpp), or is stopped
// there for longer than its lease. At the end one worker lives until nothing is due any more, and the ledger is read:
// each check ran or was cancelled; a transactional one once; no two runs with the same fence; none was early, none ran
// after its cancel. A worker is one node for both kinds of check, or a node for each: a node that has leased ones only
// lets the ends of runs wait for a claim.

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "durable/support/child_process.hpp"
#include "durable/support/ledger.hpp"
#include "durable/support/site.hpp"
#include "support/build.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace {

using namespace std::chrono_literals;
namespace durable = timing_wheel::durable;
namespace rig = timing_wheel::rig;

constexpr auto lease = 150ms;

constexpr auto worker = "--worker";
constexpr auto apart_worker = "--worker-apart";

// A point that only a node with leased kinds alone passes, if it has claimed all that is due and looks at an end within
// 2 ms: on a busy machine, a thread under a sanitizer may be too slow for that at all times.
constexpr auto end_waits = "node.end_waits";
constexpr bool may_miss_end_waits = timing_wheel::test::slow_build;

// ---- the worker

// How many leased runs are so long that their leases are extended: the first one of a worker that tells its points, all
// of one that dies there. Elsewhere chance decides, when the machine is slow.
int long_runs() {
  const char* const variable = std::getenv("TIMING_WHEEL_FAIL_POINT");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const std::string_view plan = variable == nullptr ? "" : variable;
  return plan == "list" ? 1 : plan.find("of_extensions") != std::string_view::npos ? INT_MAX : 0;
}

// Runs what is due within the next moments, and ends. `apart`: by a node for each kind.
int work(const rig::site& where, bool apart) {
  const auto store = where.open_store(lease);
  const auto effects = where.connect();  // what a leased handler changes: beside the store, as another service would be
  const durable::scheduler_options options{
      .look_ahead = 200ms, .poll = 20ms, .lease = lease, .threads = 2, .on_failure = [](const durable::failure& what) {
        std::cerr << "failure: " << what.what << '\n';
      }};
  durable::scheduler checks(*store, options);
  std::optional<durable::scheduler> other;
  if (apart) {
    other.emplace(*store, options);
  }
  durable::scheduler& leased = apart ? *other : checks;
  checks.on("transactional", [&](durable::transaction& open, const durable::job& what) {
    const auto in = where.within(open);
    rig::write_run(*in, what, open.now().time_since_epoch().count());
    in->run("UPDATE orders SET given_back=given_back+1 WHERE id='" + what.key() + "'");
  });
  std::atomic<int> left_long(long_runs());
  std::mutex mutex;
  leased.on("leased",
            [&](const durable::job& what) {
              if (left_long-- > 0) {
                std::this_thread::sleep_for(lease / 2);
              }
              const std::scoped_lock lock(mutex);
              // It refuses a fence below the highest.
              effects->begin();
              rig::write_run(*effects, what, store->now().time_since_epoch().count());
              effects->run("UPDATE orders SET given_back=1,fence=$1 WHERE id='" + what.key() + "' AND fence<$1",
                           what.fence());
              effects->commit();
            },
            {.max_attempts = 1'000'000});
  checks.start();
  if (other) {
    other->start();
  }
  const auto own = where.connect();
  for (int quiet = 0; quiet < 5;) {
    std::this_thread::sleep_for(5ms);
    quiet = own->ask("SELECT count(*) FROM " + where.table("check")) == 0 ? quiet + 1 : 0;
  }
  checks.stop();
  leased.stop();
  return checks.stats().early == 0 && leased.stats().early == 0 ? 0 : 3;
}

// ---- the judge

class torture {
 public:
  torture(std::string program, rig::site& where, std::uint64_t seed)
      : program_(std::move(program)), where_(where), random_(seed) {
    where_.remove();
    where_.prepare();
    own_ = where_.connect();
    own_->run(
        "CREATE TABLE orders(id TEXT PRIMARY KEY,kind TEXT,approved INT DEFAULT 0,given_back INT DEFAULT 0,"
        "fence BIGINT DEFAULT 0)");
    rig::make_ledger(*own_);
  }

  void run(int rounds) {
    find_points();
    auto shown = std::chrono::steady_clock::now();
    const auto missed = [&] {
      return std::find_if(points_.begin(), points_.end(), [&](const auto& each) { return deaths_[each] == 0; });
    };
    // A busy machine may pass a point in none of them; then it has more of them.
    for (int round = 0; round < rounds || (round < 3 * rounds && missed() != points_.end()); ++round) {
      orders();
      const std::size_t in_turn = static_cast<std::size_t>(round) % points_.size();
      die(round < rounds ? points_[in_turn] : *missed(), one_in(20) ? "stop" : "kill");
      if (std::chrono::steady_clock::now() - shown > 5s) {
        shown = std::chrono::steady_clock::now();
        std::cerr << "round " << round << " of " << rounds << '\n';
      }
    }
    live();
  }

  // \returns whether all is as it must be.
  bool judge() {
    bool good = true;
    const auto none = [&](const std::string& what, std::int64_t count) {
      good = good && count == 0;
      std::cout << what << ": " << count << '\n';
    };
    const auto count = [&](const std::string& what) { return own_->ask("SELECT count(*) FROM " + what); };
    std::cout << "orders: " << count("orders") << '\n'
              << "approved: " << count("orders WHERE approved=1") << '\n'
              << "runs: " << count("run") << '\n';
    none("lost", count("orders WHERE approved=0 AND given_back=0"));
    none("doubled", count("orders WHERE given_back>1"));
    none("given back after the approval", count("orders WHERE approved=1 AND given_back>0"));
    none("run after the cancel", count("run JOIN orders ON orders.id=run.id WHERE approved=1"));
    none("still there", count(where_.table("check")));
    for (const auto& [what, times] : rig::faults_in(*own_, where_)) {
      none(what, times);
    }
    for (const auto& [point, times] : deaths_) {
      std::cout << "deaths at " << point << ": " << times << '\n';
      good = good && (times > 0 || (may_miss_end_waits && point == end_waits));
    }
    return good && count("run") > 0;
  }

 private:
  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  bool one_in(std::size_t n) { return pick(n) == 0; }

  // The names that a worker passes, as it tells them itself.
  void find_points() {
    for (int times = 0; times < 5; ++times) {  // of each kind there is one
      orders();
    }
    const std::string told = where_.file("points");
    auto child = start("list", true, told);
    const auto last_moment = std::chrono::steady_clock::now() + (may_miss_end_waits ? 20s : 60s);
    for (; deaths_.count(end_waits) == 0; read_points(told)) {  // until one was due alone, and another 2 ms after it
      if (std::chrono::steady_clock::now() > last_moment) {
        if (may_miss_end_waits && !points_.empty()) {
          std::cout << "in 20 s, no end has waited for a claim: none dies there\n";
          break;
        }
        throw std::runtime_error(points_.empty() ? "no fail point was passed; they are compiled in for tests only"
                                                 : "in a minute, no end has waited for a claim");
      }
      std::this_thread::sleep_for(10ms);
      orders_if_few();
      if (const std::optional<int> status = child->status(WNOHANG)) {  // it had nothing to do for a while
        expect_good(status);
        child = start("list", true, told);
      }
    }
    expect_good(child->status());
    read_points(told);
    if (points_.size() < 10) {
      throw std::runtime_error("few fail points were passed");
    }
  }

  void read_points(const std::string& told) {
    std::ifstream lines(told);
    for (std::string word; lines >> word;) {
      if (word == "point" && lines >> word && deaths_.emplace(word, 0).second) {
        points_.push_back(word);
      }
    }
  }

  void orders() {
    own_->begin();
    std::chrono::milliseconds due(0);
    for (int i = 0; i < 6; ++i) {
      const std::string id = std::to_string(++count_);
      const std::string kind = one_in(2) ? "transactional" : "leased";
      own_->run(std::string("INSERT INTO orders(id,kind) VALUES('").append(id).append("','").append(kind).append("')"));
      due = one_in(2) ? due + 2ms : std::chrono::milliseconds(pick(40));  // an end waits 2 ms for a check
      own_->schedule({.kind = kind, .key = id, .due = due});
      open_.emplace_back(id, kind);
    }
    own_->commit();
    approve();
  }

  // An end waits only if nothing is due: on a slow machine, orders at a fixed rate would always leave something due.
  bool orders_if_few() {
    const bool few = own_->ask("SELECT count(*) FROM " + where_.table("check")) < 6;
    if (few) {
      orders();
    }
    return few;
  }

  void approve() {
    const std::size_t which = pick(open_.size());
    const auto& [id, kind] = open_[which];
    own_->begin();
    if (own_->cancel(kind, id) == timing_wheel::cancel_result::cancelled) {
      own_->run("UPDATE orders SET approved=1 WHERE id='" + id + "'");
    }
    own_->commit();
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    if (open_.size() > 20) {
      open_.erase(open_.begin(), open_.begin() + 10);
    }
  }

  [[nodiscard]] std::unique_ptr<rig::child_process> start(const std::string& plan, bool apart,
                                                          const std::string& told = "/dev/null") const {
    return std::make_unique<rig::child_process>(
        std::vector<std::string>{"/bin/sh", "-c", R"(TIMING_WHEEL_FAIL_POINT=$1 exec "$0" "$4" "$2" 2>"$3")", program_,
                                 plan, where_.argument(), told, apart ? apart_worker : worker});
  }

  static void expect_good(std::optional<int> status) {
    if (status != 0) {
      throw std::runtime_error("a worker ended with status " + std::to_string(status.value_or(-1)));
    }
  }

  // Approves while the worker is on its way. Until one has died at a point, each dies at its first pass there: a worker
  // that takes all that is due in one transaction passes some points once.
  void die(const std::string& point, const std::string& action) {
    where_.end_holds(*own_);
    const std::size_t pass = deaths_[point] == 0 ? 1 : 1 + pick(3);
    const bool apart = deaths_[point] == 0 || point == end_waits || one_in(2);
    const auto child = start(point + ":" + action + ":" + std::to_string(pass), apart);
    std::optional<int> status;
    int approvals = 5;                         // else those who wait for long find nothing
    int later = point == end_waits ? 200 : 0;  // times that orders come, so that some are due when nothing else is
    while (!(status = child->status(WNOHANG | WUNTRACED))) {
      std::this_thread::sleep_for(1ms);
      if (action == "stop") {  // it may hold the lock for ever
        continue;
      }
      if (later > 0 && orders_if_few()) {
        --later;
      }
      if (approvals > 0 && one_in(10)) {
        --approvals;
        approve();
      }
      if (open_.size() < 5) {
        orders();
      }
    }
    if (WIFSTOPPED(*status)) {
      ++deaths_[point];
      std::this_thread::sleep_for(lease + 20ms);
      where_.end_holds(*own_);
      const auto other = start("none:kill:1", one_in(2));
      std::this_thread::sleep_for(10ms);
      child->send(SIGCONT);
      child->status();
      expect_good(other->status());
    } else if (WIFSIGNALED(*status) && WTERMSIG(*status) == SIGKILL) {
      ++deaths_[point];
    } else {
      expect_good(status);
    }
  }

  void live() {
    where_.end_holds(*own_);
    expect_good(start("none:kill:1", one_in(2))->status());
  }

  const std::string program_;
  rig::site& where_;
  std::mt19937_64 random_;
  std::unique_ptr<rig::database> own_;
  std::vector<std::string> points_;
  std::map<std::string, std::uint64_t> deaths_;
  std::vector<std::pair<std::string, std::string>> open_;  // id and kind of some that may be approved
  std::uint64_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.size() == 2 && (arguments[0] == worker || arguments[0] == apart_worker)) {
      return work(*rig::site_of(arguments[1]), arguments[0] == apart_worker);
    }
    const bool on_server = arguments.size() >= 2 && arguments[0] == "--store" && arguments[1] == "postgres";
    const std::size_t named = on_server ? 2 : 1;
    if (arguments.size() < named || arguments.size() > named + 1 || (!on_server && arguments[0].starts_with("--"))) {
      std::cerr << "usage: durable_torture FILE [ROUNDS]\n       durable_torture --store postgres [ROUNDS]\n";
      return 2;
    }
    const int rounds = arguments.size() > named ? std::stoi(arguments[named]) : 100;
    const std::uint64_t seed = std::random_device()();
    std::cout << "seed: " << seed << '\n';
    const auto where = on_server ? rig::private_site() : rig::site_of("sqlite:" + arguments[0]);
    torture all(std::filesystem::read_symlink("/proc/self/exe"), *where, seed);
    const auto begin = std::chrono::steady_clock::now();
    all.run(rounds);
    const bool good = all.judge();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::cout << "rounds: " << rounds << " in " << took.count() << " s\n" << (good ? "exact\n" : "NOT EXACT\n");
    return good ? 0 : 1;
  } catch (const std::exception& failed) {
    std::cerr << "durable_torture: " << failed.what() << '\n';
    return 1;
  }
}

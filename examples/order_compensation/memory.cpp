#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <thread>
#include <utility>

#include "jobs.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using steady = std::chrono::steady_clock;
using timing_wheel::time_point;

/// Orders are created in batches: the clock is read, the approver told, and the progress shown once for each.
constexpr std::uint64_t batch_size = 4096;

/// What both jobs count themselves, to be compared with what the service says.
struct counts {
  std::uint64_t orders = 0;  ///< Each reserved stock and scheduled a check.
  std::uint64_t cancelled = 0;
  std::uint64_t fired = 0;
  std::uint64_t pending = 0;         ///< Checks that neither fired nor were cancelled before the end.
  std::uint64_t late_approvals = 0;  ///< Approvals of orders whose stock had been given back, or was about to be.
  std::uint64_t early = 0;           ///< Checks that ran before their time. Must be 0.
  std::uint64_t peak_pending = 0;
};

void write_counts(report& all, const counts& own) {
  all.count("cancelled by approval", "cancelled", own.cancelled);
  all.count("fired", "fired", own.fired);
  all.count("still pending", "pending", own.pending);
  all.count("approved too late", "late_approvals", own.late_approvals);
  all.count("fired early", "early", own.early);
}

void write_costs(report& all, const counts& own, const timing_wheel::histogram& late, std::uint64_t wakeups,
                 std::uint64_t bytes) {
  const auto at = [&](nanoseconds value) { return std::chrono::duration<double, std::micro>(value).count(); };
  all.lateness("lateness", "lateness_us",
               late.count() == 0 ? std::vector<double>{}
                                 : std::vector{at(late.quantile(0.5)), at(late.quantile(0.99)), at(late.max())},
               "us");
  all.count("wake-ups", "wakeups", wakeups);
  all.count("most pending at once", "peak_pending", own.peak_pending);
  all.line("memory of the service", with_decimals(static_cast<double>(bytes) / 0x1p20, 1), "MiB");
  all.figures["peak_bytes"] = bytes;
  // What a check costs if most of them are pending at once, as live; a replay uses the memory again.
  all.figures["bytes_per_check"] = own.orders == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(own.orders);
}

/// Notes as a problem whatever the service and the job do not agree on, and an early check.
void audit(report& all, const counts& own, const timing_wheel::timer_stats& service) {
  const auto compare = [&](const std::string& what, std::uint64_t job, std::uint64_t other) {
    if (job != other) {
      all.problems.push_back(what + ": the job counted " + grouped(job) + ", the timer service " + grouped(other));
    }
  };
  compare("orders", own.orders, service.scheduled);
  compare("cancelled", own.cancelled, service.cancelled);
  compare("fired", own.fired, service.fired);
  compare("pending", own.pending, service.returned + service.pending);
  all.verdict("early", own.early == 0 ? "none" : grouped(own.early) + " checks", own.early == 0);
  if (own.early != 0) {
    all.problems.emplace_back("checks ran before their time");
  }
  if (service.failed != 0) {
    all.problems.push_back("checks that threw: " + grouped(service.failed));
  }
}

/// Memory of this process; 0 where the kernel does not tell.
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  return statm >> size >> resident ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

class live_job {
 public:
  live_job(const options& chosen, common::progress& shown, const std::atomic<bool>& stop)
      : options_(chosen),
        progress_(shown),
        stop_(stop),
        ledger_(chosen.checks),
        waits_(chosen.checks),
        created_at_(chosen.checks / batch_size + 1),
        checks_(chosen.checks),
        timer_(chosen.timer) {
    plan_approvals();
  }

  void run(report& all) {
    {
      std::jthread approver([this] { approve_orders(); });
      create_orders();
      wait_for_the_end();
      over_ = true;
    }
    own_.pending = timer_.stop().size();
    const timing_wheel::timer_stats service = timer_.stats();
    own_.early = std::max(own_.early, service.early);
    all.interrupted = stop_;
    all.count("orders", "orders", own_.orders);
    all.line("created per second", grouped(per_second(own_.orders, creating_)));
    all.figures["created_per_s"] = per_second(own_.orders, creating_);
    write_counts(all, own_);
    write_costs(all, own_, service.lateness, service.wakeups, std::max<std::uint64_t>(bytes_, service.bytes));
    all.line("memory per check", with_decimals(all.figures["bytes_per_check"], 1), "bytes");
    all.line("process grew by", with_decimals(static_cast<double>(growth_) / 0x1p20, 1), "MiB");
    all.figures["resident_growth_bytes"] = growth_;
    all.stock(ledger_.balance(goods_of));
    audit(all, own_, service);
  }

 private:
  [[nodiscard]] bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  /// Selection sampling: exactly 95 % are approved, and every set of orders is as likely as any other.
  void plan_approvals() {
    std::mt19937_64 random(options_.seed);
    const std::uint64_t orders = options_.checks;
    std::uint64_t wanted = orders / 100 * 95 + orders % 100 * 95 / 100;
    for (std::uint64_t i = 0; i < orders && !stopping(); ++i) {
      if (random() % (orders - i) < wanted) {
        waits_[i] = static_cast<std::uint32_t>(random() >> 32) | 1U;
        --wanted;
      }
    }
  }

  // The creating thread.

  void create_orders() {
    const std::uint64_t resident_before = resident_bytes();
    const auto begin = steady::now();
    for (std::uint64_t first = 0; first < options_.checks && !stopping(); first += batch_size) {
      create_batch(first, std::min(first + batch_size, options_.checks));
    }
    creating_ = steady::now() - begin;
    bytes_ = timer_.stats().bytes;
    growth_ = std::max(resident_bytes(), resident_before) - resident_before;
    all_created_ = true;
  }

  void create_batch(std::uint64_t first, std::uint64_t end) {
    created_at_[first / batch_size] = steady::now();
    for (std::uint64_t i = first; i < end; ++i) {
      const auto order = static_cast<order_index>(i);
      ledger_.reserve(order, goods_of(order));
      checks_[order] = timer_.schedule_after(options_.delay, [this, order] { check(order); });
    }
    own_.orders = end;
    own_.peak_pending = std::max<std::uint64_t>(own_.peak_pending, timer_.pending());
    created_.store(end, std::memory_order_release);
    if (progress_.due()) {
      progress_.show("created " + grouped(end) + " of " + grouped(options_.checks) + " checks");
    }
  }

  void wait_for_the_end() {
    while (!stopping() && (!approver_ended_ || timer_.pending() != 0)) {
      std::this_thread::sleep_for(20ms);
      if (progress_.due()) {
        progress_.show(grouped(timer_.pending()) + " of " + grouped(own_.orders) + " checks pending");
      }
    }
  }

  // The approver's thread.

  void approve_orders() {
    std::map<steady::time_point, std::vector<order_index>> due;  // each millisecond
    for (std::uint64_t seen = 0; !over_; std::this_thread::sleep_for(1ms)) {
      const bool last = all_created_;
      for (const std::uint64_t created = created_.load(std::memory_order_acquire); seen < created; ++seen) {
        if (waits_[seen] != 0) {
          due[std::chrono::ceil<std::chrono::milliseconds>(approved_at(seen))].push_back(
              static_cast<order_index>(seen));
        }
      }
      for (const auto now = steady::now(); !due.empty() && due.begin()->first <= now; due.erase(due.begin())) {
        std::for_each(due.begin()->second.begin(), due.begin()->second.end(), [this](order_index i) { approve(i); });
      }
      if (last && due.empty()) {
        break;
      }
    }
    approver_ended_ = true;
  }

  [[nodiscard]] steady::time_point approved_at(std::uint64_t i) const {
    const double share = 0.9 * 0x1p-32 * static_cast<double>(waits_[i]);
    return created_at_[i / batch_size] + std::chrono::duration_cast<nanoseconds>(options_.delay * share);
  }

  void approve(order_index i) {
    if (checks_[i].cancel() == timing_wheel::cancel_result::cancelled) {
      ++own_.cancelled;
      ledger_.confirm(i, goods_of(i));
    } else {
      ++own_.late_approvals;
    }
  }

  // The service's poller.

  void check(order_index i) {
    // The batch was begun before the check was scheduled, so this is a bound that does not rely on the service.
    own_.early += steady::now() < created_at_[i / batch_size] + options_.delay ? 1U : 0U;
    ++own_.fired;
    ledger_.give_back(i, goods_of(i));
  }

  const options& options_;
  common::progress& progress_;
  const std::atomic<bool>& stop_;
  ledger ledger_;
  std::vector<std::uint32_t> waits_;  // a part of the time in which approvals come, in units of 2^-32; 0: never
  counts own_;                        // each member is of one thread until that has ended

  // Creating thread only, until `created_` says so.
  std::vector<steady::time_point> created_at_;  // of each batch
  std::vector<timing_wheel::timer_handle> checks_;
  std::atomic<std::uint64_t> created_{0};
  nanoseconds creating_{};
  std::uint64_t bytes_ = 0;
  std::uint64_t growth_ = 0;

  std::atomic<bool> all_created_{false};
  std::atomic<bool> approver_ended_{false};
  std::atomic<bool> over_{false};
  timing_wheel::timer timer_;  // last: its callbacks use the others
};

class replay_job {
 public:
  replay_job(const options& chosen, std::uint64_t orders, order_plan plan, common::progress& shown,
             const std::atomic<bool>& stop)
      : options_(chosen),
        plan_(std::move(plan)),
        next_(plan_()),
        progress_(shown),
        stop_(stop),
        deadlines_(orders),
        checks_(orders),
        ledger_(orders),
        timer_(chosen.timer, next_ ? time_point(next_->at) : time_point()) {}

  void run(report& all) {
    replay_events(all);
    if (!all.interrupted) {
      timer_.advance_to(timing_wheel::saturating_add(last_deadline_, options_.timer.tick));
    }
    own_.pending = timer_.stop().size();
    const timing_wheel::timer_stats service = timer_.stats();
    own_.early = std::max(own_.early, service.early);
    all.count("orders", "orders", own_.orders);
    all.line("replayed per second", grouped(per_second(own_.orders, all.elapsed())));
    all.line("malformed rows", grouped(all.malformed));
    write_counts(all, own_);
    write_costs(all, own_, late_, service.wakeups, service.bytes);
    all.stock(ledger_.balance(goods_of));
    audit(all, own_, service);
  }

 private:
  using approval = std::pair<nanoseconds, order_index>;

  /// At one instant purchases go before approvals.
  void replay_events(report& all) {
    constexpr std::uint64_t often = 1024;
    for (std::uint64_t steps = 1; next_ || !approvals_.empty(); ++steps) {
      if (next_ && (approvals_.empty() || next_->at <= approvals_.top().first)) {
        place(*next_);
        next_ = plan_();
      } else {
        approve(all, approvals_.top());
        approvals_.pop();
      }
      if (steps % often == 0) {
        all.interrupted = stop_.load(std::memory_order_relaxed);
        if (all.interrupted) {
          return;
        }
        if (progress_.due()) {
          progress_.show("replayed " + grouped(own_.orders) + " of " + grouped(checks_.size()) + " orders, " +
                         grouped(timer_.pending()) + " checks pending");
        }
      }
    }
  }

  /// What is due at this very instant waits, so that an approval at the deadline still cancels.
  void advance_until(nanoseconds when) { timer_.advance_to(time_point(when) - 1ns); }

  void place(const planned_order& what) {
    advance_until(what.at);
    const auto i = static_cast<order_index>(own_.orders++);
    deadlines_[i] = timing_wheel::saturating_add(time_point(what.at), options_.delay);
    last_deadline_ = std::max(last_deadline_, deadlines_[i]);
    ledger_.reserve(i, goods_of(i));
    checks_[i] = timer_.schedule_at(std::chrono::sys_time<nanoseconds>(deadlines_[i].time_since_epoch()),
                                    [this, i] { check(i); });
    own_.peak_pending = std::max(own_.peak_pending, own_.orders - own_.cancelled - own_.fired);
    if (what.approved) {
      approvals_.emplace(*what.approved, i);
    }
  }

  void approve(report& all, const approval& what) {
    const auto [when, i] = what;
    advance_until(when);
    if (time_point(when) > deadlines_[i]) {
      ++own_.late_approvals;
    } else if (checks_[i].cancel() == timing_wheel::cancel_result::cancelled) {
      ++own_.cancelled;
      ledger_.confirm(i, goods_of(i));
    } else {
      all.problems.emplace_back("an approval in time did not cancel its check");
    }
  }

  void check(order_index i) {
    const nanoseconds lateness = timer_.now() - deadlines_[i];
    own_.early += lateness < 0ns ? 1U : 0U;
    late_.record(lateness);
    ++own_.fired;
    ledger_.give_back(i, goods_of(i));
  }

  const options& options_;
  order_plan plan_;
  std::optional<planned_order> next_;
  common::progress& progress_;
  const std::atomic<bool>& stop_;
  std::vector<time_point> deadlines_;
  std::vector<timing_wheel::timer_handle> checks_;
  std::priority_queue<approval, std::vector<approval>, std::greater<>> approvals_;
  ledger ledger_;
  counts own_;
  timing_wheel::histogram late_;
  time_point last_deadline_ = time_point::min();
  timing_wheel::manual_timer timer_;  // last: its callbacks use the others
};

}  // namespace

void run_live(report& all, const options& chosen, common::progress& shown, const std::atomic<bool>& stop) {
  live_job(chosen, shown, stop).run(all);
}

void replay(report& all, const options& chosen, const std::vector<order>& orders, common::progress& shown,
            const std::atomic<bool>& stop) {
  if (!orders.empty() && chosen.repeat > max_orders / orders.size()) {
    throw common::usage_error("--repeat: more than " + grouped(max_orders) + " orders");
  }
  replay_job(chosen, orders.size() * chosen.repeat, recorded_plan(orders, chosen.repeat), shown, stop).run(all);
}

}  // namespace order_compensation

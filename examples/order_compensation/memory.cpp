#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <thread>
#include <utility>

#include "jobs.hpp"

namespace order_compensation {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using timing_wheel::time_point;

/// Memory of this process; 0 where the kernel does not tell.
std::uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  return statm >> size >> resident ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// What both jobs do with an order, and count themselves, to be compared with what the service says.
///
/// Thread safety: `check` is called by the thread of the service, `confirm` by one thread, the others by that of the
/// job.
template <class Timer>
class job {
 public:
  template <class... Start>
  job(const options& chosen, std::uint64_t orders, common::progress& shown, const std::atomic<bool>& stop,
      Start... start)
      : options_(chosen),
        progress_(shown),
        stop_(stop),
        deadlines_(orders),
        checks_(orders),
        ledger_(orders),
        timer_(chosen.timer, start...) {}

 protected:
  [[nodiscard]] bool stopping() const { return stop_.load(std::memory_order_relaxed); }

  order_index reserve(time_point deadline) {
    const auto i = static_cast<order_index>(orders_++);
    deadlines_[i] = deadline;
    ledger_.reserve(i, goods_of(i));
    return i;
  }
  void note_peak() { peak_pending_ = std::max<std::uint64_t>(peak_pending_, timer_.pending()); }

  /// \returns whether the check was cancelled; else it has run.
  bool confirm(order_index i) {
    const bool in_time = checks_[i].cancel() == timing_wheel::cancel_result::cancelled;
    if (in_time) {
      ++cancelled_;
      ledger_.confirm(i, goods_of(i));
    }
    return in_time;
  }

  void check(order_index i, time_point now) {
    early_ += now < deadlines_[i] ? 1U : 0U;
    ++fired_;
    ledger_.give_back(i, goods_of(i));
  }

  timing_wheel::timer_stats stop(report& all) {
    pending_ = timer_.stop().size();
    timing_wheel::timer_stats service = timer_.stats();
    early_ = std::max(early_, service.early);
    all.count("orders", "orders", orders_);
    return service;
  }

  void write_counts(report& all) const {
    all.count("cancelled by approval", "cancelled", cancelled_);
    all.count("fired", "fired", fired_);
    all.count("still pending", "pending", pending_);
    all.count("approved too late", "late_approvals", late_approvals_);
    all.count("fired early", "early", early_);
  }

  void write_costs(report& all, const timing_wheel::histogram& late, std::uint64_t bytes) const {
    const auto at = [](nanoseconds value) { return std::chrono::duration<double, std::micro>(value).count(); };
    all.lateness("lateness", "lateness_us",
                 late.count() == 0 ? std::vector<double>{}
                                   : std::vector{at(late.quantile(0.5)), at(late.quantile(0.99)), at(late.max())},
                 "us");
    all.count("most pending at once", "peak_pending", peak_pending_);
    all.line("memory of the service", with_decimals(static_cast<double>(bytes) / 0x1p20, 1), "MiB");
    all.figures["peak_bytes"] = bytes;
    // What a check costs if most of them are pending at once, as live; a replay uses the memory again.
    all.figures["bytes_per_check"] = orders_ == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(orders_);
  }

  /// Notes as a problem whatever the service and the job do not agree on, and an early check.
  void audit(report& all, const timing_wheel::timer_stats& service) const {
    all.stock(ledger_.balance(goods_of));
    const auto compare = [&](const std::string& what, std::uint64_t own, std::uint64_t other) {
      if (own != other) {
        all.problems.push_back(what + ": the job counted " + grouped(own) + ", the timer service " + grouped(other));
      }
    };
    compare("orders", orders_, service.scheduled);
    compare("cancelled", cancelled_, service.cancelled);
    compare("fired", fired_, service.fired);
    compare("pending", pending_, service.returned + service.pending);
    all.verdict("early", early_ == 0 ? "none" : grouped(early_) + " checks", early_ == 0);
    all.expect_none(early_, "checks ran before their time");
    all.expect_none(service.failed, "checks threw");
  }

  const options& options_;
  common::progress& progress_;
  const std::atomic<bool>& stop_;
  std::vector<time_point> deadlines_;
  std::vector<timing_wheel::timer_handle> checks_;
  std::map<time_point, std::vector<order_index>> approvals_;  // to come
  std::uint64_t orders_ = 0;                                  // each reserved stock and scheduled a check
  std::uint64_t late_approvals_ = 0;  // of orders whose stock had been given back, or was about to be

 private:
  std::uint64_t cancelled_ = 0;
  std::uint64_t fired_ = 0;    // by the service's thread
  std::uint64_t early_ = 0;    // by the same: checks that ran before their time, which must not be
  std::uint64_t pending_ = 0;  // checks that neither fired nor were cancelled before the end
  std::uint64_t peak_pending_ = 0;
  ledger ledger_;

 protected:
  Timer timer_;  // last: its callbacks use the others
};

class live_job : job<timing_wheel::timer> {
 public:
  live_job(const options& chosen, common::progress& shown, const std::atomic<bool>& stop)
      : job(chosen, chosen.checks, shown, stop), waits_(chosen.checks) {
    plan_approvals();
  }

  void run(report& all) {
    {
      const std::jthread approver([this](const std::stop_token& over) { approve_orders(over); });
      create_orders();
      while (!stopping() && (!all_approved_ || timer_.pending() != 0)) {
        std::this_thread::sleep_for(20ms);
        if (progress_.due()) {
          progress_.show(grouped(timer_.pending()) + " of " + grouped(orders_) + " checks pending");
        }
      }
    }
    const timing_wheel::timer_stats service = stop(all);
    all.interrupted = stopping();
    all.line("created per second", grouped(per_second(orders_, creating_)));
    all.figures["created_per_s"] = per_second(orders_, creating_);
    write_counts(all);
    write_costs(all, service.lateness, std::max<std::uint64_t>(bytes_, service.bytes));
    all.count("wake-ups", "wakeups", service.wakeups);
    all.line("memory per check", with_decimals(all.figures["bytes_per_check"], 1), "bytes");
    all.line("process grew by", with_decimals(static_cast<double>(growth_) / 0x1p20, 1), "MiB");
    all.figures["resident_growth_bytes"] = growth_;
    audit(all, service);
  }

 private:
  static time_point now() { return std::chrono::steady_clock::now(); }

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

  void create_orders() {
    const std::uint64_t resident_before = resident_bytes();
    while (orders_ < options_.checks && !stopping()) {
      create_batch();
      created_.store(orders_, std::memory_order_release);
    }
    all_created_ = true;
    bytes_ = timer_.stats().bytes;
    growth_ = std::max(resident_bytes(), resident_before) - resident_before;
  }

  /// The clock is read, and the progress is shown, once for each batch. It begins before its
  /// checks are scheduled, so the deadline is a bound that does not rely on the service.
  void create_batch() {
    constexpr std::uint64_t batch_size = 4096;
    const std::uint64_t end = std::min(orders_ + batch_size, options_.checks);
    const time_point begin = now();
    while (orders_ < end) {
      const order_index order = reserve(timing_wheel::saturating_add(begin, options_.delay));
      checks_[order] = timer_.schedule_after(options_.delay, [this, order] { check(order, now()); });
    }
    creating_ += now() - begin;
    note_peak();
    if (progress_.due()) {
      progress_.show("created " + grouped(end) + " of " + grouped(options_.checks) + " checks");
    }
  }

  // The approver's thread.

  void approve_orders(const std::stop_token& over) {
    for (std::uint64_t seen = 0; !over.stop_requested(); std::this_thread::sleep_for(1ms)) {
      const bool last = all_created_;
      for (const std::uint64_t created = created_.load(std::memory_order_acquire);
           seen < created && !over.stop_requested(); ++seen) {
        await_approval(static_cast<order_index>(seen));
      }
      approve_due();
      if (last && approvals_.empty()) {
        break;
      }
    }
    all_approved_ = true;
  }

  void await_approval(order_index i) {
    if (waits_[i] != 0) {
      const double left = 1 - 0.9 * 0x1p-32 * static_cast<double>(waits_[i]);
      const time_point at = deadlines_[i] - std::chrono::duration_cast<nanoseconds>(options_.delay * left);
      approvals_[std::chrono::ceil<std::chrono::milliseconds>(at)].push_back(i);
    }
  }

  void approve_due() {
    const auto end = approvals_.upper_bound(now());
    for (auto each = approvals_.begin(); each != end; each = approvals_.erase(each)) {
      for (const order_index i : each->second) {
        late_approvals_ += confirm(i) ? 0U : 1U;
      }
    }
  }

  std::vector<std::uint32_t> waits_;  // a part of the time in which approvals come, in units of 2^-32; 0: never
  std::atomic<std::uint64_t> created_{0};
  std::atomic<bool> all_created_{false};
  std::atomic<bool> all_approved_{false};
  nanoseconds creating_{};
  std::uint64_t bytes_ = 0;
  std::uint64_t growth_ = 0;
};

class replay_job : job<timing_wheel::manual_timer> {
 public:
  replay_job(const options& chosen, std::uint64_t orders, order_plan plan, std::optional<planned_order> first,
             common::progress& shown, const std::atomic<bool>& stop)
      : job(chosen, orders, shown, stop, first ? time_point(first->at) : time_point()),
        plan_(std::move(plan)),
        next_(first) {}

  void run(report& all) {
    replay_events(all);
    if (!all.interrupted) {
      timer_.advance_to(timing_wheel::saturating_add(last_deadline_, options_.timer.tick));
    }
    const timing_wheel::timer_stats service = stop(all);
    all.line("replayed per second", grouped(per_second(orders_, all.elapsed())));
    all.line("malformed rows", grouped(all.malformed));
    write_counts(all);
    write_costs(all, late_, service.bytes);
    audit(all, service);
  }

 private:
  /// At one instant purchases go before approvals.
  void replay_events(report& all) {
    constexpr std::uint64_t often = 1024;
    for (std::uint64_t steps = 1; next_ || !approvals_.empty(); ++steps) {
      if (next_ && (approvals_.empty() || time_point(next_->at) <= approvals_.begin()->first)) {
        place(*next_);
        next_ = plan_();
      } else {
        const auto now = approvals_.begin();
        for (const order_index i : now->second) {
          approve(all, i, now->first);
        }
        approvals_.erase(now);
      }
      if (steps % often == 0) {
        all.interrupted = stopping();
        if (all.interrupted) {
          return;
        }
        if (progress_.due()) {
          progress_.show("replayed " + grouped(orders_) + " of " + grouped(checks_.size()) + " orders, " +
                         grouped(timer_.pending()) + " checks pending");
        }
      }
    }
  }

  /// What is due at this very instant waits, so that an approval at the deadline still cancels.
  void advance_until(time_point when) { timer_.advance_to(when - 1ns); }

  void place(const planned_order& what) {
    advance_until(time_point(what.at));
    const time_point deadline = timing_wheel::saturating_add(time_point(what.at), options_.delay);
    last_deadline_ = std::max(last_deadline_, deadline);
    const order_index i = reserve(deadline);
    checks_[i] = timer_.schedule_at(std::chrono::sys_time<nanoseconds>(deadline.time_since_epoch()), [this, i] {
      late_.record(timer_.now() - deadlines_[i]);
      check(i, timer_.now());
    });
    note_peak();
    if (what.approved) {
      approvals_[time_point(*what.approved)].push_back(i);
    }
  }

  void approve(report& all, order_index i, time_point when) {
    advance_until(when);
    if (when > deadlines_[i]) {
      ++late_approvals_;
    } else if (!confirm(i)) {
      all.problems.emplace_back("an approval in time did not cancel its check");
    }
  }

  order_plan plan_;
  std::optional<planned_order> next_;
  timing_wheel::histogram late_;
  time_point last_deadline_ = time_point::min();
};

}  // namespace

void run_live(report& all, const options& chosen, common::progress& shown, const std::atomic<bool>& stop) {
  constexpr std::uint64_t bytes_of_check = 96;  // two thirds of them in the service
  common::check_memory("--checks: " + grouped(chosen.checks) + " checks", chosen.checks * bytes_of_check);
  live_job(chosen, shown, stop).run(all);
}

void replay(report& all, const options& chosen, const std::vector<order>& orders, common::progress& shown,
            const std::atomic<bool>& stop) {
  if (!orders.empty() && chosen.repeat > max_orders / orders.size()) {
    throw common::usage_error("--repeat: more than " + grouped(max_orders) + " orders");
  }
  constexpr std::uint64_t bytes_of_order = 24;  // what is kept until the end
  constexpr std::uint64_t bytes_of_copy = 24;
  const std::uint64_t copied = orders.size() * chosen.repeat;
  common::check_memory("--repeat: " + grouped(copied) + " orders",
                       copied * bytes_of_order + chosen.repeat * bytes_of_copy);
  order_plan plan = recorded_plan(orders, chosen.repeat);
  std::optional<planned_order> first = plan();
  replay_job(chosen, copied, std::move(plan), first, shown, stop).run(all);
}

}  // namespace order_compensation

#include "replay.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <string>

#include "options.hpp"

namespace order_compensation {
namespace {

using std::chrono::nanoseconds;
using std::chrono::sys_seconds;
using timing_wheel::time_point;

/// A manual clock shows the time since the epoch of `std::chrono::system_clock`.
time_point clock_time(sys_seconds when) {
  return time_point(timing_wheel::saturating_nanoseconds(when.time_since_epoch()));
}

struct event {
  sys_seconds at;
  order_index order = 0;
  bool is_approval = false;
};

/// Of one copy of the orders, in the order of time; at one instant purchases go before approvals.
std::vector<event> events_of(const std::vector<order>& orders) {
  std::vector<event> events;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    events.push_back({orders[i].purchased, static_cast<order_index>(i), false});
    if (orders[i].approved) {
      events.push_back({*orders[i].approved, static_cast<order_index>(i), true});
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const event& a, const event& b) {
    return a.at != b.at ? a.at < b.at : a.is_approval < b.is_approval;
  });
  return events;
}

/// The next event of one copy.
struct cursor {
  sys_seconds at;
  std::size_t copy = 0;
  std::size_t position = 0;

  friend bool operator>(const cursor& a, const cursor& b) { return a.at != b.at ? a.at > b.at : a.copy > b.copy; }
};

class replay_job {
 public:
  replay_job(const std::vector<order>& orders, const replay_options& options, progress& shown,
             const std::atomic<bool>& interrupted)
      : orders_(orders),
        delay_(options.delay),
        tick_(options.timer.tick),
        copies_(orders.empty() ? 0 : options.repeat),
        progress_(shown),
        interrupted_(interrupted),
        events_(events_of(orders)),
        checks_(orders.size() * copies_),
        ledger_(orders.size() * copies_),
        timer_(options.timer, start()) {
    run_.mode = "replay";
  }

  figures run() {
    replay_events();
    if (!run_.interrupted) {
      timer_.advance_to(timing_wheel::saturating_add(last_deadline_, tick_));
    }
    run_.pending = timer_.stop().size();
    run_.stock = ledger_.balance([this](order_index i) { return goods_of_order(i); });
    audit(run_, timer_.stats());
    return std::move(run_);
  }

 private:
  [[nodiscard]] time_point start() const { return events_.empty() ? time_point() : clock_time(events_.front().at); }

  [[nodiscard]] const order& original(order_index i) const { return orders_[i % orders_.size()]; }
  [[nodiscard]] goods goods_of_order(order_index i) const { return goods_of(original(i).id_hash); }

  /// The check of copy `i / orders` is due so many seconds after that of the original.
  [[nodiscard]] time_point deadline_of(order_index i) const {
    const auto shift = std::chrono::seconds(i / orders_.size());
    return timing_wheel::saturating_add(clock_time(original(i).purchased + shift), delay_);
  }

  void replay_events() {
    std::priority_queue<cursor, std::vector<cursor>, std::greater<>> next;
    for (std::size_t copy = 0; copy < copies_; ++copy) {
      next.push({shifted(0, copy), copy, 0});
    }
    while (!next.empty() && !run_.interrupted) {
      const cursor now = next.top();
      next.pop();
      // What is due at this very instant waits, so that an approval at the deadline still cancels.
      timer_.advance_to(clock_time(now.at) - nanoseconds(1));
      apply(events_[now.position], now.copy);
      if (const std::size_t following = now.position + 1; following < events_.size()) {
        next.push({shifted(following, now.copy), now.copy, following});
      }
      look_up();
    }
  }

  [[nodiscard]] sys_seconds shifted(std::size_t position, std::size_t copy) const {
    return events_[position].at + std::chrono::seconds(copy);
  }

  void apply(const event& what, std::size_t copy) {
    const auto i = static_cast<order_index>(copy * orders_.size() + what.order);
    if (what.is_approval) {
      approve(i, clock_time(what.at + std::chrono::seconds(copy)));
    } else {
      place(i);
    }
  }

  void place(order_index i) {
    ledger_.reserve(i, goods_of_order(i));
    const time_point deadline = deadline_of(i);
    checks_[i] =
        timer_.schedule_at(std::chrono::sys_time<nanoseconds>(deadline.time_since_epoch()), [this, i] { check(i); });
    last_deadline_ = std::max(last_deadline_, deadline);
    ++run_.orders;
    run_.peak_pending = std::max(run_.peak_pending, run_.orders - run_.cancelled - run_.fired);
  }

  void approve(order_index i, time_point now) {
    if (now > deadline_of(i)) {
      ++run_.late_approvals;
    } else if (checks_[i].cancel() == timing_wheel::cancel_result::cancelled) {
      ++run_.cancelled;
      ledger_.confirm(i, goods_of_order(i));
    } else {
      run_.problems.push_back("an approval in time did not cancel its check");
    }
  }

  void check(order_index i) {
    const nanoseconds lateness = timer_.now() - deadline_of(i);
    run_.early += lateness < nanoseconds::zero() ? 1U : 0U;
    run_.lateness.record(lateness);
    ++run_.fired;
    ledger_.give_back(i, goods_of_order(i));
  }

  void look_up() {
    constexpr std::uint64_t often = 1024;
    if (++steps_ % often != 0) {
      return;
    }
    run_.interrupted = interrupted_.load(std::memory_order_relaxed);
    if (progress_.due()) {
      progress_.show("replayed " + grouped(steps_) + " of " + grouped(events_.size() * copies_) + " events, " +
                     grouped(timer_.pending()) + " checks pending");
    }
  }

  const std::vector<order>& orders_;
  const nanoseconds delay_;
  const nanoseconds tick_;
  const std::size_t copies_;
  progress& progress_;
  const std::atomic<bool>& interrupted_;
  const std::vector<event> events_;
  std::vector<timing_wheel::timer_handle> checks_;
  ledger ledger_;
  figures run_;
  time_point last_deadline_ = time_point::min();
  std::uint64_t steps_ = 0;
  timing_wheel::manual_timer timer_;  // last: its callbacks use the others
};

}  // namespace

figures replay(const std::vector<order>& orders, const replay_options& options, progress& shown,
               const std::atomic<bool>& interrupted) {
  if (!orders.empty() && options.repeat > max_orders / orders.size()) {
    throw usage_error("--repeat: more than " + grouped(max_orders) + " orders");
  }
  return replay_job(orders, options, shown, interrupted).run();
}

}  // namespace order_compensation

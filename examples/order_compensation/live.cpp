#include "live.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <fstream>
#include <functional>
#include <mutex>
#include <queue>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace order_compensation {
namespace {

using steady = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Orders are created in batches: the clock is read, the approver told, and the progress shown once for each.
constexpr std::uint64_t batch_size = 4096;

/// How often the approver and the waiting thread look again.
constexpr auto approver_pause = 1ms;
constexpr auto waiting_pause = 20ms;

/// When an order will be approved: after this part of the time in which approvals come, in units of 2^-32.
struct approval {
  std::uint32_t part = 0;
  order_index order = 0;
};

/// The approvals of all orders, those of one batch together and in the order of time.
class approval_plan {
 public:
  /// Stops in the middle if `interrupted` is set, because then no order will be created.
  approval_plan(std::uint64_t orders, std::uint64_t seed, const std::atomic<bool>& interrupted) : begins_{0} {
    std::mt19937_64 random(seed);
    std::uint64_t wanted = orders / 100 * 95 + orders % 100 * 95 / 100;
    approvals_.reserve(wanted);
    for (std::uint64_t i = 0; i < orders && !interrupted.load(std::memory_order_relaxed); ++i) {
      // Selection sampling: exactly as many as wanted, every set of orders as likely as any other.
      if (random() % (orders - i) < wanted) {
        approvals_.push_back({static_cast<std::uint32_t>(random() >> 32), static_cast<order_index>(i)});
        --wanted;
      }
      if ((i + 1) % batch_size == 0 || i + 1 == orders) {
        end_batch();
      }
    }
  }

  [[nodiscard]] std::size_t batches() const { return begins_.size() - 1; }

  [[nodiscard]] std::span<const approval> batch(std::size_t b) const {
    return std::span(approvals_).subspan(begins_[b], begins_[b + 1] - begins_[b]);
  }

 private:
  void end_batch() {
    const auto begin = approvals_.begin() + static_cast<std::ptrdiff_t>(begins_.back());
    std::sort(begin, approvals_.end(), [](const approval& a, const approval& b) { return a.part < b.part; });
    begins_.push_back(approvals_.size());
  }

  std::vector<approval> approvals_;
  std::vector<std::size_t> begins_;
};

/// Memory of this process; none where the kernel does not tell.
std::optional<std::uint64_t> resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  if (!(statm >> size >> resident)) {
    return std::nullopt;
  }
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

goods goods_of_order(order_index i) { return goods_of(hash_of(i)); }

class live_job {
 public:
  live_job(const live_options& options, progress& shown, const std::atomic<bool>& interrupted)
      : options_(options),
        progress_(shown),
        interrupted_(interrupted),
        plan_(options.checks, options.seed, interrupted),
        ledger_(options.checks),
        created_at_(plan_.batches()),
        checks_(options.checks),
        timer_(options.timer) {
    run_.mode = "live";
  }

  figures run() {
    {
      std::jthread approver([this](const std::stop_token& stop) { approve_orders(stop); });
      create_orders();
      wait_for_the_end();
    }
    run_.pending = timer_.stop().size();
    run_.cancelled = cancelled_;
    run_.late_approvals = late_approvals_;
    run_.fired = fired_;
    run_.early = early_;
    run_.stock = ledger_.balance(goods_of_order);
    const timing_wheel::timer_stats service = timer_.stats();
    run_.lateness = service.lateness;
    audit(run_, service);
    return std::move(run_);
  }

 private:
  /// The next approval of one batch.
  struct cursor {
    steady::time_point at;
    std::size_t batch = 0;
    std::size_t position = 0;

    friend bool operator>(const cursor& a, const cursor& b) { return a.at > b.at; }
  };
  using cursors = std::priority_queue<cursor, std::vector<cursor>, std::greater<>>;

  [[nodiscard]] bool stopping() const { return interrupted_.load(std::memory_order_relaxed); }

  // The creating thread.

  void create_orders() {
    const auto resident_before = resident_bytes();
    const auto begin = steady::now();
    for (std::size_t batch = 0; batch < plan_.batches() && !stopping(); ++batch) {
      create_batch(batch);
    }
    run_.creating = steady::now() - begin;
    run_.peak_bytes = timer_.stats().bytes;
    if (const auto resident = resident_bytes(); resident && resident_before) {
      run_.resident_growth = std::max(*resident, *resident_before) - *resident_before;
    }
    publish([this] { all_created_ = true; });
  }

  void create_batch(std::size_t batch) {
    created_at_[batch] = steady::now();
    const std::uint64_t end = std::min((batch + 1) * batch_size, options_.checks);
    for (std::uint64_t i = batch * batch_size; i < end; ++i) {
      const auto order = static_cast<order_index>(i);
      ledger_.reserve(order, goods_of_order(order));
      checks_[order] = timer_.schedule_after(options_.delay, [this, order] { check(order); });
    }
    run_.orders = end;
    run_.peak_pending = std::max<std::uint64_t>(run_.peak_pending, timer_.pending());
    publish([&] { batches_created_ = batch + 1; });
    if (progress_.due()) {
      progress_.show("created " + grouped(end) + " of " + grouped(options_.checks) + " checks");
    }
  }

  template <class Change>
  void publish(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    news_.notify_one();
  }

  void wait_for_the_end() {
    while (!stopping() && (!approver_ended_.load() || timer_.pending() != 0)) {
      std::this_thread::sleep_for(waiting_pause);
      if (progress_.due()) {
        progress_.show(grouped(timer_.pending()) + " of " + grouped(run_.orders) + " checks pending");
      }
    }
    run_.interrupted = stopping();
  }

  // The approver's thread.

  void approve_orders(const std::stop_token& stop) {
    std::vector<cursor> room;
    room.reserve(plan_.batches());
    cursors next(std::greater<>(), std::move(room));
    while (wait_for_approvals(next, stop)) {
      approve_what_is_due(next);
    }
    approver_ended_ = true;
  }

  /// Takes over new batches, and waits until something is due or there is a new batch. \returns false at the end.
  bool wait_for_approvals(cursors& next, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto news = [&] { return batches_taken_ != batches_created_ || (all_created_ && next.empty()); };
    if (next.empty()) {
      news_.wait(lock, stop, news);
    } else {
      news_.wait_until(lock, stop, std::max(next.top().at, steady::now() + approver_pause), news);
    }
    for (; batches_taken_ != batches_created_; ++batches_taken_) {
      push(next, batches_taken_, 0);
    }
    return !stop.stop_requested() && !(all_created_ && next.empty());
  }

  void push(cursors& next, std::size_t batch, std::size_t position) const {
    const std::span<const approval> approvals = plan_.batch(batch);
    if (position < approvals.size()) {
      next.push({created_at_[batch] + time_to_approval(approvals[position]), batch, position});
    }
  }

  [[nodiscard]] std::chrono::nanoseconds time_to_approval(approval what) const {
    const double share = 0.9 * 0x1p-32 * static_cast<double>(what.part);
    return std::chrono::nanoseconds(static_cast<std::int64_t>(share * static_cast<double>(options_.delay.count())));
  }

  void approve_what_is_due(cursors& next) {
    const auto now = steady::now();
    while (!next.empty() && next.top().at <= now) {
      const cursor due = next.top();
      next.pop();
      approve(plan_.batch(due.batch)[due.position].order);
      push(next, due.batch, due.position + 1);
    }
  }

  void approve(order_index i) {
    if (checks_[i].cancel() == timing_wheel::cancel_result::cancelled) {
      ++cancelled_;
      ledger_.confirm(i, goods_of_order(i));
    } else {
      ++late_approvals_;
    }
  }

  // The service's poller.

  void check(order_index i) {
    // The batch was begun before the check was scheduled, so this is a bound that does not rely on the service.
    early_ += steady::now() < created_at_[i / batch_size] + options_.delay ? 1U : 0U;
    ++fired_;
    ledger_.give_back(i, goods_of_order(i));
  }

  const live_options options_;
  progress& progress_;
  const std::atomic<bool>& interrupted_;
  const approval_plan plan_;
  ledger ledger_;

  // Creating thread only, until the batch is published.
  std::vector<steady::time_point> created_at_;
  std::vector<timing_wheel::timer_handle> checks_;
  figures run_;

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable_any news_;
  std::size_t batches_created_ = 0;
  bool all_created_ = false;

  // Approver only, until it has ended.
  std::size_t batches_taken_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t late_approvals_ = 0;
  std::atomic<bool> approver_ended_{false};

  // Poller only, until the service has stopped.
  std::uint64_t fired_ = 0;
  std::uint64_t early_ = 0;

  timing_wheel::timer timer_;  // last: its callbacks use the others
};

}  // namespace

figures run_live(const live_options& options, progress& shown, const std::atomic<bool>& interrupted) {
  return live_job(options, shown, interrupted).run();
}

}  // namespace order_compensation

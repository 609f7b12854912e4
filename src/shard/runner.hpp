#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/timer_core.hpp"
#include "shard/context.hpp"
#include "shard/run_frame.hpp"
#include "shard/shards.hpp"
#include "system/trace_point.hpp"

namespace timing_wheel::detail {

/// When a timer that an executor refused is handed over again.
inline constexpr std::chrono::milliseconds hand_over_retry{1};

template <timer_engine Engine>
class guarded_core;

/// Runs the callbacks of a shard's timers, hands them to the executor, and arms periodic ones again.
///
/// Thread safety: `run_due` is for the driver; the rest may be called from any thread.
template <timer_engine Engine>
class runner final : public due_runner {
 public:
  using core_type = timer_core<Engine>;

  runner(shard& owner, guarded_core<Engine>& timers) : owner_(owner), timers_(timers), context_(*timers.context) {}

  void run_due(tick now, time_point until, std::size_t budget, turns& sum) override {
    if (!has_batch()) {
      if (timer_node* const alone = collect(now, until, budget, sum); alone != nullptr) {
        run_alone(*batch_.begin(), *alone);
        ++sum.ran;
        return;
      }
    } else {
      ++sum.handled;
      sum.more = true;
    }
    if (has_batch()) {
      sum.ran += context_.run_on ? hand_over_batch(budget - sum.ran) : run_batch(until, budget - sum.ran);
    }
  }

  /// Since when the rest of the batch has been due that a budget has left; `never` if there is none. Under the lock.
  [[nodiscard]] tick due_since() const noexcept {
    const std::size_t left = left_.load(std::memory_order_relaxed);
    return left == 0 ? never : timers_.core->due_since(batch_.end() - left, batch_.end());
  }

  std::size_t run_all() override {
    std::size_t ran = 0;
    std::vector<timer_id> ids;
    ids.reserve(max_timers_per_lock);
    timer_number cursor = 0;
    for (bool more = true; more && !context_.process.is_child(); ids.clear()) {
      {
        const std::lock_guard lock(timers_.mutex);
        more = timers_.core != nullptr &&
               timers_.core->list(cursor, [&](timer_id id, const timer_node& /*node*/) { ids.push_back(id); });
      }
      for (const timer_id id : ids) {
        const time_point now = context_.clock.now();
        ran += run_claimed(id, claim_with([&] { return timers_.core->claim_now(id, now); }));
      }
    }
    return ran;
  }

 private:
  /// What an executor is given for a timer that is due. It holds a reference to the shard.
  class handed_over {
   public:
    handed_over(runner* by, timer_id id) noexcept : runner_(by), id_(id) {}
    handed_over(handed_over&& other) noexcept : runner_(std::exchange(other.runner_, nullptr)), id_(other.id_) {}
    handed_over& operator=(handed_over&&) = delete;
    ~handed_over() {
      if (runner_ != nullptr) {
        runner_->give_back(id_);
        runner_->owner_.drop_references(1);
      }
    }

    void operator()() {
      if (runner* const mine = std::exchange(runner_, nullptr); mine != nullptr) {
        mine->run_claimed(id_, mine->claim_due(id_));
        mine->owner_.drop_references(1);
      }
    }

   private:
    runner* runner_;  // null: it was called, or moved from
    timer_id id_;
  };

  // A new batch, whose first timers are offered. One that is alone is claimed instead, since the lock is held anyway.
  // \returns that one, or null.
  timer_node* collect(tick now, time_point until, std::size_t budget, turns& sum) {
    const std::lock_guard lock(timers_.mutex);
    batch_.clear();
    const typename core_type::collected found = timers_.core->collect(now, batch_);
    sum.handled += found.handled;
    sum.more = sum.more || found.more;
    left_.store(batch_.size(), std::memory_order_relaxed);
    if (context_.run_on || batch_.empty()) {
      return nullptr;
    }
    if (batch_.size() == 1 && sum.ran < budget) {
      const time_point present = context_.clock.now();
      timer_node* const alone = present <= last_before(until) ? claim_alone(present) : nullptr;
      if (alone != nullptr) {
        return alone;
      }
    }
    offer_locked();
    return nullptr;
  }
  // Under the lock.
  timer_node* claim_alone(time_point now) noexcept {
    timer_node* const claimed = timers_.core->claim_again(*batch_.begin(), now);
    if (claimed != nullptr) {
      left_.store(0, std::memory_order_relaxed);
      timers_.notify();  // a thread that drains may have waited for the last one to begin
    }
    return claimed;
  }

  [[nodiscard]] bool has_batch() const noexcept { return left_.load(std::memory_order_relaxed) != 0; }

  // \pre `left` is what is left, and not 0.
  timer_id next_in_batch(std::size_t left) noexcept {
    left_.store(left - 1, std::memory_order_relaxed);
    return *(batch_.end() - static_cast<std::ptrdiff_t>(left));
  }

  // One lock for as many callbacks as there are places for offers; a timer can be cancelled until its own begins. What
  // is left of the batch is in the members, so that a callback may drive the service on.
  std::size_t run_batch(time_point until, std::size_t budget) noexcept {
    const time_point last = last_before(until);
    core_type& core = *timers_.core;  // it stays while somebody drives
    offers& offered = core.offered();
    run_frame frame(&context_, &owner_);
    std::size_t ran = 0;
    unsigned ended = offers::nowhere;  // the place of a run that is over, and has not been said to be
    for (;;) {
      if (next_place_ == places_) {
        if (!has_batch()) {
          break;
        }
        offer(std::exchange(ended, offers::nowhere));
      }
      const time_point now = context_.clock.now();
      if (ran == budget || now > last) {
        break;
      }
      const unsigned place = next_place_;
      next_place_ = place + 1;
      left_.store(left_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
      if (!offered.begin(place, now, ended)) {
        continue;
      }
      ended = offers::nowhere;
      if (timers_.has_waiting()) {
        settle();
      }
      timer_node& node = offered.node_of(place);
      core.leave_by_itself(node);
      ++ran;
      const timer_id id = offered.id_of(place);
      frame.next(id);
      const std::uint64_t fillings = fillings_;
      const bool armed_again = run(node, id);
      if (context_.process.is_child()) {
        return ran;
      }
      if (armed_again) {
        continue;
      }
      if (fillings == fillings_) {
        ended = place;
      } else {
        // The callback has driven the service on, and its place among the offers has become another one's.
        const std::lock_guard lock(timers_.mutex);
        timers_.finish(id, node);
      }
    }
    if (ended != offers::nowhere) {
      const std::lock_guard lock(timers_.mutex);
      offered.end(ended);
      core.settle();
      timers_.notify();
    }
    return ran;
  }

  // The next of the batch, when all offers are begun or withdrawn.
  [[gnu::noinline]] void offer(unsigned ended) noexcept {
    const std::lock_guard lock(timers_.mutex);
    if (ended != offers::nowhere) {
      timers_.core->offered().end(ended);
    }
    offer_locked();
    timers_.notify();
  }
  void offer_locked() noexcept {
    const std::size_t left = left_.load(std::memory_order_relaxed);
    places_ = timers_.core->offer(batch_.end() - left, left);
    next_place_ = 0;
    ++fillings_;
  }

  // For threads that wait for the end of a run, or for the last one to begin.
  [[gnu::noinline]] void settle() noexcept {
    const std::lock_guard lock(timers_.mutex);
    timers_.core->settle();
    timers_.notify();
  }

  // The last time at which something may begin; the end of time never comes.
  static time_point last_before(time_point until) noexcept {
    return until == time_point::max() ? until : saturating_add(until, std::chrono::nanoseconds(-1));
  }

  // What is still due of the batch goes to the executor, each with a reference.
  [[gnu::noinline]] std::size_t hand_over_batch(std::size_t budget) noexcept {
    const run_frame frame(&context_, doing::hand_over);
    std::size_t given = 0;
    while (given < budget && !context_.process.is_child()) {
      const std::size_t left = left_.load(std::memory_order_relaxed);
      if (left == 0) {
        break;
      }
      const timer_id id = next_in_batch(left);
      const std::optional<std::uint64_t> tag = reference_if_due(id);
      if (!tag) {
        continue;
      }
      try {
        context_.run_on(task(handed_over(this, id)));
        ++given;
      } catch (...) {
        context_.errors.report("the executor", *tag, context_.clock.now());
      }
    }
    return given;
  }

  // The tag of a timer that is due, and a reference to the shard.
  std::optional<std::uint64_t> reference_if_due(timer_id id) noexcept {
    const std::lock_guard lock(timers_.mutex);
    const std::optional<std::uint64_t> tag = timers_.core->due_tag(id);
    if (tag) {
      owner_.count_reference();
    }
    return tag;
  }

  void give_back(timer_id id) noexcept {
    if (context_.process.is_child()) {
      return;
    }
    const time_point now = context_.clock.now();
    const tick present = context_.scale.floor(now);
    const tick retry = std::max(context_.scale.ceil(saturating_add(now, hand_over_retry)), present + 1);
    std::unique_lock lock(timers_.mutex);
    if (timers_.core != nullptr) {
      timers_.core->give_back(id, retry, present);
      timers_.wake_for_next(lock);
    }
  }

  // `claim()` is called under the lock, if the core is there.
  template <class Claim>
  timer_node* claim_with(Claim claim) noexcept {
    if (context_.process.is_child()) {
      return nullptr;
    }
    const std::lock_guard lock(timers_.mutex);
    if (timers_.core == nullptr) {
      return nullptr;
    }
    timer_node* const claimed = claim();
    timers_.notify_if_drained();
    return claimed;
  }
  timer_node* claim_due(timer_id id) noexcept {
    const time_point now = context_.clock.now();
    timer_node* const claimed = claim_with([&] { return timers_.core->claim(id, now); });
    return claimed != nullptr ? claimed : claim_again(id);
  }
  // The clock is read under the lock, which is else avoided. A periodic timer, or one that was moved, may have become
  // due again since a reading from before; what is due under the lock was due by an earlier reading than this one.
  [[gnu::noinline]] timer_node* claim_again(timer_id id) noexcept {
    return claim_with([&] { return timers_.core->claim_again(id, context_.clock.now()); });
  }

  std::size_t run_claimed(timer_id id, timer_node* node) noexcept {
    if (node == nullptr) {
      return 0;
    }
    run_alone(id, *node);
    return 1;
  }
  // Inline by force: the most frequent run of all, of a timer that is due alone. \pre it was claimed.
  [[gnu::always_inline]] void run_alone(timer_id id, timer_node& node) noexcept {
    run_frame frame(&context_, &owner_, id);
    if (!run(node, id) && !context_.process.is_child()) {
      const std::lock_guard lock(timers_.mutex);
      timers_.finish(id, node);
    }
  }

  // The node is ours while it is running: its callable is called, and destroyed, where it lies.
  // \returns whether the timer is armed again; if not, `finish` must follow. \pre the frame of this run is there.
  [[gnu::always_inline]] bool run(timer_node& node, timer_id id) noexcept {
    TIMING_WHEEL_TRACE_FIRE_BEGIN(&owner_, id, node.tag, node.deadline);
    attempt("a callback", node, [&] { node.callback(borrowed_handle(&owner_, id).get()); });
    TIMING_WHEEL_TRACE_FIRE_END(&owner_, id, node.tag);
    if (node.recurring && !context_.process.is_child() && rearm(node, id)) {
      return true;
    }
    node.callback.reset();
    return false;
  }

  [[gnu::noinline]] bool rearm(timer_node& node, timer_id id) noexcept {
    const time_point now = context_.clock.now();
    std::optional<time_point> next;
    attempt("the rule for the next deadline", node,
            [&] { next = deadline_after_run(node.callback, node.deadline, now); });
    if (!next || context_.process.is_child()) {
      return false;
    }
    const moment when(now, *next, context_.scale);
    std::unique_lock lock(timers_.mutex);
    if (!timers_.core->rearm(id.number, when)) {
      return false;
    }
    timers_.wake_for_next(lock);
    return true;
  }

  template <class Work>
  void attempt(const char* who, const timer_node& node, Work work) noexcept {
    try {
      work();
    } catch (...) {
      report_failure(who, node.tag);
    }
  }
  // \pre in a catch clause.
  [[gnu::noinline]] void report_failure(const char* who, std::uint64_t tag) noexcept {
    if (std::current_exception() == nullptr) {
      report_ended_thread();  // what unwinds is no exception of C++
    }
    if (context_.process.is_child()) {
      return;
    }
    {
      const std::lock_guard lock(timers_.mutex);
      timers_.core->count_failure();
    }
    context_.errors.report(who, tag, context_.clock.now());
  }

  shard& owner_;
  guarded_core<Engine>& timers_;
  service_context& context_;
  // Driver only.
  std::atomic<std::size_t> left_{0};  // at the end of the batch; others read it. Relaxed: the lock publishes the batch
  unsigned places_ = 0;               // how many of the batch are offered
  unsigned next_place_ = 0;           // the first that is neither begun nor found withdrawn
  std::uint64_t fillings_ = 0;        // how often the places were filled anew
  timer_batch batch_;                 // written under the lock
};

}  // namespace timing_wheel::detail

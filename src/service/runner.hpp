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

#include "service/guarded_core.hpp"
#include "service/run_frame.hpp"
#include "service/shard.hpp"

namespace timing_wheel::detail {

/// When a timer that an executor refused is handed over again.
inline constexpr std::chrono::milliseconds hand_over_retry{1};

/// Runs the callbacks of a shard's timers, hands them to the executor, and arms periodic ones again.
///
/// Thread safety: `run_due` is for the driver; the rest may be called from any thread.
template <timer_engine Engine>
class runner {
 public:
  using core_type = timer_core<Engine>;

  runner(shard& owner, guarded_core<Engine>& timers) : owner_(owner), timers_(timers), context_(*timers.context) {
    batch_.reserve(max_timers_per_lock);
  }

  /// As `shard::run_due`.
  shard::share run_due(tick now, time_point until, std::size_t budget) {
    shard::share done;
    if (!has_batch()) {
      const std::lock_guard lock(timers_.mutex);
      batch_.clear();
      const typename core_type::collected found = timers_.core->collect(now, batch_);
      next_ = batch_.data();
      left_.store(batch_.size(), std::memory_order_relaxed);
      done = {found.handled, 0, found.more};
    } else {
      done = {1, 0, true};
    }
    done.ran = context_.run_on ? hand_over_batch(budget) : run_batch(until, budget);
    return done;
  }

  [[nodiscard]] bool has_batch() const noexcept { return left_.load(std::memory_order_relaxed) != 0; }

  /// As `shard::run_all`.
  std::size_t run_all() {
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

  timer_id next_in_batch() noexcept {
    left_.store(left_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
    return *next_++;
  }

  // One lock per callback: it ends the run before and begins the next, so that a timer can be cancelled until its own begins.
  // What is left of the batch is in the members, so that a callback may drive the service on.
  std::size_t run_batch(time_point until, std::size_t budget) noexcept {
    const bool is_bounded = until != time_point::max();
    core_type& core = *timers_.core;  // it stays while somebody drives
    std::size_t ran = 0;
    timer_node* running = nullptr;
    timer_id running_id;
    while (has_batch()) {
      const time_point now = context_.clock.now();
      if (ran == budget || (is_bounded && now >= until)) {
        break;
      }
      const timer_id id = next_in_batch();
      typename core_type::claimed claimed;
      {
        const std::lock_guard lock(timers_.mutex);
        if (running != nullptr) {
          timers_.finish(running_id);
        }
        claimed = core.claim(id, now, false);
        timers_.notify_if_drained();
      }
      running = claimed.too_soon ? claim_again(id) : claimed.node;
      if (running == nullptr) {
        continue;
      }
      running_id = id;
      ++ran;
      if (run(*running, id)) {
        running = nullptr;
      }
      if (context_.process.is_child()) {
        return ran;
      }
    }
    if (running != nullptr) {
      const std::lock_guard lock(timers_.mutex);
      timers_.finish(running_id);
    }
    return ran;
  }

  // What is still due of the batch goes to the executor, each with a reference.
  std::size_t hand_over_batch(std::size_t budget) noexcept {
    const run_frame frame(&context_, doing::hand_over);
    std::size_t given = 0;
    while (has_batch() && given < budget && !context_.process.is_child()) {
      const timer_id id = next_in_batch();
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
      owner_.take_reference();
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
  auto claim_with(Claim claim) noexcept -> decltype(claim()) {
    if (context_.process.is_child()) {
      return {};
    }
    const std::lock_guard lock(timers_.mutex);
    if (timers_.core == nullptr) {
      return {};
    }
    const auto claimed = claim();
    timers_.notify_if_drained();
    return claimed;
  }
  timer_node* claim_due(timer_id id) noexcept {
    const time_point now = context_.clock.now();
    const auto claimed = claim_with([&] { return timers_.core->claim(id, now, false); });
    return claimed.too_soon ? claim_again(id) : claimed.node;
  }
  // With the time of after the lock in which the deadline was seen.
  [[gnu::noinline]] timer_node* claim_again(timer_id id) noexcept {
    const time_point now = context_.clock.now();
    return claim_with([&] { return timers_.core->claim(id, now, true); }).node;
  }

  std::size_t run_claimed(timer_id id, timer_node* node) noexcept {
    if (node == nullptr) {
      return 0;
    }
    if (!run(*node, id) && !context_.process.is_child()) {
      const std::lock_guard lock(timers_.mutex);
      timers_.finish(id);
    }
    return 1;
  }

  // The node is ours while it is running: its callable is called, and destroyed, where it lies.
  // \returns whether the timer is armed again; if not, `finish` must follow.
  bool run(timer_node& node, timer_id id) noexcept {
    const run_frame frame(&context_, &owner_, id);
    attempt("a callback", node, [&] { node.callback(borrowed_handle(&owner_, id).get()); });
    if (node.recurring && !context_.process.is_child() && rearm(node, id)) {
      return true;
    }
    node.callback.reset();
    return false;
  }

  bool rearm(timer_node& node, timer_id id) noexcept {
    const time_point now = context_.clock.now();
    std::optional<time_point> next;
    attempt("the rule for the next deadline", node, [&] { next = node.callback.next(node.deadline, now); });
    if (!next || context_.process.is_child()) {
      return false;
    }
    const moment when = timers_.moment_of(now, *next);
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
      context_.errors.report(who, node.tag, context_.clock.now());
    }
  }

  shard& owner_;
  guarded_core<Engine>& timers_;
  service_context& context_;
  // Driver only.
  std::vector<timer_id> batch_;
  const timer_id* next_ = nullptr;    // in the batch
  std::atomic<std::size_t> left_{0};  // at the end of the batch; others read it. Relaxed: it publishes nothing
};

}  // namespace timing_wheel::detail

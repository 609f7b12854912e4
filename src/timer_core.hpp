#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "admission.hpp"
#include "slab.hpp"
#include "timer_owner.hpp"
#include "timing_wheel/engine.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::detail {

/// A deadline and the present, as the caller's thread worked them out before it took the lock.
struct moment {
  time_point deadline;
  tick deadline_tick = 0;
  tick now = 0;
};

enum class verdict { accepted, stopped, too_many };

/// What a shard says to a new timer.
struct admitted {
  verdict answer = verdict::accepted;
  timer_key key;
};

/// The rules of the service for one shard: which timer is in which state, and what changes it. It is told the time; it neither
/// sleeps, nor locks, nor runs anything.
///
/// A timer's way: free → armed (linked in the engine) or waiting (was due when it came) → due (in a batch) → running → free; and
/// from each state before running back to free by `cancel` and `take`. A batch holds keys, which fit nothing any more once the
/// timer was cancelled.
///
/// Thread safety: none of its own; the mutex of the shard guards all of it.
/// Invariant: scheduled = fired + cancelled + returned + pending, where the pending ones are those armed, waiting or due.
template <timer_engine Engine>
class timer_core {
 public:
  timer_core(const engine_options& options, admission& door) : engine_(options), door_(door) {}

  /// Takes `callback` only if it accepts. Strong guarantee on `std::bad_alloc`.
  admitted add(const moment& when, task& callback, std::uint64_t tag) {
    if (closed_ || !door_.enter()) {
      ++rejected_;
      return {closed_ ? verdict::stopped : verdict::too_many, {}};
    }
    const slot s = arm_new(when);
    timer_node& node = nodes_[s];
    node.callback = std::move(callback);
    node.deadline = when.deadline;
    node.tag = tag;
    ++scheduled_;
    ++pending_;
    return {verdict::accepted, nodes_.key_of(s)};
  }

  /// The callable goes to `doomed`, for the caller to destroy outside the lock.
  cancel_result cancel(timer_key key, task& doomed) noexcept {
    const timer_node* node = nodes_.find(key);
    if (node == nullptr) {
      return cancel_result::finished;
    }
    if (node->state == node_state::running) {
      return cancel_result::running;
    }
    remove(key.where, doomed);
    ++cancelled_;
    return cancel_result::cancelled;
  }

  /// \returns whether it was pending. Strong guarantee on `std::bad_alloc`.
  bool reschedule(timer_key key, const moment& when) {
    timer_node* node = nodes_.find(key);
    if (node == nullptr || node->state == node_state::running) {
      return false;
    }
    engine_.catch_up(when.now);
    engine_.reserve(key.where, when.deadline_tick);
    engine_.erase(key.where);
    link(key.where, when);
    node->deadline = when.deadline;
    return true;
  }

  [[nodiscard]] timer_view look(timer_key key) noexcept {
    const timer_node* node = nodes_.find(key);
    if (node == nullptr) {
      return {};
    }
    return {node->state == node_state::running ? timer_status::running : timer_status::pending, node->deadline,
            node->tag};
  }

  /// Puts the keys of at most `max_timers_per_lock` timers that are due at `now` into `batch`, and does its share of cascading.
  /// \returns how many timers it looked at, and whether there is more to do at once.
  struct collected {
    std::size_t handled = 0;
    bool more = false;
  };
  collected collect(tick now, std::vector<timer_key>& batch) {
    batch.clear();
    batch.reserve(max_timers_per_lock);
    // Whoever waits gets half of each batch, so that a service that cannot keep up starves nobody.
    const std::size_t budget = waiting_.empty() ? max_timers_per_lock : max_timers_per_lock / 2;
    const advance_result result = engine_.advance(now, budget);
    for (const slot s : result.due) {
      nodes_.prefetch(s);
    }
    for (const slot s : result.due) {
      nodes_[s].state = node_state::due;
      batch.push_back(nodes_.key_of(s));
    }
    std::size_t handled = result.handled;
    for (; handled < max_timers_per_lock && !waiting_.empty(); ++handled) {
      const slot s = waiting_.front();
      waiting_.erase(s);
      nodes_[s].state = node_state::due;
      batch.push_back(nodes_.key_of(s));
    }
    largest_hold_ = std::max(largest_hold_, std::uint64_t{handled});
    return {handled, result.more || !waiting_.empty()};
  }

  /// Begins the run of a timer that is due. \returns null if it is not due any more (cancelled, rescheduled, taken), or closed.
  ///
  /// `clock` is read again only if `now` is from before the deadline: the timer may have been rescheduled since.
  template <class Clock>
  timer_node* claim(timer_key key, time_point now, const Clock& clock) noexcept {
    timer_node* node = nodes_.find(key);
    if (closed_ || node == nullptr || node->state != node_state::due) {
      return nullptr;
    }
    if (now < node->deadline) {
      now = clock.now();
    }
    node->state = node_state::running;
    ++fired_;
    --pending_;
    door_.leave();
    early_ += now < node->deadline ? 1U : 0U;
    lateness_.record(saturating_difference(now, node->deadline));
    return node;
  }

  /// Ends the run that `claim` began.
  void finish(slot s, bool failed) noexcept {
    nodes_.release(s);
    failed_ += failed ? 1U : 0U;
  }

  /// Refuses timers, and lets no run begin, from now on.
  void close() noexcept { closed_ = true; }

  /// Takes pending timers out, looking at `max_timers_per_lock` places from `cursor` on. \pre closed, and `left` has room.
  /// \returns whether there are places left.
  bool take(slot& cursor, std::vector<pending_task>& left) noexcept {
    const std::uint64_t taken_before = returned_;
    const slot stop = static_cast<slot>(std::min<std::size_t>(cursor + max_timers_per_lock, nodes_.extent()));
    for (; cursor < stop; ++cursor) {
      const timer_node& node = nodes_[cursor];
      if (node.state != node_state::free && node.state != node_state::running) {
        pending_task& one = left.emplace_back(pending_task{node.deadline, node.tag, task()});
        remove(cursor, one.callback);
        ++returned_;
      }
    }
    largest_hold_ = std::max(largest_hold_, returned_ - taken_before);
    return cursor < nodes_.extent();
  }

  /// When there is something to do next: 0 if at once, `never` if nothing is pending.
  [[nodiscard]] tick next_event() const noexcept {
    return waiting_.empty() ? engine_.next_expiration().value_or(never) : 0;
  }

  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }

  void add_to(timer_stats& sum) const {
    sum.scheduled += scheduled_;
    sum.fired += fired_;
    sum.cancelled += cancelled_;
    sum.returned += returned_;
    sum.pending += pending_;
    sum.rejected += rejected_;
    sum.early += early_;
    sum.failed += failed_;
    sum.largest_hold = std::max(sum.largest_hold, largest_hold_);
    sum.lateness.merge(lateness_);
    const engine_stats wheels = engine_.stats();
    sum.bytes += wheels.bytes + nodes_.bytes();
    sum.moves += wheels.moves();
    merge_levels(wheels.levels, sum.levels);
  }

 private:
  static void merge_levels(const std::vector<level_stats>& from, std::vector<level_stats>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (i == to.size()) {
        to.push_back(from[i]);
        continue;
      }
      to[i].moves += from[i].moves;
      to[i].flushes += from[i].flushes;
      to[i].largest_flush = std::max(to[i].largest_flush, from[i].largest_flush);
      to[i].buckets_queued += from[i].buckets_queued;
    }
  }

  slot arm_new(const moment& when) {
    engine_.catch_up(when.now);
    try {
      const slot s = nodes_.acquire();
      try {
        link(s, when);
        return s;
      } catch (...) {
        nodes_.release(s);
        throw;
      }
    } catch (...) {
      door_.leave();
      throw;
    }
  }

  // Add-or-run: into the engine, whose clock is up to date, or among the waiting. A timer that is in a batch, and still due, stays
  // there.
  void link(slot s, const moment& when) {
    node_state& state = nodes_[s].state;
    if (engine_.insert(s, when.deadline_tick)) {
      if (state == node_state::waiting) {
        waiting_.erase(s);
      }
      state = node_state::armed;
    } else if (state == node_state::free || state == node_state::armed) {
      waiting_.push_back(s);
      state = node_state::waiting;
    }
  }

  void remove(slot s, task& callback) noexcept {
    if (nodes_[s].state == node_state::waiting) {
      waiting_.erase(s);
    } else {
      engine_.erase(s);
    }
    callback = std::move(nodes_[s].callback);
    nodes_.release(s);
    --pending_;
    door_.leave();
  }

  Engine engine_;
  admission& door_;
  slab nodes_;
  waiting_list waiting_{nodes_};
  bool closed_ = false;

  std::uint64_t scheduled_ = 0;
  std::uint64_t fired_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t returned_ = 0;
  std::uint64_t pending_ = 0;
  std::uint64_t rejected_ = 0;
  std::uint64_t early_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t largest_hold_ = 0;
  histogram lateness_;
};

}  // namespace timing_wheel::detail

#include "compare/run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <ctime>
#include <span>
#include <utility>

#include "compare/families.hpp"
#include "compare/rules.hpp"
#include "timing_wheel/engine/hashed_wheel.hpp"
#include "timing_wheel/engine/heap_queue.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::compare {
namespace {

using kind = engine_spec::kind;

constexpr std::int64_t timeline_parts = 1800;

/// Scatters the bits of a number, so that sums of such numbers are a digest of a set.
std::uint64_t scatter(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31U);
}

/// A second, or as many parts as a picture can show.
nanoseconds timeline_width(nanoseconds end) {
  const nanoseconds least = end / timeline_parts + nanoseconds(1);
  const nanoseconds second = std::chrono::seconds(1);
  return least <= second && end > 20 * second ? second : least;
}

engine_options options_for(const engine_spec& spec, const engine_shape& shape, tick start) {
  engine_options options;
  if (spec.type == kind::shipped) {
    const timer_options ours;
    options.wheel_size = ours.wheel_size;
    options.wheel_sizes = ours.wheel_sizes;
  } else if (spec.type != kind::heap) {
    options.wheel_size = shape.slots;
  }
  options.start = start;
  return options;
}

/// Calls `work` with what makes the engine that the specification names: a function of the tick that its clock shows.
template <class Work>
void with_engine(const engine_spec& spec, const engine_shape& shape, Work&& work) {
  switch (spec.type) {
    case kind::hashed:
      return work([&](tick start) { return hashed_wheel(options_for(spec, shape, start)); });
    case kind::heap:
      return work([&](tick start) { return heap_queue(options_for(spec, shape, start)); });
    case kind::noncascading:
      return work([&](tick /*start*/) { return noncascading_wheel(shape.slots, shape.levels); });
    case kind::sorted:
      return work([&](tick /*start*/) { return sorted_wheel(shape.slots); });
    case kind::threads:
      return work([&](tick /*start*/) { return polled_wheels(shape.slots, shape.levels); });
    case kind::session:
      return work([&](tick /*start*/) { return session_buckets(); });
    case kind::hierarchical:
    case kind::flat:
    case kind::shipped:
      break;
  }
  work([&](tick start) { return hierarchical_wheel(options_for(spec, shape, start)); });
}

/// Numbers for timers. One that has gone leaves its number to the next that comes, as in the service, so that an
/// engine's memory is for those that are pending.
class number_pool {
 public:
  explicit number_pool(std::size_t timers) : number_of_(timers) {}

  timer_number take(std::uint32_t timer) {
    if (free_.empty()) {
      free_.push_back(static_cast<timer_number>(timer_of_.size()));
      timer_of_.push_back(0);
    }
    const timer_number taken = free_.back();
    free_.pop_back();
    timer_of_[taken] = timer;
    number_of_[timer] = taken;
    return taken;
  }

  [[nodiscard]] timer_number number_of(std::uint32_t timer) const { return number_of_[timer]; }

  /// \returns the timer that had it.
  std::uint32_t give_back(timer_number n) {
    free_.push_back(n);
    return timer_of_.at(n);
  }

 private:
  std::vector<timer_number> number_of_;
  std::vector<std::uint32_t> timer_of_;
  std::vector<timer_number> free_;
};

/// What an advance did, with timers in place of their numbers.
struct progress_made {
  std::size_t handled = 0;
  std::span<const std::uint32_t> due;
};

/// The events of a workload in order, and the engine between them. `Observer` has `added(timer, linked)`,
/// `cancelled(timer, was_linked)` and `woken(when, progress_made)`.
template <class Engine, class Observer>
class driver {
 public:
  driver(const workload& plan, const engine_spec& spec, Engine& engine, Observer& observer)
      : plan_(plan),
        scale_(time_point(), spec.tick),
        window_(scale_.whole_ticks(spec.window)),
        engine_(engine),
        observer_(observer),
        numbers_(plan.timers.size()) {}

  void run() {
    auto cancellation = plan_.cancellations.begin();
    const auto cancel_before = [&](nanoseconds when) {
      for (; cancellation != plan_.cancellations.end() && plan_.timers[*cancellation].cancelled < when;
           ++cancellation) {
        cancel(*cancellation);
      }
    };
    for (std::uint32_t i = 0; i < plan_.timers.size(); ++i) {
      cancel_before(plan_.timers[i].arrival);
      add(i);
    }
    cancel_before(nanoseconds::max());
    wake_until(never - 1);
  }

 private:
  void add(std::uint32_t timer) {
    const planned_timer& planned = plan_.timers[timer];
    const tick now = scale_.floor(time_point(planned.arrival));
    wake_until(now);
    engine_.catch_up(now);
    const timer_number taken = numbers_.take(timer);
    const bool linked = engine_.insert(taken, due_tick(planned));
    if (!linked) {
      numbers_.give_back(taken);
    }
    observer_.added(timer, linked);
  }

  [[nodiscard]] tick due_tick(const planned_timer& planned) const {
    const tick due = scale_.ceil(time_point(planned.due));
    if constexpr (requires { engine_.coalesce(due, window_); }) {
      return window_ == 0 ? due : engine_.coalesce(due, window_);
    }
    return due;
  }

  void cancel(std::uint32_t timer) {
    wake_until(scale_.floor(time_point(plan_.timers[timer].cancelled)));
    const timer_number taken = numbers_.number_of(timer);
    const bool was_linked = engine_.erase(taken);
    if (was_linked) {
      numbers_.give_back(taken);
    }
    observer_.cancelled(timer, was_linked);
  }

  void wake_until(tick now) {
    for (auto next = engine_.next_expiration(); next && *next <= now; next = engine_.next_expiration()) {
      const advance_result did = engine_.advance(*next);
      due_.clear();
      for (const timer_number n : did.due) {
        due_.push_back(numbers_.give_back(n));
      }
      observer_.woken(*next, progress_made{did.handled, due_});
    }
  }

  const workload& plan_;
  tick_scale scale_;
  tick window_;
  Engine& engine_;
  Observer& observer_;
  number_pool numbers_;
  std::vector<std::uint32_t> due_;
};

/// Calls a progress function now and then.
class heartbeat {
 public:
  /// \param progress must outlive this.
  heartbeat(const workload& plan, const progress_function& progress)
      : end_(static_cast<double>(plan.end().count()) + 1), progress_(progress) {}

  /// At each event. \param now returns when that is.
  template <class Now>
  void at(const Now& now) {
    if (constexpr std::uint64_t often = 1U << 16U; ++events_ % often == 0 && progress_) {
      progress_(static_cast<double>(nanoseconds(now()).count()) / end_);
    }
  }

 private:
  double end_;
  const progress_function& progress_;
  std::uint64_t events_ = 0;
};

enum class state : std::uint8_t { coming, pending, fired, cancelled };

/// Counts what the engine does, and looks at each timer that fires.
class counter {
 public:
  counter(const workload& plan, engine_result& result, bool with_trace, const progress_function& progress)
      : plan_(plan),
        result_(result),
        scale_(time_point(), result.spec.tick),
        sizes_(shape_of(plan, result.spec).sizes),
        states_(plan.timers.size(), state::coming),
        beat_(plan, progress),
        tracing_(with_trace) {
    lateness_.reserve(plan.timers.size());
    const time_point latest = saturating_add(time_point(plan.end()), result.spec.window);
    result_.along.width = timeline_width(saturating_add(latest, result.spec.tick).time_since_epoch());
    if (tracing_) {
      result_.traced.emplace();
    }
  }

  void added(std::uint32_t timer, bool linked) {
    ++result_.added;
    beat_.at([&] { return plan_.timers[timer].arrival; });
    states_[timer] = state::pending;
    if (linked) {
      result_.peak_pending = std::max(result_.peak_pending, ++pending_);
    } else {
      ++pending_;
      fire(timer, scale_.floor(time_point(plan_.timers[timer].arrival)));
    }
  }

  void cancelled(std::uint32_t timer, bool was_linked) {
    if (!was_linked || states_[timer] != state::pending) {
      ++result_.refused_cancels;
      return;
    }
    states_[timer] = state::cancelled;
    ++result_.cancelled;
    --pending_;
  }

  void woken(tick when, const progress_made& did) {
    ++result_.wakeups;
    result_.empty_wakeups += did.handled == 0 ? 1U : 0U;
    ++result_.flush_classes[static_cast<std::size_t>(std::bit_width(did.handled))];
    count_along(when, did.handled);
    for (const std::uint32_t timer : did.due) {
      fire(timer, when);
    }
    if (!did.due.empty()) {
      result_.wakeups_while_firing = result_.wakeups - wakeups_before_;
    } else if (result_.fired == 0) {
      wakeups_before_ = result_.wakeups;
    }
    if (tracing_) {
      result_.traced->wakeups.push_back({when, did.handled, {did.due.begin(), did.due.end()}});
    }
    beat_.at([&] { return scale_.begin_of(when).time_since_epoch(); });
  }

  void finish() {
    const auto quantile = [&](double share) {
      const auto rank = static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(lateness_.size()))) - 1;
      const auto place = lateness_.begin() + std::max<std::ptrdiff_t>(rank, 0);
      std::nth_element(lateness_.begin(), place, lateness_.end());
      return *place;
    };
    if (!lateness_.empty()) {
      result_.lateness = {*std::max_element(lateness_.begin(), lateness_.end()), quantile(0.5), quantile(0.99)};
      const auto& [max, p50, p99] = result_.lateness;
      // A deadline is less than a tick before the tick in which it is due, so whole ticks count from there.
      result_.lateness_ticks = {scale_.whole_ticks(max), scale_.whole_ticks(p50), scale_.whole_ticks(p99)};
      count_lateness_parts();
    }
  }

 private:
  /// Of a tick, or if some are later, of the tick of a higher level.
  void count_lateness_parts() {
    constexpr std::int64_t step = noncascading_step;
    nanoseconds width = scale_.tick_length();
    while (result_.lateness.max >= width) {
      width = width > nanoseconds::max() / step ? nanoseconds::max() : width * step;
    }
    result_.lateness_width = width;
    const auto all = static_cast<double>(width.count());
    for (const nanoseconds late : lateness_) {
      const double part = 20 * static_cast<double>(late.count()) / all;  // in 64 bits, 20 times 15 years overflow
      ++result_.lateness_parts[static_cast<std::size_t>(std::clamp(part, 0.0, 19.0))];
    }
  }

  void count_along(tick when, std::size_t handled) {
    const auto part = static_cast<std::size_t>(scale_.begin_of(when).time_since_epoch() / result_.along.width);
    if (part >= result_.along.handled.size()) {
      result_.along.handled.resize(part + 1);
      result_.along.wakeups.resize(part + 1);
    }
    result_.along.handled[part] += handled;
    ++result_.along.wakeups[part];
  }

  void fire(std::uint32_t timer, tick when) {
    if (timer >= states_.size() || states_[timer] != state::pending) {
      ++result_.wrong_timers;
      return;
    }
    states_[timer] = state::fired;
    --pending_;
    const nanoseconds now = scale_.begin_of(when).time_since_epoch();
    const nanoseconds due = plan_.timers[timer].due;
    result_.first_fire = result_.fired++ == 0 ? now : result_.first_fire;
    result_.last_fire = now;
    result_.early += now < due ? 1U : 0U;
    result_.wrong_ticks +=
        when != fires_at(result_.spec, sizes_, in_ticks(plan_.timers[timer], result_.spec.tick)) ? 1U : 0U;
    result_.fired_set += scatter(timer);
    result_.fired_ticks += scatter(timer ^ scatter(when));
    lateness_.push_back(now - due);
  }

  const workload& plan_;
  engine_result& result_;
  tick_scale scale_;
  wheel_sizes sizes_;
  std::vector<state> states_;
  std::vector<nanoseconds> lateness_;
  heartbeat beat_;
  bool tracing_;
  std::size_t pending_ = 0;
  std::uint64_t wakeups_before_ = 0;
};

void take_stats(engine_result& result, const engine_stats& stats) {
  result.levels = stats.levels;
  result.moves = stats.moves();
  result.looks = stats.looks;
  result.heap_operations = stats.heap_operations;
  result.bytes = stats.bytes;
  for (const level_stats& level : stats.levels) {
    result.flush_max = std::max(result.flush_max, level.largest_flush);
    result.heap_pushes += result.spec.type == kind::threads ? 0 : level.buckets_queued;
  }
  if (result.spec.type == kind::heap || result.spec.type == kind::sorted) {
    result.heap_pushes = stats.heap_operations / 2;  // each timer comes and goes
  }
}

/// Notes the moves of a timer that is alone in its engine, so that each difference in the counts is a move of its own.
template <class Engine>
class mover {
 public:
  mover(std::uint32_t timer, const Engine& engine, std::vector<traced_move>& moves)
      : timer_(timer), engine_(engine), moves_(moves) {}

  void added(std::uint32_t /*timer*/, bool /*linked*/) { before_ = engine_.stats(); }
  void cancelled(std::uint32_t /*timer*/, bool /*was_linked*/) {}
  void woken(tick when, const progress_made& did) {
    if (did.handled == 0) {
      return;
    }
    engine_stats after = engine_.stats();
    const auto grown = [&](std::uint64_t level_stats::*count) {
      std::size_t level = 0;
      while (level < before_.levels.size() && after.levels[level].*count == before_.levels[level].*count) {
        ++level;
      }
      return level;
    };
    if (after.moves() != before_.moves()) {
      moves_.push_back({timer_, when, grown(&level_stats::moves), grown(&level_stats::buckets_queued)});
    }
    before_ = std::move(after);
  }

 private:
  std::uint32_t timer_;
  const Engine& engine_;
  std::vector<traced_move>& moves_;
  engine_stats before_;
};

/// Which timers moved when. Timers do not influence each other's moves, so each is driven once more in an engine of its
/// own.
void trace_moves(const workload& plan, const engine_shape& shape, engine_result& result) {
  trace& traced = *result.traced;
  traced.moves_per_timer.resize(plan.timers.size());
  if (result.moves == 0) {
    return;
  }
  const tick_scale scale(time_point(), result.spec.tick);
  workload alone;
  for (std::uint32_t i = 0; i < plan.timers.size(); ++i) {
    alone.timers = {plan.timers[i]};
    alone.cancellations.clear();
    if (plan.timers[i].cancelled != nanoseconds::max()) {
      alone.cancellations.push_back(0);
    }
    const std::size_t before = traced.moves.size();
    with_engine(result.spec, shape, [&](const auto& make) {
      auto engine = make(scale.floor(time_point(plan.timers[i].arrival)));
      mover observer(i, engine, traced.moves);
      driver(alone, result.spec, engine, observer).run();
    });
    traced.moves_per_timer[i] = traced.moves.size() - before;
  }
  std::stable_sort(traced.moves.begin(), traced.moves.end(),
                   [](const traced_move& a, const traced_move& b) { return a.when < b.when; });
}

/// Touches what is due, and tells the progress now and then.
struct bystander {
  void added(std::uint32_t timer, bool linked) {
    fired += linked ? 0U : 1U;
    beat.at([&] { return plan.timers[timer].arrival; });
  }
  void cancelled(std::uint32_t /*timer*/, bool was_linked) { cancels += was_linked ? 1U : 0U; }
  void woken(tick when, const progress_made& did) {
    fired += did.due.size();
    beat.at([&] { return scale.begin_of(when).time_since_epoch(); });
  }

  const workload& plan;
  tick_scale scale;
  heartbeat beat;
  std::uint64_t fired = 0;
  std::uint64_t cancels = 0;
};

/// What this thread has spent on a processor: other programs on the machine do not count.
nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

/// Takes the processor time of steps by the wall clock, which costs no call of the system: their
/// difference grows only while this thread does not run.
class step_clock {
 public:
  [[nodiscard]] static nanoseconds now() noexcept { return std::chrono::steady_clock::now().time_since_epoch(); }

  /// A step is over. For longer than the longest one it counts only as far as this thread ran all the while; where the
  /// thread has paused since the last look, all of the pause is taken to be of this step.
  void over(nanoseconds begin) {
    const nanoseconds end = now();
    const nanoseconds wall = end - begin;
    if (wall <= longest_ && ++unseen_ < 1000) {
      return;
    }
    const nanoseconds pauses = end - processor_time();
    longest_ = std::max(longest_, wall - std::max(pauses - pauses_, nanoseconds(0)));
    pauses_ = pauses;
    unseen_ = 0;
  }
  [[nodiscard]] nanoseconds longest() const noexcept { return longest_; }

  /// What it adds to a step.
  static nanoseconds cost() {
    constexpr std::int64_t looks = 100'000;
    const nanoseconds begin = processor_time();
    nanoseconds last{};  // used, so that the looks are made
    for (std::int64_t i = 0; i < looks; ++i) {
      last = std::max({last, now(), now()});
    }
    return last == nanoseconds(0) ? last : (processor_time() - begin) / looks;
  }

 private:
  nanoseconds longest_{};
  nanoseconds pauses_ = now() - processor_time();
  int unseen_ = 0;
};

/// An engine whose steps are timed, one by one.
template <class Engine>
class stop_watch {
 public:
  explicit stop_watch(Engine& engine) : engine_(engine) {}

  bool insert(timer_number s, tick deadline) { return engine_.insert(s, deadline); }
  bool erase(timer_number s) noexcept { return engine_.erase(s); }
  void catch_up(tick now) noexcept { engine_.catch_up(now); }
  advance_result advance(tick now) {
    const nanoseconds begin = step_clock::now();
    const advance_result result = engine_.advance(now);
    clock.over(begin);
    ++steps;
    return result;
  }
  [[nodiscard]] std::optional<tick> next_expiration() const noexcept { return engine_.next_expiration(); }
  [[nodiscard]] tick coalesce(tick deadline, tick window) const noexcept requires timer_engine<Engine> {
    return engine_.coalesce(deadline, window);
  }

  step_clock clock;
  std::uint64_t steps = 0;

 private:
  Engine& engine_;
};

}  // namespace

std::optional<double> engine_result::wakeups_per_second() const {
  if (last_fire <= first_fire) {
    return std::nullopt;
  }
  return static_cast<double>(wakeups_while_firing) / std::chrono::duration<double>(last_fire - first_fire).count();
}

engine_result run_engine(const workload& plan, const engine_spec& spec, bool with_trace,
                         const progress_function& progress) {
  if (with_trace && plan.timers.size() > max_traced) {
    throw usage_error("--trace: " + std::to_string(plan.timers.size()) + " timers are too many; at most " +
                      std::to_string(max_traced));
  }
  engine_result result;
  result.spec = spec;
  const engine_shape shape = shape_of(plan, spec);
  result.slots = shape.slots;
  result.wheel_sizes = shape.sizes.listed();
  counter observer(plan, result, with_trace, progress);
  with_engine(spec, shape, [&](const auto& make) {
    auto engine = make(0);
    driver(plan, spec, engine, observer).run();
    take_stats(result, engine.stats());
  });
  observer.finish();
  if (with_trace) {
    trace_moves(plan, shape, result);
  }
  return result;
}

// The steps are timed first. Where their clock takes little of a run, the same run tells the time of an operation.
timings time_engine(const workload& plan, const engine_spec& spec, bool each_step, const progress_function& progress) {
  const engine_shape shape = shape_of(plan, spec);
  const nanoseconds cost_of_clock = each_step ? step_clock::cost() : nanoseconds(0);
  timings times;
  with_engine(spec, shape, [&](const auto& make) {
    for (bool steps_too = each_step, is_told = false; !is_told; steps_too = false) {
      bystander seen{plan, tick_scale(time_point(), spec.tick), heartbeat(plan, progress)};
      std::uint64_t steps = 0;
      const nanoseconds begin = processor_time();
      auto engine = make(0);
      if (steps_too) {
        stop_watch watched(engine);
        driver(plan, spec, watched, seen).run();
        times.longest_step_us = std::chrono::duration<double, std::micro>(watched.clock.longest()).count();
        steps = watched.steps;
      } else {
        driver(plan, spec, engine, seen).run();
      }
      const nanoseconds all = processor_time() - begin;
      const nanoseconds clock = cost_of_clock * static_cast<std::int64_t>(steps);
      const nanoseconds spent = all - clock;
      is_told = clock <= spent / 8;
      times.ns_per_operation =
          static_cast<double>(spent.count()) / static_cast<double>(plan.timers.size() + seen.cancels + seen.fired);
    }
  });
  return times;
}

}  // namespace timing_wheel::compare

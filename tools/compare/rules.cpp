#include "compare/rules.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "compare/families.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::compare {
namespace {

using kind = engine_spec::kind;

constexpr std::uint64_t most_slots = 1U << 24U;

struct level_place {
  std::size_t level = 0;
  tick length = 1;  // of the level's tick
};

level_place first_place(const timer_in_ticks& timer, const wheel_sizes& sizes) {
  level_place found;
  while (timer.due / found.length - timer.added / found.length >= sizes[found.level]) {
    found.length *= sizes[found.level++];
  }
  return found;
}

/// Calls `visit(move_step)` for each move. \returns the level from which the timer fires, unless it is cancelled.
template <class Visitor>
std::size_t for_each_move(const timer_in_ticks& timer, const wheel_sizes& sizes, Visitor&& visit) {
  if (timer.due <= timer.added) {
    return 0;
  }
  const level_place first = first_place(timer, sizes);
  std::size_t level = first.level;
  tick length = first.length;
  for (tick rest = timer.due % length; rest != 0; rest %= length) {
    const tick when = timer.due - rest;
    if (timer.cancelled && when > *timer.cancelled) {
      return level;
    }
    const std::size_t from = level;
    while (rest < length) {
      length /= sizes[--level];
    }
    visit(move_step{when, from, level});
  }
  return level;
}

/// Those that the library gives a wheel that is told nothing.
wheel_sizes shipped_sizes() {
  const timer_options ours;
  engine_options options;
  options.wheel_size = ours.wheel_size;
  options.wheel_sizes = ours.wheel_sizes;
  hierarchical_wheel probe(options);
  probe.insert(0, tick{1} << 50U);
  std::vector<std::uint32_t> sizes;
  for (const level_stats& level : probe.stats().levels) {
    sizes.push_back(level.wheel_size);
  }
  while (sizes.size() > 1 && sizes.back() == sizes[sizes.size() - 2]) {
    sizes.pop_back();
  }
  return wheel_sizes(std::move(sizes));
}

/// The level of a noncascading wheel that has such ticks.
std::size_t level_of_tick(tick length) {
  std::size_t level = 0;
  for (; length > 1; length /= noncascading_step) {
    ++level;
  }
  return level;
}

/// As many as the timers need.
std::uint32_t levels_of(const workload& plan, const engine_spec& spec) {
  std::size_t highest = 0;
  for (const planned_timer& planned : plan.timers) {
    const timer_in_ticks timer = in_ticks(planned, spec.tick);
    highest = std::max(highest, timer.due > timer.added ? first_place(timer, spec.size).level : 0);
  }
  return static_cast<std::uint32_t>(highest + 1);
}

tick longest_in_ticks(const workload& plan, const engine_spec& spec) {
  tick longest = 1;
  for (const planned_timer& planned : plan.timers) {
    const timer_in_ticks timer = in_ticks(planned, spec.tick);
    longest = std::max(longest, timer.due - std::min(timer.due, timer.added));
  }
  return longest;
}

void check_reach(const workload& plan, const engine_spec& spec) {
  const tick longest = longest_in_ticks(plan, spec);
  if (longest >= reach_of(spec)) {
    throw usage_error("--engine: '" + spec.text + "': a delay of " + std::to_string(longest) +
                      " ticks is too long for its levels, which hold less than " + std::to_string(reach_of(spec)) +
                      "; take more levels or a longer tick");
  }
}

void add_difference(std::vector<std::string>& found, const engine_spec& spec, const std::string& what,
                    std::uint64_t counted, std::uint64_t expected) {
  if (counted != expected) {
    found.push_back(spec.text + ": " + what + ": counted " + std::to_string(counted) + ", the rules say " +
                    std::to_string(expected));
  }
}

/// What the rules say of a whole workload.
class expectation {
 public:
  expectation(const workload& plan, const engine_spec& spec) : spec_(spec), shape_(shape_of(plan, spec)) {
    for (const planned_timer& planned : plan.timers) {
      const timer_in_ticks timer = in_ticks(planned, spec.tick);
      const tick fires = fires_at(spec, shape_.sizes, timer);
      cancelled += timer.cancelled ? 1U : 0U;
      if (fires > timer.added) {
        ++linked;
        count(timer, fires);
      }
    }
    fired = plan.timers.size() - cancelled;
    count_flushes();
    count_visits();
    if (polls_) {
      empty_wakeups = wakeups - occupied_;
    } else {
      wakeups = occupied_;
    }
    flush_classes[0] = empty_wakeups;
  }

  std::uint64_t fired = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t linked = 0;  // those that were not due when they came
  std::uint64_t looks = 0;
  std::uint64_t wakeups = 0;
  std::uint64_t empty_wakeups = 0;
  tick latest = 0;                             // in ticks
  std::vector<std::uint64_t> moves;            // by level left
  std::vector<std::uint64_t> largest_flushes;  // by level
  std::array<std::uint64_t, 65> flush_classes{};

 private:
  /// A timer that a wake-up moves or fires.
  struct handling {
    tick when = 0;
    std::size_t level = 0;
    [[nodiscard]] std::pair<tick, std::size_t> order() const { return {when, level}; }
  };
  /// From a visit of a slot on, there are more timers in it, or fewer.
  struct visit_change {
    tick slot = 0;
    tick visit = 0;  // the slot's first one has the number 0
    std::int64_t timers = 0;
    [[nodiscard]] std::pair<tick, tick> order() const { return {slot, visit}; }
  };
  template <class T>
  static void sort(std::vector<T>& what) {
    std::sort(what.begin(), what.end(), [](const T& a, const T& b) { return a.order() < b.order(); });
  }

  void count(const timer_in_ticks& timer, tick fires) {
    switch (spec_.type) {
      case kind::hashed:
        looks += looks_of(timer, shape_.slots);
        add_visits(timer);
        return count_ticks(timer);
      case kind::sorted:
      case kind::session:
        count_firing(timer, fires, 0);
        return count_ticks(timer);
      case kind::threads:
        count_firing(timer, fires, count_moves(timer));
        return count_ticks(timer);
      case kind::hierarchical:
      case kind::flat:
      case kind::shipped:
        return count_firing(timer, fires, count_moves({timer.added, fires, timer.cancelled}));
      case kind::noncascading:
        return count_firing(timer, fires, level_of_tick(level_tick(spec_, timer)));
      case kind::heap:
        return count_firing(timer, fires, 0);
    }
  }

  /// By arrival, so that the ticks with something pending grow at the end.
  void count_ticks(const timer_in_ticks& timer) {
    polls_ = true;
    const tick last = timer.cancelled.value_or(timer.due);
    const tick from = std::max(timer.added, awake_until_);
    tick length = 1;
    for (std::uint32_t level = 0; last > from && level < shape_.levels; ++level) {
      wakeups += last / length - from / length;
      length *= shape_.slots;
    }
    awake_until_ = std::max(awake_until_, last);
  }

  /// \returns the level from which it fires.
  std::size_t count_moves(const timer_in_ticks& timer) {
    return for_each_move(timer, shape_.sizes, [&](const move_step& step) {
      moves.resize(std::max(moves.size(), step.from + 1));
      ++moves[step.from];
      handled_.push_back({step.when, step.from});
    });
  }

  void count_firing(const timer_in_ticks& timer, tick fires, std::size_t level) {
    if (!timer.cancelled) {
      handled_.push_back({fires, level});
      latest = std::max(latest, fires - timer.due);
    }
  }

  /// Each thread has a wake-up of its own, and any other engine one for all levels.
  void count_flushes() {
    sort(handled_);
    std::uint64_t in_wakeup = 0;
    for (auto begin = handled_.begin(); begin != handled_.end();) {
      const auto end =
          std::find_if(begin, handled_.end(), [&](const handling& other) { return other.order() != begin->order(); });
      const auto timers = static_cast<std::uint64_t>(end - begin);
      largest_flushes.resize(std::max(largest_flushes.size(), begin->level + 1));
      largest_flushes[begin->level] = std::max(largest_flushes[begin->level], timers);
      in_wakeup += timers;
      if (end == handled_.end() || end->when != begin->when || spec_.type == kind::threads) {
        add_wakeups(1, in_wakeup);
        in_wakeup = 0;
      }
      begin = end;
    }
    handled_.clear();
  }

  void add_wakeups(std::uint64_t many, std::uint64_t timers) {
    occupied_ += many;
    flush_classes[static_cast<std::size_t>(std::bit_width(timers))] += many;
  }

  /// A hashed wheel sees all that a slot has at its visits after `added`, up to the end.
  void add_visits(const timer_in_ticks& timer) {
    const tick slot = timer.due % shape_.slots;
    const auto visits_until = [&](tick last) { return last < slot ? 0 : (last - slot) / shape_.slots + 1; };
    const tick first = visits_until(timer.added);
    const tick end = visits_until(timer.cancelled.value_or(timer.due));
    if (first != end) {
      visits_.push_back({slot, first, 1});
      visits_.push_back({slot, end, -1});
    }
  }

  void count_visits() {
    sort(visits_);
    std::int64_t timers = 0;
    for (std::size_t i = 0; i + 1 < visits_.size(); ++i) {
      timers += visits_[i].timers;
      const tick visits = visits_[i + 1].visit - visits_[i].visit;
      if (timers > 0 && visits > 0) {
        add_wakeups(visits, static_cast<std::uint64_t>(timers));
        largest_flushes.resize(1);
        largest_flushes[0] = std::max(largest_flushes[0], static_cast<std::uint64_t>(timers));
      }
    }
    visits_.clear();
  }

  const engine_spec& spec_;
  engine_shape shape_;
  bool polls_ = false;  // it wakes whether there is something to do or not
  tick awake_until_ = 0;
  std::uint64_t occupied_ = 0;  // wake-ups that are not empty
  std::vector<handling> handled_;
  std::vector<visit_change> visits_;
};

void check_flushes(std::vector<std::string>& found, const engine_spec& spec, const engine_result& counted,
                   const expectation& rules) {
  add_difference(found, spec, "empty wake-ups", counted.empty_wakeups, rules.empty_wakeups);
  for (std::size_t i = 0; i < rules.flush_classes.size(); ++i) {
    add_difference(found, spec,
                   "wake-ups with fewer than 2^" + std::to_string(i) + " timers, and at least half as many",
                   counted.flush_classes[i], rules.flush_classes[i]);
  }
  const std::size_t flushing = spec.type == kind::heap ? 0 : rules.largest_flushes.size();  // a heap has no buckets
  for (std::size_t level = 0; level < std::max(counted.levels.size(), flushing); ++level) {
    add_difference(found, spec, "largest flush of level " + std::to_string(level),
                   level < counted.levels.size() ? counted.levels[level].largest_flush : 0,
                   level < flushing ? rules.largest_flushes[level] : 0);
  }
}

void check_moves(std::vector<std::string>& found, const engine_spec& spec, const engine_result& counted,
                 const std::vector<std::uint64_t>& expected) {
  std::uint64_t sum = 0;
  for (std::size_t level = 0; level < std::max(counted.levels.size(), expected.size()); ++level) {
    const std::uint64_t should = level < expected.size() ? expected[level] : 0;
    const std::uint64_t did = level < counted.levels.size() ? counted.levels[level].moves : 0;
    add_difference(found, spec, "moves from level " + std::to_string(level), did, should);
    sum += should;
  }
  add_difference(found, spec, "moves", counted.moves, sum);
}

void check_trace(std::vector<std::string>& found, const workload& plan, const engine_spec& spec,
                 const engine_result& counted) {
  const wheel_sizes sizes = shape_of(plan, spec).sizes;
  if (!counted.traced || sizes[0] == 0) {
    return;
  }
  const trace& traced = *counted.traced;
  std::map<std::uint32_t, std::vector<move_step>> by_timer;
  for (const traced_move& move : traced.moves) {
    by_timer[move.timer].push_back({move.when, move.from, move.to});
  }
  for (std::uint32_t i = 0; i < plan.timers.size(); ++i) {
    timer_in_ticks armed = in_ticks(plan.timers[i], spec.tick);
    armed.due = fires_at(spec, sizes, armed);
    const std::vector<move_step> expected = moves_of(armed, sizes);
    const std::string timer = "moves of timer " + std::to_string(i);
    add_difference(found, spec, timer, traced.moves_per_timer[i], expected.size());
    if (by_timer[i] != expected) {
      found.push_back(spec.text + ": " + timer + " are not at the ticks that the digit rule says");
    }
  }
}

}  // namespace

timer_in_ticks in_ticks(const planned_timer& timer, nanoseconds tick_length) {
  const tick_scale scale(time_point(), tick_length);
  timer_in_ticks result{scale.floor(time_point(timer.arrival)), scale.ceil(time_point(timer.due)), {}};
  if (timer.cancelled != nanoseconds::max()) {
    result.cancelled = scale.floor(time_point(timer.cancelled));
  }
  return result;
}

engine_shape shape_of(const workload& plan, const engine_spec& spec) {
  switch (spec.type) {
    case kind::hierarchical:
      return {spec.size, 1, spec.size};
    case kind::hashed:
      return {std::bit_ceil(spec.size), 1, 0};
    case kind::flat: {
      const std::uint32_t slots = flat_slots(plan, spec);
      return {slots, 1, slots};
    }
    case kind::shipped: {
      const wheel_sizes sizes = shipped_sizes();
      return {sizes[0], 1, sizes};
    }
    case kind::noncascading:
      check_reach(plan, spec);
      return {spec.size, spec.levels, 0};
    case kind::sorted:
      return {spec.size, 1, 0};
    case kind::threads:
      return {spec.size, levels_of(plan, spec), spec.size};
    case kind::heap:
    case kind::session:
      break;
  }
  return {};
}

std::vector<move_step> moves_of(const timer_in_ticks& timer, const wheel_sizes& sizes) {
  std::vector<move_step> steps;
  for_each_move(timer, sizes, [&](const move_step& step) { steps.push_back(step); });
  return steps;
}

std::uint64_t looks_of(const timer_in_ticks& timer, std::uint64_t slots) {
  if (timer.due <= timer.added) {
    return 0;
  }
  const std::uint64_t left_out = timer.cancelled ? (timer.due - *timer.cancelled - 1) / slots + 1 : 0;
  return (timer.due - timer.added - 1) / slots + 1 - left_out;
}

tick level_tick(const engine_spec& spec, const timer_in_ticks& timer) {
  tick length = 1;
  while (spec.type == kind::noncascading && timer.due - timer.added >= (spec.size - 1) * length) {
    length *= noncascading_step;
  }
  return length;
}

namespace {

// By trial, and not as the engines choose it.
tick latest_choice(const timer_in_ticks& timer, tick window, const wheel_sizes& sizes) {
  const tick last = timer.due + window;
  const auto first_multiple = [&](tick length) { return (timer.due + length - 1) / length * length; };
  tick chosen = timer.due;
  tick length = 1;
  for (std::size_t level = 0; first_multiple(length) <= last; length *= sizes[level++]) {
    for (tick even = length; first_multiple(even) <= last; even *= 2) {
      chosen = first_multiple(even);
    }
    if (sizes[level] == 0 || length > last) {
      break;  // a heap, or none but 0
    }
  }
  return chosen;
}

}  // namespace

tick fires_at(const engine_spec& spec, const wheel_sizes& sizes, const timer_in_ticks& timer) {
  if (spec.window > nanoseconds::zero()) {
    return latest_choice(timer, tick_scale(time_point(), spec.tick).whole_ticks(spec.window), sizes);
  }
  const tick length = timer.due > timer.added ? level_tick(spec, timer) : 1;
  const tick past = timer.due % length;
  return past == 0 ? timer.due : timer.due + length - past;
}

tick reach_of(const engine_spec& spec) {
  tick reach = spec.size - 1;
  for (std::uint32_t level = 1; level < spec.levels; ++level) {
    reach *= noncascading_step;
  }
  return reach;
}

std::uint32_t flat_slots(const workload& plan, const engine_spec& spec) {
  const tick longest = longest_in_ticks(plan, spec);
  if (longest >= most_slots) {
    const nanoseconds least = plan.longest() / static_cast<std::int64_t>(most_slots - 2) + nanoseconds(1);
    throw usage_error("--engine: '" + spec.text + "': a delay of " + std::to_string(longest) +
                      " ticks needs as many slots and one more, but a wheel has at most " + std::to_string(most_slots) +
                      "; take a tick of at least " + format_duration(least));
  }
  return static_cast<std::uint32_t>(longest + 1);
}

std::vector<std::string> check(const workload& plan, const engine_spec& spec, const engine_result& counted) {
  const expectation rules(plan, spec);
  std::vector<std::string> found;
  add_difference(found, spec, "fired", counted.fired, rules.fired);
  add_difference(found, spec, "cancelled", counted.cancelled, rules.cancelled);
  add_difference(found, spec, "fired early", counted.early, 0);
  add_difference(found, spec, "fired in a wrong tick", counted.wrong_ticks, 0);
  add_difference(found, spec, "fired though not pending", counted.wrong_timers, 0);
  add_difference(found, spec, "cancellations refused", counted.refused_cancels, 0);
  add_difference(found, spec, "looks", counted.looks, rules.looks);
  add_difference(found, spec, "wake-ups", counted.wakeups, rules.wakeups);
  add_difference(found, spec, "latest, in ticks", counted.lateness_ticks.max, rules.latest);
  const nanoseconds too_late = spec.tick * static_cast<std::int64_t>(rules.latest + 1);
  if (counted.lateness.max >= too_late) {
    found.push_back(spec.text + ": a timer was late by " + format_duration(counted.lateness.max) +
                    ", the rules say less than " + format_duration(too_late));
  }
  if (spec.type == kind::heap || spec.type == kind::sorted) {
    add_difference(found, spec, "heap operations", counted.heap_operations, 2 * rules.linked);
  }
  check_moves(found, spec, counted, rules.moves);
  check_flushes(found, spec, counted, rules);
  check_trace(found, plan, spec, counted);
  return found;
}

std::vector<std::string> check_agreement(const std::vector<engine_result>& results) {
  std::vector<std::string> found;
  for (const engine_result& one : results) {
    const engine_result& first = results.front();
    if (one.fired != first.fired || one.fired_set != first.fired_set) {
      found.push_back(one.spec.text + " fired " + std::to_string(one.fired) + " timers, and not the same " +
                      std::to_string(first.fired) + " as " + first.spec.text);
    }
    const auto is_late_by_design = [](const engine_spec& spec) {
      return spec.type == kind::noncascading || spec.window > nanoseconds::zero();
    };
    if (is_late_by_design(one.spec)) {
      continue;  // `check` has the ticks
    }
    const auto same_tick = std::find_if(results.begin(), results.end(), [&](const engine_result& other) {
      return !is_late_by_design(other.spec) && other.spec.tick == one.spec.tick;
    });
    if (one.fired_ticks != same_tick->fired_ticks) {
      found.push_back(one.spec.text + " fired its timers in other ticks than " + same_tick->spec.text + " (digests " +
                      std::to_string(one.fired_ticks) + " and " + std::to_string(same_tick->fired_ticks) + ")");
    }
  }
  return found;
}

}  // namespace timing_wheel::compare

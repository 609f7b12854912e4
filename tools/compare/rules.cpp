#include "compare/rules.hpp"

#include <algorithm>
#include <bit>
#include <map>

#include "timing_wheel/time.hpp"

namespace timing_wheel::compare {
namespace {

using kind = engine_spec::kind;

constexpr std::uint64_t most_slots = 1U << 24U;

/// Calls `visit(move_step)` for each move.
template <class Visitor>
void for_each_move(const timer_in_ticks& timer, std::uint32_t size, Visitor&& visit) {
  if (timer.due <= timer.added) {
    return;
  }
  tick length = 1;
  std::size_t level = 0;
  while (timer.due / length - timer.added / length >= size) {
    length *= size;
    ++level;
  }
  for (tick rest = timer.due % length; rest != 0; rest %= length) {
    const tick when = timer.due - rest;
    if (timer.cancelled && when > *timer.cancelled) {
      return;
    }
    const std::size_t from = level;
    while (rest < length) {
      length /= size;
      --level;
    }
    visit(move_step{when, from, level});
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
  expectation(const workload& plan, const engine_spec& spec, std::uint32_t slots) : spec_(spec), slots_(slots) {
    for (const planned_timer& planned : plan.timers) {
      const timer_in_ticks timer = in_ticks(planned, spec.tick);
      cancelled += timer.cancelled ? 1U : 0U;
      if (timer.due > timer.added) {
        ++linked;
        count(timer);
      }
    }
    fired = plan.timers.size() - cancelled;
    std::sort(stops_.begin(), stops_.end());
    wakeups += static_cast<std::uint64_t>(std::unique(stops_.begin(), stops_.end()) - stops_.begin());
    stops_.clear();
  }

  std::uint64_t fired = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t linked = 0;  // those that were not due when they came
  std::uint64_t looks = 0;
  std::uint64_t wakeups = 0;
  std::vector<std::uint64_t> moves;  // by level left

 private:
  void count(const timer_in_ticks& timer) {
    if (spec_.type == kind::hashed) {
      looks += looks_of(timer, slots_);
      // By arrival, so that the ticks with something pending grow at the end.
      const tick last = timer.cancelled.value_or(timer.due);
      const tick from = std::max(timer.added, awake_until_);
      wakeups += last > from ? last - from : 0;
      awake_until_ = std::max(awake_until_, last);
      return;
    }
    if (spec_.type != kind::heap) {
      for_each_move(timer, slots_, [&](const move_step& step) {
        moves.resize(std::max(moves.size(), step.from + 1));
        ++moves[step.from];
        stops_.push_back(step.when);
      });
    }
    if (!timer.cancelled) {
      stops_.push_back(timer.due);
    }
  }

  const engine_spec& spec_;
  std::uint32_t slots_;
  tick awake_until_ = 0;
  std::vector<tick> stops_;
};

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
  if (!counted.traced || spec.type != kind::hierarchical) {
    return;
  }
  const trace& traced = *counted.traced;
  std::map<std::uint32_t, std::vector<move_step>> by_timer;
  for (const traced_move& move : traced.moves) {
    by_timer[move.timer].push_back({move.when, move.from, move.to});
  }
  for (std::uint32_t i = 0; i < plan.timers.size(); ++i) {
    const std::vector<move_step> expected = moves_of(in_ticks(plan.timers[i], spec.tick), counted.slots);
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

std::vector<move_step> moves_of(const timer_in_ticks& timer, std::uint32_t size) {
  std::vector<move_step> steps;
  for_each_move(timer, size, [&](const move_step& step) { steps.push_back(step); });
  return steps;
}

std::uint64_t looks_of(const timer_in_ticks& timer, std::uint64_t slots) {
  if (timer.due <= timer.added) {
    return 0;
  }
  const std::uint64_t left_out = timer.cancelled ? (timer.due - *timer.cancelled - 1) / slots + 1 : 0;
  return (timer.due - timer.added - 1) / slots + 1 - left_out;
}

std::uint32_t flat_slots(const workload& plan, const engine_spec& spec) {
  tick longest = 1;
  for (const planned_timer& planned : plan.timers) {
    const timer_in_ticks timer = in_ticks(planned, spec.tick);
    longest = std::max(longest, timer.due - std::min(timer.due, timer.added));
  }
  if (longest >= most_slots) {
    const nanoseconds least = plan.longest() / static_cast<std::int64_t>(most_slots - 2) + nanoseconds(1);
    throw usage_error("--engine: '" + spec.text + "': a delay of " + std::to_string(longest) +
                      " ticks needs as many slots and one more, but a wheel has at most " + std::to_string(most_slots) +
                      "; take a tick of at least " + format_duration(least));
  }
  return static_cast<std::uint32_t>(longest + 1);
}

std::vector<std::string> check(const workload& plan, const engine_spec& spec, const engine_result& counted) {
  const expectation rules(plan, spec, counted.slots);
  std::vector<std::string> found;
  add_difference(found, spec, "fired", counted.fired, rules.fired);
  add_difference(found, spec, "cancelled", counted.cancelled, rules.cancelled);
  add_difference(found, spec, "fired early", counted.early, 0);
  add_difference(found, spec, "fired in a wrong tick", counted.wrong_ticks, 0);
  add_difference(found, spec, "fired though not pending", counted.wrong_timers, 0);
  add_difference(found, spec, "cancellations refused", counted.refused_cancels, 0);
  add_difference(found, spec, "looks", counted.looks, rules.looks);
  add_difference(found, spec, "wake-ups", counted.wakeups, rules.wakeups);
  if (spec.type == kind::heap) {
    add_difference(found, spec, "heap operations", counted.heap_operations, 2 * rules.linked);
  }
  check_moves(found, spec, counted, rules.moves);
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
    const auto same_tick = std::find_if(results.begin(), results.end(),
                                        [&](const engine_result& other) { return other.spec.tick == one.spec.tick; });
    if (one.fired_ticks != same_tick->fired_ticks) {
      found.push_back(one.spec.text + " fired its timers in other ticks than " + same_tick->spec.text + " (digests " +
                      std::to_string(one.fired_ticks) + " and " + std::to_string(same_tick->fired_ticks) + ")");
    }
  }
  return found;
}

}  // namespace timing_wheel::compare

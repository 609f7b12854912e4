/// \file
/// The three engines for a page in a browser, compiled from their sources with TIMING_WHEEL_TRACE_ENGINE. `which` below
/// is 0 for the hierarchical wheel, 1 for the hashed wheel, 2 for the heap. Ticks are doubles, which JavaScript has.
/// Compiled natively it is a program that makes the calls it reads, and writes the events, as the browser has them.
///
/// A page cannot read 20 million events in a second, which a million timers cause. So `wheel_tell` limits whose events
/// are told; what a picture needs of the others is counted here.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine_trace.hpp"
#include "timing_wheel/engine/hashed_wheel.hpp"
#include "timing_wheel/engine/heap_queue.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"

namespace {

using timing_wheel::advance_result;
using timing_wheel::engine_options;
using timing_wheel::engine_stats;
using timing_wheel::hashed_wheel;
using timing_wheel::heap_queue;
using timing_wheel::hierarchical_wheel;
using timing_wheel::tick;
using timing_wheel::timer_number;
using timing_wheel::detail::engine_event;

struct event {
  std::uint32_t what;
  std::uint32_t where;
  std::uint32_t which;
  std::uint32_t when_low;
  std::uint32_t when_high;
};
static_assert(sizeof(event) == 20);

struct seen_bucket {
  std::uint32_t slot;
  std::uint32_t timers;
};

struct seen_level {
  tick length;
  std::uint32_t slots;
  std::vector<seen_bucket> buckets;
};

struct seen_cascade {
  double level = -1;
  double begin = 0;
  double timers = 0;
  double due = 0;
  double fell[64] = {};  // to each level
};

struct traced_engine {
  std::variant<std::monostate, hierarchical_wheel, hashed_wheel, heap_queue> engine;
  std::vector<event> events;
  std::vector<seen_level> levels;
  seen_cascade cascade;
  engine_stats stats;
  double fired = 0;
  double wakes = 0;
  bool resumes = false;
};

traced_engine engines[3];
traced_engine* current = nullptr;

constexpr std::uint32_t most_timers = 1U << 20U;
std::uint32_t told = ~0U;                 // the events of timers with lower numbers are told
std::uint32_t numbers = 0;                // those from here on were never used
std::uint32_t free_numbers[most_timers];  // those that no engine holds any more
std::uint32_t free_count = 0;
std::uint8_t holders[most_timers];  // how many engines hold a timer
double deadlines[most_timers];
std::uint32_t members[most_timers];  // of the heap
double placed = 0;                   // those that were put somewhere
bool moving = false;
std::uint32_t random_state = 1;

void let_go(timer_number n) {
  if (--holders[n] == 0) {
    free_numbers[free_count++] = n;
  }
}

void see_in_hashed_wheel(engine_event what, std::uint32_t where, timer_number n) {
  if (what == engine_event::filled) {
    ++current->levels[0].buckets[where].timers;
  } else if (what == engine_event::due || what == engine_event::erased) {
    --current->levels[0].buckets[where].timers;
    let_go(n);
  }
}

void see_filled(seen_level& level, std::uint32_t where, tick when) {
  seen_bucket& bucket = level.buckets[where & 0xffffffU];
  if (bucket.timers++ == 0) {
    bucket.slot = static_cast<std::uint32_t>(when / level.length % level.slots);
  }
  if (std::exchange(moving, false)) {
    ++current->cascade.fell[where >> 24U];
  }
}

void see_gone(seen_level& level, std::uint32_t where, timer_number n) {
  --level.buckets[where & 0xffffffU].timers;
  let_go(n);
}

void see_in_wheel(engine_event what, std::uint32_t where, timer_number n, tick when) {
  if (what == engine_event::level_made) {
    current->levels.push_back({when, n, std::vector<seen_bucket>(std::max(std::bit_ceil(n), 64U))});
    return;
  }
  const std::uint32_t index = where >> 24U;
  seen_level& level = current->levels[index];
  switch (what) {
    case engine_event::filled:
      see_filled(level, where, when);
      break;
    case engine_event::moved:
      --level.buckets[where & 0xffffffU].timers;
      moving = true;
      break;
    case engine_event::flushed:
      if (index > 0) {
        current->cascade = {.level = double(index),
                            .begin = static_cast<double>(when),
                            .timers = double(level.buckets[where & 0xffffffU].timers)};
      }
      break;
    case engine_event::due:
      ++current->fired;
      current->cascade.due += index > 0 ? 1 : 0;
      see_gone(level, where, n);
      break;
    case engine_event::erased:
      see_gone(level, where, n);
      break;
    default:
      break;
  }
}

void see(engine_event what, std::uint32_t where, timer_number n, tick when) {
  if (current == &engines[0]) {
    see_in_wheel(what, where, n, when);
  } else if (current == &engines[1]) {
    see_in_hashed_wheel(what, where, n);
  } else if (what != engine_event::pushed) {
    let_go(n);
  }
}

[[gnu::noinline]] void tell(engine_event what, std::uint32_t where, timer_number n, tick when) {
  current->events.push_back({static_cast<std::uint32_t>(what), where, n, static_cast<std::uint32_t>(when),
                             static_cast<std::uint32_t>(when >> 32U)});
}

// A number in [0, 1), the same for each visitor.
double random_number() {
  random_state += 0x6d2b79f5U;
  std::uint32_t t = (random_state ^ (random_state >> 15U)) * (1U | random_state);
  t = (t + (t ^ (t >> 7U)) * (61U | t)) ^ t;
  return (t ^ (t >> 14U)) / 4294967296.0;
}

// Calls `use(engine, its trace)`; the events of the engine go there.
template <class Use>
auto with(unsigned which, Use&& use) {
  current = &engines[which];
  using result = decltype(use(std::declval<heap_queue&>(), *current));
  return std::visit(
      [&](auto& engine) -> result {
        if constexpr (std::is_same_v<decltype(engine), std::monostate&>) {
          return result();
        } else {
          return use(engine, *current);
        }
      },
      current->engine);
}

}  // namespace

// Called ten times for a timer of a large heap, so that case comes first, and is small.
void timing_wheel::detail::trace_engine(engine_event what, std::uint32_t where, std::uint32_t which,
                                        tick when) noexcept {
  if (what == engine_event::placed) {
    members[where] = which;
    ++placed;
  } else {
    see(what, where, which, when);
  }
  if (which < told) [[unlikely]] {
    tell(what, where, which, when);
  }
}

extern "C" {

/// From now on, events of timers with the numbers from `limit` on are not told.
void wheel_tell(unsigned limit) { told = limit; }

/// A new engine in place of the last one. Sizes are from 2 to 2^24, lowest level first; those from a 0 on are left out.
/// Make all engines anew before a timer is added: no number is in use after this.
void wheel_make(unsigned which, unsigned size0, unsigned size1, unsigned size2, unsigned size3, double start) {
  traced_engine& made = engines[which];
  std::destroy_at(&made);
  std::construct_at(&made);
  std::fill_n(holders, numbers, std::uint8_t{0});
  numbers = free_count = 0;
  placed = 0;
  random_state = 1;
  current = &made;
  engine_options options{.start = static_cast<tick>(start)};
  for (const unsigned size : {size0, size1, size2, size3}) {
    if (size == 0) {
      break;
    }
    options.wheel_sizes.push_back(size);
  }
  switch (which) {
    case 0:
      made.engine.emplace<hierarchical_wheel>(options);
      break;
    case 1:
      made.engine.emplace<hashed_wheel>(options);
      made.levels.push_back({1, std::bit_ceil(size0), std::vector<seen_bucket>(std::bit_ceil(size0))});
      for (std::uint32_t slot = 0; seen_bucket & bucket : made.levels[0].buckets) {
        bucket.slot = slot++;
      }
      break;
    default:
      made.engine.emplace<heap_queue>(options);
      break;
  }
}

/// Links `timer`, which is not linked; it is below 2^20. \returns 0 if it is due already.
int wheel_add(unsigned which, unsigned timer, double deadline) {
  const bool added =
      with(which, [&](auto& engine, auto&) { return engine.insert(timer, static_cast<tick>(deadline)); });
  numbers = std::max(numbers, timer + 1);
  holders[timer] += added ? 1 : 0;
  return int{added};
}

/// Links `count` timers in each engine, or as many as there are numbers for. Each is due after a delay from `from` to
/// `to` milliseconds at random, in ticks of `length` milliseconds after `clock`. \returns the last of them.
unsigned wheel_add_some(unsigned count, double from, double to, double length, double clock) {
  std::vector<timer_number> chosen(std::min(count, most_timers - numbers + free_count));
  for (timer_number& n : chosen) {
    n = free_count != 0 ? free_numbers[--free_count] : numbers++;
    const double delay = from + std::floor(random_number() * (to - from + 1));
    deadlines[n] = clock + std::max(1.0, std::ceil(delay / length));
  }
  for (unsigned which = 0; which < std::size(engines) && !chosen.empty(); ++which) {
    with(which, [&](auto& engine, auto&) {
      engine.reserve(numbers - 1, engine.now());
      for (const timer_number n : chosen) {
        holders[n] += engine.insert(n, static_cast<tick>(deadlines[n])) ? 1 : 0;
      }
    });
  }
  return chosen.empty() ? 0 : chosen.back();
}

/// \returns 0 if the timer is not linked.
int wheel_cancel(unsigned which, unsigned timer) {
  return with(which, [&](auto& engine, auto&) { return int{engine.erase(timer)}; });
}

/// Cancels `count` timers in each engine, chosen at random. \returns how many there were.
unsigned wheel_cancel_some(unsigned count) {
  unsigned left = std::min(count, static_cast<unsigned>(std::get<hierarchical_wheel>(engines[0].engine).size()));
  const unsigned cancelled = left;
  while (left != 0) {
    const auto timer = static_cast<unsigned>(random_number() * numbers);
    if (wheel_cancel(0, timer) != 0) {
      wheel_cancel(1, timer);
      wheel_cancel(2, timer);
      --left;
    }
  }
  return cancelled;
}

/// Moves the clock to `to` as a poller does, which sleeps until the next expiration. Ends early, maybe in the middle of
/// a bucket, after `budget` timers and wake-ups. \returns 1 then.
int wheel_advance(unsigned which, double to, unsigned budget) {
  return with(which, [&](auto& engine, traced_engine& trace) {
    const tick target = std::max(static_cast<tick>(to), engine.now());
    for (std::size_t left = budget; left != 0;) {
      const std::optional<tick> next = engine.next_expiration();
      const bool wakes = next && *next <= target;
      trace.wakes += wakes && !trace.resumes ? 1 : 0;
      const advance_result result = engine.advance(wakes ? *next : target, left);
      trace.resumes = result.more;
      if (!wakes) {
        return 0;
      }
      left -= std::min(left, std::max<std::size_t>(result.handled, 1));
    }
    return 1;
  });
}

/// Events since the last `wheel_clear`, five numbers of 32 bits each.
const event* wheel_events(unsigned which) { return engines[which].events.data(); }
unsigned wheel_event_count(unsigned which) { return static_cast<unsigned>(engines[which].events.size()); }
void wheel_clear(unsigned which) { engines[which].events.clear(); }

/// What is counted of all timers. Of each bucket of a level, its slot and its timers; when each timer is due; the timer
/// at each place of the heap; of the last cascade its level (-1: none yet), the tick at which it began, how many timers
/// there were, how many were due at once, and how many fell to each level.
const seen_bucket* wheel_buckets(unsigned which, unsigned level) { return engines[which].levels[level].buckets.data(); }
unsigned wheel_bucket_count(unsigned which, unsigned level) {
  return static_cast<unsigned>(engines[which].levels[level].buckets.size());
}
const double* wheel_deadlines() { return deadlines; }
const unsigned* wheel_members() { return members; }
const seen_cascade* wheel_cascade() { return &engines[0].cascade; }
double wheel_random() { return random_number(); }

/// 0: the clock; 1: timers linked; 2: the next expiration, or -1; 3: wake-ups; 4: moves, those within a heap too; 5:
/// looks; 6: operations on the delay queue or the heap; 7: bytes; 8: whether the invariants hold; 9: timers that the
/// hierarchical wheel found due.
double wheel_count(unsigned which, unsigned what) {
  return with(which, [&](auto& engine, traced_engine& trace) -> double {
    constexpr bool is_heap = std::is_same_v<decltype(engine), heap_queue&>;
    const std::optional<tick> next = engine.next_expiration();
    engine.read(trace.stats);
    switch (what) {
      case 0:
        return static_cast<double>(engine.now());
      case 1:
        return static_cast<double>(engine.size());
      case 2:
        return next ? static_cast<double>(*next) : -1;
      case 3:
        return trace.wakes;
      case 4:
        return is_heap ? placed : static_cast<double>(trace.stats.moves());
      case 5:
        return static_cast<double>(trace.stats.looks);
      case 6:
        return static_cast<double>(trace.stats.heap_operations);
      case 7:
        return static_cast<double>(trace.stats.bytes);
      case 9:
        return trace.fired;
      default:
        return engine.invariants_hold() ? 1 : 0;
    }
  });
}
}

#ifndef __EMSCRIPTEN__
// A line is a call: m(ake), a(dd), c(ancel) or w(heel_advance), the engine, and five numbers; e ends a program.
int main() {
  char what = 0;
  unsigned engine = 0;
  double n[5];
  while (std::scanf(" %c %u %lf %lf %lf %lf %lf", &what, &engine, &n[0], &n[1], &n[2], &n[3], &n[4]) == 7) {
    unsigned whole[4];
    std::transform(n, n + 4, whole, [](double value) { return static_cast<unsigned>(value); });
    switch (what) {
      case 'm':
        wheel_make(engine, whole[0], whole[1], whole[2], whole[3], n[4]);
        break;
      case 'a':
        wheel_add(engine, whole[0], n[1]);
        break;
      case 'c':
        wheel_cancel(engine, whole[0]);
        break;
      case 'w':
        wheel_advance(engine, n[0], whole[1]);
        break;
      default:
        for (unsigned count = 0; count < 9; ++count) {
          const double value = count == 7 ? 0 : wheel_count(engine, count);  // bytes differ, for pointers do
          std::fwrite(&value, sizeof value, 1, stdout);
        }
        const std::uint32_t events = wheel_event_count(engine);
        std::fwrite(&events, sizeof events, 1, stdout);
        std::fwrite(wheel_events(engine), sizeof(event), events, stdout);
    }
  }
}
#endif

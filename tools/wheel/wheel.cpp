/// \file
/// The three engines for a page in a browser, compiled from their sources with TIMING_WHEEL_TRACE_ENGINE. `which` below
/// is 0 for the hierarchical wheel, 1 for the hashed wheel, 2 for the heap. Ticks are doubles, which JavaScript has.
/// Compiled natively it is a program that makes the calls it reads, and writes the events, as the browser has them.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
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

struct event {
  std::uint32_t what;
  std::uint32_t where;
  std::uint32_t which;
  std::uint32_t when_low;
  std::uint32_t when_high;
};
static_assert(sizeof(event) == 20);

struct traced_engine {
  std::variant<std::monostate, hierarchical_wheel, hashed_wheel, heap_queue> engine;
  std::vector<event> events;
  engine_stats stats;
  double placed = 0;  // elements of a heap that were put somewhere
  double wakes = 0;
  bool resumes = false;
};

traced_engine engines[3];
traced_engine* current = nullptr;

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

void timing_wheel::detail::trace_engine(engine_event what, std::uint32_t where, std::uint32_t which,
                                        tick when) noexcept {
  current->placed += what == engine_event::placed ? 1 : 0;
  current->events.push_back({static_cast<std::uint32_t>(what), where, which, static_cast<std::uint32_t>(when),
                             static_cast<std::uint32_t>(when >> 32U)});
}

extern "C" {

/// A new engine in place of the last one. Sizes are from 2 to 2^24, lowest level first; those from a 0 on are left out.
void wheel_make(unsigned which, unsigned size0, unsigned size1, unsigned size2, unsigned size3, double start) {
  traced_engine& made = engines[which];
  made.engine.emplace<std::monostate>();
  made.events.clear();
  made.placed = made.wakes = 0;
  made.resumes = false;
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
      break;
    default:
      made.engine.emplace<heap_queue>(options);
      break;
  }
}

/// Links `timer`, which is not linked. \returns 0 if it is due already.
int wheel_add(unsigned which, unsigned timer, double deadline) {
  return with(which, [&](auto& engine, auto&) { return int{engine.insert(timer, static_cast<tick>(deadline))}; });
}

/// \returns 0 if the timer is not linked.
int wheel_cancel(unsigned which, unsigned timer) {
  return with(which, [&](auto& engine, auto&) { return int{engine.erase(timer)}; });
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

/// 0: the clock; 1: timers linked; 2: the next expiration, or -1; 3: wake-ups; 4: moves, those within a heap too; 5:
/// looks; 6: operations on the delay queue or the heap; 7: bytes; 8: whether the invariants hold.
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
        return is_heap ? trace.placed : static_cast<double>(trace.stats.moves());
      case 5:
        return static_cast<double>(trace.stats.looks);
      case 6:
        return static_cast<double>(trace.stats.heap_operations);
      case 7:
        return static_cast<double>(trace.stats.bytes);
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

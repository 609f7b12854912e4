#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare/options.hpp"
#include "compare/workload.hpp"
#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::compare {

/// A move that a trace shows. Levels count from 0.
struct traced_move {
  std::uint32_t timer = 0;
  tick when = 0;
  std::size_t from = 0;
  std::size_t to = 0;
};

struct traced_wakeup {
  tick when = 0;
  std::size_t handled = 0;
  std::vector<std::uint32_t> fired;
};

/// What one `--trace` adds.
struct trace {
  std::vector<traced_wakeup> wakeups;
  std::vector<traced_move> moves;  ///< By time.
  std::vector<std::uint64_t> moves_per_timer;
};

/// Processor times of runs that count nothing.
struct timings {
  double ns_per_operation = 0;  ///< The whole run, by the timers added, cancelled and fired.
  double longest_step_us = 0;   ///< The longest `advance`.
};

/// What happens in equal parts of the run.
struct timeline {
  nanoseconds width{};
  std::vector<std::uint64_t> handled;  ///< Timers moved, looked at or due.
  std::vector<std::uint64_t> wakeups;
};

template <class T>
struct summary {
  T max{};
  T p50{};
  T p99{};
};

/// What one engine did. All but `timed` is exact.
struct engine_result {
  engine_spec spec;
  std::uint32_t slots = 0;                 ///< Of each wheel, or of the lowest; 0: no wheel.
  std::vector<std::uint32_t> wheel_sizes;  ///< Of a hierarchy, lowest first; the wheels above have the last size.
  std::uint64_t added = 0;
  std::uint64_t fired = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t early = 0;
  std::uint64_t wrong_ticks = 0;   ///< Fired in another tick than `fires_at` says.
  std::uint64_t wrong_timers = 0;  ///< Fired though it was not pending.
  std::uint64_t refused_cancels = 0;
  std::uint64_t fired_set = 0;    ///< A digest of which timers fired, in whatever order.
  std::uint64_t fired_ticks = 0;  ///< A digest of which timers fired in which ticks.
  summary<tick> lateness_ticks;
  summary<nanoseconds> lateness;                   ///< Against the exact due time: what the tick's rounding costs.
  nanoseconds lateness_width{};                    ///< A tick; if some are later, the tick of a higher level.
  std::array<std::uint64_t, 20> lateness_parts{};  ///< Timers by lateness, in twentieths of that.
  std::uint64_t moves = 0;
  std::uint64_t looks = 0;
  std::uint64_t wakeups = 0;
  std::uint64_t empty_wakeups = 0;
  std::vector<level_stats> levels;
  std::uint64_t flush_max = 0;                    ///< Timers in the largest bucket flushed, or slot visited.
  std::array<std::uint64_t, 65> flush_classes{};  ///< Wake-ups that handled [2^(i−1), 2^i) timers; the first: none.
  std::uint64_t heap_pushes = 0;
  std::uint64_t heap_operations = 0;
  std::size_t bytes = 0;
  std::size_t peak_pending = 0;
  std::uint64_t wakeups_while_firing = 0;  ///< From the first wake-up that fired something to the last.
  nanoseconds first_fire{};
  nanoseconds last_fire{};
  timeline along;
  std::optional<trace> traced;
  std::optional<timings> timed;

  [[nodiscard]] double bytes_per_timer() const {
    return peak_pending == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(peak_pending);
  }
  /// Moves or looks, whichever the engine has.
  [[nodiscard]] double work_per_timer() const {
    return added == 0 ? 0 : static_cast<double>(moves + looks) / static_cast<double>(added);
  }
  /// Between the first and the last firing.
  [[nodiscard]] std::optional<double> wakeups_per_second() const;
};

/// A trace of more timers than this is refused.
inline constexpr std::size_t max_traced = 100'000;

/// Drives one engine through the workload as the service's poller does: it wakes at `next_expiration()`, as often as
/// that comes before the next arrival or cancellation, and an arrival finds the clock caught up. \throws usage_error as
/// `shape_of` does.
[[nodiscard]] engine_result run_engine(const workload& plan, const engine_spec& spec, bool with_trace,
                                       const progress_function& progress = {});

/// Runs it again for the time alone, and once more for the longest step if `each_step`.
[[nodiscard]] timings time_engine(const workload& plan, const engine_spec& spec, bool each_step = true,
                                  const progress_function& progress = {});

}  // namespace timing_wheel::compare

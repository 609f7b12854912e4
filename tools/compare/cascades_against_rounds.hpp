#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/run.hpp"

/// \file
/// What the report shows beside the workload itself: how the counts depend on the delay and on the share cancelled, and
/// where rounds and cascades cost the same time. Small workloads of their own, through the same engines.

namespace timing_wheel::compare {

/// One engine at each of the points; `work` is moves or looks per timer, and negative where the engine cannot be made.
struct curve {
  std::string engine;
  std::vector<double> work;
};

struct delay_sweep {
  std::uint64_t timers = 0;
  std::vector<nanoseconds> delays;
  std::vector<curve> curves;
};

struct cancel_sweep {
  std::uint64_t timers = 0;
  nanoseconds delay{};
  std::string when;
  std::vector<double> shares;
  std::vector<curve> curves;
};

/// The two at one rate, in ns per timer, added and fired.
struct break_even_run {
  double timers_per_tick = 0;
  std::vector<double> hierarchical;
  std::vector<double> hashed;
  double crossing = 0;  ///< The delay in ticks from which on the hierarchy takes less time; 0: it always does.
};

/// A hashed wheel and a hierarchy of the same size, timed on the same timers of one delay each.
struct break_even {
  std::uint64_t timers = 0;
  std::uint32_t size = 0;
  std::vector<std::uint64_t> delays;  ///< In ticks.
  std::vector<break_even_run> runs;
  double ns_per_move =
      0;  ///< At the highest rate: what a move adds, between delays within a revolution and longer ones.
  double ns_per_look = 0;  ///< At the highest rate: what a look adds, along the delays of a revolution and more.
  [[nodiscard]] double ratio() const { return ns_per_look > 0 ? ns_per_move / ns_per_look : 0; }
};

using tell = std::function<void(const std::string&)>;

/// Both find differences from the rules, too; those are appended to `problems`.
[[nodiscard]] delay_sweep sweep_delays(const workload& plan, const std::vector<engine_spec>& engines,
                                       std::vector<std::string>& problems, const tell& progress);
[[nodiscard]] cancel_sweep sweep_cancels(const workload& plan, const workload_spec& spec,
                                         const std::vector<engine_spec>& engines, std::vector<std::string>& problems,
                                         const tell& progress);
/// With as many timers as the workload has, within reason.
[[nodiscard]] break_even measure_break_even(const workload& plan, const tell& progress);

}  // namespace timing_wheel::compare

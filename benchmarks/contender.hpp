#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine_workloads.hpp"

namespace timing_wheel::bench {

using workload = std::function<void(benchmark::State&)>;

/// An engine or a peer, with its name in the benchmarks, and what else a reader has to know of it.
struct contender {
  std::string name;
  std::string remark;
  workload arm, churn, fire, step, hold, compensation;
  workload compensation_by_share;  // with the share cancelled, in percent, as second argument
};

/// A class of timers that is made from N, with `arguments` after it.
template <class Timers, class... Arguments>
contender contend(const std::string& name, const std::string& remark, Arguments... arguments) {
  using benchmark::State;
  const auto make = [arguments...](timer_number count) { return std::make_unique<Timers>(count, arguments...); };
  return {.name = name,
          .remark = remark,
          .arm = [make](State& state) { bench::arm(state, make); },
          .churn = [make](State& state) { bench::churn(state, make); },
          .fire = [make](State& state) { bench::fire(state, make); },
          .step = [make](State& state) { bench::step(state, make); },
          .hold = [make](State& state) { bench::hold(state, make); },
          .compensation = [make](State& state) { bench::compensation(state, make, compensation_plan::usual_percent); },
          .compensation_by_share =
              [make](State& state) { bench::compensation(state, make, static_cast<unsigned>(state.range(1))); }};
}

/// Those that are measured beside the engines. Each file in peers/ adds its own before `main`, so that a peer which is
/// not on the machine is only left out of the link.
inline std::vector<contender>& peers() {
  static std::vector<contender> all;
  return all;
}

inline bool join(contender peer) {
  peers().push_back(std::move(peer));
  return true;
}

}  // namespace timing_wheel::bench

#pragma once

#include <cstdint>
#include <string>

#include "durable/faults/ground.hpp"

namespace timing_wheel::durable::test {

/// How a run of the scenario ended.
enum class verdict : std::uint8_t {
  good,
  completion_lost,  ///< A completion was never called, or twice.
  refused_but_ran,  ///< A call said that nothing was written, and something was.
  wrong,            ///< Another end, or another answer, than the one asked for.
  stuck,            ///< A check came to its end after a restart only.
  lost,             ///< It never did.
  hung,             ///< A call never returned.
  crashed,
};

struct report {
  verdict how = verdict::good;
  std::string about;
  std::uint64_t allocations = 0;
};

/// Some 60 checks, of leased, transactional and batch kinds: done, thrown, retried and dead; doubled, in lists, posted,
/// cancelled, moved, replaced and the user's own. Then a stop, a second life of the same store, and the judgement. From
/// the first constructor until the second life has come a way the allocations from `first` on fail, `many` of them.
[[nodiscard]] report run_scenario(ground& on, std::uint64_t first, std::uint64_t many);

}  // namespace timing_wheel::durable::test

#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "compare/cascades_against_rounds.hpp"
#include "compare/options.hpp"
#include "compare/run.hpp"

namespace timing_wheel::compare {

using common::grouped;

/// All that a run of the tool found.
struct comparison {
  workload plan;
  std::vector<engine_result> engines;  ///< In the order given.
  std::vector<std::string> problems;
  std::optional<delay_sweep> by_delay;
  std::optional<cancel_sweep> by_cancel;
  std::optional<break_even> even;
  std::string interrupted_by;  ///< What ended the run before all was counted; empty: nothing.
};

void print_table(std::ostream& out, const comparison& all);
void print_trace(std::ostream& out, const engine_result& result);
void write_json(std::ostream& out, const comparison& all);

}  // namespace timing_wheel::compare

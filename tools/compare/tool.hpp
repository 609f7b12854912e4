#pragma once

#include <atomic>
#include <functional>
#include <iosfwd>

#include "common/stop_signal.hpp"
#include "compare/options.hpp"
#include "compare/run.hpp"

namespace timing_wheel::compare {

/// As `run_engine`.
using engine_runner =
    std::function<engine_result(const workload&, const engine_spec&, bool with_trace, const progress_function&)>;

/// Does what the options say; the table goes to `out`, what is wrong to `err`. Once `stop` is set, it ends with what
/// was counted until then.
/// \returns the exit status: 0; 1 if a count is not what the rules say, or an output could not be written; that of
/// common::exit_stopped. \throws usage_error.
[[nodiscard]] int run_tool(const options& chosen, std::ostream& out, std::ostream& err,
                           const engine_runner& run = run_engine, const std::atomic<bool>& stop = common::stop_asked());

}  // namespace timing_wheel::compare

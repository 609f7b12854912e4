#pragma once

#include <functional>
#include <iosfwd>

#include "compare/options.hpp"
#include "compare/run.hpp"

namespace timing_wheel::compare {

/// As `run_engine`.
using engine_runner =
    std::function<engine_result(const workload&, const engine_spec&, bool with_trace, const progress_function&)>;

/// Does what the options say; the table goes to `out`, what is wrong to `err`. \returns the exit status: 0, or 1 if a count is not what
/// the rules say, or a file could not be written. \throws usage_error.
[[nodiscard]] int run_tool(const options& chosen, std::ostream& out, std::ostream& err,
                           const engine_runner& run = run_engine);

}  // namespace timing_wheel::compare

#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/program.hpp"
#include "ledger.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace order_compensation {

using common::grouped;

/// What a run did, as the job itself counted it; `wakeups`, the memory and, live, `lateness` are those of the service.
struct figures {
  std::string mode;          ///< "live" or "replay".
  std::uint64_t orders = 0;  ///< Each reserved stock and scheduled a check.
  std::uint64_t cancelled = 0;
  std::uint64_t fired = 0;
  std::uint64_t pending = 0;         ///< Checks that neither fired nor were cancelled before the end.
  std::uint64_t late_approvals = 0;  ///< Approvals of orders whose stock had been given back, or was about to be.
  std::uint64_t early = 0;           ///< Checks that ran before their time. Must be 0.
  std::uint64_t malformed = 0;       ///< Rows of the file that were left out.
  timing_wheel::histogram lateness;
  std::uint64_t wakeups = 0;
  std::uint64_t peak_pending = 0;
  std::uint64_t peak_bytes = 0;                    ///< Memory of the service.
  std::optional<std::uint64_t> resident_growth{};  ///< Bytes by which the process grew while the checks were created.
  std::chrono::nanoseconds creating{};             ///< What creating the orders took; live only.
  std::chrono::nanoseconds elapsed{};
  stock_figures stock;
  bool interrupted = false;
  std::string interrupted_by;         ///< The name of the signal, if one did it.
  std::vector<std::string> problems;  ///< What must not be; empty if all is well.

  /// Memory of the service at its peak for each check that was created. It says what a check costs if most of them are
  /// pending at once, as live; a replay reuses the memory, so look at `peak_bytes` and `peak_pending` there.
  [[nodiscard]] double bytes_per_check() const;
};

/// Takes over what only the service knows, once it has been stopped, and notes as a problem whatever the service and
/// the job do not agree on, an early check, and a ledger that does not balance.
void audit(figures& run, const timing_wheel::timer_stats& service);

void print_table(std::ostream& out, const figures& run);

/// One JSON object, indented, with every figure.
void write_json(std::ostream& out, const figures& run);

}  // namespace order_compensation

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/options.hpp"

namespace timing_wheel::compare {

/// One timer, in time since the begin of the workload.
struct planned_timer {
  nanoseconds arrival{};
  nanoseconds due{};        ///< Not before `arrival`.
  nanoseconds cancelled{};  ///< `nanoseconds::max()`: never. Otherwise in [`arrival`, `due`).
};

/// What every engine is given. A timer's number is its index.
struct workload {
  std::vector<planned_timer> timers;         ///< By arrival.
  std::vector<std::uint32_t> cancellations;  ///< The numbers of those that are cancelled, by the time of that.
  std::uint64_t too_late = 0;                ///< Cancellations at the due time or after it: those timers fire.
  std::string delays;                        ///< As given, and so on.
  std::string arrivals;
  std::string cancel;
  nanoseconds window{};  ///< Of each timer.
  std::uint64_t seed = 0;

  [[nodiscard]] nanoseconds longest() const;  ///< Of the delays.
  [[nodiscard]] nanoseconds median() const;   ///< Of the delays.
  [[nodiscard]] nanoseconds end() const;      ///< When the last is due.
};

/// Called now and then with a share in [0, 1]. What it throws ends the work.
using progress_function = std::function<void(double)>;

/// The same for the same specification, on every machine.
/// \throws usage_error if a file cannot be used, or there is not enough memory for so many timers.
[[nodiscard]] workload make_workload(const workload_spec& spec, const progress_function& progress = {});

}  // namespace timing_wheel::compare

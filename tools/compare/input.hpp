#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "compare/options.hpp"

namespace timing_wheel::compare {

struct order_times {
  std::chrono::sys_seconds purchased;
  std::optional<std::chrono::sys_seconds> approved;  ///< Not before `purchased`; none: never.
};

/// A file that `--delays csv:FILE` names: one of the two is not empty.
struct timers_file {
  std::vector<nanoseconds> delays;
  std::vector<order_times> orders;
};

/// \throws usage_error naming the file, the line and what is wrong with it.
[[nodiscard]] timers_file read_timers(const std::string& path);

}  // namespace timing_wheel::compare

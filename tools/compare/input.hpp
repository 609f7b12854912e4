#pragma once

#include <string>
#include <vector>

#include "common/orders_table.hpp"
#include "compare/options.hpp"

namespace timing_wheel::compare {

/// A file that `--delays csv:FILE` names: one of the two is not empty.
struct timers_file {
  std::vector<nanoseconds> delays;
  std::vector<common::order_row> orders;
};

/// \throws usage_error naming the file, the line and what is wrong with it.
[[nodiscard]] timers_file read_timers(const std::string& path);

}  // namespace timing_wheel::compare

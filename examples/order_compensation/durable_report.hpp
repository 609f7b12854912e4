#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "durable_ledger.hpp"

namespace order_compensation {

/// What a run with durable checks did. `outcome`, all of the file; the rest, this run.
struct durable_figures {
  std::string file;
  bool own_file = false;  ///< Made for this run.
  std::uint64_t earlier_orders = 0;
  std::uint64_t earlier_pending = 0;  ///< Checks of earlier runs that were not over.
  verdict outcome;
  std::uint64_t placed = 0;
  std::uint64_t late_approvals = 0;
  std::uint64_t transactions = 0;  ///< Of the shop.
  std::uint64_t kills = 0;
  durations recovery;
  durations late;
  durations late_undisturbed;   ///< Of checks that were not due during a recovery.
  std::optional<double> speed;  ///< Of the time in a file of orders.
  std::uint64_t malformed = 0;
  std::chrono::nanoseconds placing{};
  std::chrono::nanoseconds elapsed{};
  bool interrupted = false;
  std::string interrupted_by;
  std::vector<std::string> problems;  ///< What must not be; empty if all is well.
};

/// Notes as problems what the ledger shows.
void audit(durable_figures& run);

void print_table(std::ostream& out, const durable_figures& run);

/// One JSON object, indented, with every figure.
void write_json(std::ostream& out, const durable_figures& run);

}  // namespace order_compensation

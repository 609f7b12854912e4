#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "durable_ledger.hpp"

namespace order_compensation {

/// How many times as fast as in a file of orders.
struct speeds_of_file {
  double orders = 1;  ///< From order to order.
  double lives = 1;   ///< From an order to its approval and its check.
};

/// What a run with durable checks did. `outcome` is of all runs at the place, the rest of this one.
struct durable_figures {
  std::string store;
  bool own = false;  ///< Made for this run.
  std::uint64_t earlier_orders = 0;
  std::uint64_t earlier_pending = 0;  ///< Checks of earlier runs that were not over.
  verdict outcome;
  std::uint64_t placed = 0;
  std::uint64_t late_approvals = 0;
  std::uint64_t transactions = 0;  ///< Of the shop.
  std::uint64_t kills = 0;         ///< Of nodes.
  std::uint64_t server_kills = 0;
  bool with_server = false;     ///< The server was to be killed, too.
  std::uint64_t takeovers = 0;  ///< Shares of the table that others took over from killed nodes; 0 if there are none.
  durations recovery;           ///< Of the kills after which others have run all that was due then.
  durations server_recovery;
  std::vector<node_figures> nodes;
  durations late;
  durations late_undisturbed;  ///< Of checks that were not due during a recovery.
  std::optional<speeds_of_file> speeds;
  std::uint64_t malformed = 0;
  std::chrono::nanoseconds placing{};
  std::chrono::nanoseconds elapsed{};
  bool interrupted = false;
  std::string interrupted_by;
  std::vector<std::string> problems;  ///< What must not be; empty if all is well.

  /// A place of its own is kept to be looked at, if something is wrong with it.
  [[nodiscard]] bool removed() const { return own && problems.empty(); }
};

/// Notes as problems what the ledger shows.
void audit(durable_figures& run);

void print_table(std::ostream& out, const durable_figures& run);

/// One JSON object, indented, with every figure.
void write_json(std::ostream& out, const durable_figures& run);

}  // namespace order_compensation

#pragma once

#include <cstdint>
#include <vector>

#include "durable_database.hpp"
#include "ledger.hpp"

namespace order_compensation {

/// What has become of all orders of a file, of earlier runs too. Read by one statement, so at one instant.
struct verdict {
  std::uint64_t orders = 0;
  std::uint64_t cancelled = 0;  ///< Orders that were confirmed.
  std::uint64_t fired = 0;      ///< Runs of checks that were committed.
  std::uint64_t pending = 0;    ///< Open orders with a check.
  std::uint64_t lost = 0;       ///< Orders neither confirmed nor given back, without a check.
  std::uint64_t doubled = 0;    ///< Orders given back twice, or confirmed and given back.
  std::uint64_t early = 0;      ///< Runs before the check was due.
  std::uint64_t strays = 0;     ///< Checks, and runs of checks, of no open order.
  stock_figures stock;          ///< `wrong_products` are those where the stock is not what the orders say.

  /// To the unit: nothing lost, nothing twice, nothing early.
  [[nodiscard]] bool exact() const noexcept {
    return stock.balanced() && lost == 0 && doubled == 0 && early == 0 && strays == 0;
  }
};

[[nodiscard]] verdict judge(database& in);

/// Microseconds, sorted.
using durations = std::vector<std::int64_t>;

/// The one below which a share of them lies. Precondition: not empty.
[[nodiscard]] std::int64_t quantile(const durations& sorted, double share);

/// Of a run: from each kill of a worker until others had run all probes of it. Kills without such are left out.
[[nodiscard]] durations recoveries(database& in, std::int64_t run);

/// Of a run: from each kill of the server to the first check that ran afterwards.
[[nodiscard]] durations server_recoveries(database& in, std::int64_t run);

/// How late the checks ran that have become due since a run began.
/// \param between_recoveries leaves out those that were due, or ran, between a kill and the end of its recovery.
[[nodiscard]] durations lateness(database& in, std::int64_t run, bool between_recoveries);

/// What one node of a run has done, in all its processes.
struct node_figures {
  std::uint64_t node = 0;  ///< From 1 on.
  std::uint64_t processes = 0;
  std::uint64_t kills = 0;
  std::uint64_t fired = 0;  ///< Checks of orders.
  std::uint64_t probes = 0;
};

/// In their order.
[[nodiscard]] std::vector<node_figures> nodes(database& in, std::int64_t run);

/// Of a run: how many shares of the table others have taken over from workers that were killed. 0 if it is not divided.
[[nodiscard]] std::uint64_t takeovers(database& in, std::int64_t run);

}  // namespace order_compensation

#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "common/progress.hpp"
#include "durable_place.hpp"
#include "durable_plan.hpp"
#include "durable_report.hpp"

namespace order_compensation {

using common::progress;

struct durable_job {
  std::chrono::nanoseconds delay = std::chrono::seconds(5);    ///< From an order to its check; not negative.
  std::chrono::nanoseconds length = std::chrono::seconds(30);  ///< Within it the orders are placed.
  std::optional<std::chrono::nanoseconds> between_kills{};     ///< On average; none: no kill.
  std::size_t nodes = 1;                                       ///< Processes that run checks.
  bool kill_server = false;                                    ///< The server is killed, too.
  double per_second = 500;                                     ///< Orders, if there is no file of them.
  std::uint64_t seed = 1;    ///< Decides which orders are approved, and when; and when workers are killed.
  std::uint64_t repeat = 1;  ///< Copies of the orders of a file.
  bool quiet = false;        ///< Does not say on standard error that the place is continued.
};

/// Keeps orders, stock and checks in one database. This process places and approves orders; others, the workers, run
/// the checks, and are killed again and again, if asked to. Ends when nothing is pending any more, or `interrupted` is
/// set.
/// \param place it is kept there, if something is wrong with it.
/// \param orders of a file, to be lived through in scaled time; null: orders are made.
/// \throws usage_error if the place cannot be used; common::failure.
[[nodiscard]] durable_figures run_durable(shop_place& place, const durable_job& job, const std::vector<order>* orders,
                                          progress& shown, const std::atomic<bool>& interrupted);

}  // namespace order_compensation

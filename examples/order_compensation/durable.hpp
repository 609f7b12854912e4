#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/progress.hpp"
#include "durable_plan.hpp"
#include "durable_report.hpp"

namespace order_compensation {

using common::progress;

struct durable_job {
  std::string file;
  bool own_file = false;  ///< It is removed at the end, unless something is wrong with it.
  std::chrono::nanoseconds delay = std::chrono::seconds(5);    ///< From an order to its check; not negative.
  std::chrono::nanoseconds length = std::chrono::seconds(30);  ///< Within it the orders are placed.
  std::optional<std::chrono::nanoseconds> between_kills{};     ///< On average; none: no kill.
  double per_second = 500;                                     ///< Orders, if there is no file of them.
  std::uint64_t seed = 1;    ///< Decides which orders are approved, and when; and when the worker is killed.
  std::uint64_t repeat = 1;  ///< Copies of the orders of a file.
  bool quiet = false;        ///< Does not say on standard error that the file is continued.
};

/// Keeps orders, stock and checks in one database. This process places and approves orders; another, the worker, runs
/// the checks, and is killed again and again, if asked to. Ends when nothing is pending any more, or `interrupted` is
/// set.
/// \param orders of a file, to be lived through in scaled time; null: orders are made.
/// \throws usage_error if the file cannot be used; common::failure.
[[nodiscard]] durable_figures run_durable(const durable_job& job, const std::vector<order>* orders, progress& shown,
                                          const std::atomic<bool>& interrupted);

}  // namespace order_compensation

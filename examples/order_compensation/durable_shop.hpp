#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "durable_database.hpp"
#include "durable_plan.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"

namespace order_compensation {

inline constexpr const char* check_kind = "verify";  ///< Of the check of an order.
inline constexpr const char* probe_kind = "probe";   ///< Of the check that is due when a worker is killed.

/// The key of the check of an order; the ledger spells it in SQL.
[[nodiscard]] std::string key_of_order(std::int64_t id);

/// Places orders and takes approvals, in transactions of its own connection. An order's row, its reservation and its
/// check are written in one transaction; so are a confirmation and the cancel of the check. What is to be done at the
/// same time shares a commit.
///
/// Thread safety: as a plain object.
class shop {
 public:
  /// \param clock of the checks; must outlive this. \param run the row of this run.
  shop(const std::string& file, timing_wheel::durable::store& clock, std::int64_t run, std::chrono::nanoseconds delay,
       order_plan plan);

  /// Does what is to be done so long after the beginning, at most a batch of it, in one transaction.
  /// \returns whether there is more to be done now.
  bool work(std::chrono::nanoseconds now);

  /// Places no order any more.
  void close();
  [[nodiscard]] bool all_placed() const { return !next_; }
  [[nodiscard]] bool all_approved() const { return approvals_.empty(); }
  [[nodiscard]] std::uint64_t placed() const { return placed_; }
  [[nodiscard]] std::uint64_t late_approvals() const { return late_approvals_; }
  [[nodiscard]] std::uint64_t transactions() const { return transactions_; }

 private:
  struct approval {
    std::chrono::nanoseconds at{};
    std::int64_t id = 0;
    goods what;

    friend bool operator>(const approval& a, const approval& b) { return a.at > b.at; }
  };

  void place(const planned_order& one, std::chrono::nanoseconds now, std::int64_t clock);
  void approve(const approval& one, std::int64_t clock);
  [[nodiscard]] bool due(std::chrono::nanoseconds now) const;

  timing_wheel::durable::store& clock_;
  const std::int64_t run_;
  const std::chrono::nanoseconds delay_;
  order_plan plan_;
  std::optional<planned_order> next_;
  std::priority_queue<approval, std::vector<approval>, std::greater<>> approvals_;
  std::uint64_t placed_ = 0;
  std::uint64_t late_approvals_ = 0;
  std::uint64_t transactions_ = 0;

  connection database_;
  statement insert_order_;
  statement reserve_;
  statement confirm_order_;
  statement sell_;
};

}  // namespace order_compensation

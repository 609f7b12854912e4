#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "durable/support/ledger.hpp"
#include "durable/support/site.hpp"
#include "ledger.hpp"
#include "orders.hpp"
#include "timing_wheel/durable/scheduler.hpp"

// A shop that keeps its orders, its stock and its checks in one database.

namespace order_compensation {

namespace rig = timing_wheel::rig;

inline constexpr const char* check_kind = "verify";  ///< Of the check of an order.

/// Makes the tables of a shop beside those of the checks, and fills its stock; or leaves them as they are.
/// \throws common::usage_error if the site cannot be used, or has the tables of something else.
void prepare(rig::site& where);

/// Places orders and takes approvals, in transactions of its own connection. An order's row, its reservation and its
/// check are written in one transaction; so are a confirmation and the cancel of the check. What is to be done at the
/// same time shares a commit. A transaction that the database has let down is done again, unless it was committed.
///
/// Thread safety: as a plain object.
class shop {
 public:
  /// \param where must outlive this. \param run the row of this run. \param first_id of its orders.
  shop(const rig::site& where, std::int64_t run, std::int64_t first_id, std::chrono::nanoseconds delay,
       order_plan plan);

  /// Does what is to be done so long after the beginning, at most a batch of it, in one transaction.
  /// \returns whether there is more to be done now.
  bool work(std::chrono::nanoseconds now);

  /// Places no order any more.
  void close() { next_.reset(); }
  [[nodiscard]] bool all_placed() const { return !next_; }
  [[nodiscard]] std::uint64_t placed() const { return placed_; }
  [[nodiscard]] std::uint64_t late_approvals() const { return late_approvals_; }
  [[nodiscard]] std::int64_t transactions() const { return transactions_; }

 private:
  using approval = std::pair<std::chrono::nanoseconds, std::int64_t>;  // when, which order

  /// What one transaction does.
  struct batch {
    std::vector<std::int64_t> approvals;
    std::vector<std::pair<std::int64_t, planned_order>> orders;
  };

  [[nodiscard]] bool due(std::chrono::nanoseconds now) const;
  [[nodiscard]] batch pick(std::chrono::nanoseconds now);
  // \returns how many approvals came too late.
  [[nodiscard]] std::uint64_t write(rig::database& in, const batch& what) const;
  void place(rig::database& in, std::int64_t id, std::int64_t clock) const;

  const std::int64_t run_;
  std::int64_t next_id_;
  const std::chrono::nanoseconds delay_;
  order_plan plan_;
  std::optional<planned_order> next_;
  std::priority_queue<approval, std::vector<approval>, std::greater<>> approvals_;
  std::uint64_t placed_ = 0;
  std::uint64_t late_approvals_ = 0;
  std::int64_t transactions_ = 0;
  rig::patient_connection database_;
};

/// Adds the handler of a worker: what the checks do, on the connection of the store. It does not ask whether the order
/// is still open: that a check runs once, and not after a cancel, is for the checks to see to. So the ledger shows if
/// it does not. \param where must outlive `checks`.
void serve(timing_wheel::durable::scheduler& checks, const rig::site& where, std::int64_t worker);

/// What has become of all orders of a site, of earlier runs too. Read by one statement, so at one instant.
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
  rig::counted faults;          ///< Of the ledger.

  /// To the unit: nothing lost, nothing twice, nothing early.
  [[nodiscard]] bool exact() const noexcept;
};

[[nodiscard]] verdict judge(rig::database& in, const rig::site& where);

}  // namespace order_compensation

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "durable_database.hpp"
#include "durable_place.hpp"
#include "durable_plan.hpp"

namespace order_compensation {

inline constexpr const char* check_kind = "verify";  ///< Of the check of an order.
inline constexpr const char* probe_kind = "probe";   ///< Of the check that is due when a worker is killed.

/// The key of the check of an order; the ledger spells it in SQL.
[[nodiscard]] std::string key_of_order(std::int64_t id);

/// The payload of the check of an order.
[[nodiscard]] std::string payload_of(const goods& what);
/// The product in it.
[[nodiscard]] std::uint32_t product_in(const std::string& payload);

/// Places orders and takes approvals, in transactions of its own connection. An order's row, its reservation and its
/// check are written in one transaction; so are a confirmation and the cancel of the check. What is to be done at the
/// same time shares a commit. A transaction that the database has let down is done again, unless it was committed.
///
/// Who changes the stock of several products does it last, and in their order: so nobody waits for each other.
///
/// Thread safety: as a plain object.
class shop {
 public:
  /// \param place must outlive this. \param run the row of this run. \param first_id of its orders.
  shop(const shop_place& place, std::int64_t run, std::int64_t first_id, std::chrono::nanoseconds delay,
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

  struct placement {
    std::int64_t id = 0;
    planned_order what;
  };
  /// What one transaction does.
  struct batch {
    std::vector<approval> approvals;
    std::vector<placement> orders;
  };
  /// What it changes in the stock of a product.
  struct change {
    std::int64_t reserved = 0;
    std::int64_t sold = 0;
  };

  [[nodiscard]] batch pick(std::chrono::nanoseconds now);
  // \returns whether it did; else it was committed before, and the answer was lost.
  [[nodiscard]] bool write(database& in, const batch& what);
  void place(database& in, const placement& one, std::int64_t clock);
  void approve(database& in, const approval& one, std::int64_t clock);
  void change_stock(database& in);
  void find_late_approvals(database& in, const batch& what);
  [[nodiscard]] bool due(std::chrono::nanoseconds now) const;

  const std::int64_t run_;
  std::int64_t next_id_;
  const std::chrono::nanoseconds delay_;
  order_plan plan_;
  std::optional<planned_order> next_;
  std::priority_queue<approval, std::vector<approval>, std::greater<>> approvals_;
  std::uint64_t placed_ = 0;
  std::uint64_t late_approvals_ = 0;
  std::uint64_t transactions_ = 0;

  patient_connection database_;
  // Of the transaction that is open.
  std::map<std::uint32_t, change> changes_;
  std::uint64_t late_ = 0;
};

}  // namespace order_compensation

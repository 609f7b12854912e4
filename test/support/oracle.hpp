#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::test {

/// The numbers that are due at each tick, sorted.
using schedule = std::map<tick, std::vector<timer_number>>;

/// What is pending, in the plainest way: an ordered set of (deadline, number).
class oracle {
 public:
  void insert(timer_number n, tick deadline) {
    deadlines_.emplace(n, deadline);
    order_.emplace(deadline, n);
  }

  /// \returns the deadline of `n`, which is forgotten; none if it was not pending.
  std::optional<tick> take(timer_number n) {
    const auto found = deadlines_.find(n);
    if (found == deadlines_.end()) {
      return std::nullopt;
    }
    const tick deadline = found->second;
    order_.erase({deadline, n});
    deadlines_.erase(found);
    return deadline;
  }

  [[nodiscard]] bool contains(timer_number n) const { return deadlines_.count(n) != 0; }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] std::optional<tick> earliest() const {
    return order_.empty() ? std::nullopt : std::optional(order_.begin()->first);
  }

  [[nodiscard]] schedule pending() const {
    schedule all;
    for (const auto& [deadline, n] : order_) {
      all[deadline].push_back(n);
    }
    return all;
  }

 private:
  std::map<timer_number, tick> deadlines_;
  std::set<std::pair<tick, timer_number>> order_;
};

}  // namespace timing_wheel::test

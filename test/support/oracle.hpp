#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::test {

/// The slots that are due at each tick, sorted.
using schedule = std::map<tick, std::vector<timer_number>>;

/// What is pending, in the plainest way: an ordered set of (deadline, number).
class oracle {
 public:
  void insert(timer_number s, tick deadline) {
    deadlines_.emplace(s, deadline);
    order_.emplace(deadline, s);
  }

  /// \returns the deadline of `n`, which is forgotten; none if it was not pending.
  std::optional<tick> take(timer_number s) {
    const auto found = deadlines_.find(s);
    if (found == deadlines_.end()) {
      return std::nullopt;
    }
    const tick deadline = found->second;
    order_.erase({deadline, s});
    deadlines_.erase(found);
    return deadline;
  }

  [[nodiscard]] bool contains(timer_number s) const { return deadlines_.count(s) != 0; }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  [[nodiscard]] std::optional<tick> earliest() const {
    return order_.empty() ? std::nullopt : std::optional(order_.begin()->first);
  }

  [[nodiscard]] schedule pending() const {
    schedule all;
    for (const auto& [deadline, s] : order_) {
      all[deadline].push_back(s);
    }
    return all;
  }

 private:
  std::map<timer_number, tick> deadlines_;
  std::set<std::pair<tick, timer_number>> order_;
};

}  // namespace timing_wheel::test

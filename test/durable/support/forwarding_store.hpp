#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable::test {

/// Hands every call on to another store. Tests derive from it to put something in between. What is to be brief goes
/// through `transact`, too, so that there is one place for that.
class forwarding_store : public store {
 public:
  explicit forwarding_store(store& real) : real_(real) {}

  void migrate() override { real_.migrate(); }
  [[nodiscard]] migration_plan plan_migration() override { return real_.plan_migration(); }
  [[nodiscard]] instant now() override { return real_.now(); }
  [[nodiscard]] const request_limits& limits() const noexcept override { return real_.limits(); }
  void transact(const std::function<void(store_transaction&)>& work) override { real_.transact(work); }
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override { real_.read_ahead(which, found); }
  void read_overdue(std::vector<overdue_kind>& found) override { real_.read_overdue(found); }
  [[nodiscard]] std::chrono::microseconds clock_difference() override { return real_.clock_difference(); }
  [[nodiscard]] std::optional<std::vector<std::int16_t>> renew_shares(std::string_view node,
                                                                      std::span<const std::string> of_kinds,
                                                                      std::chrono::milliseconds hold,
                                                                      bool leave) override {
    return real_.renew_shares(node, of_kinds, hold, leave);
  }
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override {
    return real_.find(kind, key);
  }
  using store::list_dead;
  [[nodiscard]] std::vector<dead_check> list_dead(const dead_range& range) override { return real_.list_dead(range); }
  [[nodiscard]] std::vector<paused_kind> paused_kinds() override { return real_.paused_kinds(); }
  [[nodiscard]] std::vector<drained_node> drained_nodes() override { return real_.drained_nodes(); }
  void tell_drained(std::string_view node, std::size_t held) override { real_.tell_drained(node, held); }
  [[nodiscard]] store_counts counts() const noexcept override { return real_.counts(); }

 private:
  store& real_;
};

/// Counts what goes through `transact`.
class counting_store final : public forwarding_store {
 public:
  using forwarding_store::forwarding_store;
  std::atomic<int> transactions = 0;
  void transact(const std::function<void(store_transaction&)>& work) override {
    ++transactions;
    forwarding_store::transact(work);
  }
};

}  // namespace timing_wheel::durable::test

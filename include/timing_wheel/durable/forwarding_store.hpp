#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Hands every call on to another store, which must outlive it: no call comes after the other one's end, and the
/// destructor makes none. The library's own stores derive from it, and own the other one; derive a store of your own to
/// put something in between. Thread safety: that of the other store.
class TIMING_WHEEL_EXPORT forwarding_store : public store {
 public:
  void migrate() override { real_.migrate(); }
  [[nodiscard]] migration_plan plan_migration() override { return real_.plan_migration(); }
  [[nodiscard]] instant now() override { return real_.now(); }
  [[nodiscard]] const request_limits& limits() const noexcept override { return real_.limits(); }
  void transact(const std::function<void(store_transaction&)>& work) override { real_.transact(work); }
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override {
    real_.transact_within(limits, work);
  }
  void consume_within(const transaction_limits& limits, std::span<const upcoming> wanted, std::vector<claimed>& got,
                      const std::function<void(store_transaction&)>& work) override {
    real_.consume_within(limits, wanted, got, work);
  }
  bool append_at_once(const transaction_limits& limits, std::span<append_op> ops) override {
    return real_.append_at_once(limits, ops);
  }
  bool complete_and_claim_at_once(const transaction_limits& limits, lease_round& round) override {
    return real_.complete_and_claim_at_once(limits, round);
  }
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override { real_.read_ahead(which, found); }
  void read_overdue(std::vector<overdue_kind>& found) override { real_.read_overdue(found); }
  [[nodiscard]] std::chrono::microseconds clock_difference() override { return real_.clock_difference(); }
  [[nodiscard]] std::optional<std::vector<std::int16_t>> renew_shares(std::string_view node,
                                                                      std::span<const std::string> kinds,
                                                                      std::chrono::milliseconds hold,
                                                                      bool leave = false) override {
    return real_.renew_shares(node, kinds, hold, leave);
  }
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override {
    return real_.find(kind, key);
  }
  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override { return real_.list(range); }
  [[nodiscard]] std::size_t count(const check_filter& which, std::size_t most) override {
    return real_.count(which, most);
  }
  [[nodiscard]] std::vector<kind_counts> count_kinds(std::size_t most = 100'000, bool with_waits = false) override {
    return real_.count_kinds(most, with_waits);
  }
  [[nodiscard]] std::optional<std::vector<node_info>> nodes() override { return real_.nodes(); }
  using store::list_dead;
  [[nodiscard]] std::vector<dead_check> list_dead(const dead_range& range) override { return real_.list_dead(range); }
  [[nodiscard]] std::vector<dead_group> count_dead(const dead_filter& which, std::size_t limit,
                                                   std::size_t most = 1'000'000) override {
    return real_.count_dead(which, limit, most);
  }
  void read_all(const std::function<void(stored_check&&)>& check,
                const std::function<void(dead_check&&)>& dead) override {
    real_.read_all(check, dead);
  }
  [[nodiscard]] std::vector<paused_kind> paused_kinds() override { return real_.paused_kinds(); }
  [[nodiscard]] std::vector<drained_node> drained_nodes() override { return real_.drained_nodes(); }
  void tell_drained(std::string_view node, std::size_t held) override { real_.tell_drained(node, held); }
  [[nodiscard]] std::vector<long_run> long_runs() override { return real_.long_runs(); }
  void tell_long_runs(std::string_view node, std::span<const long_run> runs) override {
    real_.tell_long_runs(node, runs);
  }
  [[nodiscard]] std::vector<failed_run> failed_runs(std::span<const std::int64_t> ids) override {
    return real_.failed_runs(ids);
  }
  void tell_failed_runs(std::string_view node, std::span<const failed_run> runs) override {
    real_.tell_failed_runs(node, runs);
  }
  [[nodiscard]] std::optional<run_counts> runs_of_last_minute() override { return real_.runs_of_last_minute(); }
  void tell_runs(std::string_view node, const run_counts& since) override { real_.tell_runs(node, since); }
  [[nodiscard]] std::vector<audit_entry> audit(std::size_t limit) override { return real_.audit(limit); }
  [[nodiscard]] store_counts counts() const noexcept override { return real_.counts(); }

 protected:
  /// Hands on to `real`.
  explicit forwarding_store(store& real) noexcept : real_(real) {}

 private:
  store& real_;
};

}  // namespace timing_wheel::durable

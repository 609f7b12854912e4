#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::durable {

/// Keeps checks in memory, for tests; nothing survives the object. If a `manual_timer` is its clock, and also drives
/// the scheduler, a test moves the time by hand and waits for nothing:
///
///     timing_wheel::manual_timer timer;
///     durable::memory_store store(timer);
///     durable::scheduler checks(store, timer);
///     checks.on("verify", handler);
///     checks.start();
///     checks.schedule({.kind = "verify", .key = "order-17", .payload = {}, .due = 30min});
///     timer.advance_by(30min);  // the handler runs here
///
/// Several schedulers may share a store, as nodes share a database. A transactional handler has no connection here. If
/// the handler fails, what it has scheduled and cancelled through its `transaction` is undone.
///
/// `store` describes the inherited members. Thread safety: any thread.
class TIMING_WHEEL_EXPORT memory_store final : public store {
 public:
  /// Uses the clock of `clock`, which must outlive the store. The zero of a `manual_timer` is 1970-01-01. The parts of
  /// a request may be as long as `limits` says.
  explicit memory_store(const timer& clock, const request_limits& limits = {});
  ~memory_store() override;

  void migrate() override;
  [[nodiscard]] instant now() override;
  [[nodiscard]] const request_limits& limits() const noexcept override;
  void transact(const std::function<void(store_transaction&)>& work) override;
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override;
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override;
  void read_overdue(std::vector<overdue_kind>& found) override;
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override;
  using store::list_dead;
  [[nodiscard]] std::vector<dead_check> list_dead(const dead_range& range) override;
  [[nodiscard]] std::vector<dead_group> count_dead(const dead_filter& which, std::size_t limit,
                                                   std::size_t most = 1'000'000) override;
  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override;
  [[nodiscard]] std::size_t count(const check_filter& which, std::size_t most) override;
  [[nodiscard]] std::vector<kind_counts> count_kinds(std::size_t most = 100'000, bool with_waits = false) override;
  [[nodiscard]] std::optional<std::int64_t> last_fence() override;
  void read_all(const std::function<void(stored_check&&)>& check,
                const std::function<void(dead_check&&)>& dead) override;
  [[nodiscard]] std::vector<paused_kind> paused_kinds() override;
  [[nodiscard]] std::vector<drained_node> drained_nodes() override;
  void tell_drained(std::string_view node, std::size_t held) override;
  [[nodiscard]] std::vector<long_run> long_runs() override;
  void tell_long_runs(std::string_view node, std::span<const long_run> runs) override;
  [[nodiscard]] std::vector<failed_run> failed_runs(std::span<const std::int64_t> ids) override;
  void tell_failed_runs(std::string_view node, std::span<const failed_run> runs) override;
  [[nodiscard]] std::vector<audit_entry> audit(std::size_t limit) override;
  [[nodiscard]] store_counts counts() const noexcept override;

  /// How many checks there are, pending and running. The dead do not count.
  [[nodiscard]] std::size_t size() const;

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

}  // namespace timing_wheel::durable

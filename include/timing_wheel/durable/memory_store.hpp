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

/// Checks in memory, for tests: nothing survives the object. With a `manual_timer` as its clock, and a scheduler that
/// the same timer drives, handlers are tested in virtual time:
///
///     timing_wheel::manual_timer timer;
///     durable::memory_store store(timer);
///     durable::scheduler checks(store, timer);
///     checks.on("verify", handler);
///     checks.start();
///     checks.schedule({.kind = "verify", .key = "order-17", .payload = {}, .due = 30min});
///     timer.advance_by(30min);
///
/// Several schedulers may share it, as nodes share a database. A transactional handler has no connection here; what it
/// schedules and cancels through its `transaction` is undone with it.
class TIMING_WHEEL_EXPORT memory_store final : public store {
 public:
  /// Its clock is that of `clock`, which must outlive it; the zero of a `manual_timer` is 1970.
  explicit memory_store(const timer& clock, const request_limits& limits = {});
  ~memory_store() override;

  void migrate() override;
  [[nodiscard]] instant now() override;
  [[nodiscard]] const request_limits& limits() const noexcept override;
  void transact(const std::function<void(store_transaction&)>& work) override;
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override;
  void read_ahead(const window& which, std::vector<upcoming>& found) override;
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override;
  [[nodiscard]] std::vector<dead_check> list_dead(std::size_t limit, std::int64_t after = 0) override;
  bool retry_dead(std::int64_t id) override;
  bool delete_dead(std::int64_t id) override;
  [[nodiscard]] store_counts counts() const noexcept override;

  /// How many checks there are, pending and running.
  [[nodiscard]] std::size_t size() const;

 private:
  class TIMING_WHEEL_LOCAL implementation;
  std::unique_ptr<implementation> implementation_;
};

}  // namespace timing_wheel::durable

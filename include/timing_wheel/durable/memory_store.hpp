#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <memory>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/forwarding_store.hpp"
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
class TIMING_WHEEL_EXPORT memory_store final : public forwarding_store {
 public:
  /// Uses the clock of `clock`, which must outlive the store. The zero of a `manual_timer` is 1970-01-01. The parts of
  /// a request may be as long as `limits` says.
  explicit memory_store(const timer& clock, const request_limits& limits = {});
  ~memory_store() override;

  /// How many checks there are, pending and running. The dead do not count.
  [[nodiscard]] std::size_t size() const;

 private:
  class TIMING_WHEEL_LOCAL implementation;
  TIMING_WHEEL_LOCAL explicit memory_store(std::unique_ptr<implementation> inside);
  std::unique_ptr<implementation> implementation_;
};

}  // namespace timing_wheel::durable

#pragma once

#include <memory>
#include <utility>

#include "drive/service.hpp"
#include "shard/run_frame.hpp"

namespace timing_wheel::detail {

/// The gate of the front: each of its calls that may run code of the user's, and uses the service afterwards, is inside
/// one, and uses the service through it.
///
/// That code is a callback, a rule, a visitor, or the destructor of what was captured. It may end the service in every
/// way, and destroy the front, and with it the last owner but those that are inside:
///
/// 1. A thread that is inside owns the service.
/// 2. An end within closes, drops and waits as any other, but frees nothing that the calls further out still use: the
///    last owner does that, when it is outside.
///
/// A call whose last step is that code needs no gate: `schedule`, `cancel`.
///
/// Thread safety: a local object of the call.
class inside_service {
 public:
  explicit inside_service(std::shared_ptr<service> one) noexcept
      : service_(std::move(one)), frame_(service_->context.get(), doing::call) {}

  service& operator*() const noexcept { return *service_; }
  service* operator->() const noexcept { return service_.get(); }

 private:
  const std::shared_ptr<service> service_;
  const run_frame frame_;  // ends before the service does
};

}  // namespace timing_wheel::detail

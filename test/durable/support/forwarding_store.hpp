#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "timing_wheel/durable/forwarding_store.hpp"

namespace timing_wheel::durable::test {

/// Hands every call on to another store. Tests derive from it to put something in between. What is to be brief goes
/// through `transact`, too, so that there is one place for that.
class forwarding_store : public durable::forwarding_store {
 public:
  explicit forwarding_store(store& real) : durable::forwarding_store(real) {}

  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): by transact of this one
    store::transact_within(limits, work);
  }
  void consume_within(const transaction_limits& limits, std::span<const upcoming> wanted, std::vector<claimed>& got,
                      const std::function<void(store_transaction&)>& work) override {
    // NOLINTNEXTLINE(bugprone-parent-virtual-call): the same
    store::consume_within(limits, wanted, got, work);
  }
  bool append_at_once(const transaction_limits& /*limits*/, std::span<append_op> /*ops*/) override { return false; }
  bool complete_and_claim_at_once(const transaction_limits& /*limits*/, lease_round& /*round*/) override {
    return false;
  }
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

#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

#include "durable/node/failures.hpp"
#include "durable/node/machine.hpp"
#include "durable/node/node_clock.hpp"
#include "durable/node/node_figures.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Tells of each call that the steps of a node make to the store: the machine whether it has worked, and the user what
/// it threw.
///
/// Invariant: the machine learns once how a tried call went. If a handler ran in that call, its time is no silence of
/// the store, and its failure does not mean that the store was away.
///
/// Thread safety: `report_failure` from any thread; the rest by one at a time, also beside it.
class store_calls {
 public:
  store_calls(store& where, machine& told, node_figures& figures, failures& reported, node_clock clock) noexcept
      : store_(where), machine_(told), figures_(figures), failures_(reported), clock_(clock) {}

  /// Calls the store; what it throws is reported, and it is left alone for a while. \returns whether it has worked.
  template <class Call>
  [[nodiscard]] bool tried(bool writing, const Call& call_store) {
    begins();
    const instant begin = clock_.now();
    try {
      call_store();
      worked(writing, clock_.now() - begin);
      return true;
    } catch (...) {
      failed(writing);
      return false;
    }
  }
  /// A hint only: if it fails, that is told, and the checks go on without it. It says nothing of the leases of others:
  /// if the store is away, the next read or write fails, too; and if it refuses writes for half a lease,
  /// `store_contact` sees that no write was answered.
  template <class Call>
  void hinted(const Call& call_store) {
    try {
      call_store();
      if (machine_.shares() != 0) {  // else the store is not divided, and was not asked
        machine_.answered(store_.now(), true);
      }
    } catch (...) {
      report_failure();
    }
  }

  /// Begins a call that the caller makes, and then tells of by `worked` or `failed`.
  void begins() noexcept { entered_ = false; }
  void worked(bool writing, std::chrono::microseconds took) {
    answered_at_ = store_.now();
    if (entered_) {
      machine_.was_busy(took, answered_at_, writing);
    } else {
      machine_.answered(answered_at_, writing);
    }
    machine_.store_works(writing);
  }
  /// \pre in a catch clause.
  void failed(bool writing) {
    if (!entered_) {
      machine_.was_away(writing);
    }
    why_ = words_of(std::current_exception());
    report_failure();
    machine_.store_failed(store_.now(), writing);
  }
  /// Only tells it. \pre in a catch clause.
  void report_failure(std::string_view kind = {}) {
    figures_.count_failure();
    failures_.report({"store", kind, {}, std::current_exception()});
  }

  /// A handler is entered in the transaction of this call.
  void enters_handler() noexcept { entered_ = true; }
  /// Whether one was, by the last call.
  [[nodiscard]] bool entered() const noexcept { return entered_; }
  /// Why a call has failed, the last time.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  /// When a call has worked, the last time.
  [[nodiscard]] instant answered_at() const noexcept { return answered_at_; }

 private:
  store& store_;
  machine& machine_;
  node_figures& figures_;
  failures& failures_;
  const node_clock clock_;
  bool entered_ = false;
  std::string why_;
  instant answered_at_{};
};

}  // namespace timing_wheel::durable

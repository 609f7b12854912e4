#pragma once

#include <algorithm>
#include <chrono>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// Whether this node may claim what others hold, when their leases have ended. A lease also ends when nobody could
/// extend it, because the store was away for longer than the lease; that is nobody's death. So after such a time this
/// node leaves ended leases alone, until the owners have had time to extend them.
///
/// | what this node has seen | ended leases are left alone for |
/// |---|---|
/// | its own start, counted from the first answer | half a lease |
/// | a failed call, no hint or refused end: from the next answer, or that to a write if a write failed | half a lease |
/// | no answer at all for half a lease: the store or this process stood still, or a clock jumped | half a lease |
/// | no answer to a write for so long (readers of SQLite do not see that writers wait) | 0.5 s, or a third of a lease |
/// | a transaction of its own that took so long (SQLite's other writers waited for it) | 0.5 s, or a third of a lease |
///
/// An owner extends each third of a lease, counted from the call before. So half a lease without an answer ends no
/// lease, and leaves an extension time that is under way. Once the store has failed, an owner tries again in short
/// steps: the owner comes first. test/models/durable_outage.pml has the proof.
///
/// Thread safety: as a plain object.
class store_contact {
 public:
  /// \param poll how often the node looks at the store when it has nothing to do.
  store_contact(std::chrono::microseconds lease, std::chrono::microseconds poll) noexcept
      : pause_(lease / 2),
        after_reads_(std::min<std::chrono::microseconds>(lease / 3, std::chrono::milliseconds(500))),
        late_(lease / 12),
        recent_(lease / 2),
        silence_(std::max(recent_, 4 * poll)) {}

  /// A call was answered at `now`.
  void answered(instant now, bool writing) noexcept {
    const bool is_back = lost_ == loss::of_any || (lost_ == loss::of_writes && writing);
    const bool was_silent = now < last_ || now - last_ > silence_;
    if (is_back || was_silent) {
      from_ = saturating_add(now, pause_);
    } else if (writing && now - last_write_ > recent_) {
      from_ = std::max(from_, saturating_add(now, after_reads_));
    }
    lost_ = is_back ? loss::none : lost_;
    touch(now, writing);
  }
  void failed(bool writing) noexcept { lost_ = writing || lost_ == loss::of_writes ? loss::of_writes : loss::of_any; }
  /// This node was busy with a transaction of its own for `time`, by a clock that nobody sets: that is no silence of
  /// the store. But on SQLite nobody else could write meanwhile. If its clock shows that more time has passed, or less,
  /// the next answer shows the jump.
  void was_busy(std::chrono::microseconds time, instant now, bool writing) noexcept {
    if (now < last_ || now - last_ - time > silence_) {
      return;
    }
    if (writing && time > recent_) {
      from_ = std::max(from_, saturating_add(now, after_reads_));
    }
    touch(now, writing);
  }

  /// When ended leases may be claimed, as far as is known.
  [[nodiscard]] instant from() const noexcept { return lost_ == loss::none ? from_ : instant::max(); }
  /// Until when a statement that is sent now may claim ended leases. What is late, because the store stood still
  /// meanwhile, claims none; nor does what comes too early.
  [[nodiscard]] instant limit(instant now) const noexcept {
    return now >= from() && now - last_write_ <= recent_ ? saturating_add(now, late_) : instant::min();
  }

 private:
  enum class loss : unsigned char { none, of_any, of_writes };

  void touch(instant now, bool writing) noexcept {
    last_ = now;
    last_write_ = writing ? now : last_write_;
  }

  const std::chrono::microseconds pause_;
  const std::chrono::microseconds after_reads_;
  const std::chrono::microseconds late_;
  const std::chrono::microseconds recent_;
  const std::chrono::microseconds silence_;
  loss lost_ = loss::of_any;
  instant last_{};        // of any answer
  instant last_write_{};  // of an answer to a write
  instant from_ = instant::max();
};

}  // namespace timing_wheel::durable

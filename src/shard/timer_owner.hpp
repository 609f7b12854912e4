#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "core/timer_view.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel::detail {

/// What a handle sees of the shard that its timer lives in; it stays until the last handle is gone.
///
/// Thread safety: all members may be called from any thread.
class timer_owner {
 public:
  timer_owner() = default;
  timer_owner(const timer_owner&) = delete;
  timer_owner& operator=(const timer_owner&) = delete;

  virtual cancel_result cancel(timer_id id) noexcept = 0;
  virtual cancel_result cancel_and_wait(timer_id id) noexcept = 0;
  virtual bool reschedule(timer_id id, time_point deadline) = 0;
  [[nodiscard]] virtual timer_view look(timer_id id) noexcept = 0;
  [[nodiscard]] virtual time_point now() const noexcept = 0;
  /// The same from the wall clock, and the present; the wall clock is read first.
  [[nodiscard]] virtual time_point from_wall(wall_time deadline) const noexcept = 0;
  /// The key of a timer of its, as `timer_handle::key`.
  [[nodiscard]] virtual std::uint64_t key_of(timer_id id) const noexcept = 0;
  /// Its place among the shards of the service.
  [[nodiscard]] virtual std::uint32_t index() const noexcept = 0;

  // References that are counted, and not yet given to a handle, so that scheduling pays for no atomic operation: one
  // per timer would take 7 ns (docs/benchmarks.md, "What paid"). \pre the lock of the shard, which guards
  // `spare_references_`.
  void take_reference() noexcept {
    constexpr std::uint64_t bulk = 1U << 20U;
    if (spare_references_ == 0) {
      add_references(bulk);
      spare_references_ = bulk;
    }
    --spare_references_;
  }
  void drop_spare_references() noexcept { drop_references(std::exchange(spare_references_, 0)); }

  /// A handle to one of its timers, which takes over a reference.
  [[nodiscard]] timer_handle handle_to(timer_id id) noexcept { return timer_handle(this, id); }

  // Memory order: a new reference is made from an existing one, so the increment orders nothing. The decrement releases
  // what this reference did, and the last one acquires it, before the object is destroyed.
  void add_references(std::uint64_t count) noexcept { references_.fetch_add(count, std::memory_order_relaxed); }
  void drop_references(std::uint64_t count) noexcept {
    if (references_.fetch_sub(count, std::memory_order_acq_rel) == count) {
      delete this;
    }
  }

 protected:
  virtual ~timer_owner() = default;

 private:
  std::uint64_t spare_references_ = 0;  // guarded by the lock of the shard
  alignas(64) std::atomic<std::uint64_t> references_{1};
};

}  // namespace timing_wheel::detail

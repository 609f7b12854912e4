#include "drive/driver.hpp"

#include <algorithm>
#include <new>

#include "timing_wheel/error.hpp"

namespace timing_wheel::detail {

// One share of each shard. \returns whether all had the memory that they needed.
inline bool driver::run_shares(tick now, time_point until, std::size_t budget, shard::share& sum) {
  bool has_memory = true;
  for (shard* const s : shards_) {
    try {
      s->run_due(now, until, budget, sum);
    } catch (const std::bad_alloc&) {
      has_memory = false;
    }
    if (context_.process.is_child()) {
      return true;
    }
  }
  return has_memory;
}

shard::share driver::run_due(tick now, time_point until, std::size_t budget) {
  shard::share sum;
  for (;;) {
    sum.more = false;
    if (!run_shares(now, until, budget, sum)) {
      throw std::bad_alloc();
    }
    if (!sum.more || sum.ran >= budget || sum.handled >= budget || is_over() || context_.process.is_child() ||
        has_come(until, context_.clock.now())) {
      return sum;
    }
    now = current_tick();
  }
}

std::size_t driver::run_until(time_point when) {
  tick now = current_tick();
  const tick last = context_.scale.floor(when);
  std::size_t ran = run_due(now, time_point::max()).ran;
  for (tick next = shards_.next_event(); next <= last; next = shards_.next_event()) {
    now = std::max(now, next);  // 0 means at once
    context_.clock.move_to(context_.scale.begin_of(now));
    ran += run_due(now, time_point::max()).ran;
  }
  return ran;
}

driver::seat::seat(driver& d, or_throw /*how*/) : driver_(d) {
  if (d.taken_.exchange(true, std::memory_order_acquire)) {
    throw timer_error(timer_errc::nested_advance);
  }
  d.set_me();
}

driver::seat::seat(driver& d, or_wait /*how*/) : driver_(d) {
  std::unique_lock lock(d.mutex_);
  d.freed_.wait(lock, [&d] { return !d.taken_.exchange(true, std::memory_order_acquire); });
  d.set_me();
}

driver::seat::~seat() {
  driver_.set_none();
  const std::lock_guard lock(driver_.mutex_);  // so that who waits for the end finds us done with the service
  driver_.taken_.store(false, std::memory_order_release);
  driver_.freed_.notify_all();
}

void driver::wait_until_free() {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, [this] { return !taken_.load(std::memory_order_relaxed); });
}

}  // namespace timing_wheel::detail

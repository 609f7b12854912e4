#include "service/driver.hpp"

#include <algorithm>
#include <new>

#include "timing_wheel/error.hpp"

namespace timing_wheel::detail {

shard::share driver::run_due(time_point until, std::size_t budget) {
  shard::share sum;
  do {
    sum.more = false;
    bool short_of_memory = false;
    const tick now = current_tick();
    for (const auto& s : shards_) {
      try {
        const shard::share one = s->run_due(now, until, budget - sum.ran);
        sum.handled += one.handled;
        sum.ran += one.ran;
        sum.more = sum.more || one.more;
      } catch (const std::bad_alloc&) {
        short_of_memory = true;
      }
      if (context_.process.is_child()) {
        return sum;
      }
    }
    if (short_of_memory) {
      throw std::bad_alloc();
    }
  } while (sum.more && sum.ran < budget && sum.handled < budget && !is_over() &&
           !has_come(until, context_.clock.now()));
  return sum;
}

std::size_t driver::run_until(time_point when) {
  std::size_t ran = run_due(time_point::max()).ran;
  for (tick next = shards_.next_event(); next <= context_.scale.floor(when); next = shards_.next_event()) {
    context_.clock.move_to(context_.scale.begin_of(next));
    ran += run_due(time_point::max()).ran;
  }
  return ran;
}

bool driver::has_batch() const noexcept {
  return std::any_of(shards_.begin(), shards_.end(), [](const auto& s) { return s->has_batch(); });
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

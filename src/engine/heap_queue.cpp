#include "timing_wheel/engine/heap_queue.hpp"

#include "engine/engine_parts.hpp"
#include "engine/engine_trace.hpp"

namespace timing_wheel {

// It has no wheels; but options that another engine refuses are a mistake here too.
heap_queue::heap_queue(const engine_options& options) : clock_(detail::checked_start(options)) {
  static_cast<void>(detail::checked_sizes(options, {512}));
}

bool heap_queue::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  reserve(n, deadline);
  queue_.push(n, deadline);
  TIMING_WHEEL_ENGINE_EVENT(pushed, 0, n, deadline);
  return true;
}

void heap_queue::reserve(timer_number n, tick /*deadline*/) {
  if (n >= queue_.members()) {
    queue_.grow(std::max(std::size_t{n} + 1, 2 * queue_.members()));
  }
}

tick heap_queue::coalesce(tick deadline, tick window) const noexcept {
  return detail::most_even(deadline, detail::latest_within(deadline, window));
}

bool heap_queue::erase(timer_number n) noexcept {
  if (!contains(n)) {
    return false;
  }
  TIMING_WHEEL_ENGINE_EVENT(erased, 0, n, queue_.expiration(n));
  queue_.erase(n);
  return true;
}

advance_result heap_queue::advance(tick now, std::size_t budget) {
  due_.clear();
  const tick target = std::max(clock_, std::min(now, never - 1));
  const auto is_due = [&] { return !queue_.empty() && queue_.front().expiration <= target; };
  detail::show_what_is_due(due_, [&] {
    while (is_due() && due_.size() < budget) {
      fire_front();
    }
  });
  catch_up(target);
  return {due_, is_due(), due_.size()};
}

void heap_queue::fire_front() {
  const delay_queue::element front = queue_.front();
  due_.push_back(front.which);
  TIMING_WHEEL_ENGINE_EVENT(due, 0, front.which, front.expiration);
  queue_.erase(front.which);
  clock_ = front.expiration;
}

bool heap_queue::shrink_some() noexcept {
  queue_.shrink();
  return false;
}

void heap_queue::read(engine_stats& counted) const {
  counted.levels.clear();
  counted.heap_operations = queue_.operations();
  counted.bytes = queue_.bytes() + due_.capacity() * sizeof(timer_number);
}

bool heap_queue::invariants_hold() const {
  return queue_.invariants_hold() && (queue_.empty() || queue_.front().expiration >= clock_);  // 1, 2
}

}  // namespace timing_wheel

#include "timing_wheel/heap_queue.hpp"

#include "engine_parts.hpp"

namespace timing_wheel {

// It has no wheels; but options that another engine refuses are a mistake here too.
heap_queue::heap_queue(const engine_options& options) : clock_(detail::checked_start(options)) {
  static_cast<void>(detail::checked_sizes(options));
}

bool heap_queue::insert(slot s, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  reserve(s, deadline);
  queue_.push(s, deadline);
  return true;
}

void heap_queue::reserve(slot s, tick /*deadline*/) {
  if (s >= queue_.members()) {
    queue_.grow(std::max(std::size_t{s} + 1, 2 * queue_.members()));
  }
}

bool heap_queue::erase(slot s) noexcept {
  if (!contains(s)) {
    return false;
  }
  queue_.erase(s);
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
  const delay_queue::entry front = queue_.front();
  due_.push_back(front.which);
  queue_.erase(front.which);
  clock_ = front.expiration;
}

engine_stats heap_queue::stats() const {
  engine_stats all;
  all.heap_operations = queue_.operations();
  all.bytes = queue_.bytes() + due_.capacity() * sizeof(slot);
  return all;
}

bool heap_queue::invariants_hold() const {
  return queue_.invariants_hold() && (queue_.empty() || queue_.front().expiration >= clock_);  // 1, 2
}

}  // namespace timing_wheel

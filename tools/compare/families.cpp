#include "compare/families.hpp"

namespace timing_wheel::compare {
namespace {

/// So that `all[n]` is there.
template <class Vector>
void make_room(Vector& all, timer_number n) {
  if (n >= all.size()) {
    all.resize(n + std::size_t{1});
  }
}

std::vector<level_stats> make_levels(std::uint32_t size, std::uint32_t levels, tick step) {
  std::vector<level_stats> made(levels);
  tick length = 1;
  for (level_stats& level : made) {
    level.tick_length = length;
    level.wheel_size = size;
    level.interval = length * size;
    length *= step;
  }
  return made;
}

void count_flush(level_stats& level, std::size_t timers) {
  level.flushes += timers != 0 ? 1U : 0U;
  level.largest_flush = std::max<std::uint64_t>(level.largest_flush, timers);
}

advance_result result_of(const std::vector<timer_number>& due, std::size_t handled) {
  advance_result result;
  result.due = due;
  result.handled = handled;
  return result;
}

}  // namespace

void* counted_memory::do_allocate(std::size_t bytes, std::size_t alignment) {
  void* const place = std::pmr::new_delete_resource()->allocate(bytes, alignment);
  used_ += bytes;
  return place;
}

void counted_memory::do_deallocate(void* place, std::size_t bytes, std::size_t alignment) {
  used_ -= bytes;
  std::pmr::new_delete_resource()->deallocate(place, bytes, alignment);
}

void slot_lists::link(timer_number n, std::size_t slot) {
  make_room(nodes_, n);
  const std::uint32_t next = std::exchange(first_[slot], n);
  nodes_[n] = {none, next, static_cast<std::uint32_t>(slot)};
  if (next != none) {
    nodes_[next].previous = n;
  }
  ++size_;
}

std::optional<std::size_t> slot_lists::unlink(timer_number n) {
  if (n >= nodes_.size() || nodes_[n].slot == none) {
    return std::nullopt;
  }
  const node gone = std::exchange(nodes_[n], node{});
  (gone.previous == none ? first_[gone.slot] : nodes_[gone.previous].next) = gone.next;
  if (gone.next != none) {
    nodes_[gone.next].previous = gone.previous;
  }
  --size_;
  return gone.slot;
}

void slot_lists::take(std::size_t slot, std::vector<timer_number>& taken) {
  for (std::uint32_t n = std::exchange(first_[slot], none); n != none; --size_) {
    taken.push_back(n);
    n = std::exchange(nodes_[n], node{}).next;
  }
}

noncascading_wheel::noncascading_wheel(std::uint32_t size, std::uint32_t levels)
    : levels_(make_levels(size, levels, noncascading_step)),
      slots_(std::size_t{size} * levels, &memory_),
      begins_(std::size_t{size} * levels, &memory_),
      upcoming_(&memory_) {}

bool noncascading_wheel::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  std::size_t k = 0;
  while (deadline - clock_ >= levels_[k].interval - levels_[k].tick_length) {
    ++k;
  }
  const level_stats& level = levels_[k];
  const tick index = (deadline + level.tick_length - 1) / level.tick_length;
  const std::size_t slot = k * level.wheel_size + index % level.wheel_size;
  if (slots_.empty(slot)) {
    begins_[slot] = index * level.tick_length;
    upcoming_.emplace(begins_[slot], slot);
  }
  slots_.link(n, slot);
  return true;
}

bool noncascading_wheel::erase(timer_number n) noexcept {
  const std::optional<std::size_t> slot = slots_.unlink(n);
  if (slot && slots_.empty(*slot)) {
    upcoming_.erase({begins_[*slot], *slot});
  }
  return slot.has_value();
}

void noncascading_wheel::catch_up(tick now) noexcept {
  clock_ = std::max(clock_, upcoming_.empty() ? now : std::min(now, upcoming_.begin()->first - 1));
}

advance_result noncascading_wheel::advance(tick now) {
  clock_ = now;
  due_.clear();
  while (!upcoming_.empty() && upcoming_.begin()->first <= now) {
    const std::size_t slot = upcoming_.begin()->second;
    const std::size_t before = due_.size();
    upcoming_.erase(upcoming_.begin());
    slots_.take(slot, due_);
    count_flush(levels_[slot / levels_.front().wheel_size], due_.size() - before);
  }
  return result_of(due_, due_.size());
}

std::optional<tick> noncascading_wheel::next_expiration() const noexcept {
  return upcoming_.empty() ? std::nullopt : std::optional(upcoming_.begin()->first);
}

engine_stats noncascading_wheel::stats() const { return {.levels = levels_, .bytes = memory_.used()}; }

sorted_wheel::sorted_wheel(std::uint32_t slots) : levels_(make_levels(slots, 1, 1)), slots_(slots, &memory_) {}

bool sorted_wheel::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  make_room(timers_, n);
  timers_[n].deadline = deadline;
  heap& slot = slot_of(deadline);
  slot.push_back(n);
  rise(slot, slot.size() - 1);
  ++size_;
  ++heap_operations_;
  return true;
}

bool sorted_wheel::erase(timer_number n) noexcept {
  if (n >= timers_.size() || timers_[n].place == none) {
    return false;
  }
  remove(slot_of(timers_[n].deadline), timers_[n].place);
  return true;
}

void sorted_wheel::put(heap& slot, std::size_t place, timer_number n) {
  slot[place] = n;
  timers_[n].place = static_cast<std::uint32_t>(place);
}

void sorted_wheel::rise(heap& slot, std::size_t place) {
  const timer_number n = slot[place];
  for (; place != 0 && is_before(n, slot[(place - 1) / 2]); place = (place - 1) / 2) {
    put(slot, place, slot[(place - 1) / 2]);
  }
  put(slot, place, n);
}

void sorted_wheel::sink(heap& slot, std::size_t place) {
  const timer_number n = slot[place];
  for (std::size_t child = 2 * place + 1; child < slot.size(); child = 2 * place + 1) {
    if (child + 1 < slot.size() && is_before(slot[child + 1], slot[child])) {
      ++child;
    }
    if (!is_before(slot[child], n)) {
      break;
    }
    put(slot, place, slot[child]);
    place = child;
  }
  put(slot, place, n);
}

void sorted_wheel::remove(heap& slot, std::size_t place) {
  timers_[slot[place]].place = none;
  const timer_number last = slot.back();
  slot.pop_back();
  if (place < slot.size()) {
    put(slot, place, last);
    rise(slot, place);
    sink(slot, timers_[last].place);
  }
  --size_;
  ++heap_operations_;
}

void sorted_wheel::catch_up(tick now) noexcept { clock_ = size_ == 0 ? std::max(clock_, now) : clock_; }

advance_result sorted_wheel::advance(tick now) {
  clock_ = now;
  due_.clear();
  heap& slot = slot_of(now);
  while (!slot.empty() && timers_[slot.front()].deadline <= now) {
    due_.push_back(slot.front());
    remove(slot, 0);
  }
  count_flush(levels_.front(), due_.size());
  return result_of(due_, due_.size());
}

std::optional<tick> sorted_wheel::next_expiration() const noexcept {
  return size_ == 0 ? std::nullopt : std::optional(clock_ + 1);
}

engine_stats sorted_wheel::stats() const {
  return {.levels = levels_, .heap_operations = heap_operations_, .bytes = memory_.used()};
}

polled_wheels::polled_wheels(std::uint32_t size, std::uint32_t levels)
    : levels_(make_levels(size, levels, size)), slots_(std::size_t{size} * levels, &memory_), deadlines_(&memory_) {}

std::size_t polled_wheels::slot_for(tick deadline) const {
  std::size_t k = 0;
  const auto index = [&](tick when) { return when / levels_[k].tick_length; };
  while (index(deadline) - index(clock_) >= levels_[k].wheel_size) {
    ++k;
  }
  return k * levels_[k].wheel_size + index(deadline) % levels_[k].wheel_size;
}

void polled_wheels::link(timer_number n) {
  const std::size_t slot = slot_for(deadlines_[n]);
  levels_[slot / levels_.front().wheel_size].buckets_queued += slots_.empty(slot) ? 1U : 0U;
  slots_.link(n, slot);
}

bool polled_wheels::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  make_room(deadlines_, n);
  deadlines_[n] = deadline;
  link(n);
  return true;
}

void polled_wheels::catch_up(tick now) noexcept { clock_ = next_expiration() ? clock_ : std::max(clock_, now); }

advance_result polled_wheels::advance(tick now) {
  if (awake_ == 0) {
    clock_ = now;
    while (awake_ < levels_.size() && now % levels_[awake_].tick_length == 0) {
      ++awake_;
    }
  }
  level_stats& level = levels_[--awake_];
  found_.clear();
  due_.clear();
  slots_.take(awake_ * level.wheel_size + now / level.tick_length % level.wheel_size, found_);
  count_flush(level, found_.size());
  for (const timer_number n : found_) {
    if (deadlines_[n] == now) {
      due_.push_back(n);
    } else {
      ++level.moves;
      link(n);
    }
  }
  return result_of(due_, found_.size());
}

std::optional<tick> polled_wheels::next_expiration() const noexcept {
  if (awake_ != 0) {
    return clock_;
  }
  return slots_.size() == 0 ? std::nullopt : std::optional(clock_ + 1);
}

engine_stats polled_wheels::stats() const { return {.levels = levels_, .bytes = memory_.used()}; }

session_buckets::session_buckets() : levels_(make_levels(0, 1, 1)) {}

bool session_buckets::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  make_room(deadlines_, n);
  deadlines_[n] = deadline;
  buckets_[deadline].insert(n);
  most_bytes_ = std::max(most_bytes_, memory_.used());
  return true;
}

bool session_buckets::erase(timer_number n) noexcept {
  const auto bucket = n < deadlines_.size() ? buckets_.find(deadlines_[n]) : buckets_.end();
  if (bucket == buckets_.end() || bucket->second.erase(n) == 0) {
    return false;
  }
  if (bucket->second.empty()) {
    buckets_.erase(bucket);
  }
  return true;
}

void session_buckets::catch_up(tick now) noexcept { clock_ = buckets_.empty() ? std::max(clock_, now) : clock_; }

advance_result session_buckets::advance(tick now) {
  clock_ = now;
  due_.clear();
  if (const auto bucket = buckets_.find(now); bucket != buckets_.end()) {
    due_.assign(bucket->second.begin(), bucket->second.end());
    buckets_.erase(bucket);
  }
  count_flush(levels_.front(), due_.size());
  return result_of(due_, due_.size());
}

std::optional<tick> session_buckets::next_expiration() const noexcept {
  return buckets_.empty() ? std::nullopt : std::optional(clock_ + 1);
}

engine_stats session_buckets::stats() const { return {.levels = levels_, .bytes = most_bytes_}; }

}  // namespace timing_wheel::compare

#include "durable/node/known_rows.hpp"

namespace timing_wheel::durable {

timer_number known_rows::find(std::int64_t id) const noexcept {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nobody : found->second;
}

timer_number known_rows::add(const upcoming& what, bool suspect) {
  if (free_ == nobody) {
    rows_.emplace_back();
    free_ = numbers() - 1;
  }
  const timer_number number = free_;
  by_id_.emplace(what.id, number);
  free_ = rows_[number].next;
  rows_[number].what = what;
  rows_[number].suspect = suspect;
  ++counts_[what.kind];
  return number;
}

void known_rows::forget(timer_number number) noexcept {
  by_id_.erase(rows_[number].what.id);
  --counts_[rows_[number].what.kind];
  rows_[number] = known_row{};
  rows_[number].next = free_;
  free_ = number;
}

bool known_rows::invariants_hold() const {
  std::size_t unused = 0;
  for (timer_number at = free_; at != nobody && unused <= rows_.size(); at = rows_[at].next) {
    ++unused;
  }
  std::vector<std::size_t> counts(counts_.size());
  for (timer_number number = 0; number < numbers(); ++number) {
    const known_row& which = rows_[number];
    if (which.at != stage::none) {
      ++counts[which.what.kind];
      if (find(which.what.id) != number) {
        return false;
      }
    }
  }
  return by_id_.size() + unused == rows_.size() && counts == counts_;
}

void row_queue::push_back(known_rows& rows, timer_number number) noexcept {
  rows[number].previous = last_;
  rows[number].next = nobody;
  (empty() ? first_ : rows[last_].next) = number;
  last_ = number;
  ++size_;
}

void row_queue::push_front(known_rows& rows, timer_number number) noexcept {
  rows[number].previous = nobody;
  rows[number].next = first_;
  (empty() ? last_ : rows[first_].previous) = number;
  first_ = number;
  ++size_;
}

void row_queue::remove(known_rows& rows, timer_number number) noexcept {
  const known_row& which = rows[number];
  (which.previous == nobody ? first_ : rows[which.previous].next) = which.next;
  (which.next == nobody ? last_ : rows[which.next].previous) = which.previous;
  --size_;
}

bool row_queue::holds(const known_rows& rows, stage at) const noexcept {
  timer_number before = nobody;
  std::size_t count = 0;
  for (timer_number number = first_; number != nobody; before = number, number = rows[number].next) {
    if (rows[number].at != at || rows[number].previous != before || ++count > size_) {
      return false;
    }
  }
  return count == size_ && last_ == before;
}

}  // namespace timing_wheel::durable

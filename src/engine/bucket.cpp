#include "timing_wheel/detail/bucket.hpp"

#include <algorithm>
#include <new>

namespace timing_wheel::detail {

void bucket_store::refill() {
  // Places are kept plus one, so the last number is not to be had.
  if (chunks_.size() >= UINT32_MAX / chunk::capacity - chunks_per_page) {
    throw std::bad_alloc();
  }
  const std::size_t first = chunks_.size();
  if (owners_.size() == first) {  // else an earlier attempt came this far
    owners_.add_page();
  }
  chunks_.add_page();
  for (std::size_t i = chunks_.size(); i-- > first;) {
    chunks_[i].base = static_cast<entry_place>(i * chunk::capacity);
    free_.push_front(chunks_[i]);
  }
}

void bucket::open_chunk(bucket_store& store) {
  chunk& c = store.acquire();
  store.set_owner(c, this);
  chunks_.push_back(c);
  base_ = c.base;
  end_ = 0;
}

void bucket::close_last_chunk(bucket_store& store) noexcept {
  first_ = empty() ? 0 : first_;
  chunk& c = chunks_.back();
  chunks_.pop_back();
  store.release(c);
  base_ = chunks_.empty() ? 0 : chunks_.back().base;
  end_ = chunk::capacity;
}

void bucket::drop_front(bucket_store& store, std::uint32_t count) noexcept {
  first_ = static_cast<std::uint8_t>(first_ + count);
  size_ -= count;
  if (size_ == 0) {
    close_last_chunk(store);
  } else if (first_ == chunk::capacity) {
    first_ = 0;
    chunk& c = chunks_.front();
    chunks_.pop_front();
    store.release(c);
  }
}

bool bucket::splice_front_chunk(bucket_store& store, bucket& from) noexcept {
  if (!empty() && (end_ != chunk::capacity || from.first_ != 0)) {
    return false;
  }
  chunk& c = from.chunks_.front();
  const std::uint32_t count = std::min(from.size_, chunk::capacity - from.first_);
  first_ = empty() ? from.first_ : first_;
  end_ = static_cast<std::uint8_t>(from.first_ + count);
  base_ = c.base;
  size_ += count;
  from.first_ = 0;
  from.size_ -= count;
  if (from.empty()) {
    from.base_ = 0;
    from.end_ = chunk::capacity;
  }
  from.chunks_.pop_front();
  chunks_.push_back(c);
  store.set_owner(c, this);
  return true;
}

bool bucket::invariants_hold(const bucket_store& store) const noexcept {
  if (size_ == 0) {
    return chunks_.empty() && first_ == 0 && end_ == chunk::capacity;  // (4)
  }
  std::uint32_t room = 0;
  for (const chunk& c : chunks_) {
    if (store.owner(c.base) != this || &store.at(c.base) != c.entries.data()) {  // (2)
      return false;
    }
    room += chunk::capacity;
  }
  const std::uint32_t unused = chunk::capacity - end_;
  if (first_ >= chunk::capacity || unused >= chunk::capacity || room != first_ + size_ + unused ||
      base_ != chunks_.back().base) {  // (1)
    return false;
  }
  bool known = true;
  for_each([&](const entry& e) { known = known && store.linked(e.which) && &store.at(store.place(e.which)) == &e; });
  return known;  // (3)
}

}  // namespace timing_wheel::detail

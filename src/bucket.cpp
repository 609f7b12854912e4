#include "timing_wheel/bucket.hpp"

#include <algorithm>
#include <new>

namespace timing_wheel {

void bucket_store::refill() {
  // Places are kept plus one, so the last number is not to be had.
  if (chunks_.size() >= UINT32_MAX / chunk::capacity - chunks_per_page) {
    throw std::bad_alloc();
  }
  const std::size_t first = chunks_.size();
  if (entries_.size() == first * chunk::capacity) {  // else an earlier attempt came this far
    entries_.add_page();
  }
  chunks_.add_page();
  for (std::size_t i = chunks_.size(); i-- > first;) {
    chunks_[i].base = static_cast<position>(i * chunk::capacity);
    free_.push_front(chunks_[i]);
  }
}

void bucket::open_chunk(bucket_store& store) {
  chunk& c = store.acquire();
  c.owner = this;
  chunks_.push_back(c);
  end_ = c.base;
}

void bucket::close_last_chunk(bucket_store& store) noexcept {
  chunk& c = chunks_.back();
  chunks_.pop_back();
  store.release(c);
  end_ = chunks_.empty() ? 0 : chunks_.back().base + chunk::capacity;
}

void bucket::erase(bucket_store& store, slot s) noexcept {
  const position hole = store.place(s);
  const position last = end_ - 1;
  const entry moved = store.at(last);
  store.at(hole) = moved;
  store.set_place(moved.which, hole);
  store.unlink(s);
  end_ = last;
  if (--size_ == 0) {
    first_ = 0;
    close_last_chunk(store);
  } else if (last % chunk::capacity == 0) {
    close_last_chunk(store);
  }
}

void bucket::drop_front(bucket_store& store, std::uint32_t count) noexcept {
  first_ += count;
  size_ -= count;
  if (size_ == 0) {
    first_ = 0;
    close_last_chunk(store);
  } else if (first_ == chunk::capacity) {
    first_ = 0;
    chunk& c = chunks_.front();
    chunks_.pop_front();
    store.release(c);
  }
}

bool bucket::take_front_chunk(bucket& from) noexcept {
  if (!empty() && (end_ % chunk::capacity != 0 || from.first_ != 0)) {
    return false;
  }
  chunk& c = from.chunks_.front();
  const std::uint32_t count = std::min(from.size_, chunk::capacity - from.first_);
  first_ = empty() ? from.first_ : first_;
  end_ = c.base + from.first_ + count;
  size_ += count;
  from.first_ = 0;
  from.size_ -= count;
  from.end_ = from.empty() ? 0 : from.end_;
  from.chunks_.pop_front();
  chunks_.push_back(c);
  c.owner = this;
  return true;
}

bool bucket::invariants_hold(const bucket_store& store) const noexcept {
  if (size_ == 0) {
    return chunks_.empty() && first_ == 0 && end_ == 0;  // (4)
  }
  std::uint32_t room = 0;
  for (const chunk& c : chunks_) {
    if (c.owner != this || &store.chunk_of(c.base) != &c) {  // (2)
      return false;
    }
    room += chunk::capacity;
  }
  const std::uint32_t unused = chunks_.back().base + chunk::capacity - end_;
  if (first_ >= chunk::capacity || unused >= chunk::capacity || room != first_ + size_ + unused) {  // (1)
    return false;
  }
  bool known = true;
  for_each(store,
           [&](const entry& e) { known = known && store.linked(e.which) && &store.at(store.place(e.which)) == &e; });
  return known;  // (3)
}

}  // namespace timing_wheel

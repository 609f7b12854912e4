#include "timing_wheel/detail/bucket.hpp"

#include <memory>
#include <new>
#include <utility>

namespace timing_wheel::detail {

namespace {

constexpr std::uint64_t bit(std::size_t place) noexcept { return std::uint64_t{1} << place; }
constexpr std::size_t lowest(std::uint64_t mask) noexcept { return static_cast<std::size_t>(std::countr_zero(mask)); }

void move_entry(bucket_store& store, chunk& to, std::size_t place, entry moved) noexcept {
  to.at(place) = moved;
  store.set_place(moved.which, to.base + static_cast<entry_place>(place));
}

/// Moves the live entries of `from` into the gaps of `to`, which has enough of them.
void fill_gaps(bucket_store& store, chunk& to, const chunk& from) noexcept {
  std::uint64_t live = store.live(to.base);
  for (std::uint64_t left = store.live(from.base); left != 0; left &= left - 1) {
    const std::size_t gap = lowest(to.places() & ~live);
    live |= bit(gap);
    move_entry(store, to, gap, from.at(lowest(left)));
  }
  store.set_live(to.base, live, store.count(to.base) + store.count(from.base));
}

/// Moves the live entries of a chunk to its beginning.
void close_up(bucket_store& store, chunk& c) noexcept {
  std::uint64_t live = 0;
  std::size_t end = c.skipped;
  for (std::uint64_t left = store.live(c.base); left != 0; left &= left - 1, ++end) {
    live |= bit(end);
    move_entry(store, c, end, c.at(lowest(left)));
  }
  store.set_live(c.base, live, store.count(c.base));
}

}  // namespace

// Room for the number of one more chunk.
void bucket_store::keep_numbers() {
  // Places are kept plus one, so the last number is not to be had.
  if (numbers_ >= UINT32_MAX / chunk::capacity - 1) {
    throw std::bad_alloc();
  }
  homes_.cover(numbers_ + 63);
  lives_.cover(numbers_ + 63);
}

template <std::uint32_t Room>
chunk& bucket_store::pool<Room>::make(bucket_store& store) {
  keep_spare(store);
  const std::size_t number = store.numbers_++;
  chunk& c = *std::construct_at(&chunks[made++], static_cast<entry_place>(number * chunk::capacity));
  store.homes_[number].where = &c;
  return c;
}

template chunk& bucket_store::pool<chunk::small_capacity>::make(bucket_store& store);
template chunk& bucket_store::pool<chunk::capacity>::make(bucket_store& store);

std::size_t bucket::size(const bucket_store& store) const noexcept {
  std::size_t sum = 0;
  for (const chunk& c : chunks_) {
    sum += store.count(c.base);
  }
  return sum;
}

// A new last chunk, or the last one with its gaps closed; or a small one, if it is the only one and has become sparse.
void bucket::make_room(bucket_store& store) {
  constexpr std::uint32_t few_of_small = 2 * chunk::small_capacity / 3;
  if (chunks_.empty()) {
    fill_from(append(store, true), 0);
    return;
  }
  chunk& last = chunks_.back();
  const std::uint32_t count = store.count(last.base);
  if (count <= few_of_small && !last.is_small() && &last == &chunks_.front()) {
    chunk& c = append(store, true);
    fill_gaps(store, c, last);
    take_out(store, last);
    fill_from(c, count);
  } else if (count <= (last.is_small() ? few_of_small : chunk::capacity / 2)) {
    close_up(store, last);
    fill_from(last, count);
  } else {
    fill_from(append(store, false), 0);
  }
}

// An erase has left few entries in the chunk of `p`.
bucket* bucket::close_gaps(bucket_store& store, entry_place p) noexcept {
  chunk& sparse = store.chunk_of(p);
  if (store.count(p) == 0) {
    take_out(store, sparse);
    return this;
  }
  const auto place = chunk_list::s_iterator_to(sparse);
  if (place != chunks_.begin() && merge(store, *std::prev(place), sparse)) {
    return nullptr;
  }
  if (const auto next = std::next(place); next != chunks_.end()) {
    merge(store, sparse, *next);
  }
  return nullptr;
}

// Makes one of two neighbours, if one has room for the entries of both. Nothing moves into the last one, whose places
// are given away in order.
bool bucket::merge(bucket_store& store, chunk& c, chunk& next) noexcept {
  const std::uint32_t first = store.count(c.base);
  const std::uint32_t second = store.count(next.base);
  if (first + second > chunk::capacity) {
    return false;
  }
  const bool into_next = !next.is_small() && &next != &chunks_.back() && (first < second || c.is_small());
  if (!into_next && c.is_small()) {
    return false;
  }
  chunk& kept = into_next ? next : c;
  chunk& gone = into_next ? c : next;
  fill_gaps(store, kept, gone);
  take_out(store, gone);
  return true;
}

bool bucket::splice_front_chunk(bucket_store& store, bucket& from) noexcept {
  chunk& c = from.chunks_.front();
  if (!empty() && store.count(chunks_.back().base) + store.count(c.base) <= chunk::capacity) {
    return false;
  }
  next_ = nullptr;
  if (&c == &from.chunks_.back()) {
    next_ = std::exchange(from.next_, nullptr);
    next_place_ = from.next_place_;
  }
  from.chunks_.pop_front();
  chunks_.push_back(c);
  store.set_owner(c, this);
  return true;
}

bool bucket::invariants_hold(const bucket_store& store) const noexcept {
  std::uint32_t before = chunk::capacity;
  for (const chunk& c : chunks_) {
    if (store.owner(c.base) != this || &store.chunk_of(c.base) != &c) {  // 2
      return false;
    }
    const std::uint64_t mask = store.live(c.base);
    const auto count = static_cast<std::uint32_t>(std::popcount(mask));
    if (count == 0 || count != store.count(c.base) || (mask & ~c.places()) != 0) {  // 2
      return false;
    }
    const bool is_last = &c == &chunks_.back();
    if (is_last && has_room()) {
      const std::size_t end = next_place_ - c.base;
      if (end >= chunk::capacity || next_ != &c.at(end) || (mask >> end) != 0) {  // 1
        return false;
      }
    }
    const bool is_first = &c == &chunks_.front();
    if (!is_first && !is_last && !c.is_small() && before + count < fewest_of_two) {  // 3
      return false;
    }
    before = is_first || c.is_small() ? std::uint32_t{chunk::capacity} : count;
  }
  bool known = true;
  for_each(store, [&](const entry& e) {
    known = known && store.linked(e.which) && &store.at(store.place(e.which)) == &e;  // 1
  });
  return known;
}

}  // namespace timing_wheel::detail

#include "timing_wheel/detail/engine/bucket.hpp"

#include <algorithm>
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

/// Moves the live entries of `from` into the gaps of `to`, which has enough of them. None are left there.
void fill_gaps(bucket_store& store, chunk& to, const chunk& from) noexcept {
  std::uint64_t live = store.live(to.base);
  for (std::uint64_t left = store.live(from.base); left != 0; left &= left - 1) {
    const std::size_t gap = lowest(to.places() & ~live);
    live |= bit(gap);
    move_entry(store, to, gap, from.at(lowest(left)));
  }
  store.set_live(to.base, live, store.count(to.base) + store.count(from.base));
  store.set_live(from.base, 0, 0);
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

// Memory for 64 chunks, and numbers for them: those of a page that was given back, or new ones.
std::size_t bucket_store::add_page(std::size_t bytes, std::uint32_t room) {
  std::size_t index = pages_.size();
  if (given_back_ != 0) {
    const auto gap = std::find_if(pages_.begin(), pages_.end(), [](const page& p) { return p.begin == nullptr; });
    index = static_cast<std::size_t>(gap - pages_.begin());
  } else if (pages_.size() == pages_.capacity()) {
    pages_.reserve(2 * pages_.capacity() + 1);
  }
  // Places are kept plus one, so the last number is not to be had.
  if (index >= UINT32_MAX / chunk::capacity / chunks_per_page) {
    throw std::bad_alloc();
  }
  homes_.cover((index + 1) * chunks_per_page - 1);
  lives_.cover((index + 1) * chunks_per_page - 1);
  const page made{memory_.allocate(bytes), room};
  if (index == pages_.size()) {
    pages_.push_back(made);
  } else {
    pages_[index] = made;
    --given_back_;
  }
  return index;
}

template <std::uint32_t Room>
chunk& bucket_store::pool<Room>::make(bucket_store& store) {
  keep_spare(store);
  auto* const begin = static_cast<chunk_type*>(store.pages_[number / chunks_per_page].begin);
  chunk& c = *std::construct_at(begin + number % chunks_per_page, static_cast<entry_place>(number * chunk::capacity));
  store.homes_[number].where = &c;
  ++number;
  --left;
  return c;
}

template <std::uint32_t Room>
void bucket_store::pool<Room>::give_back(bucket_store& store, std::size_t index) noexcept {
  auto* const begin = static_cast<chunk_type*>(store.pages_[index].begin);
  const bool is_being_made = left != 0 && number / chunks_per_page == index;
  const std::size_t made = is_being_made ? chunks_per_page - left : chunks_per_page;
  for (std::size_t i = 0; i < made; ++i) {
    free.erase(begin[i]);
  }
  if (is_being_made) {
    left = 0;
  }
  store.memory_.release(begin, page_bytes);
}

bool bucket_store::is_unused(std::size_t index) const noexcept {
  const std::size_t first = index * chunks_per_page;
  std::uint32_t alive = 0;
  for (std::size_t i = first; i < first + chunks_per_page; ++i) {
    alive |= lives_[i].count;
  }
  return alive == 0;
}

void bucket_store::give_page_back(std::size_t index) noexcept {
  if (pages_[index].room == chunk::small_capacity) {
    small_.give_back(*this, index);
  } else {
    large_.give_back(*this, index);
  }
  pages_[index].begin = nullptr;
  ++given_back_;
}

bool bucket_store::shrink_some() noexcept {
  if (shrink_pages() || shrink_places() || memory_.discard_some()) {
    return true;
  }
  is_shrinking_ = false;
  return false;
}

bool bucket_store::shrink_pages() noexcept {
  constexpr int pages_per_step = 4;
  if (!is_shrinking_) {
    is_shrinking_ = true;
    pages_left_ = pages_.size();
  }
  // From the last one down, so that an allocator which gives the system the end of what it has does so bit by bit.
  for (int looked_at = 0; looked_at < pages_per_step && pages_left_ != 0; ++looked_at) {
    const std::size_t index = --pages_left_;
    if (pages_[index].begin != nullptr && is_unused(index)) {
      give_page_back(index);
      return true;
    }
  }
  if (pages_left_ != 0) {
    return true;
  }
  // Numbers at the end that no page has are nobody's.
  constexpr std::size_t numbers_per_step = 4096;
  for (std::size_t step = 0; !pages_.empty() && pages_.back().begin == nullptr; ++step) {
    if (step == numbers_per_step) {
      return true;
    }
    pages_.pop_back();
    --given_back_;
  }
  const std::size_t numbers = pages_.size() * chunks_per_page;
  return lives_.shrink_towards(numbers, numbers_per_step) || homes_.shrink_towards(numbers, numbers_per_step);
}

// What is zero at the end says of each timer that it is not linked, and so does an end that is not there.
bool bucket_store::shrink_places() noexcept {
  constexpr std::size_t places_per_step = 16'384;
  const std::size_t stop = places_.size() - std::min(places_.size(), places_per_step);
  std::size_t end = places_.size();
  while (end > stop && places_[end - 1] == 0) {
    --end;
  }
  return places_.shrink_towards(end, places_per_step);
}

template chunk& bucket_store::pool<chunk::small_capacity>::make(bucket_store& store);
template chunk& bucket_store::pool<chunk::capacity>::make(bucket_store& store);

std::size_t bucket::size(const bucket_store& store) const noexcept {
  std::size_t sum = 0;
  for (const chunk* c = chunks_.first(); c != nullptr; c = chunks_.after(*c)) {
    sum += store.count(c->base);
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

bucket* bucket::close_gaps(bucket_store& store, entry_place p) noexcept {
  bucket& of = *store.owner(p);
  chunk& sparse = store.chunk_of(p);
  if (store.count(p) == 0) {
    of.take_out(store, sparse);
    return of.empty() ? &of : nullptr;
  }
  if (chunk* const previous = of.chunks_.before(sparse); previous != nullptr && of.merge(store, *previous, sparse)) {
    return nullptr;
  }
  if (chunk* const next = of.chunks_.after(sparse); next != nullptr) {
    of.merge(store, sparse, *next);
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
  from.chunks_.erase(c);
  chunks_.push_back(c);
  store.set_owner(c, this);
  return true;
}

bool bucket::invariants_hold(const bucket_store& store) const noexcept {
  std::uint32_t before = chunk::capacity;
  for (const chunk* at = chunks_.first(); at != nullptr; at = chunks_.after(*at)) {
    const chunk& c = *at;
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

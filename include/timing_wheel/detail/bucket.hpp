#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <array>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>

#include "timing_wheel/detail/paged_array.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/engine/tick.hpp"

namespace timing_wheel::detail {

class bucket;

/// Where an entry is among all entries of a `bucket_store`.
using entry_place = std::uint32_t;

/// A node of a bucket's list, with room for `capacity` entries side by side, so that a cascade walks memory in order
/// and never touches a timer. The first entries follow its links, so that a small bucket needs a cache line or two.
class chunk : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
 public:
  /// Entries of a chunk.
  static constexpr std::uint32_t capacity = 64;

  /// Leaves the entries as they are in memory: each is written before it is read.
  chunk() noexcept {}  // NOLINT(modernize-use-equals-default,*-member-init): entries are written before they are read

  entry_place base = 0;                 ///< Place of the first entry; fixed for the life of the chunk.
  std::array<entry, capacity> entries;  ///< Which of them are in use, the bucket knows that has the chunk.
};

static_assert(chunk::capacity <= UINT8_MAX);

/// A bucket's chunks, in order; or those of the pool. It owns none of them, and counting them is O(n).
using chunk_list = boost::intrusive::list<chunk, boost::intrusive::constant_time_size<false>>;

/// What the buckets of one engine share: the chunks, which bucket each belongs to, and where the entry of each timer
/// is.
///
/// Memory: 4 bytes per timer number, and 8.5 bytes per entry in a full chunk. A chunk that falls empty goes back to the
/// pool at once; the pool keeps what it has, so nothing is allocated after warm-up. Thread safety: none of its own.
class bucket_store {
 public:
  bucket_store() = default;
  bucket_store(const bucket_store&) = delete;
  bucket_store& operator=(const bucket_store&) = delete;
  ~bucket_store() { free_.clear(); }

  /// Makes room for timer `n`. Strong guarantee on `std::bad_alloc`. Complexity: O(1) amortised.
  void cover(timer_number n) {
    while (n >= places_.size()) {
      places_.add_page();
    }
  }

  [[nodiscard]] bool linked(timer_number n) const noexcept { return n < places_.size() && places_[n] != 0; }

  /// \pre `linked(n)`.
  [[nodiscard]] entry_place place(timer_number n) const noexcept { return places_[n] - 1; }
  void set_place(timer_number n, entry_place p) noexcept { places_[n] = p + 1; }
  void unlink(timer_number n) noexcept { places_[n] = 0; }

  /// Tells the processor that the place of `n` is about to change. \pre `n` is covered.
  void prefetch(timer_number n) const noexcept { __builtin_prefetch(&places_[n], 1); }

  /// The entry at `p`. \pre `p` lies in a chunk of this store.
  [[nodiscard]] entry& at(entry_place p) noexcept { return chunks_[p / chunk::capacity].entries[p % chunk::capacity]; }
  /// The same, to read.
  [[nodiscard]] const entry& at(entry_place p) const noexcept {
    return chunks_[p / chunk::capacity].entries[p % chunk::capacity];
  }

  /// Whose entry lies at `p`. These lie side by side, apart from the chunks, so that they stay in the cache.
  [[nodiscard]] bucket* owner(entry_place p) const noexcept { return owners_[p / chunk::capacity]; }
  /// Writes down which bucket has the chunk.
  void set_owner(const chunk& c, bucket* b) noexcept { owners_[c.base / chunk::capacity] = b; }

  /// Makes sure that the next `acquire` does not throw. Strong guarantee on `std::bad_alloc`.
  void keep_spare() {
    if (free_.empty()) {
      refill();
    }
  }

  /// An empty chunk. Strong guarantee on `std::bad_alloc`.
  [[nodiscard]] chunk& acquire() {
    keep_spare();
    chunk& c = free_.front();
    free_.pop_front();
    return c;
  }
  /// Gives a chunk back to the pool, which keeps it for the next `acquire`. \pre it is in no bucket's list.
  void release(chunk& c) noexcept { free_.push_front(c); }

  /// Memory held, in use or kept for reuse.
  [[nodiscard]] std::size_t bytes() const noexcept { return places_.bytes() + chunks_.bytes() + owners_.bytes(); }

 private:
  void refill();

  static constexpr std::size_t chunks_per_page = 64;
  paged_array<std::uint32_t, 4096> places_;  // place + 1; 0: not linked
  paged_array<chunk, chunks_per_page> chunks_;
  paged_array<bucket*, chunks_per_page> owners_;
  chunk_list free_;
};

/// The timers that expire in one slot of a wheel: an unrolled doubly-linked list of (deadline, number) pairs.
///
/// It is Kafka's `TimerTaskList` and Netty's `HashedWheelBucket`, with the list running through chunks of entries
/// instead of through the timers: linked `boost::intrusive` chunks, all full but the first (being emptied) and the last
/// (being filled). Entries leave in the order they came, except that an erase fills its hole with the last entry.
///
/// Example: push 7, 8, 9; erase 7; then `front_run` is 9, 8.
///
/// Thread safety: none of its own. Every operation is O(1), or O(the run that it handles). Invariants: (1) `size()`
/// entries lie from `first_` in the first chunk to before `end_` in the last; (2) each chunk is owned by this bucket;
/// (3) the store knows the place of each entry; (4) an empty bucket has no chunk.
class bucket {
 public:
  bucket() = default;
  bucket(const bucket&) = delete;
  bucket& operator=(const bucket&) = delete;
  ~bucket() { chunks_.clear(); }

  /// Whether it has no entry, and hence no chunk.
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  /// How many entries it has, those that are not yet flushed included.
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }

  /// When the bucket is flushed; set once per revolution of its wheel, while it is empty.
  [[nodiscard]] tick expiration() const noexcept { return expiration_; }
  /// Sets it for the next revolution. \pre the bucket is empty, since deadlines are told by their distance from the
  /// expiration.
  void set_expiration(tick expiration) noexcept { expiration_ = expiration; }

  /// A number for the bucket's owner to know it by.
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  /// The owner sets it once; the bucket itself makes nothing of it.
  void set_number(std::uint32_t number) noexcept { number_ = number; }

  /// The deadline of an entry, restored from its lower half. \pre it lies in [`expiration()`, `expiration()` + 2^32).
  [[nodiscard]] tick deadline_of(entry e) const noexcept {
    return expiration_ + (e.deadline_low - static_cast<std::uint32_t>(expiration_));
  }

  /// Adds an entry at the end. Strong guarantee on `std::bad_alloc`. \pre the store covers `e.which`, which is not
  /// linked.
  void push_back(bucket_store& store, entry e) {
    if (end_ == chunk::capacity) {
      open_chunk(store);
    }
    chunks_.back().entries[end_] = e;
    store.set_place(e.which, base_ + end_);
    ++end_;
    ++size_;
  }

  /// Takes `n` out. \pre its entry is in this bucket.
  void erase(bucket_store& store, timer_number n) noexcept {
    const entry_place hole = store.place(n);
    --end_;
    const entry moved = chunks_.back().entries[end_];
    store.at(hole) = moved;
    store.set_place(moved.which, hole);
    store.unlink(n);
    if (--size_ == 0 || end_ == 0) {
      close_last_chunk(store);
    }
  }

  /// The longest run of entries at the front that lie side by side. \pre not empty.
  [[nodiscard]] std::span<const entry> front_run() const noexcept {
    const std::uint32_t room = chunk::capacity - first_;
    return {chunks_.front().entries.data() + first_, size_ < room ? size_ : room};
  }

  /// Tells the processor that the chunk after the first, if there is one, is about to be read. \pre not empty.
  void prefetch_second_chunk() const noexcept {
    if (first_ + size_ > chunk::capacity) {
      constexpr std::size_t line = 64;
      const auto* const begin = reinterpret_cast<const char*>(&*std::next(chunks_.begin()));
      for (std::size_t offset = 0; offset < sizeof(chunk); offset += line) {
        __builtin_prefetch(begin + offset);
      }
    }
  }

  /// Forgets the first `count` entries of `front_run`; the store is left as it is.
  void drop_front(bucket_store& store, std::uint32_t count) noexcept;

  /// Moves the first chunk of `from`, another bucket of the same store, with its entries to the end of this one. They
  /// keep their places. \returns false, and does nothing, if that would leave a gap between the entries. \pre `from` is
  /// not empty.
  bool splice_front_chunk(bucket_store& store, bucket& from) noexcept;

  /// Calls `visit(entry)` for each entry, in order.
  template <class Visitor>
  void for_each(Visitor&& visit) const {
    std::uint32_t offset = first_;
    std::uint32_t left = size_;
    for (const chunk& c : chunks_) {
      for (; offset < chunk::capacity && left > 0; ++offset, --left) {
        visit(c.entries[offset]);
      }
      offset = 0;
    }
  }

  /// \returns whether the numbered invariants hold. Complexity: O(size()).
  [[nodiscard]] bool invariants_hold(const bucket_store& store) const noexcept;

 private:
  void open_chunk(bucket_store& store);
  void close_last_chunk(bucket_store& store) noexcept;

  chunk_list chunks_;
  tick expiration_ = 0;
  std::uint32_t size_ = 0;
  std::uint32_t number_ = 0;
  entry_place base_ = 0;                // of the last chunk
  std::uint8_t first_ = 0;              // entries of the first chunk that are gone
  std::uint8_t end_ = chunk::capacity;  // where in the last chunk the next entry goes; the capacity: into a new one
};

}  // namespace timing_wheel::detail

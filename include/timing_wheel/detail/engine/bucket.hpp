#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <array>
#include <bit>
#include <boost/intrusive/circular_list_algorithms.hpp>
#include <boost/intrusive/list_hook.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "timing_wheel/detail/engine/flat_array.hpp"
#include "timing_wheel/detail/engine/page_source.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::detail {

class bucket;

/// Where an entry is among all entries of a `bucket_store`.
using entry_place = std::uint32_t;

/// A node of a bucket's list, with room for 64 entries side by side, or for 12, so that a cascade walks memory in order
/// and never touches a timer.
///
/// A chunk has 64 places, from `base` on. A small one leaves the first 52 out, so that the last place of both is the
/// same, and one bit for each fits a word.
class chunk : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::normal_link>> {
 public:
  /// Places of a chunk.
  static constexpr std::uint32_t capacity = 64;
  /// Entries of a small one.
  static constexpr std::uint32_t small_capacity = 12;

  chunk(entry_place first_place, std::uint32_t room) noexcept : base(first_place), skipped(capacity - room) {}

  const entry_place base;       ///< A multiple of the capacity.
  const std::uint32_t skipped;  ///< How many of the first places it leaves out.

  [[nodiscard]] bool is_small() const noexcept { return skipped != 0; }
  /// The entry at `base + offset`. \pre `skipped <= offset < capacity`.
  [[nodiscard]] inline entry& at(std::size_t offset) noexcept;
  /// The same, to read.
  [[nodiscard]] inline const entry& at(std::size_t offset) const noexcept;
  /// A bit for each entry that it has room for.
  [[nodiscard]] std::uint64_t places() const noexcept { return ~std::uint64_t{0} << skipped; }
};

/// A chunk and its entries, each of which is written before it is read.
template <std::uint32_t Room>
struct chunk_of_room : chunk {
  explicit chunk_of_room(entry_place first_place) noexcept : chunk(first_place, Room) {}  // NOLINT(*-member-init)

  std::array<entry, Room> entries;
};

inline entry& chunk::at(std::size_t offset) noexcept {
  return is_small() ? static_cast<chunk_of_room<small_capacity>*>(this)->entries[offset - (capacity - small_capacity)]
                    : static_cast<chunk_of_room<capacity>*>(this)->entries[offset];
}
inline const entry& chunk::at(std::size_t offset) const noexcept { return const_cast<chunk*>(this)->at(offset); }

/// A bucket's chunks, in order; or those of a pool. It owns none of them. It is a ring of `boost::intrusive` hooks, and
/// knows the first of them alone, so that zeroes are an empty one; `boost::intrusive::list` has a hook of its own in
/// the ring.
class chunk_list {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// The first one, or null.
  [[nodiscard]] chunk* first() const noexcept { return first_; }
  /// \pre not empty.
  [[nodiscard]] chunk& front() const noexcept { return *first_; }
  /// \pre not empty.
  [[nodiscard]] chunk& back() const noexcept { return *of(ring::node_traits::get_previous(first_)); }
  /// The one after `c`, or null. \pre `c` is in this list.
  [[nodiscard]] chunk* after(const chunk& c) const noexcept {
    chunk* const next = of(ring::node_traits::get_next(hook_of(c)));
    return next == first_ ? nullptr : next;
  }
  /// The one before `c`, or null. \pre `c` is in this list.
  [[nodiscard]] chunk* before(const chunk& c) const noexcept {
    return &c == first_ ? nullptr : of(ring::node_traits::get_previous(hook_of(c)));
  }

  void push_back(chunk& c) noexcept {
    if (empty()) {
      ring::init_header(&c);
      first_ = &c;
    } else {
      ring::link_before(first_, &c);
    }
  }
  void push_front(chunk& c) noexcept {
    push_back(c);
    first_ = &c;
  }
  /// \pre `c` is in this list.
  void erase(chunk& c) noexcept {
    chunk* const next = of(ring::node_traits::get_next(&c));
    if (next == &c) {
      first_ = nullptr;
      return;
    }
    if (&c == first_) {
      first_ = next;
    }
    ring::unlink(&c);
  }

 private:
  using ring = boost::intrusive::circular_list_algorithms<boost::intrusive::list_node_traits<void*>>;
  [[nodiscard]] static ring::node_ptr hook_of(const chunk& c) noexcept { return const_cast<chunk*>(&c); }
  [[nodiscard]] static chunk* of(ring::node_ptr hook) noexcept { return static_cast<chunk*>(hook); }

  chunk* first_;
};

/// What the buckets of one engine share: the chunks, what is alive in each, which bucket each belongs to, and where the
/// entry of each timer is.
///
/// What is alive lies apart from the entries, side by side, so that it stays in the cache: an erase clears a bit there,
/// and touches no entry.
///
/// Memory: 4 bytes per timer number, and 8.6 bytes per entry in a full chunk. A chunk that falls empty goes back to the
/// pool at once; the pool keeps what it has until `shrink_some`, so nothing is allocated after warm-up.
///
/// Chunks are made in pages of 64 of one size, whose numbers follow each other. What is alive in a chunk that nobody
/// has is nothing; so a page whose 64 counts are 0 is in use by nobody. Thread safety: none of its own.
class bucket_store {
 public:
  /// An empty one. `huge_pages`: see `page_source`.
  explicit bucket_store(bool huge_pages = true) noexcept
      : memory_(huge_pages), places_(huge_pages), lives_(huge_pages), homes_(huge_pages) {}
  bucket_store(const bucket_store&) = delete;
  bucket_store& operator=(const bucket_store&) = delete;
  ~bucket_store() = default;

  /// Makes room for timer `n`. Strong guarantee on `std::bad_alloc`. Complexity: O(1) amortised.
  void cover(timer_number n) { places_.cover(n); }

  /// Whether there is.
  [[nodiscard]] bool covers(timer_number n) const noexcept { return n < places_.size(); }

  [[nodiscard]] bool linked(timer_number n) const noexcept { return n < places_.size() && places_[n] != 0; }

  /// \pre `linked(n)`.
  [[nodiscard]] entry_place place(timer_number n) const noexcept { return places_[n] - 1; }
  void set_place(timer_number n, entry_place p) noexcept { places_[n] = p + 1; }
  void unlink(timer_number n) noexcept { places_[n] = 0; }

  /// Tells the processor that the place of `n` is about to change. \pre `n` is covered.
  void prefetch(timer_number n) const noexcept { __builtin_prefetch(&places_[n], 1); }

  /// Tells the processor that these are about to be erased, those of them that are linked. The place of one leads to
  /// what is alive in its chunk, so all places are asked for first.
  void prefetch(std::span<const timer_number> some) const noexcept {
    for (const timer_number n : some) {
      if (covers(n)) {
        prefetch(n);
      }
    }
    for (const timer_number n : some) {
      if (linked(n)) {
        __builtin_prefetch(&lives_[place(n) / chunk::capacity], 1);
      }
    }
  }

  /// The chunk that `p` lies in.
  [[nodiscard]] chunk& chunk_of(entry_place p) const noexcept { return *homes_[p / chunk::capacity].where; }
  /// The entry at `p`. \pre `p` lies in a chunk of this store.
  [[nodiscard]] const entry& at(entry_place p) const noexcept { return chunk_of(p).at(p % chunk::capacity); }

  /// The live entries of the chunk that `p` lies in, a bit for each. The chunk of a bucket has one at least.
  [[nodiscard]] std::uint64_t live(entry_place p) const noexcept { return lives_[p / chunk::capacity].mask; }
  /// How many these are.
  [[nodiscard]] std::uint32_t count(entry_place p) const noexcept { return lives_[p / chunk::capacity].count; }
  /// The entry at `p` has come to life.
  void enliven(entry_place p) noexcept {
    life& of = lives_[p / chunk::capacity];
    of.mask |= std::uint64_t{1} << (p % chunk::capacity);
    ++of.count;
  }
  /// It has ended. \returns how many are left in its chunk.
  std::uint32_t end(entry_place p) noexcept {
    life& of = lives_[p / chunk::capacity];
    of.mask &= ~(std::uint64_t{1} << (p % chunk::capacity));
    return --of.count;
  }
  /// These are alive, and no others, of the chunk that `p` lies in.
  void set_live(entry_place p, std::uint64_t mask, std::uint32_t count) noexcept {
    lives_[p / chunk::capacity] = {mask, count};
  }

  /// Whose entry lies at `p`.
  [[nodiscard]] bucket* owner(entry_place p) const noexcept { return homes_[p / chunk::capacity].owner; }
  /// Writes down which bucket has the chunk.
  void set_owner(const chunk& c, bucket* b) noexcept { homes_[c.base / chunk::capacity].owner = b; }

  /// Makes sure that the next `acquire` does not throw. Strong guarantee on `std::bad_alloc`.
  void keep_spare() {
    small_.keep_spare(*this);
    large_.keep_spare(*this);
  }

  /// An empty chunk. Strong guarantee on `std::bad_alloc`.
  [[nodiscard]] chunk& acquire(bool is_small) { return is_small ? small_.acquire(*this) : large_.acquire(*this); }
  /// Gives a chunk back to its pool, which keeps it for the next `acquire`. \pre it is in no bucket's list, and has no
  /// live entry.
  void release(chunk& c) noexcept { (c.is_small() ? small_.free : large_.free).push_front(c); }

  /// A step of giving back what nobody needs: pages of chunks, and the ends of the arrays. It looks at 256 chunks, or
  /// at 64 KiB of an array, or gives a page of 64 chunks back. \returns whether there may be more to do.
  bool shrink_some() noexcept;

  /// Where its memory comes from, and that of other arrays may.
  [[nodiscard]] page_source& memory() noexcept { return memory_; }
  /// Memory held, in use or kept for reuse.
  [[nodiscard]] std::size_t bytes() const noexcept {
    return memory_.bytes() + places_.bytes() + lives_.bytes() + homes_.bytes() + pages_.capacity() * sizeof(page);
  }

 private:
  struct life {
    std::uint64_t mask;
    std::uint32_t count;
  };

  struct home {
    bucket* owner;
    chunk* where;
  };

  static constexpr std::size_t chunks_per_page = 64;

  // Memory for chunks of one size; none if it was given back.
  struct page {
    void* begin;
    std::uint32_t room;
  };

  // Chunks of one size: those that nobody has, and a page that more are made of.
  template <std::uint32_t Room>
  struct pool {
    using chunk_type = chunk_of_room<Room>;
    static constexpr std::size_t page_bytes = sizeof(chunk_type) * chunks_per_page;

    void keep_spare(bucket_store& store) {
      if (free.empty() && left == 0) {
        number = store.add_page(page_bytes, Room) * chunks_per_page;
        left = chunks_per_page;
      }
    }
    chunk& acquire(bucket_store& store) {
      if (free.empty()) {
        return make(store);
      }
      chunk& c = free.front();
      free.erase(c);
      return c;
    }
    [[gnu::noinline]] chunk& make(bucket_store& store);
    // \pre nobody has a chunk of page `index`.
    void give_back(bucket_store& store, std::size_t index) noexcept;

    std::size_t number = 0;  // of the next chunk to make
    std::size_t left = 0;    // how many its page has room for
    chunk_list free{};
  };

  [[nodiscard]] std::size_t add_page(std::size_t bytes, std::uint32_t room);
  [[nodiscard]] bool is_unused(std::size_t index) const noexcept;
  void give_page_back(std::size_t index) noexcept;
  bool shrink_pages() noexcept;
  bool shrink_places() noexcept;

  page_source memory_;
  flat_array<std::uint32_t> places_;  // place + 1; 0: not linked
  flat_array<life> lives_;            // of each chunk
  flat_array<home> homes_;            // the same
  std::vector<page> pages_;           // of each 64 numbers
  std::size_t given_back_ = 0;        // how many of them have no memory
  bool is_shrinking_ = false;         // between steps of `shrink_some`
  std::size_t pages_left_ = 0;        // for it to look at, from the last one down
  pool<chunk::small_capacity> small_;
  pool<chunk::capacity> large_;
};

/// The timers that expire in one slot of a wheel: an unrolled doubly-linked list of (deadline, number) pairs.
///
/// It is Kafka's `TimerTaskList` and Netty's `HashedWheelBucket`, with the list running through chunks of entries
/// instead of through the timers: linked `boost::intrusive` chunks. New entries go to the end of the last one. An erase
/// clears a bit, and leaves a gap. Gaps are closed when chunks have become sparse: when a chunk has 48, 32 or 16
/// entries left, it and its neighbour become one if they fit; and the last one, when its end is reached, is closed up
/// and filled on if no more than a half of it is alive. So two neighbours, neither of which is at an end, have 50 live
/// entries or more, and an entry moves once in its stay, on average, or less. Entries leave in the order they came, but
/// for those that have filled a gap.
///
/// Example: push 7, 8, 9; erase 7; then the entries are 8, 9.
///
/// Thread safety: none of its own. Every operation is O(1): it looks at two chunks at most. Invariants: (1) an entry is
/// alive if and only if the store has its place; each lies before `next_` if its chunk is the last; (2) each chunk is
/// owned by this bucket, and has a live entry; (3) two neighbours that are neither first, last nor small have at least
/// 50.
class bucket {
 public:
  bucket() = default;  // as trivial as that, so that zeroed memory is full of empty ones
  bucket(const bucket&) = delete;
  bucket& operator=(const bucket&) = delete;
  ~bucket() = default;

  /// Whether it has no entry, and hence no chunk.
  [[nodiscard]] bool empty() const noexcept { return chunks_.empty(); }
  /// How many entries it has, those that are not yet flushed included. Complexity: O(chunks).
  [[nodiscard]] std::size_t size(const bucket_store& store) const noexcept;

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
    if (!has_room()) {
      make_room(store);
    }
    push_behind(store, e);
  }

  /// Whether the last chunk has room behind its entries; false if the bucket is empty.
  [[nodiscard]] bool has_room() const noexcept { return next_ != nullptr; }
  /// Adds an entry there. \pre `has_room()`, and as for `push_back`.
  void push_behind(bucket_store& store, entry e) noexcept {
    const entry_place p = next_place_++;
    *next_++ = e;
    store.set_place(e.which, p);
    store.enliven(p);
    if (next_place_ % chunk::capacity == 0) {
      next_ = nullptr;
    }
  }

  /// Takes `n`, whose entry lies at `p`, out of its bucket. \returns whether its chunk has become sparse; then the next
  /// call must be `close_gaps(store, p)`, which seldom happens. \pre `n` is linked.
  [[nodiscard]] static bool erase(bucket_store& store, timer_number n, entry_place p) noexcept {
    store.unlink(n);
    return store.end(p) % few == 0;
  }
  /// Joins the chunk that `p` lies in with a neighbour if they fit, or takes it out if it is empty. \returns its bucket
  /// if that is empty now, or null. \pre `erase` of the entry at `p` has just said so.
  [[gnu::noinline]] static bucket* close_gaps(bucket_store& store, entry_place p) noexcept;

  /// What was written into the first chunk, whether it is still alive or not; this does not ask the store. \pre not
  /// empty, and no chunk was spliced into it.
  [[nodiscard]] std::span<const entry> written_at_front() const noexcept {
    const chunk& front = chunks_.front();
    const entry* const begin = &front.at(front.skipped);
    const entry* const end =
        &front == &chunks_.back() && has_room() ? next_ : begin + (chunk::capacity - front.skipped);
    return {begin, end};
  }

  /// Where the live entries at the front lie: from the first to the last one of the first chunk, with the gaps between
  /// them. \pre not empty.
  [[nodiscard]] std::span<const entry> front_run(const bucket_store& store) const noexcept {
    const chunk& front = chunks_.front();
    const std::uint64_t mask = store.live(front.base);
    const auto first = static_cast<std::size_t>(std::countr_zero(mask));
    return {&front.at(first), chunk::capacity - first - static_cast<std::size_t>(std::countl_zero(mask))};
  }
  /// How many live ones these are. \pre not empty.
  [[nodiscard]] std::uint32_t front_count(const bucket_store& store) const noexcept {
    return store.count(chunks_.front().base);
  }

  /// Tells the processor that the chunk after the first, if there is one, is about to be read. \pre not empty.
  void prefetch_second_chunk() const noexcept {
    if (const chunk* const second = chunks_.after(chunks_.front()); second != nullptr) {
      constexpr std::size_t line = 64;
      const auto* const begin = reinterpret_cast<const char*>(second);
      for (std::size_t offset = 0; offset < sizeof(chunk_of_room<chunk::capacity>); offset += line) {
        __builtin_prefetch(begin + offset);
      }
    }
  }

  /// Calls `visit(entry)` for the live entries of the first chunk, in order, but for no more than `budget`. Those that
  /// were visited leave the bucket and count against the budget, also when `visit` throws for the next; what the store
  /// knows of their timers is left to `visit`. Inlined, because what is done for an entry is little. \pre not empty.
  template <class Visitor>
  [[gnu::always_inline]] void flush_front(bucket_store& store, std::size_t& budget, Visitor&& visit) {
    const chunk& front = chunks_.front();
    const std::uint64_t live = store.live(front.base);
    const std::uint32_t count = store.count(front.base);
    const std::uint32_t wanted = budget < count ? static_cast<std::uint32_t>(budget) : count;
    std::uint32_t left = wanted;
    auto place = static_cast<std::uint32_t>(std::countr_zero(live));
    const entry* next = &front.at(place);
    // By value, so that what the loop changes stays in registers.
    const auto end_visits = [this, &store, &budget, live, count, wanted](std::uint32_t from, std::uint32_t unvisited) {
      const std::uint32_t visited = wanted - unvisited;
      budget -= visited;
      keep_of_front(store, visited == count ? 0 : live >> from << from, count - visited);
    };
    try {
      for (;;) {
        // Nearly always there is one run of live ones.
        const auto run = static_cast<std::uint32_t>(std::countr_one(live >> place));
        for (const std::uint32_t stop = place + (run < left ? run : left); place != stop; ++place, ++next, --left) {
          visit(*next);
        }
        if (left == 0) {
          break;
        }
        const auto gap = static_cast<std::uint32_t>(std::countr_zero(live >> place));
        place += gap;
        next += gap;
      }
    } catch (...) {
      end_visits(place, left);
      throw;
    }
    end_visits(place, left);
  }

  /// Moves the first chunk of `from`, another bucket of the same store, with its entries to the end of this one. They
  /// keep their places. \returns false, and does nothing, if two neighbours would be sparse. \pre `from` is not empty.
  bool splice_front_chunk(bucket_store& store, bucket& from) noexcept;

  /// Calls `visit(entry)` for each entry, in order.
  template <class Visitor>
  void for_each(const bucket_store& store, Visitor&& visit) const {
    for (const chunk* c = chunks_.first(); c != nullptr; c = chunks_.after(*c)) {
      for (std::uint64_t left = store.live(c->base); left != 0; left &= left - 1) {
        visit(c->at(static_cast<std::size_t>(std::countr_zero(left))));
      }
    }
  }

  /// \returns whether the numbered invariants hold. Complexity: O(size()).
  [[nodiscard]] bool invariants_hold(const bucket_store& store) const noexcept;

 private:
  static constexpr std::uint32_t few = chunk::capacity / 4;
  static constexpr std::uint32_t fewest_of_two = 50;

  [[gnu::noinline]] void make_room(bucket_store& store);
  chunk& append(bucket_store& store, bool is_small) {
    chunk& c = store.acquire(is_small);
    store.set_owner(c, this);
    chunks_.push_back(c);
    return c;
  }
  // Entries go into the last chunk from there on.
  void fill_from(chunk& last, std::uint32_t entries) noexcept {
    const std::uint32_t offset = last.skipped + entries;
    next_ = &last.at(offset);
    next_place_ = last.base + offset;
  }
  void keep_of_front(bucket_store& store, std::uint64_t mask, std::uint32_t count) noexcept {
    chunk& front = chunks_.front();
    store.set_live(front.base, mask, count);
    if (count == 0) {
      take_out(store, front);
    }
  }
  void take_out(bucket_store& store, chunk& c) noexcept {
    if (&c == &chunks_.back()) {
      next_ = nullptr;
    }
    chunks_.erase(c);
    store.release(c);
  }
  bool merge(bucket_store& store, chunk& c, chunk& next) noexcept;

  chunk_list chunks_;
  tick expiration_;
  entry* next_;             // where in the last chunk the next entry goes; null: there is no room
  entry_place next_place_;  // the place of that
  std::uint32_t number_;
};
static_assert(std::is_trivially_default_constructible_v<bucket> && std::is_trivially_destructible_v<bucket>);

}  // namespace timing_wheel::detail

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "timing_wheel/detail/engine/paged_array.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/engine/engine.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

/// \file
/// Where the timers of a shard are kept: their nodes, the slab of them, and the limit of how many may be pending.

namespace timing_wheel::detail {

/// Counts the pending timers of a service against its limit. Without a limit it counts nothing, and costs nothing.
///
/// Memory order: relaxed throughout; the count orders nothing but itself, and a compare-exchange never lets it pass the
/// limit.
class admission {
 public:
  explicit admission(std::size_t limit) noexcept : limit_(limit) {}

  [[nodiscard]] bool enter() noexcept {
    if (limit_ == no_limit) {
      return true;
    }
    std::size_t inside = inside_.load(std::memory_order_relaxed);
    while (inside < limit_) {
      if (inside_.compare_exchange_weak(inside, inside + 1, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void leave() noexcept {
    if (limit_ != no_limit) {
      inside_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> inside_{0};
};

/// How many bits of `timer_handle::key()` tell the place, and how many its generation.
inline constexpr unsigned number_bits = 27;
inline constexpr unsigned generation_bits = 27;

enum class node_state : std::uint8_t {
  free,     // in a free list of the slab, or never used
  armed,    // linked in the engine
  waiting,  // not in the engine: was due when it came, or the engine had no memory for it
  due,      // in the driver's batch, or with the executor; its callback has not begun
  // From here on the offers may know better:
  offered,  // at the place `next` of the offers: the driver may begin its callback without the lock
  running,  // its callback has begun; only the thread that runs it touches the callable
};

/// One timer, in one cache line.
struct alignas(64) timer_node {
  task callback;
  time_point deadline;
  std::uint64_t tag = 0;
  std::uint32_t generation = 0;  // of its place: from 1 on, once that is made
  timer_number next = 0;         // in the free list, or in the list of waiting timers; or a place of the offers
  timer_number previous = 0;     // in the list of waiting timers
  node_state state = node_state::free;
  bool recurring = false;  // it is periodic, and keeps its place among the pending while it runs
  bool cancelled = false;  // while it ran: it is not armed again
  short_window window;     // in ticks, to be armed with again
};
static_assert(sizeof(timer_node) == 64);

/// What a page of places looks like whose memory was given back: free places that fit no id. Nobody writes it.
union free_page {
  static constexpr std::size_t size = 1024;

  constexpr free_page() noexcept : nodes{} {}
  ~free_page() {}  // NOLINT(modernize-use-equals-default): the nodes are not ended

  std::array<timer_node, size> nodes;
};
inline constinit free_page the_free_page;

/// The timers of one shard, in pages that never move; a place that is given back is the first to be used again.
///
/// The free places are a stack, dealt to eight lists in turn: a place that is given back goes to the next list, and one
/// is taken from the list that came last. So the place which will be taken eight calls later is known without a look at
/// those before it, and is fetched meanwhile: after cancels in random order, each place lies anywhere.
///
/// Every use of a place has its own generation, from 1 on. A place whose generations are used up is given up, so that
/// an id never fits two timers. Places and generations have 27 bits each, so that both fit into `timer_handle::key()`,
/// with 10 for the shard: a shard holds 134 million timers at a time, and a place serves as many, one after the other.
///
/// `shrink_some` gives back the memory of pages all of whose places are free, in steps. Of such a page a number is
/// kept, its *floor*: the largest generation of its places, none of which was given to a timer. Its places go on from
/// there when the page is made again. Until then the page that all such pages share stands for it, so that an id of old
/// finds a free place there, as it would in any page. The steps: the free lists are put aside; they are dealt to the
/// pages, a place at a time; then, from the last page on, a page to which all of its places were dealt gives its memory
/// back, and another one puts its places back, before all other free places. So low pages are used first, and high ones
/// fall free. Between two steps `acquire` takes from what was put aside or dealt before it makes anything new.
///
/// Example: pages 0 and 1 are full of free places, but for place 5, which has a timer. After all steps page 1 has no
/// memory, and the next `acquire` gives a place of page 0. Had place 2000 been used 7 times, the places of page 1 would
/// begin with generation 8.
///
/// Thread safety: none of its own.
class slab {
 public:
  explicit slab(bool huge_pages = true) noexcept : memory_(huge_pages) {}
  slab(const slab&) = delete;
  slab& operator=(const slab&) = delete;
  ~slab() {
    for (timer_number begin = 0; begin < extent_; begin += page) {
      if (!is_given_back(begin / page)) {
        for (timer_number n = begin; n < std::min(begin + page, extent_); ++n) {
          std::destroy_at(&nodes_[n]);
        }
      }
    }
  }

  /// A place that is free. Strong guarantee on `std::bad_alloc`. Complexity: O(1), a page of 64 KiB every 1024 places.
  timer_number acquire() {
    timer_number& list = free_[turn_ % lists];
    const timer_number n = list;
    if (n == none) [[unlikely]] {
      return acquire_otherwise();
    }
    --turn_;
    const timer_number next = nodes_[n].next;
    list = next;
    if (next != none) {
      prefetch(next);
    }
    return n;
  }

  /// Gives a place back; ids of it fit nothing any more.
  void release(timer_number n) noexcept { release(n, nodes_[n]); }
  /// The same, for who has found its node. \pre `node` is that of `n`.
  void release(timer_number n, timer_node& node) noexcept {
    node.state = node_state::free;
    if (++node.generation < end_of_generations) {
      push(n, node);
    }
  }

  [[nodiscard]] timer_node& operator[](timer_number n) noexcept { return nodes_[n]; }
  [[nodiscard]] timer_id id_of(timer_number n) const noexcept { return {n, nodes_[n].generation}; }

  /// The timer that `id` stands for, or null if it is finished.
  [[nodiscard]] timer_node* find(timer_id id) noexcept {
    timer_node& node = nodes_[id.number];
    return node.generation == id.generation && node.state != node_state::free ? &node : nullptr;
  }

  void prefetch(timer_number n) const noexcept { __builtin_prefetch(&nodes_[n], 1); }

  /// One past the largest place that was ever used.
  [[nodiscard]] timer_number extent() const noexcept { return extent_; }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return memory_.bytes() + dealt_.capacity() * sizeof(dealt) + floors_.capacity() * sizeof(std::uint32_t);
  }

  /// A step of giving back the memory of pages all of whose places are free: it looks at 128 places, or at 256 pages,
  /// or gives one page back. Places may be acquired and released between two steps. Without memory to begin it does
  /// nothing.
  /// \returns whether there is more to do. Complexity: O(1); the first and the last step O(pages).
  bool shrink_some() noexcept {
    switch (step_) {
      case step::none:
        return put_aside();
      case step::deal:
        deal_some();
        return true;
      case step::give_back:
        give_back_some();
        return true;
      case step::discard:
        if (memory_.discard_some()) {
          return true;
        }
        step_ = step::none;
        return false;
    }
    return false;
  }

 private:
  static constexpr timer_number none = UINT32_MAX;
  static constexpr unsigned lists = 8;  // a power of two, so that the turn may wrap around
  static constexpr int places_per_step = 128;

  // The first place of each.
  using free_lists = std::array<timer_number, lists>;
  static constexpr free_lists no_places() noexcept {
    free_lists empty{};
    empty.fill(none);
    return empty;
  }

  // The free places of a page, linked.
  struct dealt {
    timer_number first = none;
    std::uint32_t count = 0;
    std::uint32_t largest_generation = 0;
  };

  enum class step : std::uint8_t { none, deal, give_back, discard };

  void push(timer_number n, timer_node& node) noexcept { node.next = std::exchange(free_[++turn_ % lists], n); }

  [[gnu::noinline]] timer_number acquire_otherwise() {
    if (step_ == step::deal) {
      if (timer_number& list = first_aside(); list != none) {
        return std::exchange(list, nodes_[list].next);
      }
    }
    for (; next_dealt_ < dealt_.size(); ++next_dealt_) {
      if (put_back(dealt_[next_dealt_])) {
        return acquire();
      }
    }
    if (given_back_ != 0) {
      make_again();
      return acquire();
    }
    return append();
  }

  bool put_aside() noexcept {
    const std::size_t pages = nodes_.size() / page;
    try {
      floors_.resize(pages);
      dealt_.resize(pages);
    } catch (const std::bad_alloc&) {
      dealt_ = std::vector<dealt>();
      return false;
    }
    next_dealt_ = 0;
    aside_ = std::exchange(free_, no_places());
    step_ = step::deal;
    return true;
  }

  // A list of places that are to be dealt; an empty one if there is none.
  [[nodiscard]] timer_number& first_aside() noexcept {
    return *std::find_if(aside_.begin(), aside_.end() - 1, [](timer_number list) { return list != none; });
  }

  void deal_some() noexcept {
    for (int i = 0; i < places_per_step; ++i) {
      timer_number& list = first_aside();
      if (list == none) {
        break;
      }
      const timer_number n = list;
      timer_node& node = nodes_[n];
      list = node.next;
      dealt& to = dealt_[n / page];
      node.next = to.first;
      to.first = n;
      to.largest_generation = std::max(to.largest_generation, node.generation);
      ++to.count;
    }
    if (first_aside() == none) {
      next_dealt_ = 0;
      pages_left_ = dealt_.size();
      step_ = step::give_back;
    }
  }

  void give_back_some() noexcept {
    constexpr int pages_per_step = 256;
    for (int i = 0; i < pages_per_step && pages_left_ != 0; ++i) {
      const std::size_t index = pages_left_ - 1;
      if (give_back(index) || put_back(dealt_[index])) {
        return;
      }
      --pages_left_;
    }
    if (pages_left_ == 0) {
      dealt_ = std::vector<dealt>();
      step_ = step::discard;
    }
  }

  // Does nothing unless all places of the page are dealt.
  bool give_back(std::size_t index) noexcept {
    const auto begin = static_cast<timer_number>(index * page);
    const timer_number end = std::min<timer_number>(begin + page, extent_);
    dealt& places = dealt_[index];
    if (places.count == 0 || places.count != end - begin) {
      return false;
    }
    // Their callables are destroyed already, and there is nothing else in a node to end.
    memory_.release(nodes_.page(index), nodes_.page_bytes);
    nodes_.replace_page(index, the_free_page.nodes.data());
    floors_[index] = places.largest_generation;
    places = {};
    extent_ = std::max<timer_number>(extent_, begin + page);  // whole pages are made again
    first_given_back_ = given_back_ == 0 ? index : std::min(first_given_back_, index);
    ++given_back_;
    return true;
  }

  // Some, before all other free places. \returns whether there was any.
  bool put_back(dealt& places) noexcept {
    const bool any = places.count != 0;
    for (int i = 0; i < places_per_step && places.count != 0; ++i) {
      const timer_number n = std::exchange(places.first, nodes_[places.first].next);
      push(n, nodes_[n]);
      --places.count;
    }
    return any;
  }

  [[nodiscard]] bool is_given_back(std::size_t index) const noexcept {
    return nodes_.page(index) == the_free_page.nodes.data();
  }

  // The first page that has no memory gets some. \pre there is one, and no place is free.
  void make_again() {
    const std::size_t index = first_given_back_;
    auto* const made = static_cast<timer_node*>(memory_.allocate(nodes_.page_bytes));
    const auto begin = static_cast<timer_number>(index * page);
    for (timer_number i = 0; i < page; ++i) {
      timer_node& node = *std::construct_at(made + i);
      node.generation = floors_[index];
      node.next = i + lists < page ? begin + i + lists : none;
    }
    nodes_.replace_page(index, made);
    for (unsigned i = 0; i < lists; ++i) {
      free_[(turn_ - i) % lists] = begin + i;
    }
    if (--given_back_ != 0) {
      while (!is_given_back(first_given_back_)) {
        ++first_given_back_;
      }
    }
  }

  timer_number append() {
    if (extent_ == nodes_.size()) {
      if (extent_ >= most_places) {
        throw std::bad_alloc();
      }
      nodes_.add_unmade_page();
    }
    std::construct_at(&nodes_[extent_])->generation = 1;
    return extent_++;
  }

  static constexpr timer_number most_places = 1U << number_bits;
  static constexpr std::uint32_t end_of_generations = 1U << generation_bits;
  static constexpr timer_number page = free_page::size;
  page_source memory_;
  paged_array<timer_node, page> nodes_{memory_};
  timer_number extent_ = 0;
  free_lists free_ = no_places();
  unsigned turn_ = 0;  // the list that came last; if it is empty, all are

  std::size_t given_back_ = 0;         // pages without memory
  std::size_t first_given_back_ = 0;   // of them, if there is one
  std::vector<std::uint32_t> floors_;  // of pages: with what generation one that was given back begins again
  // While it shrinks:
  step step_ = step::none;
  free_lists aside_ = no_places();  // free places that are to be dealt
  std::vector<dealt> dealt_;        // by page
  std::size_t next_dealt_ = 0;      // the first page that may have places which were dealt, for `acquire`
  std::size_t pages_left_ = 0;      // to be looked at, from the last one down
};

}  // namespace timing_wheel::detail

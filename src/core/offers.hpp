#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/slab.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_stats.hpp"

/// \file
/// What the driver takes from a core: a batch of timers that are due, and of these the ones that it may begin at once.

namespace timing_wheel::detail {

/// The ids of timers that are due, as many as one hold of the lock handles at most. It has room for them always, so
/// that nothing is asked for each.
///
/// Thread safety: none of its own.
class timer_batch {
 public:
  using value_type = timer_id;
  using const_iterator = const timer_id*;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const_iterator begin() const noexcept { return ids_.data(); }
  [[nodiscard]] const_iterator end() const noexcept { return ids_.data() + size_; }

  void clear() noexcept { size_ = 0; }
  /// \pre there are less than `max_timers_per_lock`.
  void push_back(timer_id id) noexcept { ids_[size_++] = id; }

 private:
  std::array<timer_id, max_timers_per_lock> ids_{};
  std::size_t size_ = 0;
};

/// Timers that are due, and that the driver may begin one after the other without the shard's lock, while whoever holds
/// the lock can still withdraw each one whose run has not begun.
///
/// A place has two bits in one word. `begun` is set once: by the driver, who begins the run, or under the lock, by
/// who withdraws the timer. Whoever sets it has the timer; the other one sees the bit, and leaves it alone. `ended` is
/// set by the driver when it is done with the node. Under the lock, `news` tells what the driver has done since the
/// last call, each step once. So the states and counts that the lock guards follow what the driver does, and whoever
/// reads them asks for the news first.
///
/// Memory order: who finds a bit set acquires what its setter has released: the driver's use of the node, or the
/// withdrawal. The driver's steps are sequentially consistent, because it looks for waiting threads after each, and
/// they look at the word after they have said that they wait. docs/concurrency.md has the whole argument.
///
/// Thread safety: the functions of the first group are for the driver, without the lock; the rest is guarded by it.
class offers {
 public:
  static constexpr unsigned size = 32;
  static constexpr unsigned nowhere = size;

  // ---- The driver ----

  /// Begins the run of the timer at a place, and says that the run at `ended` is over; that may be `nowhere`.
  /// \returns false if the timer was withdrawn; then nothing is said of `ended` either. Complexity: O(1), one atomic
  /// operation if nobody withdraws at this moment.
  bool begin(unsigned place, time_point now, unsigned ended) noexcept {
    begun_at_[place] = now;
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    do {
      if ((seen & begun_bit(place)) != 0) {
        return false;
      }
    } while (!word_.compare_exchange_weak(seen, seen | begun_bit(place) | ended_bit(ended), std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return true;
  }

  // What `put` has filled. The driver alone does that, under the lock. So it reads this without the lock, and anybody
  // else under it.
  [[nodiscard]] timer_id id_of(unsigned place) const noexcept { return timers_[place].id; }
  [[nodiscard]] timer_node& node_of(unsigned place) const noexcept { return *timers_[place].node; }

  // ---- Under the lock ----

  /// Says that the run at a place is over. By the driver only.
  void end(unsigned place) noexcept { word_.fetch_or(ended_bit(place), std::memory_order_seq_cst); }

  /// Forgets all places, for as many new ones. By the driver only. \pre each is begun or withdrawn, and there is no
  /// news.
  void clear(unsigned places) noexcept {
    filled_ = places;
    told_ = 0;
    word_.store(0, std::memory_order_relaxed);
  }
  /// Fills a new place with a timer, or with none. By the driver only.
  void put(unsigned place, timer_id id, timer_node& node) noexcept { timers_[place] = {id, &node}; }
  void put_none(unsigned place) noexcept { withdraw(place); }

  /// Takes the timer at a place back. \returns false if its run has begun.
  bool withdraw(unsigned place) noexcept {
    if ((word_.fetch_or(begun_bit(place), std::memory_order_acq_rel) & begun_bit(place)) != 0) {
      return false;
    }
    told_ |= begun_bit(place);
    return true;
  }

  /// Calls `withdrawn(id, node)` for each timer whose run has not begun, which it takes back.
  template <class Withdrawn>
  void withdraw_all(Withdrawn withdrawn) noexcept {
    for (unsigned place = 0; place < filled_; ++place) {
      if (withdraw(place)) {
        withdrawn(timers_[place].id, *timers_[place].node);
      }
    }
  }

  /// What the driver has done since the last call: a bit for each place.
  struct steps {
    std::uint32_t begun = 0;
    std::uint32_t ended = 0;
  };
  [[nodiscard]] steps news() noexcept {
    const std::uint64_t fresh = word_.load(std::memory_order_seq_cst) & ~told_;
    told_ |= fresh;
    return {static_cast<std::uint32_t>(fresh), static_cast<std::uint32_t>(fresh >> size)};
  }

  /// When the run of the timer at a place has begun. \pre `news` has told of its beginning.
  [[nodiscard]] time_point begun_at(unsigned place) const noexcept { return begun_at_[place]; }

  /// Calls `visit(place)` for each bit.
  template <class Visit>
  static void for_each(std::uint32_t places, Visit visit) noexcept {
    for (; places != 0; places &= places - 1) {
      visit(static_cast<unsigned>(std::countr_zero(places)));
    }
  }

 private:
  struct offered_timer {
    timer_id id;
    timer_node* node = nullptr;
  };

  static constexpr std::uint64_t begun_bit(unsigned place) noexcept { return std::uint64_t{1} << place; }
  static constexpr std::uint64_t ended_bit(unsigned place) noexcept {
    return place == nowhere ? 0 : std::uint64_t{1} << (size + place);
  }

  alignas(64) std::atomic<std::uint64_t> word_{0};  // bit p: begun or withdrawn; bit size + p: ended
  // Guarded by the lock; the driver, who alone writes the first two, reads them without it.
  unsigned filled_ = 0;
  std::array<offered_timer, size> timers_{};
  std::uint64_t told_ = 0;  // of the word: what is no news, among it all that was withdrawn
  // Written by the driver before it sets the bit `begun`, read under the lock by who sees that bit.
  std::array<time_point, size> begun_at_{};
};

}  // namespace timing_wheel::detail

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "durable/node/run_rules.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::durable {

/// How far a row has come that a node knows: the stages are described at `machine`.
enum class stage : std::uint8_t { none, waiting, ready, asked, claimed, ending, set_aside };

/// The number of no row.
inline constexpr timer_number nobody = std::numeric_limits<timer_number>::max();

/// A row that a node knows; or, at the stage `none`, one that is free for the next row.
struct known_row {
  upcoming what;
  timer_number previous = nobody;  ///< In its queue.
  timer_number next = nobody;      ///< In its queue, or in the list of free ones.
  stage at = stage::none;
  std::int64_t fence = 0;
  int attempt = 0;
  bool orphaned = false;
  bool suspect = false;
  bool late = false;  ///< If it is ready, and no suspect: it belongs to the backlog.
  ending how;         ///< Of one whose end is to be written.
};

/// The rows that a node knows, by number and by id. Each kind has a quota of rows; `full` and `has_room` compare with
/// it, and their caller decides: a kind that is full is left out of what is read, up to twice the quota.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. Each number belongs to a row with an id of its own, or is in the list of free ones.
/// 2. A kind is counted as often as rows of it are known.
/// 3. A row is at the stage `none` exactly if it is free.
///
/// Memory: only `add` needs some. Thread safety: as a plain object.
class known_rows {
 public:
  known_rows(std::size_t kinds, std::size_t quota) : quota_(quota), counts_(kinds) {}

  [[nodiscard]] known_row& operator[](timer_number number) noexcept { return rows_[number]; }
  [[nodiscard]] const known_row& operator[](timer_number number) const noexcept { return rows_[number]; }

  /// \returns the number of the row, or `nobody`.
  [[nodiscard]] timer_number find(std::int64_t id) const noexcept;
  /// \pre the row is known.
  [[nodiscard]] timer_number number_of(std::int64_t id) const noexcept { return by_id_.at(id); }

  /// \pre the row is not known; the caller then gives it a stage. \throws std::bad_alloc.
  timer_number add(const upcoming& what, bool suspect);
  void forget(timer_number number) noexcept;

  [[nodiscard]] bool full(std::uint32_t kind) const noexcept { return counts_[kind] >= quota_; }
  [[nodiscard]] bool has_room(std::uint32_t kind) const noexcept { return counts_[kind] < 2 * quota_; }
  [[nodiscard]] bool half_empty(std::uint32_t kind) const noexcept { return counts_[kind] <= quota_ / 2; }

  [[nodiscard]] std::size_t size() const noexcept { return by_id_.size(); }
  /// Numbers of known rows are below it.
  [[nodiscard]] timer_number numbers() const noexcept { return static_cast<timer_number>(rows_.size()); }

  /// Complexity: O(rows).
  [[nodiscard]] bool invariants_hold() const;

 private:
  const std::size_t quota_;
  std::vector<known_row> rows_;  // by number
  timer_number free_ = nobody;   // the first free one
  std::unordered_map<std::int64_t, timer_number> by_id_;
  std::vector<std::size_t> counts_;  // by kind
};

/// A queue of known rows. Its links are in the rows, so no change of it needs memory, and a row is in one queue at
/// most.
class row_queue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nobody; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] timer_number first() const noexcept { return first_; }
  /// The one behind it in its queue, or `nobody`.
  [[nodiscard]] static timer_number after(const known_rows& rows, timer_number number) noexcept {
    return rows[number].next;
  }

  void push_back(known_rows& rows, timer_number number) noexcept;
  void push_front(known_rows& rows, timer_number number) noexcept;
  void remove(known_rows& rows, timer_number number) noexcept;

  /// Whether all rows in it are at that stage, and linked both ways.
  [[nodiscard]] bool holds(const known_rows& rows, stage at) const noexcept;

 private:
  timer_number first_ = nobody;
  timer_number last_ = nobody;
  std::size_t size_ = 0;
};

}  // namespace timing_wheel::durable

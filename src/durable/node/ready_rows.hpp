#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "durable/node/capacity.hpp"
#include "durable/node/claims.hpp"
#include "durable/node/known_rows.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Rows that are due and not yet asked for. A kind has three queues: what came in time and the backlog take turns, so
/// that neither starves; suspects go first, but one at a time. Kinds take turns, too: in each, a row, or as many as
/// take no more than an equal part of the time that is allowed.
///
/// Example, poll 250 ms: at 10.400 s a row due at 10.390 s came in time; one due at 10.100 s belongs to the backlog.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. Each ready row is in one queue of its kind, once, and no other row is.
/// 2. A row is among the suspects exactly if it is one.
///
/// Memory: only `pick` needs some. Thread safety: as a plain object.
class ready_rows {
 public:
  /// \param poll a row that is later than that belongs to the backlog. `rows` and `kinds` must outlive it.
  ready_rows(known_rows& rows, const std::vector<kind_rules>& kinds, std::chrono::milliseconds poll)
      : rows_(rows), kinds_(kinds), poll_(poll), queues_(kinds.size()) {}

  /// The row is due at `clock`.
  void push(timer_number number, instant clock) noexcept;
  /// The row is not ready any more; the caller says what it is. \pre it is ready.
  void remove(timer_number number) noexcept;
  /// The row was asked for, and the store has not answered: it is the next one again.
  void push_again(timer_number number) noexcept;
  /// Hands rows over to `to`, as far as `left` and the limits of their kinds allow. \returns them.
  /// \throws std::bad_alloc; then no row is handed over.
  [[nodiscard]] std::vector<upcoming> pick(bool transactional, allowance& left, claims& to);
  /// Rows that may be claimed in the place of `picked` if other nodes have these: as many as `count` at most, with no
  /// payload beyond `bytes` all together, and of kinds whose runs take no longer than any that was picked. No suspects.
  /// They stay ready. \throws std::bad_alloc.
  [[nodiscard]] std::vector<upcoming> spares(std::span<const upcoming> picked, std::size_t count, std::size_t bytes,
                                             const allowance& of, const claims& busy) const;
  /// The clock was set back: no row is ready.
  void restart() noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t size(std::uint32_t kind) const noexcept;
  /// How many could be asked for, if there were no limits: suspects that wait for another one could not.
  [[nodiscard]] std::size_t size_without_waiting(const claims& busy) const noexcept;
  /// Whether the limits of the kinds allow to ask for any row of transactional kinds, or of leased ones.
  [[nodiscard]] bool can_pick(bool transactional, const claims& busy) const noexcept;
  /// The deadline of the oldest row of a kind, as far as the heads of the queues show; none if it has no row.
  [[nodiscard]] std::optional<instant> oldest(std::uint32_t kind) const;

  /// Complexity: O(rows).
  [[nodiscard]] bool invariants_hold() const;

 private:
  struct queues {
    row_queue in_time;
    row_queue backlog;
    row_queue suspects;
    bool backlog_next = true;
  };

  [[nodiscard]] static row_queue* next_queue(queues& of, const claims& busy) noexcept;
  static void has_taken(queues& of, const row_queue* from) noexcept;
  enum class turn : unsigned char { has_nothing, took, refused, too_large };
  turn take_turn(std::uint32_t kind, std::chrono::microseconds quantum, allowance& left, claims& to,
                 std::vector<upcoming>& picked) noexcept;
  [[nodiscard]] row_queue& queue_of(const known_row& which) noexcept;

  known_rows& rows_;
  const std::vector<kind_rules>& kinds_;
  const std::chrono::milliseconds poll_;
  std::vector<queues> queues_;  // by kind
  std::size_t size_ = 0;
  std::array<std::uint32_t, 2> first_kind_{};  // whose turn it is, of leased and of transactional kinds
};

}  // namespace timing_wheel::durable

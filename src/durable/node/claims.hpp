#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "durable/node/known_rows.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Ends to write.
struct ends_to_write {
  std::vector<ticket> complete;
  std::vector<release_op> retry;
  std::vector<release_op> snooze;
  std::vector<release_op> give_back;
  std::vector<bury_op> bury;
  [[nodiscard]] std::size_t size() const noexcept {
    return complete.size() + retry.size() + snooze.size() + give_back.size() + bury.size();
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// \pre not empty.
  [[nodiscard]] ticket& first() noexcept {
    if (!complete.empty()) {
      return complete.front();
    }
    for (auto* const some : {&retry, &snooze, &give_back}) {
      if (!some->empty()) {
        return some->front().of;
      }
    }
    return bury.front().of;
  }
};

/// The rows that this node has asked for, has claimed, or whose end is to be written: the **busy** ones. They take up
/// `handler_options::max_running` of their kind, and those of leased kinds `scheduler_options::max_claimed`.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. A kind runs as many rows as it has busy ones.
/// 2. As many rows, and bytes of payloads, are held as leased kinds have busy ones.
/// 3. One busy row at most is a suspect.
/// 4. The queue has each row whose end is to be written once, and no other; those set aside are counted.
///
/// Memory: only `to_end` needs some. Thread safety: as a plain object.
class claims {
 public:
  /// `rows` and `kinds` must outlive it.
  claims(known_rows& rows, const std::vector<kind_rules>& kinds, std::size_t max_claimed)
      : rows_(rows), kinds_(kinds), max_claimed_(max_claimed), running_(kinds.size()), lost_(kinds.size()) {}

  /// How many more rows of leased kinds may be asked for.
  [[nodiscard]] std::size_t room() const noexcept;
  /// The payloads of all rows of leased kinds that are held.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// How many more rows of a kind may run.
  [[nodiscard]] std::size_t free_runs(std::uint32_t kind) const noexcept;
  /// So many runs of each kind were given up, and still have their threads: they count as running ones of it.
  [[nodiscard]] std::span<std::size_t> lost() noexcept { return lost_; }
  [[nodiscard]] bool has_suspect() const noexcept { return suspect_; }

  /// A row that was ready is being asked for.
  void ask(timer_number number) noexcept;
  /// The store has given it.
  void has_got(timer_number number, const claimed& got) noexcept;
  /// A busy row is no longer one; the caller says what it is from now on.
  void is_over(timer_number number) noexcept;

  /// The run of a claimed row has ended so.
  void ended(timer_number number, ending how) noexcept;
  /// The store has answered to the end: it is out of the queue, and the caller says what the row is from now on.
  void has_answered(timer_number number) noexcept { ending_.remove(rows_, number); }
  /// Somebody has locked the row, and its end is tried again later; or again at once, see `is_back`.
  void set_aside(timer_number number) noexcept;
  /// The end of a row that was set aside is to be written now.
  void is_back(timer_number number) noexcept;
  /// The end is to be written again, at once.
  void again(timer_number number) noexcept { queue_end(number); }
  /// The clock was set back: no row is set aside any longer.
  void restart() noexcept;

  /// The first ends to write, at most `limit`; they stay in the queue. \throws std::bad_alloc.
  [[nodiscard]] ends_to_write to_end(std::size_t limit) const;
  [[nodiscard]] bool has_ends() const noexcept { return !ending_.empty(); }

  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] std::size_t running(std::uint32_t kind) const noexcept { return running_[kind]; }
  [[nodiscard]] bool all_set_aside() const noexcept { return held_ == set_aside_; }

  /// Complexity: O(rows).
  [[nodiscard]] bool invariants_hold() const;

 private:
  void queue_end(timer_number number) noexcept;

  known_rows& rows_;
  const std::vector<kind_rules>& kinds_;
  const std::size_t max_claimed_;
  std::vector<std::size_t> running_;  // by kind
  std::vector<std::size_t> lost_;     // by kind
  row_queue ending_;
  std::size_t held_ = 0;
  std::size_t bytes_ = 0;
  std::size_t set_aside_ = 0;
  bool suspect_ = false;  // one of the busy ones is a suspect
};

}  // namespace timing_wheel::durable

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "durable/node/known_rows.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Decides which page of the table is read, and when.
///
/// A **pass** goes from the low-water mark to the end of the look-ahead, page by page; one begins at every poll, and,
/// at every sweep, at the beginning of the table. A pass leaves out the kinds whose quota is used up; for these a poll
/// reads the look-ahead alone. When half of such a quota is free, a pass begins at once. What a pass left out, could
/// not keep, or did not come to, is **missed**. A kind that is paused is not read. Where there is nothing to read at a
/// poll, a page without kinds asks what is paused.
///
/// Each kind has a low-water mark of its own, and a pass begins at the first of them. When a kind is left out, the pass
/// goes on at the first mark of the others, so the backlog of one kind is not read for the others.
///
/// Example, look-ahead 1 s, poll 250 ms: after a pass that began at 9.75 s, and with nothing missed, the pass of 10 s
/// reads from 8.75 s until 11 s.
///
/// Invariants; `invariants_hold()` checks 3 and 4:
/// 1. The cursor only rises within a pass.
/// 2. The low-water mark of a kind lies before what was missed of it, and a look-ahead, at least a second, before the
///    begin of the last pass.
/// 3. If a kind was left out, then something of it was missed: so the next pass begins there at the latest.
/// 4. A page is of the kinds whose names it has.
///
/// A known row does not hold the mark: it is claimed, or asked for and then missed. So a run may take hours.
///
/// Thread safety: as a plain object.
class reader {
 public:
  /// All but `now` must outlive it.
  reader(const scheduler_options& options, const std::vector<kind_rules>& kinds, const known_rows& rows, instant now)
      : options_(options), kinds_(kinds), rows_(rows), next_poll_(now), next_sweep_(now), parts_(kinds.size()) {}

  /// Whether a page is to be read now, and which. It stays valid until the next call.
  /// \param shares those that this node reads; none: it reads all.
  /// \param ready how much is due. If that is more than a batch, the node helps others with what is overdue only at
  /// every fourth pass.
  /// \param next_due when the next row becomes due. A page is short if a row is due, or soon will be, so that the row
  /// does not wait for long; but long if more than a batch is due.
  /// \throws std::bad_alloc.
  [[nodiscard]] std::optional<read_range> next(instant now, const std::optional<std::vector<std::int16_t>>& shares,
                                               std::size_t ready, instant next_due);
  /// The kind that the last page has at that place.
  [[nodiscard]] std::uint32_t kind_at(std::uint32_t place) const noexcept { return kinds_read_[place]; }
  /// The page has been read, and what was found is known or missed.
  void has_read(const read_range& read, std::span<const upcoming> found);

  /// Rows of that kind are not read any more; or again, all of them, at once.
  void pause(std::uint32_t kind) noexcept;
  void resume(std::uint32_t kind, instant now) noexcept;
  [[nodiscard]] bool is_paused(std::uint32_t kind) const noexcept { return parts_[kind].paused; }

  /// A row of that kind and deadline is to be met again, although it is not known.
  void miss(std::uint32_t kind, instant due) noexcept { parts_[kind].missed = std::min(parts_[kind].missed, due); }
  /// There was no room for a row of that kind.
  void leave_out(std::uint32_t kind, instant due) noexcept;

  /// The next pass sweeps.
  void sweep(instant now) noexcept { next_sweep_ = now; }
  /// A pass from the beginning of the table is to begin at once.
  void read_anew(instant now) noexcept;
  /// A pass from the low-water marks is to begin at once.
  void read_soon(instant now) noexcept;
  /// The clock was set back.
  void restart(instant now) noexcept { read_anew(now); }

  /// When there is something to read next; now, or before, if there is already.
  [[nodiscard]] instant next_event(instant now) const noexcept { return passing_ || hungry() ? now : next_poll_; }

  [[nodiscard]] bool invariants_hold() const;

 private:
  // Of a kind, in the passes.
  struct part {
    instant from{};                   // where it begins in this pass
    instant missed = instant::max();  // the earliest row, since this pass began
    bool left_out = false;            // for its quota
    bool paused = false;
  };

  [[nodiscard]] bool hungry() const noexcept;
  [[nodiscard]] bool choose_kinds(bool of_full_ones);
  [[nodiscard]] instant low_water(instant now, bool has_shares) const noexcept;
  void begin_pass(instant now, bool has_shares, bool busy);
  void break_off() noexcept;
  [[nodiscard]] std::optional<read_range> next_page(instant now);
  [[nodiscard]] read_range page(instant from, std::int64_t after, instant now) const;

  const scheduler_options& options_;
  const std::vector<kind_rules>& kinds_;
  const known_rows& rows_;

  instant next_poll_;
  instant next_sweep_;
  bool look_due_ = false;  // a page for the full kinds is to be read
  bool helps_ = true;      // this pass reads what is overdue, whosever it is
  unsigned looks_ = 0;     // passes begun with enough to do

  std::vector<part> parts_;              // by kind
  instant pass_began_ = instant::min();  // the last one
  bool passing_ = false;
  instant cursor_due_{};
  std::int64_t cursor_id_ = 0;

  std::size_t page_size_ = 0;                                   // of the page that is being read, at most
  std::optional<std::pair<instant, std::int64_t>> stopped_at_;  // what the store says of that page
  bool reading_pass_ = false;                                   // the page that is being read belongs to the pass
  std::vector<std::uint32_t> kinds_read_;                       // by the page that is being read
  std::vector<std::string> names_read_;                         // of these
};

}  // namespace timing_wheel::durable

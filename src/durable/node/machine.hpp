#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "durable/node/capacity.hpp"
#include "durable/node/claims.hpp"
#include "durable/node/due_rows.hpp"
#include "durable/node/known_rows.hpp"
#include "durable/node/reader.hpp"
#include "durable/node/ready_rows.hpp"
#include "durable/node/run_rules.hpp"
#include "durable/node/share_hold.hpp"
#include "durable/node/store_contact.hpp"
#include "durable/node/store_pause.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Decides what a node reads, claims, gives up and when; does nothing of it. It is told the time, by the database's
/// clock, and the rows. The node does what the machine says, and tells it the outcome.
///
/// The machine only leads rows from one of its parts to the next. A row that it knows is at one of these stages:
///
/// | stage | part | the row |
/// |---|---|---|
/// | waiting | `due_rows` | waits for its deadline, or for the end of another node's lease |
/// | ready | `ready_rows` | is due |
/// | asked | `claims` | is being claimed |
/// | claimed | `claims` | is claimed; its lease is extended elsewhere (`held_leases`) |
/// | ending | `claims` | has an end to be written |
/// | set aside | `claims`, `due_rows` | the same, but somebody has locked it, so it waits for the next try |
///
/// `known_rows` keeps the rows themselves, `reader` says what to read of the table, `share_hold` which part of it is
/// this node's, `store_pause` and `store_contact` what follows from a store that was away.
///
/// **Suspects.** A process that dies ends all runs that it has claimed, and nobody knows which of them it died of. So a
/// row is a suspect if it was claimed twice or more and its last run ended without a word: no two suspects are claimed
/// at a time. One whose last run asked for a retry is none. An end without a word makes a row dead if no more runs are
/// allowed, at the third run at the earliest; runs that asked for a retry count, too. So what kills its process each
/// time dies after its attempts. What is lost beside it each time has its third run and those after it without it.
///
/// **Shares.** A store may divide its table among nodes (`store::renew_shares`), so that they do not read the same
/// rows. A node also reads what is overdue by a second, whosever it is; if it has enough to do (a batch is ready,
/// without the suspects that wait for another one), only at every fourth look. So what a dead node leaves is not late
/// by the whole hold, and a node that has nothing to do helps one that has too much.
///
/// **Memory.** A row is in at most one queue, and its links are in the row. So what is known moves between its stages
/// without memory: only what is read, and what is asked for, needs some. A row that there is no memory to remember, or
/// to let wait, is met again by the next pass. What is said to throw `std::bad_alloc` has then changed nothing that
/// repeating the call would not mend.
///
/// **Ended leases** are claimed only as far as `store_contact` allows; until then such a row waits.
///
/// Example, look-ahead 1 s, poll 250 ms: a check due at 10.400 s is read at 9.5 s, waits in the wheel, is ready at
/// 10.400 s, asked and claimed; if another one is due at 10.401 s, the end of the first is written with that claim.
///
/// **Paused kinds.** Nothing of such a kind is waiting or ready; what was is forgotten. When the kind is resumed, it is
/// read from the beginning of the table.
///
/// Invariants, checked by `invariants_hold()`: those of the parts, and of paused kinds. Of the parts, each known row is
/// at one stage, and in the part, or parts, of that stage once. So no row is lost.
///
/// Thread safety: as a plain object.
class machine {
 public:
  machine(scheduler_options options, std::vector<kind_rules> kinds, instant now, std::uint64_t seed);
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  [[nodiscard]] const std::vector<kind_rules>& kinds() const noexcept { return kinds_; }

  /// Moves the clock: what is due becomes ready. If nothing of a kind was asked for a second, what is ready of it is
  /// forgotten, and the next page reads it again, since other nodes may have taken it. A clock that was set back by
  /// more than a poll is followed; less is ignored. \throws std::bad_alloc.
  void advance(instant now);

  /// Whether the hold on the shares is to be renewed now, and for how long.
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_renewal(instant now) const;
  /// The store is asked. Without an answer it is asked again when it is time to renew; when the hold is over, all is
  /// read.
  void expects_shares(instant now);
  /// The answer to it. New shares are read from the beginning.
  void has_shares(std::optional<std::vector<std::int16_t>> shares, instant now);
  /// How many.
  [[nodiscard]] std::size_t shares() const noexcept { return shares_.size(); }
  /// They are given up.
  void has_left() noexcept { shares_.leave(); }

  /// What came with a page: these kinds are paused. Nothing of such a kind is read, remembered or claimed from now on;
  /// what is claimed goes on. A kind that is resumed is read from the beginning. An empty name says that this node is
  /// drained: all kinds are paused, and no shares are asked for. Complexity: O(known), if that has changed.
  void has_paused(std::span<const std::string> paused, instant now) noexcept;
  [[nodiscard]] bool is_paused(std::uint32_t kind) const noexcept { return reader_.is_paused(kind); }
  [[nodiscard]] bool is_drained() const noexcept { return drained_; }

  /// Whether a page is to be read now, and which. \throws std::bad_alloc.
  [[nodiscard]] std::optional<read_range> next_read(instant now);
  /// The answer to it. \throws std::bad_alloc.
  void has_read(const read_range& read, std::span<const upcoming> found, instant now);
  /// A row that was just committed here: remembered if it is due soon, and ready at `not_before` at the earliest.
  void expect(const upcoming& row, instant now, instant not_before = {}) noexcept;

  /// Ready rows of leased kinds to claim, at most a batch, as far as limits and `left` allow. They are asked then. What
  /// `left` has held back is no event of `next_event` until the next call.
  /// \throws std::bad_alloc; then none is asked.
  [[nodiscard]] std::vector<upcoming> to_claim(allowance left);
  [[nodiscard]] bool holds_back() const noexcept { return held_back_; }
  /// How many runs of each kind were given up, and still have their threads. The caller sets it before `to_claim`.
  [[nodiscard]] std::span<std::size_t> lost() noexcept { return claims_.lost(); }
  /// Rows to try behind those that are asked, as far as some of these are other nodes' by now: more, the more were at
  /// the last claims. They stay ready. \throws std::bad_alloc.
  [[nodiscard]] std::vector<upcoming> spares_for(std::span<const upcoming> asked, const allowance& left) const;
  /// The outcome. `got` are claimed from now on; they may also be of the `tried` among the spares.
  void has_claimed(std::span<const upcoming> asked, std::span<const claimed> got, instant now,
                   std::span<const upcoming> tried = {}) noexcept;
  /// Ready rows of transactional kinds to consume, at most `limit`. They are asked then. \throws std::bad_alloc; then
  /// none is asked.
  [[nodiscard]] std::vector<upcoming> to_consume(std::size_t limit);
  /// The outcome: all but those in `got` are forgotten, and may be met again; `got` are over.
  void has_consumed(std::span<const upcoming> asked, std::span<const claimed> got, instant now) noexcept;
  /// The store refuses what became of these: they are asked for again after `pause`, behind what is ready by then.
  void consume_later(std::span<const upcoming> asked, instant now, std::chrono::microseconds pause) noexcept;
  /// The store did not answer: the asked rows are ready as before.
  void has_not_asked(std::span<const upcoming> asked) noexcept;

  /// See `durable::decide`.
  [[nodiscard]] ending decide(std::uint32_t kind, int attempt, const outcome& said, instant now) noexcept {
    return durable::decide(kinds_[kind].options, attempt, said, now, random_);
  }
  /// What `decide` will say of a run that was not `done`: see `durable::longest_pause`. Thread safety: any thread.
  [[nodiscard]] std::optional<std::chrono::microseconds> longest_pause(std::uint32_t kind, int attempt,
                                                                       const outcome& said) const noexcept {
    return durable::longest_pause(kinds_[kind].options, attempt, said);
  }
  /// See `durable::exhausted`.
  [[nodiscard]] bool exhausted(std::uint32_t kind, int attempt) const {
    return durable::exhausted(kinds_[kind].options, attempt);
  }

  /// A claimed row has ended so.
  void ended(std::int64_t id, ending how) noexcept;
  /// The run of a claimed row was given up, and may go on at any time. As after a death, the row is orphaned: if it
  /// runs again, nobody can cancel or move it until it is over.
  void given_up(std::int64_t id, ending how) noexcept;
  /// A claimed row did not begin, and is to be given back; asked for again after `pause`.
  void given_back(std::int64_t id, instant now, std::chrono::microseconds pause) noexcept;

  /// \throws std::bad_alloc.
  [[nodiscard]] ends_to_write to_end(std::size_t limit) const { return claims_.to_end(limit); }
  [[nodiscard]] bool has_ends() const noexcept { return claims_.has_ends(); }
  /// Whether there are ends to be written now. If all kinds are leased, ends wait for a row that is due within 2 ms of
  /// the first of them, because its claim then takes them along: one round trip and one commit in place of two, and no
  /// claim waits for a round of ends.
  [[nodiscard]] bool writes_ends(instant now) const { return ends_wait_until() <= now; }
  /// They were written; `still_ours` in the tickets says how. What is `locked` is tried again after `aside`.
  void has_ended(const ends_to_write& written, instant now,
                 std::chrono::microseconds aside = std::chrono::milliseconds(100)) noexcept;

  /// Until when the statement that is sent now may claim ended leases, see `store_contact::limit`.
  [[nodiscard]] instant orphans_until(instant now) noexcept { return orphans_until_ = contact_.limit(now); }
  /// The store has answered.
  void answered(instant now, bool writing) noexcept { contact_.answered(now, writing); }
  /// This node was busy with handlers for `time`, until now.
  void was_busy(std::chrono::microseconds time, instant now, bool writing) noexcept {
    contact_.was_busy(time, now, writing);
  }
  /// A call has failed, maybe since the store was away.
  void was_away(bool writing) noexcept { contact_.failed(writing); }

  /// A call of the store failed, or worked: failures are repeated later and later.
  void store_failed(instant now, bool writing) { pause_.failed(now, writing, random_); }
  void store_works(bool writing) noexcept { pause_.worked(writing); }
  [[nodiscard]] bool store_fails() const noexcept { return pause_.fails(); }
  /// The store is not left alone any longer.
  void end_rest() noexcept { pause_.end(); }
  /// Whether the store is left alone for now.
  [[nodiscard]] bool resting(instant now) const noexcept { return pause_.rests(now); }

  /// No claim from now on.
  void close() noexcept { closed_ = true; }

  /// When there is something to do next; now, or before, if there is already.
  [[nodiscard]] instant next_event(instant now) const;

  [[nodiscard]] std::size_t known() const noexcept { return rows_.size(); }
  [[nodiscard]] std::size_t ready() const noexcept { return ready_.size(); }
  [[nodiscard]] std::size_t ready(std::uint32_t kind) const noexcept { return ready_.size(kind); }
  /// How many rows of leased kinds are asked, claimed, ending or set aside.
  [[nodiscard]] std::size_t held() const noexcept { return claims_.held(); }
  /// Whether all that is held has ended, and waits for those who have locked the rows.
  [[nodiscard]] bool all_set_aside() const noexcept { return claims_.all_set_aside(); }
  /// When the next row that waits is to be looked at, mostly since it is due; `instant::max()` if none waits.
  [[nodiscard]] instant next_due() const { return due_.next_event(); }
  /// The deadline of the oldest ready row of a kind; none if there is none.
  [[nodiscard]] std::optional<instant> oldest_ready(std::uint32_t kind) const { return ready_.oldest(kind); }
  /// The kind of a row that is known.
  [[nodiscard]] std::uint32_t kind_of(std::int64_t id) const noexcept { return rows_[rows_.number_of(id)].what.kind; }

  /// Complexity: O(known).
  [[nodiscard]] bool invariants_hold() const;

 private:
  void restart(instant now);
  [[nodiscard]] instant ends_wait_until() const;
  timer_number add(const upcoming& what) { return rows_.add(what, suspicious(kinds_[what.kind], what)); }
  void meet(const upcoming& one, const read_range& read, instant now);
  void meet_again(timer_number number, const upcoming& one, instant now);
  void pause(std::uint32_t kind) noexcept;
  [[nodiscard]] instant wake_of(const upcoming& what) const noexcept;
  void wait(timer_number number, instant until, instant now) noexcept;
  void is_due(timer_number number) noexcept;
  void take_out(timer_number number) noexcept;
  void renew_ready(std::uint32_t kind, instant now) noexcept;
  void has_picked(std::span<const upcoming> picked) noexcept;
  void miss(timer_number number) noexcept;
  void has_not_got(timer_number number, instant now) noexcept;
  void learn_from(std::size_t asked, std::size_t tried, std::size_t got) noexcept;
  void is_over(timer_number number, bool still_ours, instant now) noexcept;
  void set_aside(timer_number number, instant now, std::chrono::microseconds pause) noexcept;

  const scheduler_options options_;
  const std::vector<kind_rules> kinds_;
  known_rows rows_;
  due_rows due_;
  claims claims_;
  ready_rows ready_;
  reader reader_;
  share_hold shares_;
  store_pause pause_;
  store_contact contact_;
  instant orphans_until_ = instant::min();  // of the last statement that claimed or consumed
  const bool all_leased_;                   // no kind is transactional
  instant ends_since_ = instant::min();     // when the first of those that are not written came
  bool closed_ = false;
  bool drained_ = false;             // by an operator
  bool held_back_ = false;           // more could be claimed, but for what the last call allowed
  std::size_t spares_ = 0;           // to try behind those that are asked
  std::vector<instant> stale_from_;  // by kind: what is ready then was not asked for a second
  std::minstd_rand random_;
};

/// Rows that the machine was asked for. It has them back, unless the store has answered.
class asked_rows {
 public:
  asked_rows(machine& of, std::vector<upcoming> rows) noexcept : of_(of), rows_(std::move(rows)) {}
  asked_rows(const asked_rows&) = delete;
  asked_rows& operator=(const asked_rows&) = delete;
  ~asked_rows() {
    if (!answered_) {
      of_.has_not_asked(rows_);
    }
  }
  void answered() noexcept { answered_ = true; }
  [[nodiscard]] const std::vector<upcoming>& rows() const noexcept { return rows_; }

 private:
  machine& of_;
  const std::vector<upcoming> rows_;
  bool answered_ = false;
};

}  // namespace timing_wheel::durable

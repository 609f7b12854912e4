#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "durable/node/store_contact.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/engine/tick.hpp"

namespace timing_wheel::durable {

/// What the machine has to know of a kind.
struct kind_rules {
  std::string name;
  bool transactional = false;
  handler_options options;
};

/// Decides what a node reads, claims, gives up and when; does nothing of it. It is told the time, by the
/// database's clock, and the rows; whoever drives it does what it says, and tells it the outcome.
///
/// A row that it knows is
/// - waiting, in a hierarchical wheel, for its deadline or for the end of another node's lease;
/// - ready: due, in one of the queues of its kind: for what came in time and for a backlog, which take turns, so that
///   neither starves, and for suspects;
/// - asked: somebody is claiming it;
/// - held: claimed; its lease is extended elsewhere (`lease_keeper`);
/// - ending: its end is to be written;
/// - set aside: the same, but somebody has locked its row, so it waits in the wheel for the next try.
///
/// **Reading.** A pass goes from the low-water mark to the end of the look-ahead, page by page; one begins at every
/// poll. The low-water mark lies before all rows that are known, before those that a claim did not get, and a
/// look-ahead before the begin of the last pass, so that a row that was committed late, or since then, is seen. Every
/// `sweep` a pass begins at the beginning of the table. Each kind has a quota of rows that may be known. A pass leaves
/// out the kinds that have reached it; for these a poll reads the look-ahead alone, so that what is new is not behind a
/// backlog. When half of such a quota is free, a pass begins at once. Of what a page has beyond twice a quota nothing
/// is kept.
///
/// **Suspects.** A process that dies ends all runs that it has claimed, and nobody knows which of them it died of. So a
/// row is a suspect if it was claimed twice or more and its last run ended without a word: no two suspects are claimed
/// at a time. One whose last run asked for a retry is none. An end without a word makes a row dead if no more runs are
/// allowed, at the third run at the earliest; runs that asked for a retry count, too. So what kills its process each
/// time dies after its attempts. What is lost beside it each time has its third run and those after it without it.
///
/// **Shares.** A store may divide its table among nodes (`store::take_shares`), so that they do not read the same rows.
/// A node renews its hold each second. It also reads what is overdue by a second, whosever it is; if it has enough to
/// do (a batch is ready, but for suspects that wait for another one), only at every fourth look. So what a dead node
/// leaves is not late by the whole hold, and who has nothing to do helps who has too much.
///
/// **Memory.** A row is in at most one queue, and its links are in the row. So what is known moves between its places
/// without memory: only what is read, and what is asked for, needs some. A row that there is no memory to remember, or
/// to let wait, is met again by the next pass. What is said to throw `std::bad_alloc` has then changed nothing that
/// repeating the call would not mend.
///
/// **Ended leases** are claimed only as far as `store_contact` allows; until then such a row waits.
///
/// Example, look-ahead 1 s, poll 250 ms: a check due at 10.400 s is read at 9.5 s, waits in the wheel, is ready at
/// 10.400 s, asked and held; its end is written with the next claim.
///
/// Thread safety: as a plain object.
class machine {
 public:
  machine(const scheduler_options& options, std::vector<kind_rules> kinds, instant now, std::uint64_t seed);

  [[nodiscard]] const std::vector<kind_rules>& kinds() const noexcept { return kinds_; }

  /// Moves the clock: what is due becomes ready. A clock that was set back by more than a poll is followed; less is
  /// ignored. \throws std::bad_alloc.
  void advance(instant now);

  /// Whether the hold on the shares is to be renewed now, and for how long.
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_hold(instant now) const;
  /// The store is asked. Without an answer it is asked again when it is time to renew; when the hold is over, all is
  /// read.
  void expects_shares(instant now);
  /// The answer to it. New shares are read from the beginning.
  void has_shares(std::optional<std::vector<std::int16_t>> shares, instant now);
  /// How many.
  [[nodiscard]] std::size_t shares() const noexcept { return shares_ ? shares_->size() : 0; }

  /// Whether a page is to be read now, and which. \throws std::bad_alloc.
  [[nodiscard]] std::optional<window> next_read(instant now);
  /// The answer to it. \throws std::bad_alloc.
  void has_read(const window& read, std::span<const upcoming> found, instant now);
  /// A row that was just committed here: remembered if it is due soon.
  void expect(const upcoming& row, instant now) noexcept;

  /// Ready rows of leased kinds to claim, at most a batch, as far as limits allow. They are asked then.
  /// \throws std::bad_alloc; then none is asked.
  [[nodiscard]] std::vector<upcoming> to_claim();
  /// The outcome. `got` are held from now on.
  void has_claimed(std::span<const upcoming> asked, std::span<const claimed> got, instant now) noexcept;
  /// Ready rows of transactional kinds to take, at most `limit`. They are asked then. \throws std::bad_alloc; then none
  /// is asked.
  [[nodiscard]] std::vector<upcoming> to_take(std::size_t limit);
  /// The outcome: all but those in `got` are forgotten, and may be met again; `got` are over.
  void has_taken(std::span<const upcoming> asked, std::span<const claimed> got, instant now) noexcept;
  /// The store did not answer: the asked rows are ready as before.
  void has_not_asked(std::span<const upcoming> asked) noexcept;

  /// What is to become of a run.
  struct end {
    outcome::verdict what =
        outcome::verdict::done;  ///< `retry` becomes `dead` when there were as many attempts as allowed.
    instant due{};               ///< Of a retry.
    std::string reason;          ///< Empty if there was no memory for it.
    bool began = true;           ///< False: the claim is given back.
  };
  [[nodiscard]] end decide(std::uint32_t kind, int attempt, const outcome& said, instant now) noexcept;
  /// What `decide` will say of a run that was not `done`: how long its check then waits, at most; none if it dies.
  /// Thread safety: any thread.
  [[nodiscard]] std::optional<std::chrono::microseconds> longest_pause(std::uint32_t kind, int attempt,
                                                                       const outcome& said) const noexcept;
  /// Whether a claim is one too many: the run before did not end the row, because it ended without a word, or because
  /// more were allowed then.
  [[nodiscard]] bool exhausted(std::uint32_t kind, int attempt) const;

  /// A held row has ended so.
  void ended(std::int64_t id, end how) noexcept;
  /// A held row did not begin, and is to be given back; asked for again after `pause`.
  void given_back(std::int64_t id, instant now, std::chrono::microseconds pause) noexcept;

  /// Ends to write.
  struct ends {
    std::vector<ticket> complete;
    std::vector<retry_op> retry;
    std::vector<retry_op> give_back;
    std::vector<bury_op> bury;
    [[nodiscard]] std::size_t size() const noexcept {
      return complete.size() + retry.size() + give_back.size() + bury.size();
    }
    [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  };
  /// \throws std::bad_alloc.
  [[nodiscard]] ends to_end(std::size_t limit) const;
  /// They were written; `held` in the tickets says how.
  void has_ended(const ends& written, instant now) noexcept;

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
  void store_failed(instant now, bool writing);
  void store_works(bool writing) noexcept {
    if (writing || !failed_writing_) {  // a disk that is full can be read
      failures_ = 0;
      failed_writing_ = false;
    }
  }
  [[nodiscard]] bool store_fails() const noexcept { return failures_ != 0; }
  /// The store is not left alone any longer.
  void end_rest() noexcept { rest_until_ = {}; }
  /// Whether the store is left alone for now.
  [[nodiscard]] bool resting(instant now) const noexcept { return failures_ != 0 && now < rest_until_; }

  /// No claim from now on.
  void close() noexcept { closed_ = true; }

  /// When there is something to do next; now, or before, if there is already.
  [[nodiscard]] instant next_event(instant now) const;

  [[nodiscard]] std::size_t known() const noexcept { return by_id_.size(); }
  [[nodiscard]] std::size_t ready() const noexcept { return ready_count_; }
  [[nodiscard]] std::size_t ready(std::uint32_t kind) const noexcept {
    return states_[kind].in_time.size + states_[kind].backlog.size + states_[kind].suspects.size;
  }
  [[nodiscard]] std::size_t held() const noexcept { return held_count_; }
  /// Whether all that is held has ended, and waits for those who have locked the rows.
  [[nodiscard]] bool all_set_aside() const noexcept { return held_count_ == set_aside_count_; }
  [[nodiscard]] std::size_t running(std::uint32_t kind) const noexcept { return states_[kind].running; }
  /// The deadline of the oldest ready row of a kind; none if there is none.
  [[nodiscard]] std::optional<instant> oldest_ready(std::uint32_t kind) const;
  /// The kind of a row that is known.
  [[nodiscard]] std::uint32_t kind_of(std::int64_t id) const noexcept { return rows_[number_of(id)].what.kind; }

  /// Whether the numbers agree with the rows. Complexity: O(known).
  [[nodiscard]] bool invariants_hold() const;

 private:
  enum class place : std::uint8_t { none, waiting, ready, asked, held, ending, set_aside };
  static constexpr timer_number nobody = std::numeric_limits<timer_number>::max();
  // Of rows, by their links.
  struct queue {
    timer_number first = nobody;
    timer_number last = nobody;
    std::size_t size = 0;
    [[nodiscard]] bool empty() const noexcept { return first == nobody; }
  };
  struct row {
    upcoming what;
    timer_number previous = nobody;  // in its queue
    timer_number next = nobody;      // in it, or in the list of numbers not in use
    place where = place::none;
    std::int64_t fence = 0;
    int attempt = 0;
    bool orphaned = false;
    bool suspect = false;
    end how;  // of an ending one
  };
  struct kind_state {
    queue in_time;
    queue backlog;
    queue suspects;
    std::size_t known = 0;
    std::size_t running = 0;  // asked, held or ending
    bool left_out = false;    // of the last pass, for its quota
    bool backlog_next = true;
  };

  [[nodiscard]] tick deadline_of(instant when) const noexcept;
  [[nodiscard]] tick clock_at(instant now) const noexcept;
  [[nodiscard]] instant begin_of(tick t) const noexcept;

  void push_back(queue& into, timer_number number) noexcept;
  void push_front(queue& into, timer_number number) noexcept;
  void unlink(queue& from, timer_number number) noexcept;
  [[nodiscard]] bool links(const queue& which, place where) const;
  [[nodiscard]] bool links_hold() const;

  [[nodiscard]] row* find(std::int64_t id) noexcept;
  timer_number add(const upcoming& what);
  void forget(timer_number number) noexcept;
  void wait(timer_number number, instant until, instant now) noexcept;
  [[nodiscard]] bool insert(timer_number number, instant until, instant now);
  void make_ready(timer_number number) noexcept;
  void release(row& which) noexcept;
  [[nodiscard]] bool suspicious(const upcoming& what) const;
  [[nodiscard]] bool has_enough_to_do() const;
  void restart(instant now);
  [[nodiscard]] timer_number number_of(std::int64_t id) const noexcept { return by_id_.at(id); }
  [[nodiscard]] instant wake_of(const upcoming& what) const noexcept;
  void has_not_got(timer_number number, instant now) noexcept;
  void make_ending(timer_number number) noexcept;
  void is_over(timer_number number, bool held, instant now) noexcept;
  void set_aside(timer_number number, instant now) noexcept;
  [[nodiscard]] bool full(std::uint32_t kind) const noexcept { return states_[kind].known >= quota_; }
  [[nodiscard]] bool has_room(std::uint32_t kind) const noexcept { return states_[kind].known < 2 * quota_; }
  [[nodiscard]] bool hungry() const;
  [[nodiscard]] bool choose_kinds(bool of_full_ones);
  [[nodiscard]] instant low_water(instant now) const;
  [[nodiscard]] window page(instant from, std::int64_t after, instant now) const;
  [[nodiscard]] std::optional<window> next_page(instant now);
  void begin_pass(instant now);
  std::vector<upcoming> pick(bool transactional, std::size_t limit);
  [[nodiscard]] queue* next_queue(kind_state& kind) const noexcept;
  void pick_of_kind(std::uint32_t kind, std::size_t limit, std::vector<upcoming>& picked) noexcept;
  [[nodiscard]] bool can_ask() const;
  [[nodiscard]] std::size_t room_of(std::uint32_t kind) const;
  [[nodiscard]] instant retry_at(const backoff& rule, int attempt, instant now) noexcept;

  const scheduler_options options_;
  const std::vector<kind_rules> kinds_;
  const std::size_t quota_;  // of known rows, for each kind
  tick_scale scale_;

  std::unique_ptr<hierarchical_wheel> wheel_ = std::make_unique<hierarchical_wheel>();
  std::vector<row> rows_;       // by timer number
  timer_number free_ = nobody;  // the first number not in use
  std::unordered_map<std::int64_t, timer_number> by_id_;
  std::vector<kind_state> states_;  // by kind
  queue ending_;
  std::size_t ready_count_ = 0;
  std::size_t held_count_ = 0;  // asked of leased kinds, held, ending and set aside
  std::size_t set_aside_count_ = 0;
  bool suspect_runs_ = false;                  // one of these is a suspect
  std::array<std::uint32_t, 2> first_kind_{};  // whose turn it is, of leased and of transactional kinds
  instant clock_;
  store_contact contact_;
  instant orphans_until_ = instant::min();  // of the last statement that claimed or took

  bool divided_ = true;  // as far as is known
  std::optional<std::vector<std::int16_t>> shares_;
  instant next_hold_;
  instant hold_ends_ = instant::max();
  bool helps_ = true;   // this pass reads what is overdue, whosever it is
  unsigned looks_ = 0;  // passes begun with enough to do
  instant next_poll_;
  instant next_sweep_;
  instant missed_ = instant::max();  // the earliest row that a claim did not get, since the last pass began
  bool passing_ = false;
  bool reading_pass_ = false;              // the page that is being read belongs to the pass
  bool look_due_ = false;                  // a page for the full kinds is to be read
  std::vector<std::uint32_t> kinds_read_;  // by the page that is being read
  std::vector<std::string> names_read_;    // of these
  instant cursor_due_{};
  std::int64_t cursor_id_ = 0;

  instant pass_began_ = instant::min();
  instant passed_ = instant::min();  // when the last pass that came to its end began
  bool closed_ = false;
  unsigned failures_ = 0;
  bool failed_writing_ = false;
  instant rest_until_{};
  std::minstd_rand random_;
};

}  // namespace timing_wheel::durable

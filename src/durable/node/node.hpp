#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "durable/node/capacity.hpp"
#include "durable/node/failures.hpp"
#include "durable/node/held_leases.hpp"
#include "durable/node/late_watch.hpp"
#include "durable/node/machine.hpp"
#include "durable/node/run_queue.hpp"
#include "durable/node/untold_failures.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// What runs the jobs of a kind. Copies share it, so that copying needs no memory: libstdc++ 12 takes a variant of
/// std::function for one that always has a value, also when a copy was refused.
class any_handler {
 public:
  template <class Handler>
  any_handler(Handler handler)  // NOLINT(google-explicit-constructor): it is one
      : which_(std::make_shared<const Handler>(std::move(handler))) {}

  /// Null if it is of another sort.
  template <class Handler>
  [[nodiscard]] const Handler* get() const noexcept {
    const auto* const mine = std::get_if<std::shared_ptr<const Handler>>(&which_);
    return mine == nullptr ? nullptr : mine->get();
  }

 private:
  std::variant<std::shared_ptr<const leased_handler>, std::shared_ptr<const transactional_handler>,
               std::shared_ptr<const batch_handler>>
      which_;
};

/// Does what the machine says, with the store and the handlers of one node. It has no thread: one thread at a time
/// calls `step`. The runs of leased jobs wait for other threads, which call `run_next`. A node claims no more of them
/// than these threads begin soon (`capacity`); what does not begin goes back.
///
/// Leases are extended by `extend`, which another thread calls, so that no handler, claim or end of a run keeps it
/// waiting; or by `step`, if there is no such thread.
///
/// **Memory.** A run brings the place of its end along, so none is needed where it ends. All that a transaction and its
/// outcome need is taken before the commit. What there is no memory for before that is asked for again.
///
/// Thread safety: `run_next`, `drop_next`, `expect` and `read` from any thread; `extend` by one at a time, also beside
/// `step`; the rest by one at a time.
class node {
 public:
  /// \param wake asks for a step soon. \param ask_thread asks for a thread that calls `run_next`; or, if none comes,
  /// `drop_next` is called, in its place. \param threads how many there are; 0: `ask_thread` itself calls `run_next`;
  /// none: nobody knows, and it may.
  /// \param wake_extender asks for a call of `extend` soon; none: `step` extends.
  /// \param seed of its delays by chance; none: by chance, too.
  node(store& where, const scheduler_options& options, std::vector<kind_rules> kinds, std::vector<any_handler> handlers,
       failures& reported, std::function<void()> wake, std::function<void()> ask_thread,
       std::optional<std::size_t> threads, std::function<void()> wake_extender = nullptr,
       std::optional<std::uint64_t> seed = std::nullopt);
  node(const node&) = delete;
  node& operator=(const node&) = delete;
  /// Does what is due, and \returns how long there is nothing to do, unless it is woken. \throws std::bad_alloc, and
  /// what the clock of the store throws; then it can be repeated.
  std::chrono::microseconds step();

  /// Extends the leases that it is time for, in a transaction of their own. \returns how long there is nothing to do,
  /// unless it is woken.
  std::chrono::microseconds extend();

  /// Runs the handler of the run that has waited longest, if any waits, and notes how it ended.
  void run_next() noexcept;
  /// The thread was refused, or has gone: the run that it is missing for goes back.
  void drop_next() noexcept;
  /// A row that was just committed here: a hint, which a lack of memory loses. A look finds the row, too.
  void expect(const upcoming& row) noexcept;

  /// No claim from now on; running jobs are asked to stop, what has not begun will not.
  void close();
  [[nodiscard]] bool closing() const noexcept { return close_asked_at_.load(std::memory_order_acquire) != never; }
  /// Whether all runs have ended, and their ends are written.
  [[nodiscard]] bool idle();
  /// How many checks are still claimed. \pre No thread is in `step`, and none will be.
  [[nodiscard]] std::size_t held() const noexcept { return machine_.held(); }

  /// The runs whose handlers have not returned. Thread safety: any thread.
  [[nodiscard]] std::vector<unfinished_run> unfinished() const;

  /// Sets what it knows of them.
  void read(scheduler_stats& into) const;

  /// The place of a kind, or none.
  [[nodiscard]] std::optional<std::uint32_t> kind_of(std::string_view name) const;

 private:
  static constexpr auto never = std::chrono::steady_clock::time_point::max();

  class asked_rows;
  // A run in a transaction, as it has ended. One that was not done is told when the transaction has ended.
  struct transactional_run {
    std::int64_t id = 0;
    std::uint32_t kind = 0;
    std::string key;
    int attempt = 0;
    outcome said;
    std::exception_ptr thrown;
    bool repeated = false;  // and then done
  };
  struct row_put_back {
    upcoming row;
    bool counts = true;
  };
  // Of what was written at once, by kind.
  struct tally {
    std::uint64_t done = 0;
    std::uint64_t retried = 0;
    std::uint64_t snoozed = 0;
    std::uint64_t given_back = 0;
    std::uint64_t dead = 0;
    std::uint64_t lost_leases = 0;
  };

  void wake() noexcept;
  [[nodiscard]] bool begins(const leased_run& which) noexcept;
  [[nodiscard]] outcome call_handler(const leased_run& which) noexcept;
  void receive_news(instant now) noexcept;
  void has_ended(const leased_run& which, instant now) noexcept;
  template <class Call>
  void hinted(const Call& call_store);
  void renew_shares();
  void give_up_shares();
  instant leave_if_drained(instant now);
  instant tell_long_runs(instant now);
  instant tell_failed_runs(instant now);
  instant tell_runs(instant now);
  void read_ahead();
  void look_for_late();
  bool write_leased();
  bool write_at_once(const ends_to_write& ends, transaction_limits limits, lease_round& round);
  void write_round(ends_to_write& ends, lease_round& round, store_transaction& open);
  bool write_apart(std::size_t count, const transaction_limits& limits);
  bool answers(const transaction_limits& limits);
  [[nodiscard]] bool is_quick(instant sent) const;
  bool has_written(const ends_to_write& written, std::chrono::microseconds aside);
  bool consume_transactional();
  void has_written_leased(const asked_rows& asked, const ends_to_write& written, const std::vector<claimed>& got,
                          instant sent, std::span<const upcoming> tried_spares);
  std::unique_ptr<leased_run> make_run(const claimed& one) noexcept;
  void begin_runs(const std::vector<claimed>& got);
  [[nodiscard]] instant lease_clock() const;
  [[nodiscard]] instant run_clock() const noexcept;
  void transact_past_locks(transaction_limits limits, const std::function<void(store_transaction&)>& work);
  void drop_leases(const ends_to_write& written);
  void report_store_failure(std::string_view kind = {});
  bool consume(std::span<const upcoming> asked, bool with_handlers, std::vector<claimed>& got);
  void run_all(const std::vector<claimed>& got, store_transaction& open);
  void run_batch(const batch_handler& handler, std::span<const claimed> some, store_transaction& open,
                 bool is_repetition = false);
  void run_each(const transactional_handler& handler, std::span<const claimed> some, store_transaction& open);
  std::optional<transactional_run> run_together(const transactional_handler& handler, std::span<const claimed> some,
                                                store_transaction& open);
  bool run_alone(const transactional_handler& handler, std::span<const claimed> some, store_transaction& open,
                 const std::optional<transactional_run>& undone);
  transactional_run call_transactional(const transactional_handler& handler, const claimed& one,
                                       store_transaction& open);
  [[nodiscard]] std::span<const claimed> consumed_after(const claimed& one) const;
  [[nodiscard]] std::optional<instant> due_of_waiting(std::string_view kind, std::string_view key) const;
  void put_back(const claimed& one, const outcome& said, store_transaction& open);
  void count_ends(const ends_to_write& written);
  void count_consumed(std::span<const claimed> got);
  void add_tally();
  [[nodiscard]] run_counts counted_runs() const;
  void give_back_what_waits();
  void let_go_of_what_hangs(instant now) noexcept;
  [[nodiscard]] bool keep_limits(instant now) noexcept;
  void give_up(const slow_run& which) noexcept;
  void write_off_what_was_given_up(instant now) noexcept;
  [[nodiscard]] std::chrono::microseconds until_something_is_late() const;
  void show_state(instant now);
  [[nodiscard]] job job_of(const claimed& one, std::stop_token stop) const;
  void tell_bad_runs(bool committed);
  void tell_end(std::int64_t id, std::uint32_t kind, std::string_view key, int attempt, const outcome& said,
                const std::exception_ptr& thrown) noexcept;
  void count_begin(std::uint32_t kind, instant due);
  void enter_handler(std::optional<std::uint32_t> of);
  void adapt(std::size_t took, std::chrono::steady_clock::duration time);
  template <class Call>
  [[nodiscard]] bool tried(bool writing, const Call& call_store);
  void has_worked(bool writing, std::chrono::microseconds took);
  void has_failed(bool writing);

  store& store_;
  const scheduler_options options_;
  const std::string name_;
  const std::vector<std::string> kinds_;
  const std::vector<any_handler> handlers_;
  failures& failures_;
  untold_failures failed_;
  const std::function<void()> wake_;
  const std::function<void()> ask_thread_;
  const std::function<void()> wake_extender_;
  const std::vector<std::chrono::microseconds> time_limits_;  // by kind

  held_leases leases_;  // any thread
  run_queue runs_;      // any thread
  late_watch late_;     // by a step; read by any thread
  // Set by `extend` when the store has answered after a failure; `step` takes it back. Relaxed: it publishes nothing.
  std::atomic<bool> store_answers_{false};
  // Set by `step` when it claims no more than has begun; a begin takes it back, and asks for a step. Relaxed: both look
  // at the queue of runs under its lock, one after setting the flag, one before taking it back.
  std::atomic<bool> waits_for_begin_{false};
  // When `extend` looks for slow runs next. A begin whose limit is before that wakes it. Relaxed: `extend` sets it to
  // the end of time, looks at the queue of runs under its lock, and then sets it; a begin goes through that lock before
  // it reads. So a run that `extend` has not seen sees one of these two.
  std::atomic<instant::rep> looks_for_slow_at_;

  // For who extends.
  bool extending_fails_ = false;

  // For who steps.
  machine machine_;
  const bool knows_threads_;
  const bool has_threads_;  // so what they run does not keep a step waiting
  capacity capacity_;
  std::size_t claim_limit_;  // of a transaction: less, after one has failed
  std::vector<upcoming> found_;
  std::vector<std::string> paused_;
  bool knows_pauses_ = false;             // nothing is claimed before
  bool has_left_ = false;                 // gave up its shares
  std::optional<std::size_t> told_held_;  // of a drained node: what it has told last
  instant told_at_ = instant::min();      // and when it tried that last
  bool has_told_runs_ = false;            // of long ones
  instant tells_runs_at_ = instant::min();
  instant tells_failed_at_ = instant::min();
  run_counts told_runs_;  // of all that this node has counted
  instant tells_counts_at_ = instant::max();
  instant forgets_at_ = instant::max();  // what it has told of runs that have failed
  bool owes_ends_ = false;               // of runs that were given up, for want of memory
  std::size_t consume_limit_ = 16;
  std::chrono::steady_clock::time_point closed_at_ = never;
  std::unordered_map<std::int64_t, unsigned> lost_alone_;  // how often the transaction of that row alone has failed
  std::vector<row_put_back> put_back_;                     // by the transaction that is open
  std::vector<std::uint32_t> died_;                        // by it: their kinds
  std::span<const claimed> consumed_;                      // by it
  std::span<const claimed> waiting_;                       // of those: their handlers have yet to begin
  bool entered_ = false;                                   // whether a handler of it was
  std::string why_;                                        // it failed
  instant answered_at_{};                                  // by the store, the last time that it worked
  std::vector<transactional_run> bad_runs_;                // of its handlers
  std::vector<std::size_t> done_in_a_row_;                 // by kind: runs in transactions, since one was not done
  std::vector<tally> tally_;                               // by kind: written, and not yet in `stats_`

  std::atomic<std::chrono::steady_clock::time_point> close_asked_at_{never};
  mutable std::mutex mutex_;  // guards what follows
  std::vector<upcoming> news_;
  scheduler_stats stats_;                    // what is told by kind has no total here
  std::vector<instant> due_since_;           // by kind: what is due and was not claimed, at the last step
  instant next_due_ = instant::max();        // then: what waits
  instant shown_at_{};                       // then, by the clock of the store
  instant shown_when_{};                     // and by that of the runs
  std::optional<std::uint32_t> in_handler_;  // a transactional one runs, of this kind
  instant in_handler_since_{};
};

}  // namespace timing_wheel::durable

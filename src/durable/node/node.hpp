#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "durable/node/capacity.hpp"
#include "durable/node/failures.hpp"
#include "durable/node/held_leases.hpp"
#include "durable/node/late_watch.hpp"
#include "durable/node/machine.hpp"
#include "durable/node/node_clock.hpp"
#include "durable/node/node_figures.hpp"
#include "durable/node/run_queue.hpp"
#include "durable/node/run_reports.hpp"
#include "durable/node/run_rules.hpp"
#include "durable/node/store_calls.hpp"
#include "durable/node/transactional_runs.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Does what the machine says, with the store and the handlers of one node. It has no thread: one thread at a time
/// calls `step`. The runs of leased jobs wait for other threads, which call `run_next`. A node claims no more of them
/// than these threads begin soon (`capacity`); what does not begin goes back.
///
/// Leases are extended by `extend`, which another thread calls, so that no handler, claim or end of a run keeps it
/// waiting; or by `step`, if there is no such thread.
///
/// Its parts do the rest: `store_calls` tells how a call of the store went, `node_figures` keeps what the node shows,
/// `run_reports` tells of its runs, and `transactional_runs` runs the handlers of transactional kinds.
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

  void wake() noexcept;
  [[nodiscard]] bool begins(const leased_run& which) noexcept;
  [[nodiscard]] outcome call_handler(const leased_run& which) noexcept;
  void receive_news(instant now) noexcept;
  void has_ended(const leased_run& which, instant now) noexcept;
  void renew_shares();
  void give_up_shares();
  void read_ahead();
  void look_for_late();
  bool write_leased();
  bool write_at_once(const ends_to_write& ends, transaction_limits limits, lease_round& round);
  void write_round(ends_to_write& ends, lease_round& round, store_transaction& open);
  bool write_apart(std::size_t count, const transaction_limits& limits);
  bool answers(const transaction_limits& limits);
  [[nodiscard]] bool is_quick(instant sent) const;
  bool has_written(const ends_to_write& written, instant now, std::chrono::microseconds aside);
  void has_written_leased(const asked_rows& asked, const ends_to_write& written, const std::vector<claimed>& got,
                          instant sent, std::span<const upcoming> tried_spares);
  std::unique_ptr<leased_run> make_run(const claimed& one) noexcept;
  void begin_runs(const std::vector<claimed>& got);
  void transact_past_locks(transaction_limits limits, const std::function<void(store_transaction&)>& work);
  void drop_leases(const ends_to_write& written);
  void count_ends(const ends_to_write& written);
  void give_back_what_waits();
  void let_go_of_what_hangs(instant now) noexcept;
  [[nodiscard]] bool keep_limits(instant now) noexcept;
  void give_up(const slow_run& which) noexcept;
  void write_off_what_was_given_up(instant now) noexcept;
  [[nodiscard]] std::chrono::microseconds until_something_is_late() const;
  void show_state(instant now);

  store& store_;
  const scheduler_options options_;
  const std::string name_;
  const std::vector<std::string> kinds_;
  const std::vector<any_handler> handlers_;
  failures& failures_;
  const std::function<void()> wake_;
  const std::function<void()> ask_thread_;
  const std::function<void()> wake_extender_;
  const std::vector<std::chrono::microseconds> time_limits_;  // by kind

  const node_clock clock_;
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

  // For the thread that extends.
  bool extending_fails_ = false;

  // For the thread that steps.
  machine machine_;
  node_figures figures_;  // counted and read by any thread
  store_calls calls_;     // any thread reports a failure
  run_reports reports_;   // any thread tells of a run
  transactional_runs transactional_;
  const std::optional<std::size_t> threads_;
  capacity capacity_;
  std::size_t claim_limit_;  // of a transaction: less, after one has failed
  std::vector<upcoming> found_;
  std::vector<std::string> paused_;
  bool knows_pauses_ = false;  // nothing is claimed before
  bool has_left_ = false;      // gave up its shares
  bool owes_ends_ = false;     // of runs that were given up, for want of memory
  std::chrono::steady_clock::time_point closed_at_ = never;

  std::atomic<std::chrono::steady_clock::time_point> close_asked_at_{never};
  std::mutex mutex_;
  std::vector<upcoming> news_;  // guarded by mutex_; on their way to the step
};

}  // namespace timing_wheel::durable

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "durable/node/machine.hpp"
#include "durable/node/node_figures.hpp"
#include "durable/node/run_reports.hpp"
#include "durable/node/run_rules.hpp"
#include "durable/node/store_calls.hpp"
#include "timing_wheel/durable/job.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Consumes ready checks of transactional kinds, and runs their handlers in that transaction: as many as are likely to
/// take `scheduler_options::transaction_time`. If a check alone breaks its transaction again and again, it is put back,
/// or buried, without its handler.
///
/// Invariant: if a transaction commits, each check that it has consumed was done; or the transaction has undone what
/// the run did, and has put the check back, or buried it.
///
/// If a handler commits, the checks behind it in the transaction are gone without a run. They are scheduled again.
///
/// **Memory.** All that a transaction and its outcome need is taken before the commit.
///
/// Thread safety: as a plain object.
class transactional_runs {
 public:
  /// All must outlive it. \param handlers by kind. \param show_state is called in each transaction before its handlers,
  /// which may hang.
  transactional_runs(store& where, const scheduler_options& options, const std::vector<any_handler>& handlers,
                     machine& of, store_calls& calls, node_figures& figures, run_reports& reports, failures& reported,
                     std::function<void()> show_state);

  /// Runs what is ready, in one transaction. \returns whether there may be more.
  bool run_ready();

 private:
  // A run, as it has ended. One that was not done is told when the transaction has ended.
  struct ended_run {
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

  bool consume(std::span<const upcoming> asked, bool with_handlers, std::vector<claimed>& got);
  void run_all_or_leave_behind(std::vector<claimed>& got, store_transaction& open);
  bool schedule_left_behind();
  void adapt(std::size_t took, std::chrono::steady_clock::duration time);
  void run_all(const std::vector<claimed>& got, store_transaction& open);
  void run_batch(const batch_handler& handler, std::span<const claimed> some, store_transaction& open,
                 bool is_repetition = false);
  void run_each(const transactional_handler& handler, std::span<const claimed> some, store_transaction& open);
  std::optional<ended_run> run_together(const transactional_handler& handler, std::span<const claimed> some,
                                        store_transaction& open);
  bool run_alone(const transactional_handler& handler, std::span<const claimed> some, store_transaction& open,
                 const std::optional<ended_run>& undone);
  ended_run call_transactional(const transactional_handler& handler, const claimed& one, store_transaction& open);
  [[nodiscard]] std::span<const claimed> consumed_after(const claimed& one) const;
  [[nodiscard]] std::optional<instant> due_of_waiting(std::string_view kind, std::string_view key) const;
  void put_back(const claimed& one, const outcome& said, store_transaction& open);
  void tell_bad_runs(bool committed);
  void count_begin(const claimed& one);
  void count_consumed(std::span<const claimed> got);

  store& store_;
  const scheduler_options& options_;
  const std::vector<any_handler>& handlers_;
  machine& machine_;
  store_calls& calls_;
  node_figures& figures_;
  run_reports& reports_;
  failures& failures_;
  const std::function<void()> show_state_;
  std::size_t consume_limit_ = 16;
  std::unordered_map<std::int64_t, unsigned> lost_alone_;  // how often the transaction of that row alone has failed
  std::vector<std::size_t> done_in_a_row_;                 // by kind: runs since one was not done
  std::vector<claimed> left_behind_;                       // a handler has ended the transaction before they began
  // By the transaction that is open.
  std::vector<row_put_back> put_back_;
  std::vector<std::uint32_t> died_;  // their kinds
  std::span<const claimed> consumed_;
  std::span<const claimed> waiting_;  // of those: their handlers have yet to begin
  std::vector<ended_run> bad_runs_;   // those not done
};

}  // namespace timing_wheel::durable

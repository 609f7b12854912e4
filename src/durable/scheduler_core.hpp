#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "durable/node/failures.hpp"
#include "durable/node/group_commit.hpp"
#include "durable/node/node.hpp"
#include "durable/own_thread.hpp"
#include "durable/run_gate.hpp"
#include "durable/step_driver.hpp"
#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable {

/// What users ask of a scheduler: it writes their checks by the group commit, and has the node that runs them once it
/// is started. A driver calls its steps.
///
/// Invariants:
/// 1. Nothing is written for users from within a transaction of the same store: what was written would not be undone
///    with the transaction, and might wait for it.
/// 2. Once a node is there, it stays until the end, so whoever has read the pointer may use it.
///
/// Thread safety: any thread, `add` and `start` excepted: those by one, first.
class scheduler::core {
 public:
  /// \param driven_by a timer; null: a thread of its own drives.
  core(store& where, timer* driven_by, const scheduler_options& options);
  core(const core&) = delete;
  core& operator=(const core&) = delete;
  ~core();

  template <class Handler>
  void add(std::string kind, Handler handler, const handler_options& options);
  void start();
  /// \returns whether all is over: not before `until`, and not on a thread of this scheduler.
  [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until);
  /// Checks that are still claimed. \pre `stop` has returned true.
  [[nodiscard]] std::size_t unwritten() const;
  /// The runs whose handlers have not returned.
  [[nodiscard]] std::vector<unfinished_run> unfinished() const;

  void append(std::span<append_op> ops);
  void post(request asked, completion then);
  cancel_answer cancel(std::string_view kind, std::string_view key);
  reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due);
  /// The store, for what needs no more.
  [[nodiscard]] store& where() const;
  [[nodiscard]] scheduler_stats stats() const;

 private:
  struct served_kind {
    kind_rules rules;
    any_handler handler;
  };

  // A handler that knows that it is one of this scheduler.
  [[nodiscard]] leased_handler guarded(leased_handler handler) const;
  [[nodiscard]] transactional_handler guarded(transactional_handler handler) const;
  [[nodiscard]] batch_handler guarded(batch_handler handler) const;
  void refuse_inside_transaction() const;
  void refuse_after_stop() const;
  [[nodiscard]] std::unique_ptr<node> made_node();
  [[nodiscard]] node* begin_late();
  [[nodiscard]] bool waits_for_store() const;
  [[nodiscard]] node* started() const;

  void written(std::span<const append_op> ops) noexcept;
  void tell(node* mine, const append_op& op);
  void ask_thread();
  [[nodiscard]] progress step();
  void wake() { driver_->wake(); }

  store& store_;
  const scheduler_options options_;
  failures failures_;
  group_commit commits_;
  std::vector<served_kind> kinds_;
  run_gate gate_;
  bool started_ = false;                              // for the thread that calls `on` and `start`
  std::chrono::steady_clock::time_point next_try_{};  // to begin; for the thread that steps

  mutable std::mutex mutex_;  // guards what follows, up to the driver
  std::unique_ptr<node> node_;
  bool stopping_ = false;
  bool waits_for_store_ = false;  // it was started, and the store has not answered
  std::uint64_t scheduled_ = 0;
  std::uint64_t duplicates_ = 0;
  std::uint64_t cancelled_ = 0;

  // Destroyed first, since their threads use all of the above.
  std::unique_ptr<step_driver> driver_;
  // Extends leases and does nothing else, so that no handler, claim or end keeps it waiting. None in virtual time,
  // where nothing goes on by itself.
  std::optional<own_thread> leases_;
};

}  // namespace timing_wheel::durable

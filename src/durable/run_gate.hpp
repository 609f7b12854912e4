#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>

#include "durable/node/node.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Counts a scheduler's runs that are on their way to a thread or on one, and knows which threads are inside the
/// scheduler's handlers and completions. A scheduler is destroyed when no run is left.
///
/// Thread safety: any thread.
class run_gate {
 public:
  run_gate() = default;
  run_gate(const run_gate&) = delete;
  run_gate& operator=(const run_gate&) = delete;

  /// While it lives, this thread is inside the scheduler; and inside a transaction of that store, if there is one.
  class enter {
   public:
    explicit enter(const run_gate& gate, const store* transaction_of = nullptr) noexcept;
    enter(const enter&) = delete;
    enter& operator=(const enter&) = delete;
    ~enter();

   private:
    const run_gate* const gate_before_;
    const store* const transaction_before_;
  };
  /// While it lives, this thread runs that leased job of the scheduler, besides.
  class own_job {
   public:
    explicit own_job(const job& what) noexcept;
    own_job(const own_job&) = delete;
    own_job& operator=(const own_job&) = delete;
    ~own_job();
    /// When the job is to run again, if its handler has asked for that.
    [[nodiscard]] const std::optional<due_time>& again() const noexcept { return again_; }

   private:
    friend run_gate;
    const job* const what_;
    own_job* const before_;
    std::optional<due_time> again_;
  };
  /// If this thread runs that job of the scheduler, notes when it is to run again. \returns whether it does.
  bool move_own_job(std::string_view kind, std::string_view key, due_time due) const noexcept;
  /// Whether this thread is inside the scheduler.
  [[nodiscard]] bool is_inside() const noexcept;
  /// Whether this thread is inside a transaction of that store, whichever scheduler has begun it.
  [[nodiscard]] static bool is_inside_transaction_of(const store& where) noexcept;

  /// A thread on its way for a run. Dropped without a call, it lets the node know.
  class run_task {
   public:
    run_task(run_gate& gate, node& owner);
    run_task(run_task&& other) noexcept;
    run_task& operator=(run_task&&) = delete;
    ~run_task();
    void operator()();

   private:
    run_gate* gate_;
    node* owner_;  // null once called
  };

  /// Returns when a run has ended, or after `longest`; maybe before.
  void wait_for_an_end(std::chrono::milliseconds longest);
  /// Returns when no run is left.
  void wait_for_all();

 private:
  void end_run() noexcept;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::size_t runs_ = 0;
};

}  // namespace timing_wheel::durable

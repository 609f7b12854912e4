#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <semaphore>
#include <span>
#include <vector>

#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// Lets writers on several threads share a commit, because a disk syncs a few hundred times a second and a row is a few
/// microseconds.
///
/// The first who comes leads: it takes what waits, commits it in one transaction, and hands the lead to the first who
/// came meanwhile. A leader lingers for a tenth of the last commit, 5 ms at most, or until as many wait as were in that
/// one; else the callers would alternate in halves. If a write of a shared transaction fails, each is tried in one of
/// its own, so that a bad one harms nobody else; if the commit fails, all are told, since it may have happened.
///
/// A write may have to wait for a row that somebody else's transaction keeps. The others do not wait for that with it:
/// after `lock_wait` it fails, and each is tried by itself. Then its own thread tries it again, beside the groups that
/// follow, for as long as `patience`. One that was posted has no thread, and is told.
///
/// Thread safety: any thread.
class group_commit {
 public:
  /// \param wake asks the owner's thread to call `lead_posted`.
  group_commit(store& where, std::function<void()> wake) : store_(where), wake_(std::move(wake)) {}

  /// Appends, or does `work`, within a transaction that is committed when this returns. Throws what the store throws.
  void append(std::span<append_op> ops);
  void run(const std::function<void(store_transaction&)>& work);

  /// Appends without waiting; `then` is called by who commits, with the error or none. The ops must stay until then.
  void post(std::span<append_op> ops, std::function<void(std::exception_ptr)> then);
  /// Commits what was posted, if nobody leads. \returns whether there was something.
  bool lead_posted();

 private:
  struct write {
    std::span<append_op> ops;
    const std::function<void(store_transaction&)>* work = nullptr;
    std::function<void(std::exception_ptr)> then;  // of a posted one
    std::exception_ptr failure;
    bool locked_out = false;  // it failed by a row that another transaction keeps
    // Written under mutex_: by who leads before it commits, or by its forerunner before it is told.
    bool leads = false;
    std::binary_semaphore told{0};  // released once: finished, or leads
  };

  void submit(write& mine);
  void finish(write& mine);
  void try_again(write& mine);
  void lead(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] bool hand_lead_on();
  static void tell(std::vector<write*>& some);
  void linger(std::unique_lock<std::mutex>& lock);
  enum class ended : std::uint8_t { committed, not_begun, write_failed, commit_failed };

  void commit(std::span<write* const> some);
  ended commit_together(std::span<write* const> some);
  static void perform(std::span<write* const> some, store_transaction& open);

  store& store_;
  const std::function<void()> wake_;
  std::mutex trying_again_;  // one at a time: others want connections, too
  std::mutex mutex_;         // guards what follows
  std::condition_variable more_;
  std::vector<write*> waiting_;
  bool led_ = false;
  std::size_t last_size_ = 1;
  std::chrono::steady_clock::duration last_time_{};
};

}  // namespace timing_wheel::durable

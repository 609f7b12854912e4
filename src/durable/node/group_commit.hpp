#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// What names a check.
struct check_name {
  std::string_view kind;
  std::string_view key;
  bool operator==(const check_name&) const = default;
};

/// For how long writes wait for a row that another transaction keeps.
struct waits_aside {
  /// A call: as long as a statement of a PostgreSQL store may take if it is not set.
  std::chrono::milliseconds call = std::chrono::seconds(10);
  /// What was posted: longer than most transactions last.
  std::chrono::milliseconds posted = std::chrono::milliseconds(200);
};

/// Lets writers on several threads share a commit, because a disk syncs a few hundred times a second and a row is a few
/// microseconds.
///
/// The first caller leads: it takes what waits, commits it in one transaction, and hands the lead to the first that
/// came meanwhile and waits. A leader lingers for a tenth of the last commit, 5 ms at most, or until as many wait as
/// were in that one; else the callers would alternate in halves.
///
/// If a write of a shared transaction fails, a second transaction does them in parts, each behind a savepoint. A part
/// that fails is undone alone, and halved until the bad write is found. So a bad one harms nobody else, and costs all
/// together one transaction. If that does not survive the failure, its halves have one each. If a commit fails, all are
/// told, since it may have happened.
///
/// A write that wants a row which somebody else's transaction keeps is **set aside**: the others are committed without
/// it. What is set aside is tried again as often as that costs a fifth of a connection's time, beside the groups that
/// follow, by one of the threads that wait for it; or by the owner's, if all of it was posted. When its limit has
/// passed (`waits_aside`), it is told that the row is locked.
///
/// Writes of one check are done in the order in which they came: what is about a check for which a write is set aside
/// is set aside behind that.
///
/// Thread safety: any thread.
class group_commit {
 public:
  /// \param wake asks the owner's thread to call `lead_posted`. What it throws is dropped: then the next call leads.
  group_commit(store& where, std::function<void()> wake, const waits_aside& limits = {});

  /// Appends, or does `work` with the check `of`, within a transaction that is committed when this returns. `work` may
  /// be called again in another transaction, if the first was undone. Throws what the store throws.
  void append(std::span<append_op> ops);
  void run(const check_name& of, const std::function<void(store_transaction&)>& work);

  /// Appends without waiting; the thread that commits calls `then`, with the error or none. What it throws is dropped.
  /// The ops must stay until then. \returns false if it was closed before: then nothing is done, and `then` not called.
  [[nodiscard]] bool post(std::span<append_op> ops, std::function<void(std::exception_ptr)> then);
  /// Commits what was posted, if nobody leads. \returns when it wants to be called again, unless it asks for that.
  std::chrono::microseconds lead_posted() noexcept;

  /// From now on nothing can be posted.
  void refuse_posts() noexcept;
  /// The same, and returns when each `then` has returned. Not to be called by one of them. What is locked then is not
  /// waited for.
  void close() noexcept;

 private:
  enum class stage : std::uint8_t {
    waits,      // for a leader
    leads,      // its thread is to lead
    set_aside,  // for the thread that tries again
    tries,      // its thread is to try again what is set aside
    told,       // its thread may go, and takes it along
  };
  struct write {
    std::span<append_op> ops;
    check_name name;  // of what `work` is about
    const std::function<void(store_transaction&)>* work = nullptr;
    std::function<void(std::exception_ptr)> then;  // of a posted one

    const std::chrono::steady_clock::time_point asked_at = std::chrono::steady_clock::now();
    // Written by the one thread that commits it, which hands it on under mutex_.
    std::exception_ptr failure;
    bool locked_out = false;  // it failed by a row that another transaction keeps

    // Guarded by mutex_.
    stage now = stage::waits;
    std::chrono::steady_clock::time_point until;  // when it is set aside no longer
    std::condition_variable changed;              // notified under mutex_: the waiting thread ends it when that is free
    write* next = nullptr;                        // in its queue
  };

  // Linked by the writes themselves: nothing is allocated where a write ends.
  class queue {
   public:
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] write* first() const noexcept { return first_; }
    [[nodiscard]] write* first_call() const noexcept;
    void push(write& one) noexcept;
    [[nodiscard]] write& pop() noexcept;

   private:
    write* first_ = nullptr;
    write* last_ = nullptr;
    std::size_t size_ = 0;
  };

  using held_lock = std::unique_lock<std::mutex>;
  enum class ended : std::uint8_t { committed, not_begun, write_failed, commit_failed };

  void submit(write& mine);
  void linger(held_lock& lock);
  void lead(held_lock& lock) noexcept;
  [[nodiscard]] queue take_group() noexcept;
  void set_aside(write& one) noexcept;
  void try_again(held_lock& lock, bool wakes_owner) noexcept;
  void tell(queue some, held_lock& lock, bool wakes_owner) noexcept;
  [[nodiscard]] bool hand_lead_on() noexcept;
  [[nodiscard]] bool appoint() noexcept;
  void wake_owner() noexcept;

  void commit(std::span<write* const> some) noexcept;
  [[nodiscard]] bool append_at_once(std::span<write* const> some) noexcept;
  ended commit_apart(std::span<write* const> some, std::vector<const write*>& locked) noexcept;
  template <class Work>
  ended transact(std::span<write* const> some, std::chrono::milliseconds lock_wait, const Work& work) noexcept;
  static void perform(std::span<write* const> some, store_transaction& open, std::size_t& done);
  template <class Append>
  static bool append_all(std::span<write* const> some, const Append& append);
  static void perform_in_parts(std::span<write* const> some, store_transaction& open,
                               std::vector<const write*>& locked);
  [[nodiscard]] static std::exception_ptr perform_part(std::span<write* const> some, store_transaction& open,
                                                       std::size_t& done);
  [[nodiscard]] static std::span<write* const> first_step(std::span<write* const> some);
  [[nodiscard]] static std::span<write* const> before_locked(std::span<write* const> some,
                                                             std::span<const write* const> locked);
  [[nodiscard]] static bool share_a_check(const write& one, const write& other) noexcept;

  store& store_;
  const std::function<void()> wake_;
  const waits_aside limits_;
  const std::exception_ptr row_is_locked_;

  // Guards what follows, and how far each write is. Nothing else is locked while it is held, and nobody else's code
  // runs: not the store, no `then`, not `wake_`. So a write is in one queue at a time, or with the one thread that
  // commits it, and that is the only one that touches it.
  std::mutex mutex_;
  std::condition_variable more_;     // waits, for the thread that lingers
  std::condition_variable drained_;  // for the thread that closes: all is told, or there is something to do
  queue waiting_;
  queue aside_;             // what is tried again stays in it meanwhile, so that nothing overtakes it
  bool led_ = false;        // somebody commits what was in `waiting_`, or is told to
  bool appointed_ = false;  // somebody tries again what is in `aside_`, or is told to
  bool closed_ = false;
  std::size_t posted_ = 0;  // whose `then` has not returned
  std::chrono::steady_clock::time_point next_try_;
  std::size_t last_size_ = 1;
  std::chrono::steady_clock::duration last_time_{};
};

}  // namespace timing_wheel::durable

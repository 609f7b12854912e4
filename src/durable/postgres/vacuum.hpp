#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "durable/postgres/opening.hpp"

namespace timing_wheel::durable::postgres {

/// Vacuums the table of checks, if the role may, as soon as enough of its rows are dead: autovacuum looks once a minute
/// by default, in which a table of checks can grow by a gigabyte.
///
/// It does so in a thread and on a connection that it has for one vacuum each; no call waits for them. A vacuum of
/// somebody else, autovacuum's included, lets this one end at once. Nobody is told of a failure, after which the next
/// try waits for twice as many runs; autovacuum is still there.
///
/// Thread safety: any thread. `mutex_` guards `thread_`; a call that finds it taken only adds its runs. What the thread
/// reads and writes is handed on by `works_`.
class table_vacuum {
 public:
  /// \param rules those of the store, which outlive it.
  table_vacuum(const std::string& conninfo, const connection_rules& rules) : rules_(rules), address_(conninfo, rules) {}
  table_vacuum(const table_vacuum&) = delete;
  table_vacuum& operator=(const table_vacuum&) = delete;
  /// Ends the vacuum that is under way, which takes two seconds at most, or as long as one statement may if the server
  /// is silent.
  ~table_vacuum();

  /// So many runs have ended since the last call; each has left a dead row at least. Complexity: O(1).
  void ended(std::uint64_t runs) noexcept;

  /// Leaves the thread alone: in a child of `fork` there is none.
  void abandon();

 private:
  void work() noexcept;
  void look();

  static constexpr std::uint64_t shortest_pause = 50'000;
  static constexpr std::uint64_t longest_pause = 16 * shortest_pause;

  const connection_rules& rules_;
  const address address_;

  std::atomic<std::uint64_t> since_{0};  // runs that have ended since the last look. Relaxed: it publishes nothing.
  std::atomic<bool> stop_{false};        // relaxed: the thread is joined
  std::atomic<bool> works_{false};       // whether there is a thread that has not come to its end

  // Of the thread, and of those who find that none works.
  std::uint64_t pause_ = shortest_pause;  // how many runs have to end before the next look
  std::int64_t dead_ = 0;                 // rows, when the last vacuum began
  std::int64_t gone_ = 0;                 // rows that were changed or deleted, when it was last looked at

  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace timing_wheel::durable::postgres

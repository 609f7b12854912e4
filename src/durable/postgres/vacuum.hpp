#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "durable/postgres/opening.hpp"

namespace timing_wheel::durable::postgres {

/// Vacuums the table of checks, if the role may, as soon as enough of its rows are dead: autovacuum looks once a minute
/// by default, in which a table of checks can grow by a gigabyte.
///
/// It has a connection of its own, which it opens when it is first needed. No call waits for a vacuum: one begins it,
/// and a later one sees that it has ended. Another vacuum of the table, autovacuum's included, lets this one end at
/// once. Nobody is told of a failure; autovacuum is still there.
///
/// Thread safety: any thread. `mutex_` guards all that is not immutable or atomic; a call that finds it taken only adds
/// its rows.
class table_vacuum {
 public:
  /// \param rules those of the store, and outlived by the counts in them.
  table_vacuum(const std::string& conninfo, const connection_rules& rules);

  /// So many runs have ended since the last call; each has left a dead row at least. Complexity: O(1); up to a second
  /// when it connects, and two round trips once in 50 000 runs.
  void ended(std::uint64_t runs) noexcept;

  /// Gives the connection up without a word to the server: in a child of `fork` it is the parent's.
  void abandon();

 private:
  void look();

  // Immutable.
  const connection_rules rules_;
  const address address_;

  std::atomic<std::uint64_t> since_{0};  // runs that have ended since the last look. Relaxed: it publishes nothing.
  std::mutex mutex_;
  bool refused_ = false;   // the role may not
  std::uint64_t pause_;    // how many runs have to end before the next look
  std::int64_t dead_ = 0;  // rows, when the last vacuum began
  std::unique_ptr<connection> connection_;
};

}  // namespace timing_wheel::durable::postgres

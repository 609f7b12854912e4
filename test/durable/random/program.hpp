#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/durable/store.hpp"

// Random programs of users, nodes and faults, all in one thread: the seed chooses who goes on. The same programs run on
// every store.

namespace timing_wheel::durable::test {

/// What users may do in a transaction.
class users_calls {
 public:
  virtual ~users_calls() = default;

  virtual scheduled schedule(const request& asked) = 0;
  virtual cancel_result cancel(std::string_view kind, std::string_view key) = 0;
  virtual reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) = 0;
};

/// A transaction on a user's own connection. Its destructor rolls back what was not committed. What fails throws.
class users_transaction : public users_calls {
 public:
  virtual void commit() = 0;
  /// The server ends the connection.
  virtual void cut() = 0;
};

/// A store, and all that programs need beside it.
class ground {
 public:
  static constexpr std::size_t most_nodes = 3;
  static constexpr std::size_t most_users = 2;

  virtual ~ground() = default;

  /// Empties the store, and sets its clock to the beginning.
  virtual void reset() = 0;
  /// The clock of the store goes on, and with it that of the machine.
  virtual void pass(std::chrono::microseconds time) = 0;
  [[nodiscard]] virtual instant now() = 0;

  /// The store as one node has it, or behind the last node: its users.
  [[nodiscard]] virtual store& of(std::size_t node) = 0;
  /// Begins a transaction of a user; none if the store knows no such connections.
  [[nodiscard]] virtual std::unique_ptr<users_transaction> begin(std::size_t user) = 0;

  /// Whether others write while a transaction is open.
  [[nodiscard]] virtual bool writes_beside() const = 0;
  /// Whether a fence stays drawn, for all, when its transaction is undone.
  [[nodiscard]] virtual bool keeps_undone_fences() const = 0;
  /// Whether the table may be divided among nodes.
  [[nodiscard]] virtual bool divides() const = 0;
  /// The server ends the transaction of a node. It may also throw, as the next call would.
  virtual void cut(transaction& open) = 0;
};

[[nodiscard]] std::unique_ptr<ground> memory_ground();
[[nodiscard]] std::unique_ptr<ground> sqlite_ground();
[[nodiscard]] std::unique_ptr<ground> postgres_ground();

/// What the judge says of one program, and what happened in it.
struct verdict {
  std::vector<std::string> wrong;
  std::vector<std::string> events;
};

/// A change is seen by a node, and its lease may end, within so many.
inline constexpr int steps_by_default = 60;

/// Runs the program of that seed. A program of fewer steps does the same until its end.
[[nodiscard]] verdict run_program(ground& on, std::uint64_t seed, int steps);

/// The verdict of the shortest program of that seed that fails within `steps`, and how to run it again; empty if none
/// does.
[[nodiscard]] std::string shortest_failure(ground& on, std::string_view store, std::uint64_t seed, int steps);

}  // namespace timing_wheel::durable::test

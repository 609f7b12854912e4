#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "timing_wheel/durable/scheduler.hpp"

namespace timing_wheel::durable::test {

/// What was done so far, by all connections.
struct cost {
  double statements = 0;
  double rows_read = 0;
  double commits = 0;
  double bytes_written = 0;
  double steps = 0;        // of SQLite's machine; of PostgreSQL the rows and entries of indexes that scans have met
  double round_trips = 0;  // to a server

  cost operator-(const cost& before) const {
    return {statements - before.statements,       rows_read - before.rows_read, commits - before.commits,
            bytes_written - before.bytes_written, steps - before.steps,         round_trips - before.round_trips};
  }
  cost operator/(double checks) const {
    return {statements / checks,    rows_read / checks, commits / checks,
            bytes_written / checks, steps / checks,     round_trips / checks};
  }
};

/// A store to be counted, with a user's own connection beside it. Another database derives a class of its own.
class counted_store {
 public:
  virtual ~counted_store() = default;

  virtual store& where() = 0;
  virtual cost so_far() = 0;
  /// Time passes, by the clock of the database.
  virtual void pass(std::chrono::milliseconds time) = 0;
  /// A transaction of the user's: an order is written, and its check.
  virtual void order(const request& asked) = 0;
  /// What a transactional handler does.
  virtual void update_order(transaction& open, std::int64_t number) = 0;
};

/// One of these with empty tables, and what the database calls its version.
struct counted_kind {
  const char* name;
  std::string (*version)();
  std::unique_ptr<counted_store> (*make)();
  bool divided;  // nodes divide its table among themselves
};
extern const counted_kind counted_in_sqlite;
extern const counted_kind counted_in_postgres;

}  // namespace timing_wheel::durable::test

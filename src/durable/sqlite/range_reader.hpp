#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "durable/sqlite/database.hpp"
#include "durable/sqlite/transaction.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable::sqlite {

/// Reads the rows of a window: for each kind a range of the index, all of them merged in the order of (due, id). So
/// rows of other kinds cost nothing, however many of them are due.
///
/// Up to 32 kinds are one statement. Thread safety: as the connection.
class range_reader {
 public:
  range_reader(sqlite3* connection, counters& counts) noexcept : connection_(connection), counts_(counts) {}

  void read(const read_range& which, std::vector<upcoming>& found);

  /// The text of the statement that reads those of `kinds` kinds: with `same_due`, rows of one deadline and ids above
  /// another; else rows between two deadlines.
  [[nodiscard]] static std::string text(std::size_t kinds, bool same_due);

 private:
  struct prepared {
    prepared(sqlite3* connection, std::string of, counters& counts)
        : words(std::move(of)), run(connection, {"reading ahead", words.c_str()}, &counts.statements) {}
    const std::string words;
    statement run;
  };

  [[nodiscard]] execution run(std::size_t kinds, bool same_due);
  void read_part(const read_range& which, bool same_due, std::int64_t first, std::int64_t second, std::size_t limit,
                 std::vector<upcoming>& found);

  sqlite3* connection_;
  counters& counts_;
  std::map<std::size_t, std::unique_ptr<prepared>> same_due_;  // by the number of kinds
  std::map<std::size_t, std::unique_ptr<prepared>> later_;
};

}  // namespace timing_wheel::durable::sqlite

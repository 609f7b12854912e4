#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "durable/postgres/connection.hpp"
#include "timing_wheel/durable/overview.hpp"

// What an operator asks of the tables.

namespace timing_wheel::durable::postgres {

/// A statement whose text is put together here, and its values; it is run by its text.
class written_query {
 public:
  written_query() = default;
  written_query(const written_query&) = delete;
  written_query& operator=(const written_query&) = delete;

  written_query& add(std::string_view text);
  /// Adds a parameter of that type: "$3::text".
  written_query& add(std::int64_t value);
  written_query& add_text(std::string_view value);
  written_query& add_bytes(std::string_view value);

  result run(connection& on, const char* doing) const;

 private:
  void add_number(const char* type);

  std::string text_;
  std::deque<std::string> kept_;
  parameters values_;
};

/// See the members of `store` and `store_transaction` with these names. They are planned as the user's server plans.
/// `lock` leaves out what others have locked.
[[nodiscard]] std::vector<stored_check> list(connection& on, const check_range& range, instant now, bool lock);
[[nodiscard]] std::size_t count(connection& on, const check_filter& which, std::size_t most, instant now);
[[nodiscard]] std::vector<dead_check> list_dead(connection& on, const dead_range& range);
[[nodiscard]] std::vector<dead_group> count_dead(connection& on, const dead_filter& which, std::size_t limit,
                                                 std::size_t most);
/// All but which kinds are paused.
[[nodiscard]] std::vector<kind_counts> count_kinds(connection& on, std::size_t most, instant now, bool with_waits);
[[nodiscard]] std::vector<node_info> nodes(connection& on);
[[nodiscard]] std::vector<audit_entry> audit(connection& on, std::size_t limit);
void record(connection& on, const audit_entry& entry);
/// \returns how many.
std::size_t revive_dead(connection& on, std::span<const std::int64_t> ids);

/// The kinds whose names make a set's name, see `name_of_set`; none if it has too many to be named.
[[nodiscard]] std::vector<std::string> kinds_in(std::string_view set);
/// The same for all who serve these, however long they are; else they are names, for people.
[[nodiscard]] std::string name_of_set(std::span<const std::string> kinds);

/// See `store::read_all`; a transaction of its own, which is undone at the end.
void read_all(connection& on, const std::function<void(stored_check&&)>& check,
              const std::function<void(dead_check&&)>& dead);
/// See `store_transaction::restore`.
std::size_t restore(connection& on, std::span<const stored_check> checks, std::span<const dead_check> dead);

}  // namespace timing_wheel::durable::postgres

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "durable/sqlite/database.hpp"
#include "durable/store/counters.hpp"
#include "timing_wheel/durable/overview.hpp"

// What an operator asks of the tables. Each statement is prepared for the one call, since nobody asks often.

namespace timing_wheel::durable::sqlite {

/// See the members of `store` with these names. `now` is what the file's clock shows.
[[nodiscard]] std::vector<stored_check> list(database& on, const check_range& range, instant now, counters& counts);
[[nodiscard]] std::size_t count(database& on, const check_filter& which, std::size_t most, instant now,
                                counters& counts);
/// All but which kinds are paused.
[[nodiscard]] std::vector<kind_counts> count_kinds(database& on, std::size_t most, instant now, bool with_waits,
                                                   counters& counts);
[[nodiscard]] std::vector<dead_check> list_dead(database& on, const dead_range& range, counters& counts);
[[nodiscard]] std::vector<dead_group> count_dead(database& on, const dead_filter& which, std::size_t limit,
                                                 std::size_t most, counters& counts);

/// In the transaction that is open, so that both are read as they are at one moment.
void read_all(database& on, const std::function<void(stored_check&&)>& check,
              const std::function<void(dead_check&&)>& dead, counters& counts);

/// Writes a line of the audit, in the transaction that is open. The first one makes the table, so that a file of
/// release 0.1.0 needs no migration for it.
void record(database& on, const audit_entry& entry, instant now, counters& counts);
[[nodiscard]] std::vector<audit_entry> audit(database& on, std::size_t limit, counters& counts);

/// In the transaction that is open. The first run that is told makes the table.
void tell_long_runs(database& on, std::string_view node, std::span<const long_run> runs, instant now, counters& counts);
[[nodiscard]] std::vector<long_run> long_runs(database& on, counters& counts);
void tell_failed_runs(database& on, std::string_view node, std::span<const failed_run> runs, instant now,
                      counters& counts);
[[nodiscard]] std::vector<failed_run> failed_runs(database& on, std::span<const std::int64_t> ids, counters& counts);
void tell_runs(database& on, const run_counts& since, instant now, counters& counts);
[[nodiscard]] std::optional<run_counts> runs_of_last_minute(database& on, instant now, counters& counts);

}  // namespace timing_wheel::durable::sqlite

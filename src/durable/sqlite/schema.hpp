#pragma once

#include "durable/sqlite/database.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable::sqlite {

/// The version of the tables that this library makes. It rises when a library that knows the one before could do harm,
/// and so it is the least that a library must know (a `min_reader`); what is only added leaves it.
inline constexpr int schema_version = 2;

/// Makes the tables in the transaction that is open, or leaves them as they are. Where the clock begins in 1970, no
/// deadline is implausible.
void make_tables(database& in, bool from_1970);

/// What `make_tables` would do.
[[nodiscard]] migration_plan planned(database& in, bool from_1970);

/// \throws timer_error (`newer_schema`) with both numbers, for a version that this library does not know.
void check_version(sqlite3* connection, std::int64_t version);

}  // namespace timing_wheel::durable::sqlite

#pragma once

#include <cstdint>
#include <string_view>

#include "durable/postgres/connection.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable::postgres {

/// The version of the tables that this library makes. It rises when a library that knows the one before could do harm,
/// and so it is the least that a library must know (a `min_reader`).
inline constexpr int schema_version = 2;
/// What was added to that version and what an older library need not know: functions, tables. A table of its own counts
/// them, which no node reads, so that a migration that only adds locks nothing of a node's or of a user's.
inline constexpr int schema_additions = 7;

/// Makes the tables, or brings those of an older version up to date. Several may do so at a time. What is only added is
/// left to the owner of the tables. \returns whether it has changed any.
bool make_tables(connection& on, std::string_view schema);

/// What `make_tables` would do.
[[nodiscard]] migration_plan planned(connection& on, std::string_view schema);

/// \throws timer_error (`newer_schema`) with both numbers, for a version that this library does not know; `no_schema`
/// for an older one, which `migrate` brings up to date.
void check_version(std::int64_t version, std::string_view schema);

}  // namespace timing_wheel::durable::postgres

#pragma once

#include <cstdint>
#include <string_view>

#include "durable/postgres/connection.hpp"

namespace timing_wheel::durable::postgres {

/// The version of the tables that this library makes and knows.
inline constexpr int schema_version = 2;

/// Makes the tables, or brings those of an older version up to date. Several may do so at a time. \returns whether it
/// has changed any.
bool make_tables(connection& on, std::string_view schema);

/// \throws timer_error (`newer_schema`) with both numbers, for a version that this library does not know; `no_schema`
/// for an older one, which `migrate` brings up to date.
void check_version(std::int64_t version, std::string_view schema);

}  // namespace timing_wheel::durable::postgres

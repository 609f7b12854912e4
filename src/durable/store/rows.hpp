#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "durable/store/instant.hpp"
#include "timing_wheel/durable/store.hpp"

// What databases keep, read by the places of the columns. A `Row` tells whether a column `is_null`, and its `integer`,
// `count` or `bytes`.

namespace timing_wheel::durable {

/// Of payload, due, fence, attempt, lease and id; payload is the column `first`.
template <class Row>
[[nodiscard]] stored_check stored_check_in(const Row& row, std::string_view kind, std::string_view key, int first) {
  return {.kind = std::string(kind),
          .key = std::string(key),
          .payload = std::string(row.bytes(first)),
          .due = instant_of(row.integer(first + 1)),
          .fence = row.integer(first + 2),
          .attempt = row.count(first + 3),
          .running = !row.is_null(first + 4),
          .lease = instant_of(row.integer(first + 4)),
          .id = row.integer(first + 5),
          .size = row.bytes(first).size()};
}

/// Of id, kind, key, payload, due, fence, attempt, error and died.
template <class Row>
[[nodiscard]] dead_check dead_check_in(const Row& row) {
  return {.id = row.integer(0),
          .kind = std::string(row.bytes(1)),
          .key = std::string(row.bytes(2)),
          .payload = std::string(row.bytes(3)),
          .due = instant_of(row.integer(4)),
          .fence = row.integer(5),
          .attempt = row.count(6),
          .error = std::string(row.bytes(7)),
          .died = instant_of(row.integer(8))};
}

/// Of kind, error, how many, and the first and the last `died`.
template <class Row>
[[nodiscard]] dead_group dead_group_in(const Row& row) {
  return {.kind = std::string(row.bytes(0)),
          .error = std::string(row.bytes(1)),
          .count = static_cast<std::size_t>(row.integer(2)),
          .first = instant_of(row.integer(3)),
          .last = instant_of(row.integer(4))};
}

/// Of by, action, kind, subject, count and at.
template <class Row>
[[nodiscard]] audit_entry audit_entry_in(const Row& row) {
  return {.by = std::string(row.bytes(0)),
          .action = std::string(row.bytes(1)),
          .kind = std::string(row.bytes(2)),
          .subject = std::string(row.bytes(3)),
          .count = static_cast<std::size_t>(row.integer(4)),
          .at = instant_of(row.integer(5))};
}

/// Of node, kind, key, id, fence, begun and told.
template <class Row>
[[nodiscard]] long_run long_run_in(const Row& row) {
  return {.node = std::string(row.bytes(0)),
          .kind = std::string(row.bytes(1)),
          .key = std::string(row.bytes(2)),
          .id = row.integer(3),
          .fence = row.integer(4),
          .begun = instant_of(row.integer(5)),
          .told = instant_of(row.integer(6))};
}

/// Of kind and since.
template <class Row>
[[nodiscard]] paused_kind paused_kind_in(const Row& row) {
  return {std::string(row.bytes(0)), instant_of(row.integer(1))};
}

/// Of node, since, held and told.
template <class Row>
[[nodiscard]] drained_node drained_node_in(const Row& row) {
  return {.node = std::string(row.bytes(0)),
          .since = instant_of(row.integer(1)),
          .held = row.is_null(2) ? std::nullopt : std::optional(static_cast<std::size_t>(row.integer(2))),
          .told = instant_of(row.integer(3))};
}

}  // namespace timing_wheel::durable

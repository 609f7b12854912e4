#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/durable/store.hpp"

// What a filter means, once as a function and once as SQL; the tests of `store` compare the two.

namespace timing_wheel::durable {

/// Whether `which` means this check at `now`.
[[nodiscard]] bool matches(const check_filter& which, const stored_check& check, instant now);
/// Whether `which` means this dead check.
[[nodiscard]] bool matches(const dead_filter& which, const dead_check& check);

/// \throws timer_error with `errc::invalid_request` if `range` is in the order of the keys of no kind.
void require_kind_of_keys(const check_range& range);

/// Behind which place a list by deadlines begins.
[[nodiscard]] list_position begin_of(const check_range& range);

/// What `which` says of state and deadline, as SQL that follows a `WHERE …`: " AND due<17 AND lease IS NULL"; empty if
/// it says nothing. It has numbers only, so nothing has to be quoted. Kind and key are left to the store.
[[nodiscard]] std::string condition_of(const check_filter& which, instant now);

/// The first key, in the order of bytes, behind all that begin with `prefix`; none if there is no such key.
[[nodiscard]] std::optional<std::string> end_of_prefix(std::string_view prefix);

/// The highest fence that is there; 0 if there is none.
[[nodiscard]] std::int64_t highest_fence(std::span<const stored_check> checks, std::span<const dead_check> dead);

/// A limit as a database counts it.
[[nodiscard]] constexpr std::int64_t count_of(std::size_t limit) noexcept {
  constexpr std::size_t most = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::int64_t>(std::min(limit, most));
}

/// See `kind_counts::dead_lately`.
inline constexpr std::chrono::minutes lately(1);

/// Adds `check` to the counts of its kind; all but those of the dead, `at_least` and `paused`. If it waits, `waiting`
/// gets since when.
void add_to(kind_counts& counts, std::vector<instant>& waiting, const stored_check& check, instant now);

/// Sets `oldest_waiting`, and the like, from what `add_to` has found.
void tell_waiting(kind_counts& counts, std::vector<instant>& waiting, bool with_waits);

/// Says of each kind that is paused that it is, and adds those that have no check.
void mark_paused(const std::vector<paused_kind>& paused, std::vector<kind_counts>& kinds);

}  // namespace timing_wheel::durable

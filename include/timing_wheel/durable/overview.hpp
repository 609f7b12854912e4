#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/durable/request.hpp"

// What an operator asks of a store: which checks, how many, in which state, on which nodes, and who has changed them.

namespace timing_wheel::durable {

/// The states of a check at an instant; several may hold. Each check is exactly one of pending, running and suspect.
enum class check_state : std::uint8_t {
  pending,  ///< No node has claimed it: its handler has not begun, or has asked for a retry.
  running,  ///< A node has claimed it, and the lease has not ended.
  /// The lease has ended: a node that had claimed the check has died or hangs, or a handler hangs. The handler may have
  /// begun, so a cancel is refused. (The comment of `handler_options::max_attempts` calls fewer checks suspects: those
  /// whose last run was lost, and was at least their second.)
  suspect,
  due,       ///< Its deadline has passed.
  waiting,   ///< It is due, and pending or suspect: a node may claim it now.
  retrying,  ///< It is pending, and a run of it has failed.
};

/// The name of the state, as it is written here.
[[nodiscard]] TIMING_WHEEL_EXPORT const char* to_string(check_state state) noexcept;
/// Writes the name of the state.
TIMING_WHEEL_EXPORT std::ostream& operator<<(std::ostream& out, check_state state);

/// The state of `check` at `now`. If several states hold, the result is the first of these that holds: suspect,
/// running, waiting, retrying, pending.
[[nodiscard]] TIMING_WHEEL_EXPORT check_state state_of(const stored_check& check, instant now) noexcept;

/// Means the checks that match every member that is set.
struct check_filter {
  std::string kind = {};                   ///< Of this kind. Empty: of all kinds.
  std::string key_prefix = {};             ///< With a key that begins with these bytes.
  std::optional<check_state> state = {};   ///< In this state.
  std::optional<instant> due_before = {};  ///< With a deadline before this one.
  std::optional<instant> due_after = {};   ///< With a deadline after this one.
};

/// A place in a list of checks, which is in the order of (deadline, id).
struct list_position {
  instant due = instant::min();                                ///< Of the check before the place.
  std::int64_t id = std::numeric_limits<std::int64_t>::min();  ///< Of the check before the place.
};

/// Which checks to list: at most `limit` of those that `which` means, in the order of (deadline, id), or in that of
/// their keys.
struct check_range {
  std::size_t limit = 0;       ///< How many, at most.
  list_position after = {};    ///< Only those behind this place. To go on: deadline and id of the last one.
  check_filter which = {};     ///< Only these.
  bool with_payloads = false;  ///< Whether to read the payloads, too.
  /// In the order of falling (deadline, id). Then the checks behind `after` are those with a lower (deadline, id); with
  /// the default `after`, all checks.
  bool latest_first = false;
  /// If it is set: in the order of the keys, from this one on; `after` and `latest_first` mean nothing. To go on: the
  /// key of the last check, with a zero byte appended. For a walk through all checks of a kind: its complexity does not
  /// depend on the other kinds. `which.kind` must be set, else `durable::errc::invalid_request`.
  std::optional<std::string> from_key = {};
};

/// Means the dead checks that match every member that is set.
struct dead_filter {
  std::string kind = {};        ///< Of this kind. Empty: of all kinds.
  std::string key_prefix = {};  ///< With a key that begins with these bytes.
  std::string error = {};       ///< With exactly this error.
  std::string key = {};         ///< With exactly this key. Complexity: O(dead checks), as with a prefix.
};

/// Which dead checks to list: at most `limit` of those that `which` means, in the order of their ids.
struct dead_range {
  std::size_t limit = 0;      ///< How many, at most.
  std::int64_t after = 0;     ///< Only those behind this id; 0: from the beginning.
  dead_filter which = {};     ///< Only these.
  bool newest_first = false;  ///< In the order of falling ids: behind `after` are the lower ids.
  bool with_payloads = true;  ///< Whether to read the payloads, too.
};

/// The dead checks of one kind that have died of one error.
struct dead_group {
  std::string kind;       ///< As it was scheduled.
  std::string error;      ///< What went wrong in the last run.
  std::size_t count = 0;  ///< How many there are.
  instant first{};        ///< When the first of them died.
  instant last{};         ///< When the last of them died.
};

/// How many checks of a kind are in which state. The counts overlap as the states do; `pending + running + suspect` is
/// all checks.
struct kind_counts {
  std::string kind;             ///< As it was scheduled.
  std::size_t pending = 0;      ///< See `check_state::pending`.
  std::size_t running = 0;      ///< See `check_state::running`.
  std::size_t suspect = 0;      ///< See `check_state::suspect`.
  std::size_t due = 0;          ///< See `check_state::due`.
  std::size_t waiting = 0;      ///< See `check_state::waiting`.
  std::size_t retrying = 0;     ///< See `check_state::retrying`.
  std::size_t dead = 0;         ///< Dead checks.
  std::size_t dead_lately = 0;  ///< Dead checks that have died within the last minute.
  bool at_least = false;        ///< Some of the counts may be higher: there were too many rows to count.
  bool paused = false;          ///< See `store::pause`.
  /// When the check that has waited longest began to wait: at its deadline, or when its lease ended if that was later.
  std::optional<instant> oldest_waiting = {};
  /// Half of the waiting checks began to wait at this time or later. Not set unless `count_kinds` is asked for waits.
  std::optional<instant> median_waiting = {};
  std::optional<instant> p99_waiting = {};  ///< The same, for 99 in 100 of the waiting checks.
};

/// A node as the store knows it.
struct node_info {
  std::string name;                ///< See `scheduler_options::node`.
  std::vector<std::string> kinds;  ///< It has handlers for these; empty if they are too many to be kept.
  instant until{};                 ///< It counts as alive until then, and renews that while it lives.
  std::size_t shares = 0;          ///< How many shares of the table it reads.
};

/// A line of the audit: somebody has changed something.
struct audit_entry {
  std::string by;            ///< Who asked for it, such as the name of a user.
  std::string action;        ///< What was asked for, such as "cancel".
  std::string kind = {};     ///< Of the checks. Empty: the action was about all kinds, or about none.
  std::string subject = {};  ///< Which checks: a key, or a filter in words.
  std::size_t count = 0;     ///< How many were changed.
  instant at{};              ///< When, by the database's clock. The store sets it.
};

}  // namespace timing_wheel::durable

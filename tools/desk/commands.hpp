#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "desk/options.hpp"
#include "desk/place.hpp"
#include "desk/text.hpp"

namespace timing_wheel {
class timer_error;
}

namespace timing_wheel::desk {

/// What a command works with.
struct desk {
  const options& chosen;
  durable::store& store;
  const place& where;
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

/// Each writes what it has found to `out`. \throws failure, timer_error.
exit_status status(const desk& with);
exit_status list(const desk& with);
exit_status show(const desk& with);
exit_status why(const desk& with);
exit_status cancel(const desk& with);
exit_status reschedule(const desk& with);
exit_status run_now(const desk& with);
exit_status retry(const desk& with);
exit_status remove(const desk& with);
exit_status pause(const desk& with);
exit_status resume(const desk& with);
exit_status drain(const desk& with);
exit_status export_all(const desk& with);
exit_status import_all(const desk& with);
exit_status migrate(const desk& with);
exit_status audit(const desk& with);
exit_status check(const desk& with);
exit_status serve(const desk& with);

/// As the operating system has it; empty if it has none.
[[nodiscard]] std::string host_name();
/// The name of the user who runs this program, as the operating system has it, and of the machine.
[[nodiscard]] std::string operating_user();

/// As `list --json` writes them: see docs/desk.md.
[[nodiscard]] json json_of(const durable::stored_check& check, instant now);
[[nodiscard]] json json_of(const durable::dead_check& check);
[[nodiscard]] json json_of(const durable::dead_group& group);

/// Groups of the dead that differ by ids alone as one, those with most checks first. With each: of how many texts it
/// is; if of one, the group has this text, else the pattern.
[[nodiscard]] std::vector<std::pair<durable::dead_group, std::size_t>> fold(
    const std::vector<durable::dead_group>& groups);

/// Where a list goes on after this check.
[[nodiscard]] std::string cursor_of(const durable::stored_check& last);
[[nodiscard]] std::string cursor_of(const durable::dead_check& last);

/// What the options say. \throws failure (usage).
[[nodiscard]] durable::list_position position_of(const options& chosen);  ///< As `cursor_of` has written it.
[[nodiscard]] std::int64_t dead_position_of(const options& chosen);       ///< The same, of dead checks.
[[nodiscard]] durable::check_filter filter_of(const options& chosen, const place& where, instant now);
[[nodiscard]] durable::dead_filter dead_filter_of(const options& chosen, const place& where);
/// Whether an error is what `--pattern` means, if it is given.
[[nodiscard]] bool has_pattern(const options& chosen, std::string_view error);
/// Says so if `--pattern` means more than what was typed.
void tell_pattern(const desk& with);
/// Up to `range.limit` of the dead that `range` and the pattern mean; moves `range.after` behind the last one. Fewer
/// than that: there are no more. Complexity: with a pattern, O(dead checks up to the last one).
[[nodiscard]] std::vector<durable::dead_check> list_dead(durable::store& store, const options& chosen,
                                                         durable::dead_range& range);
/// The filter in words: "kind verify, state due"; empty if it names nothing.
[[nodiscard]] std::string words_of_filter(const options& chosen);

/// A count as the status has it: "> 100 000" if the store has stopped at `most`.
[[nodiscard]] std::string at_least(const durable::kind_counts& of, std::size_t count, std::size_t most);

/// Whether the node has a handler for the kind, as far as its kinds are known.
[[nodiscard]] bool serves(const durable::node_info& node, const std::string& kind);
/// How many live nodes have a handler for the kind; none if that cannot be known.
[[nodiscard]] std::optional<std::size_t> live_handlers(const std::string& kind,
                                                       const std::optional<std::vector<durable::node_info>>& nodes,
                                                       instant now);
/// Whether a node with a handler for the kind was there within the last minute, and is not there any more: it has just
/// died, or hangs, as one does whose handler waits inside its transaction.
[[nodiscard]] bool silent_handlers(const std::string& kind, const std::optional<std::vector<durable::node_info>>& nodes,
                                   instant now);

/// So long a change waits for the row of a check that a transaction has locked: `why` tells which one it is.
inline constexpr std::chrono::seconds longest_lock(3);

/// A kind of any length that the tables can have: in a file, SQL may have written one that is not UTF-8. \throws
/// timer_error (`invalid_request`).
void validate_any_kind(const std::string& kind, const place& where);
/// The kind and the key that were named. \throws failure (usage), timer_error (`invalid_request`) if no check can have
/// them.
[[nodiscard]] std::pair<std::string, std::string> named_check(const options& chosen, const place& where);

/// No more dead checks of a key are shown.
inline constexpr std::size_t most_dead = 100;

/// The newest of the dead with exactly this key, the newest first; the first `payloads` of them have their payloads.
[[nodiscard]] std::vector<durable::dead_check> dead_of(durable::store& store, const std::string& kind,
                                                       const std::string& key, std::size_t payloads);

/// The runs that nodes have told of as long, if one of the checks runs; and that of a check among them.
[[nodiscard]] std::vector<durable::long_run> long_runs_of(durable::store& store,
                                                          std::span<const durable::stored_check> checks);
[[nodiscard]] std::optional<durable::long_run> run_of(const std::vector<durable::long_run>& runs,
                                                      const durable::stored_check& check);
/// The run of a check, if that is long and its node has told of it.
[[nodiscard]] std::optional<durable::long_run> long_run_of(durable::store& store, const durable::stored_check& check);
void add_run(json& line, const std::optional<durable::long_run>& run);
/// Why checks run again, as far as nodes have told, by the id.
using failures_by_id = std::map<std::int64_t, durable::failed_run>;
[[nodiscard]] failures_by_id failures_of(durable::store& store, std::span<const durable::stored_check> checks);
/// Sets `error` of a check that runs again: null if no node has told it.
void add_error(json& line, const failures_by_id& failures, std::int64_t id);

/// A session that keeps nodes from claiming a check: it has locked the row or the table, or a session that has locked
/// one of these waits for it, or that of a node.
struct blocker {
  int pid = 0;
  std::string state;
  std::string since;
  std::string user;
  std::string program;  ///< Its name, and the address it comes from, as far as it has told them.
  std::string statement;
  bool is_node = false;  ///< It is a session of a node: a handler works in it.
};
/// Those that wait for nobody; none if nothing is locked, or if the store is no server.
[[nodiscard]] std::vector<blocker> blockers_of(const desk& with, std::int64_t id);
/// The session in words, without its statement if that is to be hidden.
[[nodiscard]] std::string words_of(const blocker& session, bool redact);
/// What to do about the session.
[[nodiscard]] std::string end_of(const blocker& session);
/// What the error says and, if a statement waited for too long, which sessions have locked a whole table.
[[nodiscard]] std::string with_lockers(const desk& with, const timer_error& error);

/// The nodes that have the check's share of the table now, as the node that has claimed it mostly does; none if that
/// cannot be known.
[[nodiscard]] std::vector<std::string> likely_holders(const desk& with, const std::string& kind, std::int64_t id);

/// Something that `check` has looked at.
struct finding {
  bool wrong = false;
  std::string what;
  std::string remedy = {};
};
/// What there is to say of the server, or of the file.
[[nodiscard]] std::vector<finding> inspect(const desk& with);

}  // namespace timing_wheel::desk

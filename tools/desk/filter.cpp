#include <algorithm>
#include <array>
#include <limits>
#include <ostream>

#include "common/program.hpp"
#include "desk/commands.hpp"

namespace timing_wheel::desk {

using durable::check_state;

namespace {

check_state read_state(const std::string& text) {
  constexpr std::array all = {check_state::pending, check_state::due,      check_state::waiting,
                              check_state::running, check_state::retrying, check_state::suspect};
  const auto found = std::find_if(all.begin(), all.end(), [&](check_state each) { return text == to_string(each); });
  if (found == all.end()) {
    throw failure(exit_status::usage, "--state: '" + one_line(text) +
                                          "' is none of pending, due, waiting, running, retrying, suspect" +
                                          (text == "dead" ? ": for the dead there are list, retry and delete" : ""));
  }
  return *found;
}

// What was typed in place of a value: `--kind --yes`.
bool looks_like_an_option(const std::string& value) {
  return value.starts_with("--") && value.find_first_not_of("abcdefghijklmnopqrstuvwxyz-") == std::string::npos;
}

// An empty one would mean all, which is what --all is for; but an empty pattern means those without an error.
void refuse_empty(const options& chosen, const place& where) {
  const auto refuse = [&](const char* name, const std::optional<std::string>& value, bool may_be_empty = false) {
    if (value && ((value->empty() && !may_be_empty) || (!chosen.is_request && looks_like_an_option(*value)))) {
      throw failure(exit_status::usage, std::string(name) + ": '" + one_line(*value) + "' names nothing");
    }
  };
  refuse("--kind", chosen.kind);
  if (chosen.kind) {
    validate_any_kind(*chosen.kind, where);
  }
  refuse("--key", chosen.key_prefix);
  refuse("--error", chosen.error);
  refuse("--pattern", chosen.pattern, true);
}

// That of the HTTP API has another name.
failure no_cursor(const options& chosen) {
  return {exit_status::usage, std::string(chosen.is_request ? "cursor" : "--after") + ": '" + one_line(*chosen.after) +
                                  "' is no cursor of such a list"};
}

}  // namespace

std::string cursor_of(const durable::stored_check& last) {
  return std::to_string(last.due.time_since_epoch().count()) + "." + std::to_string(last.id);
}

std::string cursor_of(const durable::dead_check& last) { return std::to_string(last.id); }

durable::list_position position_of(const options& chosen) {
  if (!chosen.after) {
    return {};
  }
  const std::string_view text = *chosen.after;
  const std::size_t dot = std::min(text.find('.'), text.size());
  const auto due = read_integer(text.substr(0, dot));
  const auto id = read_integer(text.substr(std::min(dot + 1, text.size())));
  if (!due || !id) {
    throw no_cursor(chosen);
  }
  return {instant(std::chrono::microseconds(*due)), *id};
}

std::int64_t dead_position_of(const options& chosen) {
  const auto id = chosen.after ? read_integer(*chosen.after) : 0;
  if (!id || *id < 0) {
    throw no_cursor(chosen);
  }
  return *id;
}

void validate_any_kind(const std::string& kind, const place& where) {
  if (where.type == "postgres" || kind.empty() || kind.front() == '\0') {  // SQLite's text ends there
    durable::validate_kind(kind, {.kind = std::numeric_limits<std::size_t>::max()});
  }
}

std::pair<std::string, std::string> named_check(const options& chosen, const place& where) {
  validate_any_kind(chosen.words.at(0), where);
  if (chosen.words.at(1).empty()) {
    throw failure(exit_status::usage, "the key is empty: no check has such a key");
  }
  return {chosen.words[0], chosen.words[1]};
}

durable::check_filter filter_of(const options& chosen, const place& where, instant now) {
  refuse_empty(chosen, where);
  durable::check_filter which{.kind = chosen.kind.value_or(""), .key_prefix = chosen.key_prefix.value_or("")};
  if (chosen.error || chosen.pattern) {
    throw failure(exit_status::usage, "--error and --pattern are of dead checks: give --state dead, too");
  }
  if (chosen.state) {
    which.state = read_state(*chosen.state);
  }
  if (chosen.due_before) {
    which.due_before = read_time("--due-before", *chosen.due_before, now);
  }
  if (chosen.due_after) {
    which.due_after = read_time("--due-after", *chosen.due_after, now);
  }
  return which;
}

durable::dead_filter dead_filter_of(const options& chosen, const place& where) {
  refuse_empty(chosen, where);
  if (chosen.due_before || chosen.due_after) {
    throw failure(exit_status::usage, "--due-before and --due-after are not of dead checks");
  }
  return {.kind = chosen.kind.value_or(""),
          .key_prefix = chosen.key_prefix.value_or(""),
          .error = chosen.error.value_or("")};
}

void tell_pattern(const desk& with) {
  if (with.chosen.pattern && without_ids(*with.chosen.pattern) != *with.chosen.pattern) {
    with.err << "--pattern means all errors like this but for their ids: "
             << one_line(without_ids(*with.chosen.pattern), 1000) << '\n';
  }
}

bool has_pattern(const options& chosen, std::string_view error) {
  return !chosen.pattern || without_ids(error) == without_ids(*chosen.pattern);
}

std::vector<durable::dead_check> list_dead(durable::store& store, const options& chosen, durable::dead_range& range) {
  constexpr std::size_t in_page = 1000;
  std::vector<durable::dead_check> found;
  durable::dead_range page = range;
  bool more = true;
  while (more && found.size() < range.limit) {
    page.limit = chosen.pattern ? in_page : range.limit;
    for (durable::dead_check& each : store.list_dead(page)) {
      page.after = each.id;
      --page.limit;
      if (found.size() < range.limit && has_pattern(chosen, each.error)) {
        range.after = each.id;
        found.push_back(std::move(each));
      }
    }
    more = page.limit == 0;
  }
  return found;
}

std::string words_of_filter(const options& chosen) {
  std::string words;
  const auto add = [&](const char* name, const std::optional<std::string>& value) {
    if (value) {
      words.append(words.empty() ? "" : ", ").append(name).append(" ").append(one_line(*value, 200));
    }
  };
  add("kind", chosen.kind);
  add("key", chosen.key_prefix);
  add("state", chosen.state);
  add("due before", chosen.due_before);
  add("due after", chosen.due_after);
  add("error", chosen.error);
  add("pattern", chosen.pattern);
  return words;
}

std::string at_least(const durable::kind_counts& of, std::size_t count, std::size_t most) {
  return of.at_least && count >= most ? "> " + common::grouped(most) : common::grouped(count);
}

bool serves(const durable::node_info& node, const std::string& kind) {
  return std::find(node.kinds.begin(), node.kinds.end(), kind) != node.kinds.end();
}

std::optional<std::size_t> live_handlers(const std::string& kind,
                                         const std::optional<std::vector<durable::node_info>>& nodes, instant now) {
  if (!nodes) {
    return std::nullopt;
  }
  std::size_t count = 0;
  bool some_unknown = false;
  for (const durable::node_info& each : *nodes) {
    if (each.until > now) {
      some_unknown = some_unknown || each.kinds.empty();
      count += serves(each, kind) ? 1U : 0U;
    }
  }
  return count == 0 && some_unknown ? std::nullopt : std::optional(count);
}

bool silent_handlers(const std::string& kind, const std::optional<std::vector<durable::node_info>>& nodes,
                     instant now) {
  constexpr std::chrono::minutes just_now(1);
  return nodes && std::any_of(nodes->begin(), nodes->end(), [&](const durable::node_info& each) {
           return each.until <= now && now - each.until < just_now && serves(each, kind);
         });
}

}  // namespace timing_wheel::desk

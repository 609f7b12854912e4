#include <algorithm>
#include <array>
#include <charconv>

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

// An empty one would mean all, which is what --all is for.
void refuse_empty(const options& chosen) {
  const auto refuse = [](const char* name, const std::optional<std::string>& value) {
    if (value && (value->empty() || value->starts_with("--"))) {
      throw failure(exit_status::usage, std::string(name) + ": '" + one_line(*value) + "' names nothing");
    }
  };
  refuse("--kind", chosen.kind);
  refuse("--key", chosen.key_prefix);
  refuse("--error", chosen.error);
}

}  // namespace

durable::check_filter filter_of(const options& chosen, instant now) {
  refuse_empty(chosen);
  durable::check_filter which{.kind = chosen.kind.value_or(""), .key_prefix = chosen.key_prefix.value_or("")};
  if (chosen.error) {
    throw failure(exit_status::usage, "--error is of dead checks: give --state dead, too");
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

// Lists print what is no printable character as `\x0a`: that may be given back.
std::string unescaped(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    unsigned byte = 0;
    const bool escaped = text.size() >= 4 && text.starts_with("\\x") &&
                         std::from_chars(text.data() + 2, text.data() + 4, byte, 16).ptr == text.data() + 4 &&
                         (byte < ' ' || byte > '~');
    bytes += escaped ? static_cast<char>(byte) : text.front();
    text.remove_prefix(escaped ? 4 : 1);
  }
  return bytes;
}

durable::dead_filter dead_filter_of(const options& chosen) {
  refuse_empty(chosen);
  if (chosen.due_before || chosen.due_after) {
    throw failure(exit_status::usage, "--due-before and --due-after are not of dead checks");
  }
  return {.kind = chosen.kind.value_or(""),
          .key_prefix = chosen.key_prefix.value_or(""),
          .error = unescaped(chosen.error.value_or(""))};
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
  return words;
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
      count += std::find(each.kinds.begin(), each.kinds.end(), kind) != each.kinds.end() ? 1U : 0U;
    }
  }
  return count == 0 && some_unknown ? std::nullopt : std::optional(count);
}

bool silent_handlers(const std::string& kind, const std::optional<std::vector<durable::node_info>>& nodes,
                     instant now) {
  constexpr std::chrono::minutes just_now(1);
  return nodes && std::any_of(nodes->begin(), nodes->end(), [&](const durable::node_info& each) {
           return each.until <= now && now - each.until < just_now &&
                  std::find(each.kinds.begin(), each.kinds.end(), kind) != each.kinds.end();
         });
}

}  // namespace timing_wheel::desk

#include <algorithm>
#include <iterator>
#include <limits>
#include <ostream>

#include "common/program.hpp"
#include "desk/commands.hpp"

namespace timing_wheel::desk {

namespace {

using durable::check_state;
using durable::dead_check;
using durable::stored_check;

// JSON without the spaces between its parts.
std::string without_spaces(std::string_view text) {
  std::string kept;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (in_string && text[at] == '\\') {
      kept.append(text.substr(at++, 2));
    } else {
      in_string = in_string != (text[at] == '"');
      kept.append(in_string || std::string_view(" \t\r\n").find(text[at]) == std::string_view::npos ? 1 : 0, text[at]);
    }
  }
  return kept;
}

// Indented, if it is JSON that is small and flat enough for that, and whose indented form says the same: no number
// loses digits, no member is there twice. Else as it is, but for what a terminal would obey.
std::string readable(const std::string& payload) {
  constexpr std::size_t largest = 16 * 1024;
  constexpr int deepest = 32;
  if (payload.size() <= largest) {
    bool is_deep = false;
    const auto read = nlohmann::ordered_json::parse(
        payload,
        [&](int depth, nlohmann::ordered_json::parse_event_t /*event*/, const nlohmann::ordered_json& /*part*/) {
          is_deep = is_deep || depth > deepest;
          return !is_deep;
        },
        false);
    if (read.is_structured() && !is_deep && read.dump() == without_spaces(payload)) {
      return read.dump(2, ' ', true);
    }
  }
  std::string text = payload;
  for (std::size_t at = text.find('\r'); at != std::string::npos; at = text.find('\r', at)) {
    text.replace(at, 1, "\\x0d");
  }
  return text;
}

json with_payload(json line, const std::string& payload) {
  line["payload_bytes"] = payload.size();
  set_bytes(line, "payload", payload);
  return line;
}

// As JSON if it is some, as text if it is that, and else in hexadecimal.
void write_payload(std::ostream& out, const std::string& payload) {
  constexpr std::size_t most = 4096;
  out << "payload    " << payload.size() << " bytes" << (payload.empty() ? "\n" : ":\n");
  if (!payload.empty() && is_text(payload)) {
    out << readable(payload) << '\n';
  } else {
    write_hex(out, std::string_view(payload).substr(0, most));
    if (payload.size() > most) {
      out << "  ... (all of it with --json)\n";
    }
  }
}

void write(std::ostream& out, const stored_check& check, const std::optional<durable::long_run>& run,
           const failures_by_id& failures, instant now) {
  out << "kind       " << one_line(check.kind) << "\nkey        " << one_line(check.key, 255) << "\nstate      "
      << to_string(state_of(check, now)) << "\ndue        " << time_text(check.due) << ", " << from_now(check.due, now)
      << "\nattempts   " << check.attempt << '\n';
  if (check.running) {
    out << "lease      until " << time_text(check.lease) << ", " << from_now(check.lease, now) << '\n';
  }
  if (run) {
    out << "run        on " << one_line(run->node) << " since " << time_text(run->begun) << ", "
        << from_now(run->begun, now) << " (told " << from_now(run->told, now) << ")\n";
  }
  for (const auto& [id, failed] : failures) {
    out << "error      " << one_line(failed.error, 2000) << "\n           of attempt " << failed.attempt << " on "
        << one_line(failed.node) << ", told " << from_now(failed.told, now) << '\n';
  }
  out << "fence      " << check.fence << "\nid         " << check.id << '\n';
  write_payload(out, check.payload);
}

void write(std::ostream& out, const dead_check& check, instant now) {
  out << "kind       " << one_line(check.kind) << "\nkey        " << one_line(check.key, 255)
      << "\nstate      dead since " << time_text(check.died) << ", " << from_now(check.died, now) << "\nerror      "
      << one_line(check.error, 2000) << "\ndue        " << time_text(check.due) << "\nattempts   " << check.attempt
      << "\nfence      " << check.fence << "\nid         " << check.id << '\n';
  write_payload(out, check.payload);
}

// What is so, and what to do.
struct answer {
  std::string state;
  std::vector<std::string> because;
  std::vector<std::string> remedies;

  void say(std::string reason, std::string remedy = {}) {
    because.push_back(std::move(reason));
    if (!remedy.empty()) {
      remedies.push_back(std::move(remedy));
    }
  }
};

constexpr std::size_t most_in_the_way = 1'000'000;

std::string counted(std::size_t count, const std::string& of) {
  return (count > most_in_the_way ? "more than " + common::grouped(most_in_the_way) : std::to_string(count)) + " " +
         of + (count == 1 ? "" : "s");
}

std::string clock_text(instant when, instant now) { return time_text(when) + " (" + from_now(when, now) + ")"; }

// Which node most likely has a check, as a sentence, or nothing.
std::string likely_holder(const desk& with, const stored_check& check) {
  const std::vector<std::string> nodes = likely_holders(with, check.kind, check.id);
  std::string names;
  for (const std::string& each : nodes) {
    names.append(names.empty() ? "" : " or ").append(one_line(each));
  }
  return nodes.empty()       ? ""
         : nodes.size() == 1 ? " Most likely it is " + names + ", which has the check's share of the table."
                             : " Most likely it is one of " + names + ", which have the check's share of the table.";
}

// Of the check that waits first, which may be what the others wait for.
std::string first_of(const desk& with, const std::string& kind) {
  const auto first = with.store.list({.limit = 1, .which = {.kind = kind, .state = check_state::waiting}});
  return first.empty() ? "" : "Look at the first of them: " + command_line(with.chosen, "why", {kind, first[0].key});
}

// Of a check that a node may claim now.
void explain_waiting(const desk& with, const stored_check& check, instant now,
                     const std::optional<std::vector<durable::node_info>>& nodes, answer& told) {
  const std::optional<std::size_t> handlers = live_handlers(check.kind, nodes, now);
  const bool nobody_lives = handlers == std::size_t{0};
  bool explained = false;
  const std::vector<blocker> blockers = blockers_of(with, check.id);
  if (nobody_lives) {
    const bool silent = silent_handlers(check.kind, nodes, now);
    told.say(silent ? "The nodes that have a handler for its kind are silent: they have just died, or hang."
                    : "No live node has a handler for its kind.",
             !silent && with.store.drained_nodes().empty() ? "Start a node that has one."
             : !silent ? "Start a node that has one, or end the drain of one that has: status shows the drained ones."
             : blockers.empty() ? "See on_failure of these nodes; start again those that do not answer."
                                : "");
    explained = true;
  }
  for (const blocker& each : blockers) {
    told.say("A transaction is in the way of a claim or a handler: " + words_of(each, with.chosen.redact),
             each.is_node ? "It is a session of a node, in which a handler works: unfinished() on the nodes names it."
                          : end_of(each));
    explained = true;
  }
  if (const std::string likely = blockers.empty() ? "" : likely_holder(with, check); !likely.empty()) {
    told.say("A node may already have a handler at work on it, inside the transaction of its claim." + likely);
  }
  const std::size_t not_later = with.store.count(
      {.kind = check.kind, .state = check_state::waiting, .due_before = check.due + std::chrono::microseconds(1)},
      most_in_the_way + 2);
  const std::size_t itself = state_of(check, now) == check_state::waiting ? 1 : 0;
  const std::size_t before = not_later - std::min(not_later, itself);
  const std::size_t running =
      with.store.count({.kind = check.kind, .state = check_state::running}, most_in_the_way + 1);
  if (before > 0) {
    told.say(counted(before, "check") + " of its kind with the same or an earlier deadline also " +
                 (before == 1 ? "waits" : "wait") + "; " + counted(running, "check") + " of it " +
                 (running == 1 ? "runs." : "run."),
             !blockers.empty() || nobody_lives ? ""
             : running > 0
                 ? "If the number does not fall, make the handlers faster, raise max_running, or add threads or nodes."
                 : first_of(with, check.kind));
    explained = true;
  } else if (running > 0 && !nobody_lives) {
    told.say(counted(running, "check") + " of its kind " + (running == 1 ? "runs" : "run") +
                 " now: all threads may be busy, or max_running reached.",
             command_line(with.chosen, "list", {}, "--state running --earliest", {{"kind", check.kind}}) +
                 " lists what runs, with the node of a run of five seconds or more; set a time_limit.");
    explained = true;
  }
  if (!explained) {
    told.say(handlers ? counted(*handlers, "live node") + " with a handler for its kind: none has claimed it."
                      : "This store does not know which nodes live: none of them has claimed it.",
             "A node looks four times a second, and each 30 s at all that is due. If it stays: " +
                 command_line(with.chosen, "check", {}) +
                 " tells whether the database has room to write; on_failure of the nodes has the words of their "
                 "database; stats() tells whether their threads work.");
  }
}

void explain(const desk& with, const stored_check& check, instant now, answer& told) {
  const std::vector<durable::paused_kind> paused = with.store.paused_kinds();
  const auto pause = std::find_if(paused.begin(), paused.end(),
                                  [&](const durable::paused_kind& each) { return each.kind == check.kind; });
  const check_state state = state_of(check, now);
  told.state = to_string(state);
  bool tells_last = false;
  for (const auto& [id, failed] : failures_of(with.store, {&check, 1})) {
    tells_last = failed.attempt == check.attempt;
    told.say("Attempt " + std::to_string(failed.attempt) + " has failed on the node " + one_line(failed.node) + ": " +
             one_line(failed.error, 500));
  }
  const std::optional<durable::long_run> run = long_run_of(with.store, check);
  if (run) {
    const bool is_silent = now - run->told > std::chrono::seconds(30);
    told.say("The node " + one_line(run->node) + " has called its handler at " + clock_text(run->begun, now) +
                 ", attempt " + std::to_string(check.attempt) + ", and told " + from_now(run->told, now) +
                 " that the handler has not returned.",
             state != check_state::running ? ""
             : is_silent ? "That node is silent: it has died, or hangs. Another one runs the check after " +
                               clock_text(check.lease, now) + "."
                         : "If that is too long, look at what the handler waits for on that node.");
  } else if (state == check_state::running) {
    told.say(
        "A node has claimed it, attempt " + std::to_string(check.attempt) +
            ": its handler has run for less than some seconds, or begins soon." + likely_holder(with, check),
        "unfinished() on the nodes names the one that runs it. If that node dies, another one runs the check after " +
            clock_text(check.lease, now) + ".");
  }
  if (state == check_state::running) {
    return;
  }
  if (check.due > now) {
    const bool is_retry = state == check_state::retrying;
    told.say((is_retry && !tells_last
                  ? "Attempt " + std::to_string(check.attempt) + " has failed, and its node has not told why yet. "
                  : "") +
             (is_retry ? "It runs again at " : "It is not due yet. It runs at ") + clock_text(check.due, now) + ".");
  } else {
    told.say("It has been due since " + clock_text(check.due, now) + ".");
  }
  const auto nodes = with.store.nodes();
  if (state == check_state::suspect) {
    told.say(
        check.lease <= instant(std::chrono::microseconds(1))
            ? "It was taken over from a node that died, and put back."
            : "The node that had claimed it has died or hangs: its lease ended " + from_now(check.lease, now) + ".",
        live_handlers(check.kind, nodes, now) == std::size_t{0}
            ? ""
            : "A node claims it within a poll or two; after two lost runs a node runs one such check at a time.");
  }
  if (pause != paused.end()) {
    told.say("Its kind is paused since " + clock_text(pause->since, now) + ".",
             command_line(with.chosen, "resume", {check.kind}));
  } else if (check.due <= now) {
    explain_waiting(with, check, now, nodes, told);
  }
}

}  // namespace

std::string end_of(const blocker& session) {
  return "Commit or roll back that transaction, or end it: SELECT pg_terminate_backend(" + std::to_string(session.pid) +
         ")";
}

std::string words_of(const blocker& session, bool redact) {
  return "process " + std::to_string(session.pid) + " of " + one_line(session.user) +
         (session.program.empty() ? "" : " (" + one_line(session.program) + ")") + ", " + session.state + " since " +
         session.since + (redact ? "" : ": " + one_line(session.statement));
}

std::vector<durable::long_run> long_runs_of(durable::store& store, std::span<const stored_check> checks) {
  const bool some_run = std::any_of(checks.begin(), checks.end(), [](const auto& each) { return each.running; });
  return some_run ? store.long_runs() : std::vector<durable::long_run>();
}

std::optional<durable::long_run> run_of(const std::vector<durable::long_run>& runs, const stored_check& check) {
  const auto found = std::find_if(runs.begin(), runs.end(), [&](const durable::long_run& each) {
    return check.running && each.id == check.id && each.fence == check.fence;
  });
  return found == runs.end() ? std::nullopt : std::optional(*found);
}

std::optional<durable::long_run> long_run_of(durable::store& store, const stored_check& check) {
  return run_of(long_runs_of(store, {&check, 1}), check);
}

void add_run(json& line, const std::optional<durable::long_run>& run) {
  line["run"] =
      run ? json{{"node", run->node}, {"begun", time_text(run->begun)}, {"told", time_text(run->told)}} : json();
}

failures_by_id failures_of(durable::store& store, std::span<const stored_check> checks) {
  std::vector<std::int64_t> ids;
  for (const stored_check& each : checks) {
    if (each.attempt > 0) {
      ids.push_back(each.id);
    }
  }
  failures_by_id found;
  for (durable::failed_run& each : ids.empty() ? std::vector<durable::failed_run>() : store.failed_runs(ids)) {
    found.emplace(each.id, std::move(each));
  }
  return found;
}

void add_error(json& line, const failures_by_id& failures, std::int64_t id) {
  const auto found = failures.find(id);
  if (found == failures.end()) {
    line["error"] = nullptr;
  } else {
    set_bytes(line, "error", found->second.error);
  }
}

std::vector<dead_check> dead_of(durable::store& store, const std::string& kind, const std::string& key,
                                std::size_t payloads) {
  std::vector<dead_check> found = store.list_dead(
      {.limit = most_dead, .which = {.kind = kind, .key = key}, .newest_first = true, .with_payloads = false});
  for (std::size_t at = 0; at < std::min(payloads, found.size()); ++at) {
    const std::vector<dead_check> whole = store.list_dead({.limit = 1, .after = found[at].id - 1});
    found[at].payload = !whole.empty() && whole[0].id == found[at].id ? whole[0].payload : "";
  }
  return found;
}

exit_status show(const desk& with) {
  const auto [kind, key] = named_check(with.chosen, with.where);
  const instant now = with.store.now();
  const std::optional<stored_check> check = with.store.find(kind, key);
  const std::vector<dead_check> dead = dead_of(with.store, kind, key, std::numeric_limits<std::size_t>::max());
  const std::optional<durable::long_run> run = check ? long_run_of(with.store, *check) : std::nullopt;
  const failures_by_id failures = check ? failures_of(with.store, {&*check, 1}) : failures_by_id();
  if (with.chosen.as_json) {
    json all = json::array();
    if (check) {
      json& line = all.emplace_back(with_payload(json_of(*check, now), check->payload));
      add_run(line, run);
      add_error(line, failures, check->id);
    }
    std::transform(dead.begin(), dead.end(), std::back_inserter(all),
                   [](const dead_check& each) { return with_payload(json_of(each), each.payload); });
    with.out << all.dump() << '\n';
  } else {
    if (check) {
      write(with.out, *check, run, failures, now);
    }
    for (const dead_check& each : dead) {
      with.out << (check || &each != &dead.front() ? "\n" : "");
      write(with.out, each, now);
    }
    if (dead.size() == most_dead) {
      with.err << "no more than " << most_dead << " dead ones are shown: "
               << command_line(with.chosen, "list", {}, "--state dead", {{"kind", kind}, {"key", key}})
               << " lists all\n";
    }
  }
  return check || !dead.empty() ? exit_status::done : exit_status::nothing_matched;
}

exit_status why(const desk& with) {
  const auto [kind, key] = named_check(with.chosen, with.where);
  const instant now = with.store.now();
  answer told;
  if (const std::optional<stored_check> check = with.store.find(kind, key)) {
    explain(with, *check, now, told);
  } else if (const std::vector<dead_check> dead = dead_of(with.store, kind, key, 0); !dead.empty()) {
    told.state = "dead";
    told.say("It is dead since " + clock_text(dead[0].died, now) + ", after " + std::to_string(dead[0].attempt) +
                 " attempts: " + one_line(dead[0].error, 500),
             "When the reason is mended: " + command_line(with.chosen, "retry", {std::to_string(dead[0].id)}));
  } else {
    told.state = "unknown";
    told.say("There is no such check: it has run, was cancelled or deleted, or was never scheduled.",
             command_line(with.chosen, "audit", {}) + " shows what operators have changed.");
  }
  if (with.chosen.as_json) {
    with.out << json{{"state", told.state}, {"because", told.because}, {"do", told.remedies}}.dump() << '\n';
  } else {
    for (const std::string& each : told.because) {
      with.out << each << '\n';
    }
    for (const std::string& each : told.remedies) {
      with.out << "-> " << each << '\n';
    }
  }
  return told.state == "unknown" ? exit_status::nothing_matched : exit_status::done;
}

}  // namespace timing_wheel::desk

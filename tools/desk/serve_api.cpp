#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <sstream>

#include "common/duration.hpp"
#include "desk/serve.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::desk {

namespace {

using durable::stored_check;
using texts = std::vector<std::string>;

// A request that is answered with a problem.
class refusal : public std::runtime_error {
 public:
  refusal(unsigned status, const std::string& detail) : std::runtime_error(detail), status_(status) {}

  [[nodiscard]] unsigned status() const noexcept { return status_; }

 private:
  unsigned status_;
};

// RFC 3986, section 2.1.
std::string decoded(std::string_view text, bool plus_is_space) {
  std::string bytes;
  for (std::size_t at = 0; at < text.size(); ++at) {
    unsigned value = 0;
    if (text[at] != '%') {
      bytes += plus_is_space && text[at] == '+' ? ' ' : text[at];
      continue;
    }
    const char* const begin = text.data() + at + 1;
    if (text.size() - at < 3 || std::from_chars(begin, begin + 2, value, 16).ptr != begin + 2) {
      throw refusal(400, "a % in the address is not followed by two hexadecimal digits");
    }
    bytes += static_cast<char>(value);
    at += 2;
  }
  return bytes;
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(by, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

template <class Number>
Number read_number(const std::string& name, std::string_view text, Number least, Number most) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    throw refusal(400, name + ": '" + one_line(text) + "' is no number in [" + std::to_string(least) + ", " +
                           std::to_string(most) + "]");
  }
  return value;
}

struct call;

// A way to call.
struct route {
  const char* method;
  const char* path;   // {kind} is any word
  const char* query;  // the parameters that it may have
  const char* body;   // the members that it may have
  http_answer (*run)(const call&);
  const char* tells;
};

bool is_parameter(std::string_view word) { return word.starts_with('{'); }

// What a handler works with.
struct call {
  const desk& with;
  texts words;  // the parameters of the path
  std::map<std::string, std::string> query;
  const std::string& body;
  std::string by;
  const char* members = "";  // those that the body may have

  [[nodiscard]] std::optional<std::string> asked(const char* name) const {
    const auto found = query.find(name);
    return found == query.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] bool is_set(const char* name) const {
    const std::string value = asked(name).value_or("false");
    if (!value.empty() && value != "true" && value != "false") {
      throw refusal(400, std::string(name) + ": it is true or false");
    }
    return value != "false";
  }
  [[nodiscard]] std::size_t limit() const {
    return read_number<std::size_t>("limit", asked("limit").value_or("50"), 1, 1000);
  }
  // As if it were typed.
  [[nodiscard]] options typed(const char* command) const {
    options chosen;
    chosen.command = command;
    chosen.store = "STORE";  // in what is to be typed: nobody has named it here
    chosen.is_request = true;
    chosen.schema = with.chosen.schema;
    chosen.as_json = true;
    chosen.yes = true;
    chosen.redact = with.chosen.redact;
    chosen.by = by;
    chosen.words = words;
    chosen.kind = asked("kind");
    chosen.key_prefix = asked("key");
    chosen.state = asked("state");
    chosen.due_before = asked("due_before");
    chosen.due_after = asked("due_after");
    chosen.error = asked("error");
    chosen.pattern = asked("pattern");
    chosen.after = asked("cursor");
    chosen.earliest = is_set("earliest");
    return chosen;
  }
};

struct outcome {
  exit_status status;
  std::string text;
};

// Runs a command of the command line.
outcome run(const call& of, exit_status (*command)(const desk&), const options& chosen) {
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  const exit_status ended = command({chosen, of.with.store, of.with.where, in, out, err});
  return {ended, out.str()};
}

http_answer as_json(const json& object, unsigned status = 200) { return {.status = status, .body = text_of(object)}; }

// A JSON object of which each member is text, and one of those that are named.
std::map<std::string, std::string> read_body(const call& of) {
  const auto names = split(of.members, ' ');
  const json read = json::parse(of.body, nullptr, false);
  if (!read.is_object()) {
    throw refusal(400, "the body is no JSON object");
  }
  std::map<std::string, std::string> members;
  for (const auto& [name, value] : read.items()) {
    if (std::find(names.begin(), names.end(), name) == names.end() || !value.is_string()) {
      throw refusal(400, "the body has a member '" + one_line(name) + "' that is not known here, or is no text");
    }
    members[name] = value;
  }
  if (members.contains("delay") && members.contains("due")) {
    throw refusal(400, "give delay or due, and not both");
  }
  return members;
}

durable::due_time due_of(const call& of, const std::map<std::string, std::string>& members) {
  if (const auto delay = members.find("delay"); delay != members.end()) {
    try {
      return common::read_duration(delay->second);
    } catch (const common::duration_error& error) {
      throw refusal(400, "delay: '" + one_line(delay->second) + "' is none: " + error.what());
    }
  }
  const auto due = members.find("due");
  return due == members.end() ? durable::due_time() : read_time("due", due->second, of.with.store.now());
}

http_answer get_status(const call& of) { return {.body = run(of, status, of.typed("status")).text}; }

http_answer get_metrics(const call& of) {
  options chosen = of.typed("status");
  chosen.as_metrics = true;
  return {.type = "text/plain; version=0.0.4; charset=utf-8", .body = run(of, status, chosen).text};
}

json due_soon(durable::store& store) {
  constexpr std::size_t most = 10'000;
  constexpr int parts = 10;
  struct window {
    const char* name;
    std::chrono::microseconds length;
  };
  using namespace std::chrono_literals;
  constexpr std::array windows = {window{"second", 1s}, window{"minute", 1min}, window{"half hour", 30min},
                                  window{"day", 24h}};
  const instant now = store.now();
  json all = {{"now", time_text(now)}, {"most", most}, {"windows", json::array()}};
  for (const window& each : windows) {
    json counts = json::array();
    for (int part = 0; part < parts; ++part) {
      const instant begin = now + each.length * part / parts;
      // Both ends of a filter are outside.
      counts.push_back(store.count(
          {.due_before = begin + each.length / parts, .due_after = begin - std::chrono::microseconds(1)}, most));
    }
    all["windows"].push_back(
        {{"name", each.name}, {"seconds", std::chrono::duration<double>(each.length).count()}, {"counts", counts}});
  }
  return all;
}

http_answer get_due(const call& of) { return as_json(due_soon(of.with.store)); }

http_answer get_checks(const call& of) {
  const instant now = of.with.store.now();
  const options chosen = of.typed("list");
  const durable::check_range range{.limit = of.limit(),
                                   .after = position_of(chosen),
                                   .which = filter_of(chosen, of.with.where, now),
                                   .latest_first = !chosen.earliest};
  const std::vector<stored_check> page = of.with.store.list(range);
  json all = {{"checks", json::array()}, {"cursor", nullptr}};
  const failures_by_id failures = failures_of(of.with.store, page);
  const std::vector<durable::long_run> runs = long_runs_of(of.with.store, page);
  for (const stored_check& each : page) {
    all["checks"].push_back(json_of(each, now));
    add_run(all["checks"].back(), run_of(runs, each));
    add_error(all["checks"].back(), failures, each.id);
  }
  if (page.size() == range.limit) {
    all["cursor"] = cursor_of(page.back());
  }
  return as_json(all);
}

http_answer get_dead(const call& of) {
  const options chosen = of.typed("list");
  durable::dead_range range{.limit = of.limit(),
                            .after = dead_position_of(chosen),
                            .which = dead_filter_of(chosen, of.with.where),
                            .newest_first = !chosen.earliest,
                            .with_payloads = false};
  const std::vector<durable::dead_check> page = list_dead(of.with.store, chosen, range);
  json all = {{"dead", json::array()}, {"cursor", nullptr}};
  for (const durable::dead_check& each : page) {
    all["dead"].push_back(json_of(each));
  }
  if (page.size() == range.limit) {
    all["cursor"] = cursor_of(page.back());
  }
  return as_json(all);
}

// Of the dead that died last alone, because an open console asks for them again and again.
json dead_groups(const desk& with, const options& chosen) {
  constexpr std::size_t shown = 100;
  constexpr std::size_t most = 10'000;
  json all = json::array();
  const std::vector<durable::dead_group> groups = with.store.count_dead(dead_filter_of(chosen, with.where), most, most);
  const std::size_t looked_at = std::accumulate(groups.begin(), groups.end(), std::size_t{0},
                                                [](std::size_t sum, const auto& each) { return sum + each.count; });
  for (const auto& [each, number] : fold(groups)) {
    if (all.size() < shown && has_pattern(chosen, each.error)) {
      all.push_back(json_of(each));
      all.back()["texts"] = number;
      all.back()["at_least"] = looked_at >= most;  // there may be more
    }
  }
  return all;
}

http_answer get_dead_groups(const call& of) { return as_json({{"groups", dead_groups(of.with, of.typed("list"))}}); }

// All of the dead that the query names.
http_answer change_all_dead(const call& of, exit_status (*command)(const desk&), const char* name) {
  const bool some_empty = std::any_of(of.query.begin(), of.query.end(), [](const auto& each) {
    return each.second.empty() && each.first != "pattern";  // which means those without an error
  });
  if (of.query.empty() || some_empty) {
    throw refusal(400, "which dead checks? Give kind, key, error or pattern, and none but pattern empty");
  }
  return {.body = run(of, command, of.typed(name)).text};
}

http_answer delete_all_dead(const call& of) { return change_all_dead(of, remove, "delete"); }

http_answer retry_all_dead(const call& of) { return change_all_dead(of, retry, "retry"); }

http_answer delete_dead(const call& of) {
  const outcome done = run(of, remove, of.typed("delete"));
  if (done.status != exit_status::done) {
    throw refusal(404, "there is no dead check " + of.words.at(0));
  }
  return {.body = done.text};
}

http_answer retry_dead(const call& of) {
  const outcome done = run(of, retry, of.typed("retry"));
  if (done.status != exit_status::done) {
    const auto id = read_number<std::int64_t>("id", of.words.at(0), 1, std::numeric_limits<std::int64_t>::max());
    const auto found = of.with.store.list_dead({.limit = 1, .after = id - 1, .with_payloads = false});
    const bool is_there = !found.empty() && found[0].id == id;
    throw is_there ? refusal(409, "another check has its key by now, so it stays dead")
                   : refusal(404, "there is no dead check " + of.words.at(0));
  }
  return {.body = done.text};
}

constexpr const char* no_check = "there is no such check: it has run, was cancelled or deleted, or was never scheduled";

// The newest of the dead has its payload, too.
http_answer get_check(const call& of) {
  durable::store& store = of.with.store;
  const auto [kind, key] = named_check(of.typed("show"), of.with.where);
  json all = {{"check", nullptr}, {"dead", json::array()}};
  const auto set_payload = [&](json& of_check, const std::string& payload) {
    of_check["payload_bytes"] = payload.size();
    if (!of.with.chosen.redact) {
      set_bytes(of_check, "payload", payload);
    }
  };
  if (const std::optional<stored_check> check = store.find(kind, key)) {
    all["check"] = json_of(*check, store.now());
    add_run(all["check"], long_run_of(store, *check));
    add_error(all["check"], failures_of(store, {&*check, 1}), check->id);
    set_payload(all["check"], check->payload);
  }
  for (const durable::dead_check& each : dead_of(store, kind, key, 1)) {
    all["dead"].push_back(json_of(each));
    if (all["dead"].size() == 1) {
      set_payload(all["dead"][0], each.payload);
    }
  }
  if (all["check"].is_null() && all["dead"].empty()) {
    throw refusal(404, no_check);
  }
  return as_json(all);
}

http_answer get_why(const call& of) { return {.body = run(of, why, of.typed("why")).text}; }

http_answer put_check(const call& of) {
  auto members = read_body(of);
  if (members.contains("payload") && members.contains("payload_base64")) {
    throw refusal(400, "give payload or payload_base64, and not both");
  }
  const bool replace = of.is_set("replace");
  const std::optional<std::string> bytes = from_base64(members["payload_base64"]);
  if (!bytes) {
    throw refusal(400, "payload_base64: it is no base64");
  }
  const durable::request asked{.kind = of.words.at(0),
                               .key = of.words.at(1),
                               .payload = bytes->empty() ? members["payload"] : *bytes,
                               .due = due_of(of, members),
                               .replace = replace};
  durable::validate(asked, of.with.store.limits());
  durable::append_op op{.asked = &asked};
  of.with.store.transact_within({.lock_wait = longest_lock}, [&](durable::store_transaction& open) {
    open.append({&op, 1});
    if (op.result.inserted || op.result.replaced) {
      open.record({.by = of.by,
                   .action = op.result.inserted ? "schedule" : "replace",
                   .kind = asked.kind,
                   .subject = "key " + one_line(asked.key, 300),
                   .count = 1});
    }
  });
  const char* const became = op.result.inserted   ? "inserted"
                             : op.result.replaced ? "replaced"
                             : asked.replace      ? "running"
                                                  : "kept";
  return as_json({{"result", became}, {"due", time_text(op.result.due)}}, op.result.inserted ? 201 : 200);
}

// `changed`, or "running"; or, of one that is not there, "finished", which is an answer to a cancel alone.
http_answer change_check(const call& of, exit_status (*command)(const desk&), const options& chosen,
                         const char* changed) {
  const exit_status ended = run(of, command, chosen).status;
  if (ended == exit_status::nothing_matched && command != cancel) {
    throw refusal(404, no_check);
  }
  return as_json({{"result", ended == exit_status::done      ? changed
                             : ended == exit_status::refused ? "running"
                                                             : "finished"}});
}

http_answer delete_check(const call& of) { return change_check(of, cancel, of.typed("cancel"), "cancelled"); }

http_answer run_check_now(const call& of) { return change_check(of, run_now, of.typed("run-now"), "moved"); }

http_answer reschedule_check(const call& of) {
  const auto members = read_body(of);
  if (members.empty()) {
    throw refusal(400, "give delay, such as 30min, or due, such as 2026-11-23T18:00:00Z");
  }
  static_cast<void>(due_of(of, members));  // is it good?
  options chosen = of.typed("reschedule");
  chosen.due = members.begin()->second;
  return change_check(of, reschedule, chosen, "moved");
}

http_answer pause_kind(const call& of) { return {.body = run(of, pause, of.typed("pause")).text}; }

http_answer resume_kind(const call& of) { return {.body = run(of, resume, of.typed("resume")).text}; }

http_answer drain_node(const call& of, bool end) {
  options chosen = of.typed("drain");
  chosen.end = end;
  chosen.wait = 0;
  return {.body = run(of, drain, chosen).text};
}

http_answer drain_node(const call& of) { return drain_node(of, false); }

http_answer end_drain_of_node(const call& of) { return drain_node(of, true); }

http_answer get_audit(const call& of) {
  options chosen = of.typed("audit");
  chosen.limit = of.limit();
  json all = {{"audit", json::array()}};
  std::istringstream lines(run(of, audit, chosen).text);
  for (std::string line; std::getline(lines, line);) {
    all["audit"].push_back(json::parse(line));
  }
  return as_json(all);
}

http_answer get_openapi(const call& of);

constexpr std::array routes = {
    route{"GET", "/v1/status", "", "", get_status, "kinds with their counts, nodes, and the store"},
    route{"GET", "/v1/events", "", "", nullptr,
          "events: status, due, groups of the dead and, of each kind, waits_s, again and again"},
    route{"GET", "/v1/due", "", "", get_due, "how many become due in each tenth of a second, minute, half hour, day"},
    route{"GET", "/v1/checks", "kind key state due_before due_after limit cursor earliest", "", get_checks,
          "checks, the latest deadline first, or the earliest; key is what their keys begin with"},
    route{"GET", "/v1/dead", "kind key error pattern limit cursor earliest", "", get_dead,
          "dead checks, the newest first, or the earliest"},
    route{"DELETE", "/v1/dead", "kind key error pattern", "", delete_all_dead, "deletes all that the query names"},
    route{"GET", "/v1/dead/groups", "kind key error pattern", "", get_dead_groups,
          "the 10 000 that died last, by kind and pattern: the error without its ids, of how many texts"},
    route{"POST", "/v1/dead/retry", "kind key error pattern", "", retry_all_dead,
          "makes all pending that the query names"},
    route{"DELETE", "/v1/dead/{id}", "", "", delete_dead, "deletes a dead check"},
    route{"POST", "/v1/dead/{id}/retry", "", "", retry_dead, "makes it pending; 409 if another check has its key"},
    route{"GET", "/v1/kinds/{kind}/checks/{key}", "", "", get_check, "a check, and the dead ones with that key"},
    route{"PUT", "/v1/kinds/{kind}/checks/{key}", "replace", "delay due payload payload_base64", put_check,
          "schedules, unless a check has the key: inserted, replaced or kept"},
    route{"DELETE", "/v1/kinds/{kind}/checks/{key}", "", "", delete_check, "cancelled, running or finished"},
    route{"GET", "/v1/kinds/{kind}/checks/{key}/why", "", "", get_why, "what a check waits for, in words"},
    route{"POST", "/v1/kinds/{kind}/checks/{key}/reschedule", "", "delay due", reschedule_check, "moved or running"},
    route{"POST", "/v1/kinds/{kind}/checks/{key}/run-now", "", "", run_check_now, "moved or running"},
    route{"POST", "/v1/kinds/{kind}/pause", "", "", pause_kind, "no node claims a check of the kind any more"},
    route{"POST", "/v1/kinds/{kind}/resume", "", "", resume_kind, "ends a pause"},
    route{"POST", "/v1/nodes/{node}/drain", "", "", drain_node, "the node claims nothing any more"},
    route{"POST", "/v1/nodes/{node}/resume", "", "", end_drain_of_node, "it claims again"},
    route{"GET", "/v1/audit", "limit", "", get_audit, "who has changed what, the newest first"},
    route{"GET", "/v1/openapi.json", "", "", get_openapi, "this page"},
    route{"GET", "/metrics", "", "", get_metrics, "gauges by kind, for Prometheus"},
};

// What the table says, so that the page tells no more and no less.
http_answer get_openapi(const call& /*of*/) {
  json all = {{"openapi", "3.1.0"},
              {"info", {{"title", "timing-wheel serve"}, {"version", "1"}}},
              {"components", {{"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}}}},
              {"security", {{{"token", json::array()}}}}};
  const json text = {{"type", "string"}};
  const json refused = {{"description", "a problem"}, {"content", {{"application/problem+json", json::object()}}}};
  for (const route& each : routes) {
    std::string method = each.method;
    std::transform(method.begin(), method.end(), method.begin(), [](char of) { return static_cast<char>(of | 0x20); });
    json& told = all["paths"][each.path][method];
    told = {{"summary", each.tells}, {"parameters", json::array()}};
    for (const std::string_view word : split(each.path, '/')) {
      if (is_parameter(word)) {
        told["parameters"].push_back(
            {{"name", word.substr(1, word.size() - 2)}, {"in", "path"}, {"required", true}, {"schema", text}});
      }
    }
    for (const std::string_view name : split(each.query, ' ')) {
      told["parameters"].push_back({{"name", name}, {"in", "query"}, {"schema", text}});
    }
    for (const std::string_view name : split(each.body, ' ')) {
      json& schema = told["requestBody"]["content"]["application/json"]["schema"];
      schema["type"] = "object";
      schema["properties"][std::string(name)] = text;
    }
    told["responses"] = {{"2XX", {{"description", "done"}}}, {"default", refused}};
  }
  return as_json(all);
}

const console_file* file_at(std::string_view path) {
  const auto found = std::find_if(console_files.begin(), console_files.end(),
                                  [&](const console_file& each) { return path == each.path; });
  return found == console_files.end() ? nullptr : &*found;
}

bool fits(const std::vector<std::string_view>& words, std::string_view path) {
  const auto pattern = split(path, '/');
  return std::equal(
      words.begin(), words.end(), pattern.begin(), pattern.end(),
      [](std::string_view word, std::string_view is) { return is_parameter(is) ? !word.empty() : word == is; });
}

// The route of the path and the method. \throws refusal (404, 405); the latter says the methods that there are.
const route& find_route(const std::string& method, std::string_view path) {
  const auto words = split(path, '/');
  std::string allowed;
  for (const route& each : routes) {
    if (fits(words, each.path)) {
      if (method == each.method) {
        return each;
      }
      allowed += (allowed.empty() ? "" : ", ") + std::string(each.method);
    }
  }
  if (file_at(path) != nullptr) {
    allowed = "GET";
  }
  throw allowed.empty() ? refusal(404, "there is no " + one_line(path, 300)) : refusal(405, allowed);
}

std::map<std::string, std::string> read_query(std::string_view text, const route& of) {
  std::map<std::string, std::string> query;
  if (text.empty()) {
    return query;
  }
  const auto known = split(of.query, ' ');
  for (const std::string_view each : split(text, '&')) {
    const std::size_t end = std::min(each.find('='), each.size());
    const std::string name = decoded(each.substr(0, end), true);
    if (name.empty() || std::find(known.begin(), known.end(), name) == known.end()) {
      throw refusal(400, "there is no parameter '" + one_line(name) + "' here");
    }
    if (!query.emplace(name, decoded(each.substr(std::min(end + 1, each.size())), true)).second) {
      throw refusal(400, "the parameter " + name + " is there twice");
    }
  }
  return query;
}

// Takes as long for each text of that length.
bool same_secret(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t at = 0; at < std::min(one.size(), other.size()); ++at) {
    difference |= static_cast<unsigned>(one[at] ^ other[at]);
  }
  return difference == 0;
}

bool same_host(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](char left, char right) {
    return (left >= 'A' && left <= 'Z' ? left - 'A' + 'a' : left) ==
           (right >= 'A' && right <= 'Z' ? right - 'A' + 'a' : right);
  });
}

// No page of another name, whatever that name leads to.
bool is_own_host(const std::string& host, const std::string& own, const options& chosen) {
  const std::string port = own.substr(own.rfind(':'));
  const std::string whole = host.rfind(':') == std::string::npos || host.ends_with(']') ? host + ":80" : host;
  const bool on_loopback = own.starts_with("127.") || own.starts_with("[::1]");
  return same_host(whole, own) || (on_loopback && same_host(whole, "localhost" + port)) ||
         std::any_of(chosen.hosts.begin(), chosen.hosts.end(), [&](const auto& each) { return same_host(host, each); });
}

// A parameter has the name of an option, with another prefix.
std::string without_dashes(std::string words) {
  if (words.starts_with("--")) {
    words.erase(0, 2);
    std::replace(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(words.find_first_of(": ")), '-', '_');
  }
  return words;
}

http_answer problem_of(const failure& error) {
  const unsigned statuses[] = {500, 404, 400, 503, 409};
  return problem(statuses[static_cast<std::size_t>(error.status())], without_dashes(error.what()));
}

bool is_wrong_request(const std::error_code& code) {
  using durable::errc;
  return code == errc::invalid_request || code == errc::kind_too_long || code == errc::key_too_long ||
         code == errc::payload_too_long;
}

http_answer problem_of(const desk& with, const timer_error& error) {
  return problem(is_wrong_request(error.code()) ? 400 : 503, with_lockers(with, error));
}

// No server of PostgreSQL, or one that ends or starts: each call would wait for it for seconds.
bool is_unreachable(const std::error_code& code) {
  constexpr std::size_t before = std::string_view("SQLSTATE ").size();
  return std::string_view(code.category().name()) == "postgres" &&
         (code.message().compare(before, 2, "08") == 0 || code.message().compare(before, 3, "57P") == 0);
}

template <class Work>
http_answer answer_or_problem(const desk& with, const Work& work) {
  try {
    return work();
  } catch (const refusal& error) {
    if (error.status() == 405) {
      http_answer told = problem(405, "allowed are " + std::string(error.what()));
      told.allow = error.what();
      return told;
    }
    return problem(error.status(), error.what());
  } catch (const failure& error) {
    return problem_of(error);
  } catch (const timer_error& error) {
    return problem_of(with, error);
  } catch (const std::exception& error) {
    return problem(500, error.what());
  }
}

// How many rows a quick look counts for each figure, which takes a few milliseconds. Of SQLite it reads so many of each
// kind.
std::size_t counted_quickly(const place& where, std::size_t kinds) {
  constexpr std::size_t most = 1000;
  constexpr std::size_t least = 100;
  return where.type == "sqlite" ? std::max(least, most / std::max<std::size_t>(kinds, 1)) : most;
}

std::size_t number(const json& of, const char* name) { return of[name].get<std::size_t>(); }

std::size_t sum(const json& kinds, const char* name) {
  return std::accumulate(kinds.begin(), kinds.end(), std::size_t{0},
                         [&](std::size_t before, const json& of) { return before + number(of, name); });
}

auto find_kind(const json& in, const json& of) {
  return std::find_if(in.begin(), in.end(), [&](const json& each) { return each["kind"] == of["kind"]; });
}

// What a quick look has cut at `most` rows is as the last whole look has it, or higher. What it has counted to its end
// is right.
class figures_of_two_looks {
 public:
  figures_of_two_looks(json& kinds, const json& whole, std::size_t most, bool by_kind)
      : kinds_(kinds),
        whole_(whole),
        most_(most),
        by_kind_(by_kind),
        due_(sum(kinds, "due")),
        dead_(sum(kinds, "dead")) {}

  void join() {
    for (json& of : kinds_) {
      const auto before = find_kind(whole_, of);
      join(of, before == whole_.end() ? json() : *before);
    }
    // A kind that has dead checks alone, and none among those that died last.
    for (const json& before : whole_) {
      if (dead_ >= most_ && before["dead"] != 0 && find_kind(kinds_, before) == kinds_.end()) {
        json of = before;
        for (const char* const name : {"pending", "due", "waiting", "running", "suspect", "retrying", "oldest_due_s",
                                       "wait_p50_s", "wait_p99_s", "dead_last_minute"}) {
          of[name] = 0;
        }
        of["why"] = of["paused"] == true ? "paused" : "";
        kinds_.push_back(std::move(of));
      }
    }
    std::sort(kinds_.begin(), kinds_.end(),
              [](const json& one, const json& other) { return one["kind"] < other["kind"]; });
  }

 private:
  void join(json& of, const json& before) const {
    const auto take_higher = [&](const char* name) {
      if (!before.is_null()) {
        of[name] = std::max(of[name], before[name]);
      }
    };
    const bool may_be_more = of["at_least"] == true;
    const bool are_all_seen = number(of, "pending") + number(of, "running") + number(of, "suspect") < most_;
    const bool is_due_cut = (by_kind_ ? number(of, "due") : due_) >= most_;
    const bool is_dead_cut = dead_ >= most_;
    of["at_least"] =
        may_be_more && (!are_all_seen || is_due_cut || is_dead_cut) && (before.is_null() || before["at_least"] == true);
    if (may_be_more) {
      take_higher("retrying");
    }
    if (!are_all_seen) {
      take_higher("pending");
    }
    if (is_dead_cut) {
      take_higher("dead");
      take_higher("dead_last_minute");
    }
    if (is_due_cut) {
      const bool has_none = of["waiting"] == 0;  // else the oldest is among those that were counted
      for (const char* const name : {"due", "waiting", "running", "suspect", "wait_p50_s", "wait_p99_s"}) {
        take_higher(name);
      }
      if (has_none && !before.is_null()) {
        of["oldest_due_s"] = before["oldest_due_s"];
        of["why"] = before["why"];
      }
    }
    const std::size_t waiting = number(of, "waiting");
    of["pending"] = std::max(number(of, "pending"), waiting - std::min(waiting, number(of, "suspect")));
  }

  json& kinds_;
  const json& whole_;
  const std::size_t most_;
  const bool by_kind_;
  const std::size_t due_;
  const std::size_t dead_;
};

}  // namespace

http_answer problem(unsigned status, const std::string& detail) {
  const json object = {
      {"type", "about:blank"}, {"status", status}, {"detail", is_text(detail) ? detail : one_line(detail, 2000)}};
  return {.status = status, .type = "application/problem+json", .body = object.dump()};
}

void wait_history::add_and_tell(std::chrono::steady_clock::time_point now, json& kinds) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t current = now.time_since_epoch() / step;
  if (points_.empty() || points_.back().number != current) {
    points_.push_back({.number = current, .waits = {}});
  }
  while (current - points_.front().number >= static_cast<std::int64_t>(steps)) {
    points_.pop_front();
  }
  for (json& of : kinds) {
    const std::string kind = of["kind"];
    if (const double waits = of["oldest_due_s"]; waits > 0) {
      double& longest = points_.back().waits[kind];
      longest = std::max(longest, waits);
    }
    json& all = of["waits_s"] = json::array();
    std::int64_t next = points_.front().number;
    for (const point& each : points_) {
      for (; next < each.number; ++next) {
        all.push_back(nullptr);
      }
      const auto found = each.waits.find(kind);
      all.push_back(found == each.waits.end() ? 0.0 : std::round(10 * found->second) / 10);
      ++next;
    }
  }
}

// RFC 9112, section 3.2.2.
void http_request::take_host_of_target() {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (same_host(std::string_view(target).substr(0, scheme.size()), scheme)) {
      const std::size_t end = std::min(target.find_first_of("/?", scheme.size()), target.size());
      host = target.substr(scheme.size(), end - scheme.size());
      target.replace(0, end, target[end] == '/' ? "" : "/");
      return;
    }
  }
}

const access_token* http_api::token_of(const http_request& asked) const {
  constexpr std::string_view scheme = "bearer ";  // of any case: RFC 9110, section 11.1
  const access_token* found = nullptr;
  const auto is_same = [](char left, char right) { return std::tolower(static_cast<unsigned char>(left)) == right; };
  if (asked.authorization.size() >= scheme.size() &&
      std::equal(scheme.begin(), scheme.end(), asked.authorization.begin(),
                 [&](char of_scheme, char given) { return is_same(given, of_scheme); })) {
    for (const access_token& each : tokens_) {
      if (same_secret(each.secret, std::string_view(asked.authorization).substr(scheme.size()))) {
        found = &each;
      }
    }
  }
  return found;
}

std::optional<http_answer> http_api::refuse(const http_request& asked, const std::string& own) const {
  const std::string path = asked.target.substr(0, asked.target.find('?'));
  const bool is_change = asked.method != "GET";
  if (!is_own_host(asked.host, own, with_.chosen)) {
    return problem(421, "this is not the server of the name that the request has: see --host");
  }
  const std::size_t scheme = asked.origin.find("://");
  const std::string by = asked.origin.substr(0, std::min(scheme, asked.origin.size()));
  if (!asked.origin.empty() &&
      ((by != "http" && by != "https") || !is_own_host(asked.origin.substr(scheme + 3), own, with_.chosen))) {
    return problem(403, "a page of another origin asks");
  }
  if (!tokens_.empty() && file_at(path) == nullptr) {
    const access_token* const token = token_of(asked);
    if (token == nullptr) {
      return problem(401, asked.authorization.empty() ? "it needs a token: Authorization: Bearer TOKEN"
                                                      : "this server does not know that token");
    }
    if (token->until <= std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now())) {
      return problem(401, "this token has expired");
    }
  }
  const http_answer known = answer_or_problem(with_, [&] {
    if (is_change || file_at(path) == nullptr) {
      static_cast<void>(find_route(asked.method, path));
    }
    return http_answer();
  });
  if (known.status != 200) {
    return known;
  }
  if (is_change && (with_.chosen.read_only || tokens_.empty())) {
    return problem(403, with_.chosen.read_only ? "this server changes nothing: it was started with --read-only"
                                               : "this server changes nothing: it was started without --token-file");
  }
  return std::nullopt;
}

bool http_api::asks_no_store(const http_request& asked) {
  const std::string_view path = std::string_view(asked.target).substr(0, asked.target.find('?'));
  return file_at(path) != nullptr || path == "/v1/openapi.json";
}

http_answer http_api::answer(const http_request& asked) const noexcept {
  return answer_or_problem(with_, [&]() -> http_answer {
    const std::size_t end = std::min(asked.target.find('?'), asked.target.size());
    const std::string_view path = std::string_view(asked.target).substr(0, end);
    if (const console_file* const file = file_at(path)) {
      return {.type = file->type, .body = std::string(file->bytes.begin(), file->bytes.end())};
    }
    const route& found = find_route(asked.method, path);
    if (found.run == nullptr) {
      throw wants_events(asked) ? refusal(405, "GET") : refusal(400, "there is no parameter here");
    }
    const access_token* const token = token_of(asked);
    call of{.with = with_,
            .words = {},
            .query = {},
            .body = asked.body,
            .by = token ? token->name : "http",
            .members = found.body};
    of.query = read_query(std::string_view(asked.target).substr(std::min(end + 1, asked.target.size())), found);
    const auto words = split(path, '/');
    const auto pattern = split(found.path, '/');
    for (std::size_t at = 0; at < words.size(); ++at) {
      if (is_parameter(pattern[at])) {
        of.words.push_back(decoded(words[at], false));
      }
    }
    return found.run == get_openapi ? found.run(of) : ask_store([&] { return found.run(of); });
  });
}

// While the store cannot be reached, one call in two seconds tries, and the others are told at once: otherwise they
// would wait behind each other, until no client waits any more. A call that fails before it asks the store leaves that
// as it is.
http_answer http_api::ask_store(const std::function<http_answer()>& work) const {
  {
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!unreachable_.empty() && now < next_try_) {
      throw refusal(503, unreachable_);
    }
    next_try_ = now + std::chrono::seconds(2);
  }
  const auto note = [this](const char* why) {
    const std::scoped_lock lock(mutex_);
    unreachable_ = why;
  };
  try {
    http_answer got = work();
    note("");
    return got;
  } catch (const timer_error& error) {
    if (is_unreachable(error.code())) {
      note(error.what());
    } else if (!is_wrong_request(error.code())) {
      note("");
    }
    throw;
  } catch (const failure& error) {
    if (error.status() == exit_status::nothing_matched || error.status() == exit_status::refused) {
      note("");
    }
    throw;
  }
}

http_answer http_api::look(bool whole) const noexcept {
  return answer_or_problem(with_, [&]() -> http_answer {
    return ask_store([&] {
      const std::string none;
      const call of{.with = with_, .words = {}, .query = {}, .body = none, .by = {}};
      options chosen = of.typed("status");
      const std::scoped_lock lock(look_mutex_);
      const json before = whole_.value("kinds", json::array());
      chosen.counted = whole ? chosen.counted : counted_quickly(with_.where, before.size());
      json all = json::parse(run(of, status, chosen).text);
      if (whole) {
        all["due"] = due_soon(with_.store);
        all["dead"] = dead_groups(with_, of.typed("list"));
        whole_ = all;
      } else {
        figures_of_two_looks(all["kinds"], before, chosen.counted, with_.where.type == "sqlite").join();
        all["due"] = whole_.value("due", json());
        all["dead"] = whole_.value("dead", json());
      }
      history_.add_and_tell(std::chrono::steady_clock::now(), all["kinds"]);
      all["read_only"] = with_.chosen.read_only || tokens_.empty();
      return as_json(all);
    });
  });
}

}  // namespace timing_wheel::desk

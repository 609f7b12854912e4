#include <algorithm>
#include <iterator>
#include <map>
#include <ostream>
#include <utility>

#include "common/program.hpp"
#include "desk/commands.hpp"

namespace timing_wheel::desk {

using durable::dead_check;
using durable::stored_check;

json json_of(const stored_check& check, instant now) {
  json line;
  set_kind(line, check.kind);
  set_bytes(line, "key", check.key);
  line["state"] = to_string(state_of(check, now));
  line["due"] = time_text(check.due);
  line["attempt"] = check.attempt;
  line["lease"] = check.running ? json(time_text(check.lease)) : json();
  line["fence"] = check.fence;
  line["payload_bytes"] = check.size;
  line["id"] = check.id;
  return line;
}

json json_of(const dead_check& check) {
  json line;
  set_kind(line, check.kind);
  set_bytes(line, "key", check.key);
  line["state"] = "dead";
  line["due"] = time_text(check.due);
  line["attempt"] = check.attempt;
  line["died"] = time_text(check.died);
  set_bytes(line, "error", check.error);
  line["id"] = check.id;
  return line;
}

json json_of(const durable::dead_group& group) {
  json line;
  set_kind(line, group.kind);
  set_bytes(line, "error", group.error);
  set_bytes(line, "pattern", without_ids(group.error));
  line["count"] = group.count;
  line["first"] = time_text(group.first);
  line["last"] = time_text(group.last);
  return line;
}

// What differs by ids alone is one group, to people.
std::vector<std::pair<durable::dead_group, std::size_t>> fold(const std::vector<durable::dead_group>& groups) {
  std::map<std::pair<std::string, std::string>, std::pair<durable::dead_group, std::size_t>> places;
  for (const durable::dead_group& each : groups) {
    std::string pattern = without_ids(each.error);
    auto& [all, texts] = places.try_emplace({each.kind, pattern}, each, 0).first->second;
    if (++texts > 1) {
      all = {each.kind, std::move(pattern), all.count + each.count, std::min(all.first, each.first),
             std::max(all.last, each.last)};
    }
  }
  std::vector<std::pair<durable::dead_group, std::size_t>> found;
  std::transform(places.begin(), places.end(), std::back_inserter(found), [](auto& each) { return each.second; });
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& one, const auto& other) { return one.first.count > other.first.count; });
  return found;
}

namespace {

constexpr std::size_t in_page = 1000;

// The end of a list. `cursor` leads to the others, in a list that has one.
exit_status end_list(const desk& with, const table& rows, std::size_t count, const std::string& cursor = {}) {
  if (!with.chosen.as_json && count > 0) {
    rows.write(with.out);
  }
  if (count == with.chosen.limit) {
    with.err << "no more than " << common::grouped(count) << " are shown: give a higher --limit"
             << (cursor.empty() ? "" : ", or go on with --after " + cursor) << '\n';
  }
  return count > 0 ? exit_status::done : exit_status::nothing_matched;
}

// A line for programs.
void write_line(const desk& with, json line, const std::string& cursor) {
  line["cursor"] = cursor;
  with.out << line.dump() << '\n';
}

exit_status list_groups(const desk& with) {
  constexpr std::size_t most_texts = 10'000;
  table rows({"kind", "how many", "texts", "first died", "last died", "error"});
  const instant now = with.store.now();
  const bool is_exact = with.chosen.as_json && !with.chosen.pattern;
  const auto limit = is_exact ? with.chosen.limit : std::max(with.chosen.limit, most_texts);
  auto groups = with.store.count_dead(dead_filter_of(with.chosen, with.where), limit);
  const bool all_seen = groups.size() < limit;
  std::erase_if(groups, [&](const durable::dead_group& each) { return !has_pattern(with.chosen, each.error); });
  if (with.chosen.as_json) {
    groups.resize(std::min(groups.size(), with.chosen.limit));
    for (const durable::dead_group& each : groups) {
      with.out << json_of(each).dump() << '\n';
    }
    return end_list(with, rows, groups.size());
  }
  auto folded = fold(groups);
  folded.resize(std::min(folded.size(), with.chosen.limit));
  for (const auto& [each, texts] : folded) {
    rows.add({one_line(each.kind), common::grouped(each.count), common::grouped(texts), from_now(each.first, now),
              from_now(each.last, now), one_line(each.error, 1000)});
  }
  const exit_status ended = end_list(with, rows, folded.size());
  if (!all_seen) {
    with.err << "of no more than " << common::grouped(limit) << " texts\n";
  }
  return ended;
}

exit_status list_the_dead(const desk& with) {
  durable::dead_range range{.after = dead_position_of(with.chosen),
                            .which = dead_filter_of(with.chosen, with.where),
                            .newest_first = !with.chosen.earliest,
                            .with_payloads = false};
  table rows({"id", "kind", "key", "died", "attempts", "error"});
  const instant now = with.store.now();
  std::size_t count = 0;
  std::string cursor;
  while (count < with.chosen.limit) {
    range.limit = std::min(in_page, with.chosen.limit - count);
    const std::vector<dead_check> page = list_dead(with.store, with.chosen, range);
    for (const dead_check& each : page) {
      if (with.chosen.as_json) {
        write_line(with, json_of(each), cursor_of(each));
      } else {
        rows.add({std::to_string(each.id), one_line(each.kind), one_line(each.key), from_now(each.died, now),
                  std::to_string(each.attempt), one_line(each.error)});
      }
    }
    count += page.size();
    if (page.size() < range.limit) {
      break;
    }
    cursor = cursor_of(page.back());
  }
  return end_list(with, rows, count, cursor);
}

}  // namespace

exit_status list(const desk& with) {
  if (with.chosen.groups && (with.chosen.after || with.chosen.earliest)) {
    throw failure(exit_status::usage, "--after and --earliest are of a list of checks, and not of --groups");
  }
  if (with.chosen.state == "dead") {
    tell_pattern(with);
    return with.chosen.groups ? list_groups(with) : list_the_dead(with);
  }
  if (with.chosen.groups) {
    throw failure(exit_status::usage, "--groups is of dead checks: give --state dead, too");
  }
  // Without these two, the first page brings the clock with it.
  const bool needs_clock = with.chosen.due_before || with.chosen.due_after;
  instant now = needs_clock ? with.store.now() : instant();
  durable::check_range range{.after = position_of(with.chosen),
                             .which = filter_of(with.chosen, with.where, now),
                             .latest_first = !with.chosen.earliest};
  table rows({"kind", "key", "state", "due", "attempts", "lease ends", "node", "payload", "error"});
  std::size_t count = 0;
  std::string cursor;
  while (count < with.chosen.limit) {
    range.limit = std::min(in_page, with.chosen.limit - count);
    const std::vector<stored_check> page = with.store.list(range);
    now = with.store.now();
    const failures_by_id failures = failures_of(with.store, page);
    const std::vector<durable::long_run> runs = long_runs_of(with.store, page);
    for (const stored_check& each : page) {
      const std::optional<durable::long_run> run = run_of(runs, each);
      const auto failed = failures.find(each.id);
      if (with.chosen.as_json) {
        json line = json_of(each, now);
        add_run(line, run);
        add_error(line, failures, each.id);
        write_line(with, std::move(line), cursor_of(each));
      } else {
        rows.add({one_line(each.kind), one_line(each.key), to_string(state_of(each, now)), from_now(each.due, now),
                  std::to_string(each.attempt), each.running ? from_now(each.lease, now) : "-",
                  run ? one_line(run->node) : "-", std::to_string(each.size) + " B",
                  failed == failures.end() ? "" : one_line(failed->second.error)});
      }
    }
    count += page.size();
    if (page.size() < range.limit) {
      break;
    }
    range.after = {page.back().due, page.back().id};
    cursor = cursor_of(page.back());
  }
  return end_list(with, rows, count, cursor);
}

exit_status audit(const desk& with) {
  const std::vector<durable::audit_entry> lines = with.store.audit(with.chosen.limit);
  table rows({"when", "who", "what", "kind", "which", "how many"});
  for (const durable::audit_entry& each : lines) {
    if (with.chosen.as_json) {
      json line = {{"at", time_text(each.at)}, {"by", each.by}, {"action", each.action}};
      set_kind(line, each.kind);
      line.update({{"subject", each.subject}, {"count", each.count}});
      with.out << text_of(line) << '\n';
    } else {
      rows.add({time_text(std::chrono::floor<std::chrono::seconds>(each.at)), one_line(each.by), each.action,
                one_line(each.kind), one_line(each.subject), std::to_string(each.count)});
    }
  }
  return end_list(with, rows, lines.size());
}

}  // namespace timing_wheel::desk

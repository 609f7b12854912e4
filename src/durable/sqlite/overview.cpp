#include "durable/sqlite/overview.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "durable/store/instant.hpp"
#include "durable/store/overview.hpp"
#include "durable/store/rows.hpp"

namespace timing_wheel::durable::sqlite {

namespace {

// A statement of a text that is put together here.
class once {
 public:
  once(database& on, const char* doing, std::string sql, counters& counts)
      : sql_(std::move(sql)), statement_(on.get(), {doing, sql_.c_str()}, &counts.statements), run_(statement_.run()) {}

  execution* operator->() { return &run_; }
  execution& operator*() { return run_; }

 private:
  std::string sql_;
  statement statement_;
  execution run_;
};

// Of a kind and a prefix of the keys: the values follow those that are bound already.
class key_condition {
 public:
  explicit key_condition(std::string_view prefix) : prefix_(prefix), end_(end_of_prefix(prefix)) {}

  [[nodiscard]] bool empty() const { return prefix_.empty(); }
  [[nodiscard]] std::string text() const { return empty() ? "" : end_ ? " AND key>=? AND key<?" : " AND key>=?"; }
  void bind(once& run) const {
    if (!empty()) {
      run->bind_blob(prefix_);
      if (end_) {
        run->bind_blob(*end_);
      }
    }
  }

 private:
  std::string_view prefix_;
  std::optional<std::string> end_;
};

// A kind has an index by deadline and one by key. SQLite knows no figures of them, so it is told which to take.
std::string from_checks(bool by_key) {
  return std::string(" FROM timing_wheel_check INDEXED BY ") +
         (by_key ? "sqlite_autoindex_timing_wheel_check_1" : "timing_wheel_check_due") + " WHERE kind=?";
}

// Steps from kind to kind in the index.
std::vector<std::string> kinds_of(database& on, const std::string& only, counters& counts) {
  if (!only.empty()) {
    return {only};
  }
  once run(on, "listing kinds",
           "WITH RECURSIVE each(kind) AS (SELECT min(kind) FROM timing_wheel_check UNION ALL "
           "SELECT (SELECT min(kind) FROM timing_wheel_check WHERE kind>each.kind) FROM each WHERE each.kind IS NOT "
           "NULL) SELECT kind FROM each WHERE kind IS NOT NULL",
           counts);
  std::vector<std::string> kinds;
  while (run->step()) {
    kinds.emplace_back(run->bytes(0));
  }
  return kinds;
}

void list_kind(database& on, const std::string& kind, const check_range& range, instant now, counters& counts,
               std::vector<stored_check>& found) {
  const key_condition keys(range.which.key_prefix);
  once run(on, "listing checks",
           std::string("SELECT id,due,lease,fence,attempt,key,length(payload)") +
               (range.with_payloads ? ",payload" : "") + from_checks(range.from_key || !keys.empty()) + keys.text() +
               (range.from_key       ? " AND key>=?"
                : range.latest_first ? " AND (due,id)<(?,?)"
                                     : " AND (due,id)>(?,?)") +
               condition_of(range.which, now) +
               (range.from_key       ? " ORDER BY key LIMIT ?"
                : range.latest_first ? " ORDER BY due DESC,id DESC LIMIT ?"
                                     : " ORDER BY due,id LIMIT ?"),
           counts);
  run->bind_text(kind);
  keys.bind(run);
  if (range.from_key) {
    run->bind_blob(*range.from_key);
  } else {
    const list_position from = begin_of(range);
    run->bind(microseconds_of(from.due)).bind(from.id);
  }
  run->bind(count_of(range.limit));
  while (run->step()) {
    found.push_back({.kind = kind,
                     .key = std::string(run->bytes(5)),
                     .payload = range.with_payloads ? std::string(run->bytes(7)) : std::string(),
                     .due = instant_of(run->integer(1)),
                     .fence = run->integer(3),
                     .attempt = run->count(4),
                     .running = !run->is_null(2),
                     .lease = instant_of(run->integer(2)),
                     .id = run->integer(0),
                     .size = static_cast<std::size_t>(run->integer(6))});
  }
}

// What is asked of the dead. The texts are followed by a LIMIT.
class dead_condition {
 public:
  explicit dead_condition(const dead_filter& which) : which_(which), keys_(which.key_prefix) {}

  [[nodiscard]] std::string text() const {
    return std::string(which_.kind.empty() ? "" : " AND kind=?") + keys_.text() +
           (which_.error.empty() ? "" : " AND error=?") + (which_.key.empty() ? "" : " AND key=?");
  }
  void bind(once& run) const {
    if (!which_.kind.empty()) {
      run->bind_text(which_.kind);
    }
    keys_.bind(run);
    if (!which_.error.empty()) {
      run->bind_text(which_.error);
    }
    if (!which_.key.empty()) {
      run->bind_blob(which_.key);
    }
  }

 private:
  const dead_filter& which_;
  key_condition keys_;
};

}  // namespace

// Of each kind as many as are asked for; the first of all of them are it.
std::vector<stored_check> list(database& on, const check_range& range, instant now, counters& counts) {
  require_kind_of_keys(range);
  std::vector<stored_check> found;
  for (const std::string& kind : kinds_of(on, range.which.kind, counts)) {
    list_kind(on, kind, range, now, counts, found);
  }
  if (!range.from_key) {
    std::sort(found.begin(), found.end(), [&](const stored_check& one, const stored_check& other) {
      const auto& [first, second] = range.latest_first ? std::tie(other, one) : std::tie(one, other);
      return std::pair(first.due, first.id) < std::pair(second.due, second.id);
    });
  }
  found.resize(std::min(found.size(), range.limit));
  counts.rows_read.fetch_add(found.size(), std::memory_order_relaxed);
  return found;
}

std::size_t count(database& on, const check_filter& which, std::size_t most, instant now, counters& counts) {
  const key_condition keys(which.key_prefix);
  std::size_t all = 0;
  for (const std::string& kind : kinds_of(on, which.kind, counts)) {
    once run(on, "counting checks",
             "SELECT count(*) FROM (SELECT 1" + from_checks(!keys.empty()) + keys.text() + condition_of(which, now) +
                 " LIMIT ?)",
             counts);
    run->bind_text(kind);
    keys.bind(run);
    run->bind(count_of(most - all)).step();
    all += static_cast<std::size_t>(run->integer(0));
  }
  return all;
}

std::vector<kind_counts> count_kinds(database& on, std::size_t most, instant now, bool with_waits, counters& counts) {
  most = std::min<std::size_t>(most, std::numeric_limits<std::int64_t>::max() - 1);
  std::map<std::string, kind_counts> found;
  for (const std::string& kind : kinds_of(on, {}, counts)) {
    kind_counts& of = found[kind];
    once run(on, "counting checks",
             "SELECT due,lease,attempt FROM timing_wheel_check INDEXED BY timing_wheel_check_due WHERE kind=? "
             "ORDER BY due LIMIT ?",
             counts);
    run->bind_text(kind).bind(count_of(most));
    std::size_t looked_at = 0;
    std::vector<instant> waiting;
    for (stored_check check; run->step(); ++looked_at) {
      check.due = instant_of(run->integer(0));
      check.lease = instant_of(run->integer(1));
      check.attempt = run->count(2);
      add_to(of, waiting, check, now);
    }
    tell_waiting(of, waiting, with_waits);
    of.at_least = looked_at == most && count(on, {.kind = kind}, most + 1, now, counts) > most;
  }
  once run(on, "counting dead checks",
           "SELECT kind,count(*),sum(died>?) FROM (SELECT kind,died FROM timing_wheel_dead ORDER BY id DESC LIMIT ?) "
           "GROUP BY kind",
           counts);
  run->bind(microseconds_of(now - lately)).bind(count_of(most + 1));
  std::size_t all_dead = 0;
  while (run->step()) {
    kind_counts& of = found[std::string(run->bytes(0))];
    of.dead = static_cast<std::size_t>(run->integer(1));
    of.dead_lately = static_cast<std::size_t>(run->integer(2));
    all_dead += of.dead;
  }
  std::vector<kind_counts> in_order;
  in_order.reserve(found.size());
  for (auto& [kind, of] : found) {
    of.kind = kind;
    of.at_least = of.at_least || all_dead > most;
    in_order.push_back(std::move(of));
  }
  return in_order;
}

void read_all(database& on, const std::function<void(stored_check&&)>& check,
              const std::function<void(dead_check&&)>& dead, counters& counts) {
  once checks(on, "reading all checks", "SELECT kind,key,payload,due,fence,attempt,lease,id FROM timing_wheel_check",
              counts);
  while (checks->step()) {
    counts.rows_read.fetch_add(1, std::memory_order_relaxed);
    check(stored_check_in(*checks, checks->bytes(0), checks->bytes(1), 2));
  }
  once buried(on, "reading all dead checks",
              "SELECT id,kind,key,payload,due,fence,attempt,error,died FROM timing_wheel_dead", counts);
  while (buried->step()) {
    counts.rows_read.fetch_add(1, std::memory_order_relaxed);
    dead(dead_check_in(*buried));
  }
}

std::vector<dead_check> list_dead(database& on, const dead_range& range, counters& counts) {
  const dead_condition condition(range.which);
  const bool from_the_end = range.newest_first && range.after == 0;
  once run(on, "listing the dead",
           std::string("SELECT id,kind,key,") + (range.with_payloads ? "payload" : "x''") +
               ",due,fence,attempt,error,died FROM timing_wheel_dead WHERE id" + (range.newest_first ? "<" : ">") +
               "?" + condition.text() + " ORDER BY id" + (range.newest_first ? " DESC" : "") + " LIMIT ?",
           counts);
  run->bind(from_the_end ? std::numeric_limits<std::int64_t>::max() : range.after);
  condition.bind(run);
  run->bind(count_of(range.limit));
  return read_each(*run, counts, dead_check_in<execution>);
}

std::vector<dead_group> count_dead(database& on, const dead_filter& which, std::size_t limit, std::size_t most,
                                   counters& counts) {
  const dead_condition condition(which);
  once run(on, "counting dead checks",
           "SELECT kind,error,count(*),min(died),max(died) FROM (SELECT kind,error,died FROM timing_wheel_dead "
           "WHERE id>0" +
               condition.text() + " ORDER BY id DESC LIMIT ?) GROUP BY kind,error ORDER BY 3 DESC,kind,error LIMIT ?",
           counts);
  condition.bind(run);
  run->bind(count_of(most)).bind(count_of(limit));
  return read_each(*run, counts, dead_group_in<execution>);
}

void record(database& on, const audit_entry& entry, instant now, counters& counts) {
  on.execute(
      {"writing the audit",
       "CREATE TABLE IF NOT EXISTS timing_wheel_audit(id INTEGER PRIMARY KEY AUTOINCREMENT,at INTEGER NOT NULL,"
       "by TEXT NOT NULL,action TEXT NOT NULL,kind TEXT NOT NULL,subject TEXT NOT NULL,count INTEGER NOT NULL)"});
  once run(on, "writing the audit",
           "INSERT INTO timing_wheel_audit(at,by,action,kind,subject,count) VALUES(?,?,?,?,?,?)", counts);
  run->bind(microseconds_of(now)).bind_text(entry.by).bind_text(entry.action).bind_text(entry.kind);
  run->bind_text(entry.subject).bind(count_of(entry.count)).finish();
}

std::vector<audit_entry> audit(database& on, std::size_t limit, counters& counts) {
  if (on.ask({"reading the audit", "SELECT 1 FROM sqlite_master WHERE type='table' AND name='timing_wheel_audit'"})
          .empty()) {
    return {};
  }
  once run(on, "reading the audit",
           "SELECT by,action,kind,subject,count,at FROM timing_wheel_audit ORDER BY id DESC LIMIT ?", counts);
  run->bind(count_of(limit));
  return read_each(*run, counts, audit_entry_in<execution>);
}

namespace {

// The first use of some tables makes them.
bool has_table(database& on, std::string_view name, counters& counts) {
  once run(on, "looking for a table", "SELECT 1 FROM sqlite_master WHERE type='table' AND name=?", counts);
  return run->bind_text(name).step();
}

}  // namespace

// A node that has died tells nothing more, so what it told goes after a day.
void tell_long_runs(database& on, std::string_view node, std::span<const long_run> runs, instant now,
                    counters& counts) {
  constexpr const char* doing = "telling of long runs";
  if (!runs.empty()) {
    on.execute({doing,
                "CREATE TABLE IF NOT EXISTS timing_wheel_long_run(node TEXT NOT NULL,id INTEGER NOT NULL,"
                "fence INTEGER NOT NULL,begun INTEGER NOT NULL,told INTEGER NOT NULL,PRIMARY KEY(node,id)) "
                "WITHOUT ROWID"});
  } else if (!has_table(on, "timing_wheel_long_run", counts)) {
    return;
  }
  once forget(on, doing, "DELETE FROM timing_wheel_long_run WHERE node=?1 OR told<?2", counts);
  forget->bind_text(node).bind(microseconds_of(now - std::chrono::hours(24))).finish();
  statement tell(on.get(),
                 {doing, "INSERT OR REPLACE INTO timing_wheel_long_run(node,id,fence,begun,told) VALUES(?,?,?,?,?)"},
                 &counts.statements);
  for (const long_run& each : runs) {
    tell.run()
        .bind_text(node)
        .bind(each.id)
        .bind(each.fence)
        .bind(microseconds_of(each.begun))
        .bind(microseconds_of(now))
        .finish();
  }
}

std::vector<long_run> long_runs(database& on, counters& counts) {
  if (!has_table(on, "timing_wheel_long_run", counts)) {
    return {};
  }
  once run(on, "reading long runs",
           "SELECT l.node,c.kind,c.key,l.id,l.fence,l.begun,l.told FROM timing_wheel_long_run l "
           "JOIN timing_wheel_check c ON c.id=l.id AND c.fence=l.fence WHERE c.lease IS NOT NULL ORDER BY l.begun,l.id",
           counts);
  return read_each(*run, counts, long_run_in<execution>);
}

void tell_failed_runs(database& on, std::string_view node, std::span<const failed_run> runs, instant now,
                      counters& counts) {
  constexpr const char* doing = "telling of failed runs";
  if (runs.empty()) {
    if (has_table(on, "timing_wheel_failed_run", counts)) {
      once(on, doing, "DELETE FROM timing_wheel_failed_run WHERE id NOT IN (SELECT id FROM timing_wheel_check)", counts)
          ->finish();
    }
    return;
  }
  on.execute({doing,
              "CREATE TABLE IF NOT EXISTS timing_wheel_failed_run(id INTEGER PRIMARY KEY,attempt INTEGER NOT NULL,"
              "node TEXT NOT NULL,told INTEGER NOT NULL,error BLOB NOT NULL)"});
  statement tell(on.get(),
                 {doing,
                  "INSERT OR REPLACE INTO timing_wheel_failed_run(id,attempt,node,told,error) "
                  "SELECT id,?2,?3,?4,?5 FROM timing_wheel_check WHERE id=?1"},
                 &counts.statements);
  for (const failed_run& each : runs) {
    tell.run()
        .bind(each.id)
        .bind(each.attempt)
        .bind_text(node)
        .bind(microseconds_of(now))
        .bind_blob(each.error)
        .finish();
  }
}

std::vector<failed_run> failed_runs(database& on, std::span<const std::int64_t> ids, counters& counts) {
  std::vector<failed_run> found;
  if (!has_table(on, "timing_wheel_failed_run", counts)) {
    return found;
  }
  statement read(on.get(),
                 {"reading failed runs",
                  "SELECT f.node,f.attempt,f.error,f.told FROM timing_wheel_failed_run f JOIN timing_wheel_check c ON "
                  "c.id=f.id AND c.attempt>=f.attempt WHERE f.id=?"},
                 &counts.statements);
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  for (const std::int64_t id : sorted) {
    auto run = read.run();
    run.bind(id);
    while (run.step()) {
      found.push_back({.node = std::string(run.bytes(0)),
                       .id = id,
                       .attempt = static_cast<int>(run.integer(1)),
                       .error = std::string(run.bytes(2)),
                       .told = instant_of(run.integer(3))});
    }
  }
  counts.rows_read.fetch_add(found.size(), std::memory_order_relaxed);
  return found;
}

void tell_runs(database& on, const run_counts& since, instant now, counters& counts) {
  constexpr const char* doing = "telling of runs";
  on.execute({doing,
              "CREATE TABLE IF NOT EXISTS timing_wheel_run_count(told INTEGER NOT NULL,begun INTEGER NOT NULL,"
              "ended INTEGER NOT NULL,failed INTEGER NOT NULL)"});
  once forget(on, doing, "DELETE FROM timing_wheel_run_count WHERE told<?", counts);
  forget->bind(microseconds_of(now - lately)).finish();
  once tell(on, doing, "INSERT INTO timing_wheel_run_count(told,begun,ended,failed) VALUES(?,?,?,?)", counts);
  tell->bind(microseconds_of(now)).bind(count_of(since.begun)).bind(count_of(since.ended));
  tell->bind(count_of(since.failed)).finish();
}

std::optional<run_counts> runs_of_last_minute(database& on, instant now, counters& counts) {
  if (!has_table(on, "timing_wheel_run_count", counts)) {
    return std::nullopt;
  }
  once run(on, "reading how many have run",
           "SELECT coalesce(sum(begun),0),coalesce(sum(ended),0),coalesce(sum(failed),0) FROM timing_wheel_run_count "
           "WHERE told>?",
           counts);
  run->bind(microseconds_of(now - lately));
  run->step();
  counts.rows_read.fetch_add(1, std::memory_order_relaxed);
  const auto sum = [&](int column) { return static_cast<std::uint64_t>(run->integer(column)); };
  return run_counts{.begun = sum(0), .ended = sum(1), .failed = sum(2)};
}

}  // namespace timing_wheel::durable::sqlite

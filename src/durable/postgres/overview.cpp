#include "durable/postgres/overview.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "durable/store/fnv.hpp"
#include "durable/store/instant.hpp"
#include "durable/store/overview.hpp"
#include "durable/store/rows.hpp"
#include "durable/store/text.hpp"

namespace timing_wheel::durable::postgres {

namespace {

// A database of another encoding may lack a character, of a key for instance.
std::string in_its_encoding(connection& on, const std::string& text) {
  const char* const name = PQparameterStatus(on.get(), "server_encoding");
  const std::string_view encoding = name == nullptr ? "UTF8" : name;
  if (encoding == "UTF8" || encoding == "SQL_ASCII") {
    return text;
  }
  std::string escaped;
  for (const char& each : text) {
    if (static_cast<unsigned char>(each) < 0x80) {
      escaped += each;
    } else {
      append_escaped(escaped, {&each, 1});
    }
  }
  return escaped;
}

void add_name(written_query& query, std::string_view kind, std::string_view key_prefix) {
  if (!kind.empty()) {
    query.add(" AND kind=").add_text(kind);
  }
  if (!key_prefix.empty()) {
    query.add(" AND key>=").add_bytes(key_prefix);
    if (const std::optional<std::string> end = end_of_prefix(key_prefix)) {
      query.add(" AND key<").add_bytes(*end);
    }
  }
}

// What checks and dead checks have alike, as columns of a statement.
struct columns {
  template <class Row>
  explicit columns(std::span<const Row> all)
      : due(element::bigint, all, [](const Row& each) { return microseconds_of(each.due); }),
        fence(element::bigint, all, &Row::fence),
        attempt(element::integer, all, &Row::attempt),
        kind(element::text, all, &Row::kind),
        key(element::bytea, all, &Row::key),
        payload(element::bytea, all, &Row::payload) {
    values.bind(due).bind(fence).bind(attempt).bind(kind).bind(key).bind(payload);
  }

  array due;
  array fence;
  array attempt;
  array kind;
  array key;
  array payload;
  parameters values;
};

void add_condition(written_query& query, const dead_filter& which) {
  add_name(query, which.kind, which.key_prefix);
  if (!which.error.empty()) {
    query.add(" AND error=").add_bytes(which.error);
  }
  if (!which.key.empty()) {
    query.add(" AND key=").add_bytes(which.key);
  }
}

}  // namespace

written_query& written_query::add(std::string_view text) {
  text_ += text;
  return *this;
}

void written_query::add_number(const char* type) {
  text_.append("$").append(std::to_string(values_.count())).append("::").append(type);
}

written_query& written_query::add(std::int64_t value) {
  values_.bind(value);
  add_number("bigint");
  return *this;
}

written_query& written_query::add_text(std::string_view value) {
  values_.bind(kept_.emplace_back(value));
  add_number("text");
  return *this;
}

written_query& written_query::add_bytes(std::string_view value) {
  values_.bind(kept_.emplace_back(value));
  add_number("bytea");
  return *this;
}

result written_query::run(connection& on, const char* doing) const {
  return on.run(query{doing, "", text_.c_str()}, values_, true);
}

namespace {

constexpr const char* shown_columns = "id,due,lease,fence,attempt,kind,key,octet_length(payload)";

// Behind `after`. Where that is the beginning, a bound would only make the planner look up what it bounds.
void add_after(written_query& query, const check_range& range) {
  const list_position& after = range.after;
  if (after.due != list_position().due || after.id != list_position().id) {
    query.add(range.latest_first ? " AND (due,id+0)<(" : " AND (due,id+0)>(");
    query.add(microseconds_of(after.due)).add(",").add(after.id).add(")");
  }
}

// The checks of a kind by deadline. The planner would take the index by deadline, and go through all that other kinds
// have before. So this looks at some of the first checks of all kinds before. If too few of them are meant, and the
// kind does not have too many, it sorts those of the kind.
void add_list_of_kind(written_query& query, const check_range& range, instant now) {
  constexpr std::int64_t first = 5000;
  constexpr std::int64_t sorted = 300'000;
  const std::int64_t limit = count_of(range.limit);
  const std::string columns = std::string(shown_columns) + (range.with_payloads ? ",payload" : "");
  const std::string condition = condition_of(range.which, now);
  check_filter bounds{.due_before = range.which.due_before, .due_after = range.which.due_after};
  if (range.which.state == check_state::due || range.which.state == check_state::waiting ||
      range.which.state == check_state::running) {
    bounds.due_before = std::min(bounds.due_before.value_or(instant::max()), now + std::chrono::microseconds(1));
  }
  const std::string falling = range.latest_first ? " DESC" : "";
  const auto order_by = [&](const char* due, const char* id) {
    return std::string(" ORDER BY ").append(due).append(falling).append(",").append(id).append(falling);
  };
  // It refers to the way laterally, so the server knows first whether to run it, and runs nothing in parallel.
  const auto add_rest = [&](const char* taken, const std::string& order) {
    query.add(" UNION ALL SELECT rest.* FROM way CROSS JOIN LATERAL (SELECT ").add(columns).add(" FROM @check WHERE ");
    query.add(taken);
    add_after(query, range);
    add_name(query, range.which.kind, range.which.key_prefix);
    query.add(condition).add(order).add(" LIMIT ").add(limit).add(") rest");
  };
  query.add("WITH seen AS MATERIALIZED (SELECT ").add(columns);
  query.add(" FROM (SELECT *,id+0 AS place FROM @check WHERE true");
  add_after(query, range);
  query.add(condition_of(bounds, now)).add(order_by("due", "id+0")).add(" LIMIT ").add(first).add(") first WHERE true");
  add_name(query, range.which.kind, range.which.key_prefix);
  query.add(condition).add(order_by("due", "place")).add(" LIMIT ").add(limit);
  query.add("),way AS MATERIALIZED (SELECT CASE WHEN (SELECT count(*) FROM seen)>=").add(limit);
  query.add(" THEN 0 WHEN (SELECT count(*) FROM (SELECT FROM @check WHERE true");
  add_name(query, range.which.kind, range.which.key_prefix);
  query.add(" LIMIT ").add(sorted).add(") counted)<").add(sorted);
  query.add(" THEN 1 ELSE 2 END AS taken) SELECT * FROM (SELECT seen.* FROM way,seen WHERE taken=0");
  add_rest("taken=1", order_by("due+0", "id"));
  add_rest("taken=2", order_by("due", "id+0"));
  query.add(") found").add(order_by("due", "id"));
}

void add_list(written_query& query, const check_range& range, instant now) {
  query.add("SELECT ").add(shown_columns).add(range.with_payloads ? ",payload" : "").add(" FROM @check WHERE true");
  if (range.from_key) {
    query.add(" AND key>=").add_bytes(*range.from_key);
  } else {
    add_after(query, range);
  }
  add_name(query, range.which.kind, range.which.key_prefix);
  query.add(condition_of(range.which, now));
  query.add(range.from_key       ? " ORDER BY key"
            : range.latest_first ? " ORDER BY due DESC,id+0 DESC"
                                 : " ORDER BY due,id+0");
  query.add(" LIMIT ").add(count_of(range.limit));
}

}  // namespace

std::vector<stored_check> list(connection& on, const check_range& range, instant now, bool lock) {
  require_kind_of_keys(range);
  written_query query;
  if (range.which.kind.empty() || range.from_key || lock) {
    add_list(query, range, now);
    query.add(lock ? " FOR UPDATE SKIP LOCKED" : "");
  } else {
    add_list_of_kind(query, range, now);
  }
  const result rows = query.run(on, "listing checks");
  return read_each(rows, [&](const result_row& row) {
    return stored_check{.kind = std::string(row.bytes(5)),
                        .key = std::string(row.bytes(6)),
                        .payload = range.with_payloads ? std::string(row.bytes(8)) : std::string(),
                        .due = instant_of(row.integer(1)),
                        .fence = row.integer(3),
                        .attempt = row.count(4),
                        .running = !row.is_null(2),
                        .lease = instant_of(row.integer(2)),
                        .id = row.integer(0),
                        .size = row.size(7)};
  });
}

std::size_t count(connection& on, const check_filter& which, std::size_t most, instant now) {
  written_query query;
  query.add("SELECT count(*) FROM (SELECT FROM @check WHERE true");
  add_name(query, which.kind, which.key_prefix);
  query.add(condition_of(which, now)).add(" LIMIT ").add(count_of(most)).add(") counted");
  return static_cast<std::size_t>(query.run(on, "counting checks").integer(0, 0));
}

void read_all(connection& on, const std::function<void(stored_check&&)>& check,
              const std::function<void(dead_check&&)>& dead) {
  constexpr const char* doing = "reading all checks";
  static constexpr query open_checks{doing, "",
                                     "DECLARE timing_wheel_all NO SCROLL CURSOR FOR SELECT "
                                     "kind,key,payload,due,fence,attempt,lease,id FROM @check"};
  static constexpr query open_dead{doing, "",
                                   "DECLARE timing_wheel_all NO SCROLL CURSOR FOR SELECT "
                                   "id,kind,key,payload,due,fence,attempt,error,died FROM @dead"};
  static constexpr query fetch{doing, "", "FETCH 100 FROM timing_wheel_all"};
  // The receiver of the rows may be slow.
  on.run(doing, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;SET LOCAL idle_in_transaction_session_timeout=0", 2);
  const auto each_row = [&](const query& open, const auto& take) {
    on.run(open, {}, true);
    for (bool more = true; more;) {
      const result rows = on.run(fetch, {}, true);
      for (int row = 0; row < rows.rows(); ++row) {
        take(result_row(rows, row));
      }
      more = rows.rows() != 0;
    }
    on.run({doing, "", "CLOSE timing_wheel_all"}, {}, true);
  };
  try {
    each_row(open_checks, [&](const result_row& row) { check(stored_check_in(row, row.bytes(0), row.bytes(1), 2)); });
    each_row(open_dead, [&](const result_row& row) { dead(dead_check_in(row)); });
  } catch (...) {
    on.roll_back();
    throw;
  }
  on.roll_back();
}

// Between the two numbers lies room for what others draw meanwhile: a sequence cannot be locked. Two that restore wait
// for each other, so that none sets it back.
std::size_t restore(connection& on, std::span<const stored_check> checks, std::span<const dead_check> dead) {
  constexpr const char* doing = "restoring checks";
  static constexpr query lock{doing, "", "SELECT pg_advisory_xact_lock(hashtextextended('@fence',0))"};
  static constexpr query raise{doing, "",
                               "SELECT CASE WHEN last_value<$1::bigint THEN setval('@fence',$1::bigint+1000000) END "
                               "FROM @fence"};
  static constexpr query insert{doing, "",
                                "INSERT INTO @check(due,fence,attempt,kind,key,payload) SELECT * FROM "
                                "unnest($1::bigint[],$2::bigint[],$3::integer[],$4::text[],$5::bytea[],$6::bytea[]) "
                                "ON CONFLICT(kind,key) DO NOTHING"};
  static constexpr query bury{doing, "",
                              "INSERT INTO @dead(due,fence,attempt,kind,key,payload,error,died) SELECT * FROM "
                              "unnest($1::bigint[],$2::bigint[],$3::integer[],$4::text[],$5::bytea[],$6::bytea[],"
                              "$7::bytea[],$8::bigint[])"};
  on.run(lock, {}, true);
  on.run(raise, parameters().bind(highest_fence(checks, dead)), true);
  std::size_t written = 0;
  if (!checks.empty()) {
    columns all(checks);
    written = static_cast<std::size_t>(on.run(insert, all.values, true).changed());
  }
  if (!dead.empty()) {
    columns all(dead);
    array error(element::bytea, dead, &dead_check::error);
    array died(element::bigint, dead, [](const dead_check& each) { return microseconds_of(each.died); });
    on.run(bury, all.values.bind(error).bind(died), true);
  }
  return written;
}

std::vector<dead_check> list_dead(connection& on, const dead_range& range) {
  written_query query;
  query.add("SELECT id,kind,key,")
      .add(range.with_payloads ? "payload" : "''::bytea")
      .add(",due,fence,attempt,error,died FROM @dead WHERE true");
  if (!range.newest_first || range.after != 0) {
    query.add(range.newest_first ? " AND id<" : " AND id>").add(range.after);
  }
  add_condition(query, range.which);
  query.add(range.newest_first ? " ORDER BY id DESC LIMIT " : " ORDER BY id LIMIT ").add(count_of(range.limit));
  return read_each(query.run(on, "listing the dead"), dead_check_in<result_row>);
}

std::vector<dead_group> count_dead(connection& on, const dead_filter& which, std::size_t limit, std::size_t most) {
  written_query query;
  query.add("SELECT kind,error,count(*),min(died),max(died) FROM (SELECT kind,error,died FROM @dead WHERE true");
  add_condition(query, which);
  query.add(" ORDER BY id DESC LIMIT ").add(count_of(most));
  query.add(") last GROUP BY kind,error ORDER BY 3 DESC,kind,error LIMIT ").add(count_of(limit));
  return read_each(query.run(on, "counting dead checks"), dead_group_in<result_row>);
}

// Steps from kind to kind in the index of keys, and counts by it: for a kind that has few of many checks, the server
// would else read them all. What is due first is looked at once for all kinds. A new session takes longer for a page
// that it has not touched yet than for the rows there: so if not all rows are looked at anyway, then of those that are
// not due, of which some retry, a tenth is enough.
std::vector<kind_counts> count_kinds(connection& on, std::size_t most, instant now, bool with_waits) {
  constexpr std::size_t least = 100;
  const std::int64_t at = microseconds_of(now);
  most = std::min<std::size_t>(most, std::numeric_limits<std::int64_t>::max() - 1);
  const std::int64_t limit = count_of(most) + 1;
  written_query query;
  // Those that are due, or not.
  const auto add_early = [&](bool due, const char* condition, std::int64_t rows) {
    query.add("(SELECT kind,due,lease,attempt,")
        .add(due ? "true AS due_now" : "false")
        .add(",lease>")
        .add(at)
        .add(" AS held FROM @check WHERE due")
        .add(due ? "<=" : ">")
        .add(at)
        .add(condition)
        .add(" ORDER BY due,id+0 LIMIT ")
        .add(rows)
        .add(")");
  };
  query
      .add(
          "WITH RECURSIVE each(kind) AS ((SELECT kind FROM @check ORDER BY kind LIMIT 1) UNION ALL "
          "SELECT (SELECT c.kind FROM @check c WHERE c.kind>each.kind ORDER BY c.kind LIMIT 1) FROM each "
          "WHERE each.kind IS NOT NULL),"
          "counted AS MATERIALIZED (SELECT kind,(SELECT count(*) FROM (SELECT FROM @check c WHERE c.kind=each.kind "
          "ORDER BY c.key LIMIT ")
      .add(limit)
      .add(
          ") these) AS rows FROM each WHERE kind IS NOT NULL),"
          "total AS MATERIALIZED (SELECT sum(rows)::bigint AS rows,sum(rows)>")
      .add(count_of(most))
      .add(
          " AS too_many FROM counted),"
          "seen AS (SELECT kind,count(*) FILTER (WHERE held) AS running,"
          "count(*) FILTER (WHERE NOT held) AS suspect,count(*) FILTER (WHERE due_now) AS due,"
          "count(*) FILTER (WHERE due_now AND held IS NOT TRUE) AS waiting,"
          "count(*) FILTER (WHERE lease IS NULL AND attempt>0) AS retrying,"
          "min(greatest(due,lease)) FILTER (WHERE due_now AND held IS NOT TRUE) AS oldest,")
      .add(with_waits ? "percentile_disc(0.5) WITHIN GROUP (ORDER BY greatest(due,lease) DESC) "
                        "FILTER (WHERE due_now AND held IS NOT TRUE) AS half,"
                        "percentile_disc(0.99) WITHIN GROUP (ORDER BY greatest(due,lease) DESC) "
                        "FILTER (WHERE due_now AND held IS NOT TRUE) AS most"
                      : "NULL::bigint AS half,NULL::bigint AS most")
      .add(" FROM (");
  add_early(true, "", limit);
  query.add(" UNION ALL ");
  add_early(false, " AND NOT (SELECT too_many FROM total)", limit);
  query.add(" UNION ALL ");
  add_early(false, " AND (SELECT too_many FROM total)", std::min(limit, count_of(std::max(most / 10, least))));
  query
      .add(
          ") early GROUP BY kind),"
          "buried AS (SELECT kind,count(*) AS dead,count(*) FILTER (WHERE died>")
      .add(microseconds_of(now - lately))
      .add(") AS lately FROM (SELECT kind,died FROM @dead ORDER BY id DESC LIMIT ")
      .add(limit)
      .add(
          ") last GROUP BY kind),"
          "names AS (SELECT kind FROM counted UNION SELECT kind FROM buried) "
          "SELECT kind,coalesce(counted.rows,0),running,suspect,due,waiting,retrying,oldest,dead,"
          "(SELECT rows FROM total),(SELECT sum(dead)::bigint FROM buried),lately,half,most FROM names "
          "LEFT JOIN counted USING(kind) LEFT JOIN seen USING(kind) LEFT JOIN buried USING(kind) ORDER BY kind");
  return read_each(query.run(on, "counting checks"), [&](const result_row& row) {
    kind_counts of;
    const std::size_t all = row.size(1);
    of.kind = std::string(row.bytes(0));
    of.running = row.size(2);
    of.suspect = row.size(3);
    of.due = row.size(4);
    of.waiting = row.size(5);
    of.retrying = row.size(6);
    of.dead = row.size(8);
    of.dead_lately = row.size(11);
    of.pending = std::min(all, most) - std::min({of.running + of.suspect, all, most});
    of.at_least = all > most || (all > 0 && row.size(9) > most) || row.size(10) > most;
    if (!row.is_null(7)) {
      of.oldest_waiting = instant_of(row.integer(7));
    }
    if (!row.is_null(12)) {
      of.median_waiting = instant_of(row.integer(12));
      of.p99_waiting = instant_of(row.integer(13));
    }
    return of;
  });
}

std::vector<node_info> nodes(connection& on) {
  static constexpr query read{"listing nodes", "timing_wheel_nodes",
                              "SELECT name,kinds,until,(SELECT count(*) FROM @share s WHERE s.kinds=n.kinds AND "
                              "s.owner=n.name) FROM @node n ORDER BY name,kinds"};
  return read_each(on.run(read, {}, true), [](const result_row& row) {
    return node_info{.name = std::string(row.bytes(0)),
                     .kinds = kinds_in(row.bytes(1)),
                     .until = instant_of(row.integer(2)),
                     .shares = row.size(3)};
  });
}

std::vector<audit_entry> audit(connection& on, std::size_t limit) {
  written_query query;
  query.add("SELECT by,action,kind,subject,count,at FROM @audit ORDER BY id DESC LIMIT ").add(count_of(limit));
  return read_each(query.run(on, "reading the audit"), audit_entry_in<result_row>);
}

void record(connection& on, const audit_entry& entry) {
  written_query query;
  query.add("INSERT INTO @audit(at,by,action,kind,subject,count) VALUES((extract(epoch FROM now())*1000000)::bigint,")
      .add_text(in_its_encoding(on, entry.by))
      .add(",")
      .add_text(entry.action)
      .add(",")
      .add_text(entry.kind)
      .add(",")
      .add_text(in_its_encoding(on, entry.subject))
      .add(",")
      .add(count_of(entry.count))
      .add(")");
  query.run(on, "writing the audit");
}

std::size_t revive_dead(connection& on, std::span<const std::int64_t> ids) {
  static constexpr query revive{
      "reviving dead checks", "timing_wheel_revive",
      "WITH locked AS (SELECT id,kind,key,payload FROM @dead WHERE id=ANY($1::bigint[]) ORDER BY id FOR UPDATE),"
      "chosen AS (SELECT DISTINCT ON (kind,key) id,kind,key,payload FROM locked ORDER BY kind,key,id DESC),"
      "made AS (INSERT INTO @check(due,kind,key,payload) SELECT (extract(epoch FROM now())*1000000)::bigint,kind,key,"
      "payload FROM chosen ON CONFLICT(kind,key) DO NOTHING RETURNING kind,key),"
      "gone AS (DELETE FROM @dead d USING chosen JOIN made USING(kind,key) WHERE d.id=chosen.id) "
      "SELECT count(*) FROM made"};
  array all(element::bigint, ids);
  return static_cast<std::size_t>(on.run(revive, parameters().bind(all), true).integer(0, 0));
}

// An index has no room for more than 2 700 bytes.
std::string name_of_set(std::span<const std::string> kinds) {
  constexpr std::size_t longest = 500;
  std::vector<std::string_view> sorted(kinds.begin(), kinds.end());
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::string names;
  for (const std::string_view kind : sorted) {
    names.append(names.empty() ? "" : ",");
    for (const char each : kind) {
      names.append(each == ',' || each == '\\' ? "\\" : "").push_back(each);
    }
  }
  if (names.size() <= longest) {
    return names;
  }
  // Two sets of one hash would share their shares, no more.
  return std::to_string(sorted.size()) + " kinds, " + std::to_string(fnv1a(names));
}

// In a set's name a kind that begins with a space would stand first, and so " kinds, " is never two of its kinds.
std::vector<std::string> kinds_in(std::string_view set) {
  std::vector<std::string> kinds;
  if (const std::size_t digits = set.find_first_not_of("0123456789");
      digits != 0 && digits != std::string_view::npos && set.substr(digits).starts_with(" kinds, ")) {
    return kinds;
  }
  std::string kind;
  for (std::size_t at = 0; at < set.size(); ++at) {
    if (set[at] == ',') {
      kinds.push_back(std::exchange(kind, {}));
    } else {
      at += set[at] == '\\' ? 1U : 0U;
      kind.push_back(set[std::min(at, set.size() - 1)]);
    }
  }
  kinds.push_back(std::move(kind));
  return kinds;
}

}  // namespace timing_wheel::durable::postgres

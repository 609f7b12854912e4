#include "durable/postgres/transaction.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "durable/postgres/overview.hpp"
#include "durable/postgres/schema.hpp"
#include "durable/store/fail_point.hpp"
#include "durable/store/instant.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::postgres {

namespace {

std::string_view kind_of(const append_op* op) { return op->asked->kind; }
std::string_view key_of(const append_op* op) { return op->asked->key; }
std::string_view payload_of(const append_op* op) { return op->asked->payload; }
template <class Op>
std::string_view kind_of(const Op* op) {
  return op->kind;
}
template <class Op>
std::string_view key_of(const Op* op) {
  return op->key;
}

template <class Op>
auto name_of(const Op* op) {
  return std::pair(key_of(op), kind_of(op));
}

// In the order of their names, so that two transactions with the same checks wait for each other in one order.
template <class Op>
std::vector<Op*> in_order(std::span<Op> ops) {
  std::vector<Op*> ordered;
  ordered.reserve(ops.size());
  for (Op& op : ops) {
    ordered.push_back(&op);
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Op* one, const Op* other) { return name_of(one) < name_of(other); });
  return ordered;
}

// Takes the first of each name out: a statement sees a row once only, but of two operations on one check the second
// has to see what the first has done.
template <class Op>
std::vector<Op*> take_different(std::vector<Op*>& ordered) {
  std::vector<Op*> different;
  std::vector<Op*> rest;
  for (Op* op : ordered) {
    (different.empty() || name_of(different.back()) != name_of(op) ? different : rest).push_back(op);
  }
  ordered = std::move(rest);
  return different;
}

// How often a statement is repeated whose row others have changed.
constexpr int most_tries = 100;

// A list is split where its payloads have more bytes than that: the server holds a statement several times at once, and
// takes none of a gigabyte.
template <class Iterator>
Iterator end_of_part(Iterator first, Iterator last) {
  constexpr std::size_t most_bytes = std::size_t{16} << 20;
  std::size_t bytes = 0;
  const Iterator begin = first;
  while (first != last && (first == begin || (*first)->asked->payload.size() <= most_bytes - bytes)) {
    bytes = std::min(bytes + (*first)->asked->payload.size(), most_bytes);
    ++first;
  }
  return first;
}

// A column of the first statement: sets it for the transaction.
std::string setting(const char* name, const std::string& value) {
  return std::string(",set_config('") + name + "','" + value + "',true)";
}
std::string text_of(std::chrono::milliseconds value) { return std::to_string(value.count()); }
std::string setting(const char* name, std::chrono::milliseconds value) { return setting(name, text_of(value)); }
// 0: no limit.
std::string lock_wait_of(const transaction_limits& limits) {
  return text_of(limits.lock_wait.value_or(std::chrono::milliseconds(0)));
}

}  // namespace

struct names {
  template <class Op>
  explicit names(const std::vector<Op*>& ops) {
    for (const Op* op : ops) {
      kinds.add(kind_of(op));
      keys.add(key_of(op));
    }
  }
  array kinds{element::text};
  array keys{element::bytea};
};

transaction_rules rules_for(const postgres_options& options, counters& counts, bool reads) {
  const std::string prefix = prefix_of(options.schema);
  std::string begin = std::string("BEGIN ISOLATION LEVEL READ COMMITTED READ ") + (reads ? "ONLY;" : "WRITE;") +
                      text_of(sql::look, prefix);
  begin += setting("statement_timeout", options.statement_timeout) + "," + sql::sync;
  if (!options.prepare) {  // else the connection has them
    for (const char* each : {"enable_seqscan", "enable_bitmapscan", "enable_hashjoin", "enable_mergejoin", "jit"}) {
      begin += setting(each, "off");
    }
  }
  return {begin,          reads,  text_of(options.statement_timeout), options.transaction_timeout, options.schema,
          options.limits, &counts};
}

namespace {

// What is sent for checks to append: each by its key, so that lists wait for each other in one order.
struct new_checks {
  new_checks(std::span<append_op> ops, const transaction_limits& limits)
      : ordered(in_order(ops)), wait(lock_wait_of(limits)) {
    for (const append_op* op : ordered) {
      const due_time due = op->asked->due_in_window();
      dues.add(due.is_delay() ? due.delay().count() : microseconds_of(due.at({})));
      steps.add(due.is_delay() ? due.step().count() : 0);
      kinds.add(op->asked->kind);
      keys.add(op->asked->key);
      payloads.add(op->asked->payload);
    }
    values.bind(dues).bind(steps).bind(kinds).bind(keys).bind(payloads).bind(schema_version).bind(wait);
  }

  std::vector<append_op*> ordered;
  std::string wait;
  array dues{element::bigint};
  array steps{element::bigint};  // of a delay; 0: an instant
  array kinds{element::text};
  array keys{element::bytea};
  array payloads{element::bytea};
  parameters values;
};

}  // namespace

result run_unless_refused(connection& on, const query& which, const parameters& values) {
  TIMING_WHEEL_FAIL_POINT("postgres.before_commit");
  try {
    return on.run_alone(which, values);
  } catch (const timer_error& error) {
    if (on.works() && error.code() != code_of("08006")) {
      return {};
    }
    throw;
  }
}

bool append_at_once(connection& on, const transaction_limits& limits, std::span<append_op> ops, counters& counts) {
  std::optional<new_checks> what;
  try {
    what.emplace(ops, limits);
  } catch (const std::bad_alloc&) {
    return false;  // a transaction may do them in parts
  }
  const result made = run_unless_refused(on, sql::insert_alone, what->values);
  if (!made) {
    return false;
  }
  for (int row = 0; row < made.rows(); ++row) {
    append_op& op = *what->ordered[static_cast<std::size_t>(row)];
    op.id = made.integer(row, 0);
    op.result = {true, false, instant_of(made.integer(row, 1))};
  }
  if (made.rows() > 0) {
    counts.commits.fetch_add(1, std::memory_order_relaxed);
    TIMING_WHEEL_FAIL_POINT("postgres.after_commit");
  }
  return made.rows() > 0;
}

writing_transaction::writing_transaction(connection& on, const transaction_rules& rules,
                                         const transaction_limits& limits, const consumption* first)
    : connection_(on),
      rules_(rules),
      skips_locked_(limits.skip_locked),
      orphans_until_(limits.orphans_until.value_or(instant::max())) {
  TIMING_WHEEL_FAIL_POINT("postgres.before_begin");
  if (connection_.is_pipelined()) {
    begin_in_one_message(limits, first);
  } else {
    std::string begin =
        rules_.begin + setting("idle_in_transaction_session_timeout", limits.idle.value_or(rules_.idle));
    if (limits.lock_wait) {
      begin += setting("lock_timeout", *limits.lock_wait);
    }
    has_begun(connection_.run("beginning a transaction", begin, 2));
  }
  TIMING_WHEEL_FAIL_POINT("postgres.after_begin");
  if (first != nullptr && !connection_.is_pipelined()) {
    consume(first->wanted, *first->got);
  }
}

void writing_transaction::has_begun(const result& look) {
  now_ = instant_of(look.integer(0, 0));
  check_version(look.integer(0, 1), rules_.schema);
}

// With all that can be said before the first answer. What is consumed goes to handlers, which have the user's planner
// and a savepoint.
void writing_transaction::begin_in_one_message(const transaction_limits& limits, const consumption* first) {
  const std::string idle = text_of(limits.idle.value_or(rules_.idle));
  const std::string lock_wait = lock_wait_of(limits);
  const parameters none;
  parameters limit;
  limit.bind(rules_.statement).bind(idle).bind(lock_wait);
  array ids = ids_of(first != nullptr ? first->wanted : std::span<const upcoming>());
  parameters wanted;
  wanted.bind(ids).bind(microseconds_of(orphans_until_));
  parameters planner;
  for (const std::string& each : connection_.planner_of_user()) {
    planner.bind(each);
  }
  std::vector<connection::bound> all = {{&(rules_.reads ? sql::begin_reading : sql::begin_writing), &none},
                                        {&sql::look_and_limit, &limit}};
  if (first != nullptr) {
    all.insert(all.end(),
               {{&sql::consume, &wanted}, {&sql::give_planner_back, &planner}, {&sql::set_savepoint, &none}});
  }
  const std::vector<result> answers = connection_.run_together(all);
  has_begun(answers[1]);
  if (first != nullptr) {
    wrote_ = answers[2].changed() > 0;
    planner_is_ours_ = false;
    savepoint_is_set_ = true;
    static_cast<void>(read_claims(answers[2], first->wanted, *first->got, *rules_.counts));
  }
}

void writing_transaction::check_open() {
  switch (connection_.transaction()) {
    case PQTRANS_INTRANS:
      break;
    case PQTRANS_INERROR:
      fail("running a transaction", "25P02", "a statement in it has failed, and nothing was written");
    case PQTRANS_IDLE:
      fail("committing", "25P01", "the transaction has been ended by what ran in it");
    default:
      fail("committing", "08006", "the connection is lost, or busy with what ran on it");
  }
}

void writing_transaction::commit() {
  TIMING_WHEEL_FAIL_POINT("postgres.before_commit");
  check_open();
  if (answers_of_others_ && !wrote_) {
    look(sql::await_standby, {});
  }
  connection_.commit(std::exchange(part_has_ended_, false) ? sql::release_savepoint : nullptr);
  if (wrote_) {
    rules_.counts->commits.fetch_add(1, std::memory_order_relaxed);
  }
  TIMING_WHEEL_FAIL_POINT("postgres.after_commit");
}

result writing_transaction::run(const query& which, const parameters& values) {
  result answer = look(which, values);
  wrote_ = wrote_ || answer.changed() > 0;
  return answer;
}

// A plan that is made while the planner is the user's must not be kept for all that come after.
result writing_transaction::look(const query& which, const parameters& values) {
  savepoint_is_set_ = false;  // it would be undone with this
  return connection_.run(which, values, !planner_is_ours_);
}

result writing_transaction::look_at_what_stands(names& of) {
  answers_of_others_ = true;
  return look(sql::stands, parameters().bind(of.kinds).bind(of.keys));
}

void* writing_transaction::native_handle(std::string_view api) noexcept {
  if (api == connection::api) {
    return &connection_;
  }
  if (api != "postgres") {
    return nullptr;
  }
  wrote_ = true;  // nobody knows
  if (planner_is_ours_ && connection_.transaction() == PQTRANS_INTRANS) {
    try {
      connection_.run("giving the planner back", planner_for_others(), 6);
    } catch (...) {  // NOLINT(bugprone-empty-catch): the connection says so to the next statement
    }
  }
  return connection_.get();
}

// A handler's statements are planned as the user's server does.
std::string writing_transaction::planner_for_others() {
  if (!std::exchange(planner_is_ours_, false)) {
    return {};
  }
  return "SET LOCAL enable_seqscan TO DEFAULT;SET LOCAL enable_bitmapscan TO DEFAULT;"
         "SET LOCAL enable_hashjoin TO DEFAULT;SET LOCAL enable_mergejoin TO DEFAULT;SET LOCAL jit TO DEFAULT;"
         "SET LOCAL plan_cache_mode TO DEFAULT;";
}

void writing_transaction::append(std::span<append_op> ops) {
  for (std::vector<append_op*> left = in_order(ops); !left.empty();) {
    const std::vector<append_op*> different = take_different(left);
    for (auto first = different.begin(); first != different.end();) {
      const auto last = end_of_part(first, different.end());
      append_different({first, last});
      first = last;
    }
  }
}

// A check that was in the way may be gone at the second look: then it is written after all.
void writing_transaction::append_different(std::vector<append_op*> ops) {
  for (int tries = 0; !ops.empty(); ++tries) {
    if (tries == most_tries) {
      fail("scheduling", "40001", "other transactions write and delete the same keys all the time");
    }
    names of(ops);
    array dues(element::bigint);
    for (append_op* op : ops) {
      op->result = {false, false, op->asked->due_in_window().at(now_)};
      dues.add(microseconds_of(op->result.due));
    }
    array payloads(element::bytea, ops, payload_of);
    const result made = run(sql::insert, parameters().bind(dues).bind(of.kinds).bind(of.keys).bind(payloads));
    if (made.rows() == static_cast<int>(ops.size())) {
      for (int row = 0; row < made.rows(); ++row) {
        ops[static_cast<std::size_t>(row)]->id = made.integer(row, 0);
        ops[static_cast<std::size_t>(row)]->result.inserted = true;
      }
      return;
    }
    ops = sort_out(ops, made);
  }
}

// Finds out which were inserted, and what stands in the way of the others. \returns those for which nothing does, or
// something that should have been replaced.
std::vector<append_op*> writing_transaction::sort_out(const std::vector<append_op*>& ops, const result& inserted) {
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(inserted.rows()));
  for (int row = 0; row < inserted.rows(); ++row) {
    ids.push_back(inserted.integer(row, 0));
  }
  std::sort(ids.begin(), ids.end());
  names of(ops);
  const result found = look_at_what_stands(of);
  std::vector<append_op*> missing = ops;
  std::vector<append_op*> asked_to_replace;
  std::vector<std::size_t> pending;  // of these
  for (int row = 0; row < found.rows(); ++row) {
    append_op& op = *ops[place_in(found, row)];
    missing[place_in(found, row)] = nullptr;
    op.id = found.integer(row, 1);
    op.result.inserted = std::binary_search(ids.begin(), ids.end(), op.id);
    if (!op.result.inserted) {
      op.result.due = instant_of(found.integer(row, 2));
      if (op.asked->replace) {
        asked_to_replace.push_back(&op);
        if (found.integer(row, 3) != 0) {
          pending.push_back(place_in(found, row));
        }
      }
    }
  }
  replace(asked_to_replace);
  for (const std::size_t place : pending) {
    missing[place] = ops[place]->result.replaced ? nullptr : ops[place];
  }
  missing.erase(std::remove(missing.begin(), missing.end(), nullptr), missing.end());
  return missing;
}

void writing_transaction::replace(const std::vector<append_op*>& ops) {
  if (ops.empty()) {
    return;
  }
  names of(ops);
  array dues(element::bigint, ops,
             [&](const append_op* op) { return microseconds_of(op->asked->due_in_window().at(now_)); });
  array payloads(element::bytea, ops, payload_of);
  const result done = run(sql::replace, parameters().bind(dues).bind(of.kinds).bind(of.keys).bind(payloads));
  for (int row = 0; row < done.rows(); ++row) {
    append_op& op = *ops[place_in(done, row)];
    op.result = {false, true, op.asked->due_in_window().at(now_)};
  }
}

// For all that are pending. A statement that had to wait does not see the row that was written meanwhile, and the look
// at what stands does: if that is pending, it is tried again.
template <class Op, class Result, class Change>
void writing_transaction::change_pending(const char* doing, std::vector<Op*> left, Result done, const Change& change) {
  std::for_each(left.begin(), left.end(), [](Op* op) { op->result = Result::finished; });
  for (int tries = 0; !left.empty(); ++tries) {
    if (tries == most_tries) {
      fail(doing, "40001", "other transactions write and delete the same keys all the time");
    }
    names of(left);
    const result changed = change(left, of);
    for (int row = 0; row < changed.rows(); ++row) {
      left[place_in(changed, row)]->result = done;
    }
    if (changed.rows() == static_cast<int>(left.size())) {
      return;
    }
    const result found = look_at_what_stands(of);
    std::vector<Op*> pending(left.size());
    for (int row = 0; row < found.rows(); ++row) {
      Op* op = left[place_in(found, row)];
      if (op->result == Result::finished && found.integer(row, 3) == 0) {
        op->result = Result::running;
      } else if (op->result == Result::finished) {
        pending[place_in(found, row)] = op;
      }
    }
    pending.erase(std::remove(pending.begin(), pending.end(), nullptr), pending.end());
    left = std::move(pending);
  }
}

void writing_transaction::cancel(std::span<cancel_op> ops) {
  change_pending("cancelling", in_order(ops), cancel_result::cancelled, [&](const auto& left, names& of) {
    result gone = run(sql::cancel, parameters().bind(of.kinds).bind(of.keys));
    for (int row = 0; row < gone.rows(); ++row) {
      left[place_in(gone, row)]->attempts = static_cast<int>(gone.integer(row, 1));
    }
    return gone;
  });
}

void writing_transaction::reschedule(std::span<reschedule_op> ops) {
  for (std::vector<reschedule_op*> left = in_order(ops); !left.empty();) {
    reschedule_different(take_different(left));
  }
}

void writing_transaction::reschedule_different(std::vector<reschedule_op*> ops) {
  change_pending("rescheduling", std::move(ops), reschedule_result::moved, [&](const auto& left, names& of) {
    array dues(element::bigint, left, [&](const auto* op) { return microseconds_of(op->due.at(now_)); });
    return run(sql::reschedule, parameters().bind(dues).bind(of.kinds).bind(of.keys));
  });
}

// With what has to be said before a handler's first statement.
void writing_transaction::savepoint() {
  if (std::exchange(savepoint_is_set_, false)) {
    return;
  }
  const unsigned statements = planner_is_ours_ ? 6 : 0;
  set_savepoint(planner_for_others(), statements);
}

void writing_transaction::own_savepoint() { set_savepoint({}, 0); }

// One message with the end of the part before, and with what is said `before`.
void writing_transaction::set_savepoint(const std::string& before, unsigned statements) {
  const bool ends = std::exchange(part_has_ended_, false);
  std::string text = ends ? std::string(sql::release_savepoint) + ";" : std::string();
  text.append(before).append(sql::savepoint);
  try {
    connection_.run("setting a savepoint", text, 1 + (ends ? 1U : 0U) + statements);
  } catch (const timer_error& error) {
    has_lost_its_part_ = error.code() == code_of("3B001");
    throw;
  }
}

void writing_transaction::rollback_to_savepoint() {
  connection_.run("rolling back to a savepoint", sql::undo_savepoint, 2);
}

void writing_transaction::release_savepoint() { part_has_ended_ = true; }

// To compile a statement that is run once takes longer than to run it.
connection& writing_transaction::planned_by_server() {
  if (const std::string back = planner_for_others(); !back.empty()) {
    connection_.run("giving the planner back", back + "SET LOCAL jit TO off", 7);
  }
  return connection_;
}

// What changes the rows afterwards has to find them by the index, though the server may not know yet how many there
// are.
std::vector<stored_check> writing_transaction::list(const check_range& range) {
  const bool was_ours = planner_is_ours_;
  std::vector<stored_check> found = postgres::list(planned_by_server(), range, now_, true);
  if (was_ours) {
    connection_.run("taking the planner back",
                    "SET LOCAL enable_seqscan TO off;SET LOCAL enable_bitmapscan TO off;SET LOCAL enable_hashjoin TO "
                    "off;SET LOCAL enable_mergejoin TO off;SET LOCAL plan_cache_mode TO force_generic_plan",
                    5);
    planner_is_ours_ = true;
  }
  rules_.counts->rows_read.fetch_add(found.size(), std::memory_order_relaxed);
  return found;
}

std::size_t writing_transaction::revive_dead(std::span<const std::int64_t> ids) {
  const std::size_t count = postgres::revive_dead(planned_by_server(), ids);
  wrote_ = wrote_ || count > 0;
  return count;
}

std::size_t writing_transaction::delete_dead(std::span<const std::int64_t> ids) {
  array all(element::bigint, ids);
  return static_cast<std::size_t>(run(sql::delete_dead, parameters().bind(all)).changed());
}

void writing_transaction::record(const audit_entry& entry) {
  postgres::record(connection_, entry);
  wrote_ = true;
}

std::size_t writing_transaction::restore(std::span<const stored_check> checks, std::span<const dead_check> dead) {
  wrote_ = true;
  return postgres::restore(planned_by_server(), checks, dead);
}

bool writing_transaction::pause(std::string_view kind) {
  return run(sql::pause, parameters().bind(kind)).changed() == 1;
}

bool writing_transaction::resume(std::string_view kind) {
  return run(sql::resume, parameters().bind(kind)).changed() == 1;
}

bool writing_transaction::drain(std::string_view node) {
  return run(sql::drain, parameters().bind(node)).changed() == 1;
}

bool writing_transaction::end_drain(std::string_view node) {
  return run(sql::end_drain, parameters().bind(node)).changed() == 1;
}

}  // namespace timing_wheel::durable::postgres

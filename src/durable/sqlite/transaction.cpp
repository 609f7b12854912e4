#include "durable/sqlite/transaction.hpp"

#include <algorithm>
#include <vector>

#include "durable/sqlite/overview.hpp"
#include "durable/store/fail_point.hpp"
#include "durable/store/instant.hpp"
#include "durable/store/overview.hpp"

namespace timing_wheel::durable::sqlite {

writing_transaction::writing_transaction(database& on, const request_limits& limits, counters& counts)
    : database_(on),
      limits_(limits),
      counts_(counts),
      begin_(on.get(), sql::begin, &counts.statements),
      commit_(on.get(), sql::commit, &counts.statements),
      roll_back_(on.get(), sql::roll_back, &counts.statements),
      savepoint_(on.get(), sql::savepoint, &counts.statements),
      undo_savepoint_(on.get(), sql::undo_savepoint, &counts.statements),
      release_savepoint_(on.get(), sql::release_savepoint, &counts.statements),
      insert_(on.get(), sql::insert, &counts.statements),
      insert_some_(on.get(), sql::insert_some, &counts.statements),
      last_id_(on.get(), sql::last_id, &counts.statements),
      replace_(on.get(), sql::replace, &counts.statements),
      find_due_(on.get(), sql::find_due, &counts.statements),
      cancel_(on.get(), sql::cancel, &counts.statements),
      reschedule_(on.get(), sql::reschedule, &counts.statements),
      read_wanted_(on.get(), sql::read_wanted, &counts.statements),
      claim_(on.get(), sql::claim, &counts.statements),
      consume_(on.get(), sql::consume, &counts.statements),
      draw_fences_(on.get(), sql::draw_fences, &counts.statements),
      put_back_(on.get(), sql::put_back, &counts.statements),
      complete_(on.get(), sql::complete, &counts.statements),
      extend_(on.get(), sql::extend, &counts.statements),
      release_(on.get(), sql::release, &counts.statements),
      bury_(on.get(), sql::bury, &counts.statements),
      bury_consumed_(on.get(), sql::bury_consumed, &counts.statements),
      revive_(on.get(), sql::revive, &counts.statements),
      delete_dead_(on.get(), sql::delete_dead, &counts.statements) {
  sqlite3_commit_hook(
      on.get(), [](void* self) { return static_cast<const writing_transaction*>(self)->is_open_ ? 1 : 0; }, this);
}

writing_transaction::~writing_transaction() { sqlite3_commit_hook(database_.get(), nullptr, nullptr); }

void writing_transaction::begin() {
  TIMING_WHEEL_FAIL_POINT("sqlite.before_begin");
  running_before_.clear();
  for_each_running([&](sqlite3_stmt* each) { running_before_.push_back(each); });  // may throw, so it comes first
  begin_.run().finish();
  is_open_ = true;
  changes_before_ = changes();
  TIMING_WHEEL_FAIL_POINT("sqlite.after_begin");
}

// A handle of a blob is such a statement, too, without a text.
template <class Visitor>
void writing_transaction::for_each_running(const Visitor& visit) const {
  for (sqlite3_stmt* each = sqlite3_next_stmt(database_.get(), nullptr); each != nullptr;
       each = sqlite3_next_stmt(database_.get(), each)) {
    if (sqlite3_stmt_busy(each) != 0 && sqlite3_sql(each) != nullptr) {
      visit(each);
    }
  }
}

// A statement of a handler that has not been stepped to its end would keep the snapshot, or a savepoint open, for as
// long as it is not used again. On a connection of the user, one may have begun before the transaction.
void writing_transaction::reset_what_runs() noexcept {
  for_each_running([this](sqlite3_stmt* each) {
    if (std::find(running_before_.begin(), running_before_.end(), each) == running_before_.end()) {
      sqlite3_reset(each);
    }
  });
}

void writing_transaction::check_open() {
  if (sqlite3_txn_state(database_.get(), "main") != SQLITE_TXN_WRITE) {
    fail(database_.get(), "committing", SQLITE_ABORT_ROLLBACK, "the transaction has been ended by what ran in it");
  }
}

void writing_transaction::commit() {
  TIMING_WHEEL_FAIL_POINT("sqlite.before_commit");
  reset_what_runs();
  is_open_ = false;
  commit_.run().finish();
  if (changes() != changes_before_) {
    counts_.commits.fetch_add(1, std::memory_order_relaxed);
  }
  TIMING_WHEEL_FAIL_POINT("sqlite.after_commit");
}

void writing_transaction::roll_back() noexcept {
  is_open_ = false;
  reset_what_runs();
  if (sqlite3_get_autocommit(database_.get()) == 0) {
    try {
      roll_back_.run().finish();
    } catch (...) {  // NOLINT(bugprone-empty-catch): what made it necessary is on its way to the caller
    }
  }
}

void* writing_transaction::native_handle(std::string_view api) noexcept {
  return api == "sqlite3" ? database_.get() : nullptr;
}

void writing_transaction::append(std::span<append_op> ops) {
  if (ops.size() >= sql::rows_at_once) {
    std::int64_t last_id = read_last_id();
    for (; ops.size() >= sql::rows_at_once; ops = ops.subspan(sql::rows_at_once)) {
      append_some(ops.first(sql::rows_at_once), last_id);
    }
  }
  for (append_op& op : ops) {
    append(op);
  }
}

void writing_transaction::append(append_op& op) {
  const request& asked = *op.asked;
  op.result = {false, false, asked.due_in_window().at(now_)};
  execution run = insert_.run();
  run.bind(microseconds_of(op.result.due)).bind_text(asked.kind).bind_blob(asked.key).bind_blob(asked.payload);
  op.result.inserted = run.finish() == 1;
  if (op.result.inserted) {
    op.id = sqlite3_last_insert_rowid(database_.get());
  } else {
    stands(op);
  }
}

// The highest id that the table ever had.
std::int64_t writing_transaction::read_last_id() {
  execution run = last_id_.run();
  return run.step() ? run.integer(0) : 0;
}

// \pre `sql::rows_at_once` of them. If a key was taken, that row has another id; so has the second of a key in `ops`.
void writing_transaction::append_some(std::span<append_op> ops, std::int64_t& last_id) {
  execution run = insert_some_.run();
  for (append_op& op : ops) {
    const request& asked = *op.asked;
    op.id = ++last_id;
    op.result = {true, false, asked.due_in_window().at(now_)};
    run.bind(op.id).bind(microseconds_of(op.result.due));
    run.bind_text(asked.kind).bind_blob(asked.key).bind_blob(asked.payload);
  }
  if (static_cast<std::size_t>(run.finish()) == ops.size()) {
    return;
  }
  for (append_op& op : ops) {
    const std::optional<standing> found = find(op.asked->kind, op.asked->key);
    op.result.inserted = found && found->id == op.id;
    if (!op.result.inserted) {
      op.id = 0;
      stands(op);
    }
  }
}

// For one whose key is taken.
void writing_transaction::stands(append_op& op) {
  const request& asked = *op.asked;
  if (asked.replace) {
    execution run = replace_.run();
    run.bind(microseconds_of(op.result.due)).bind_text(asked.kind).bind_blob(asked.key).bind_blob(asked.payload);
    op.result.replaced = run.finish() == 1;
  }
  if (!op.result.replaced) {
    const std::optional<standing> found = find(asked.kind, asked.key);
    if (!found) {
      fail_as_ignored(database_.get());
    }
    op.result.due = found->due;
  }
}

std::optional<writing_transaction::standing> writing_transaction::find(std::string_view kind, std::string_view key) {
  execution run = find_due_.run();
  run.bind_text(kind).bind_blob(key);
  if (!run.step()) {
    return std::nullopt;
  }
  return standing{instant_of(run.integer(0)), run.integer(1)};
}

void writing_transaction::cancel(std::span<cancel_op> ops) {
  for (cancel_op& op : ops) {
    execution run = cancel_.run();
    if (run.bind_text(op.kind).bind_blob(op.key).step()) {
      op.result = cancel_result::cancelled;
      op.attempts = run.count(0);
      run.finish();
    } else {
      op.result = find(op.kind, op.key) ? cancel_result::running : cancel_result::finished;
    }
  }
}

void writing_transaction::reschedule(std::span<reschedule_op> ops) {
  for (reschedule_op& op : ops) {
    execution run = reschedule_.run();
    run.bind_text(op.kind).bind_blob(op.key).bind(microseconds_of(op.due.at(now_)));
    op.result = run.finish() == 1       ? reschedule_result::moved
                : find(op.kind, op.key) ? reschedule_result::running
                                        : reschedule_result::finished;
  }
}

void writing_transaction::savepoint() { savepoint_.run().finish(); }

void writing_transaction::rollback_to_savepoint() {
  reset_what_runs();
  undo_savepoint_.run().finish();
  release_savepoint_.run().finish();
}

void writing_transaction::release_savepoint() {
  reset_what_runs();
  release_savepoint_.run().finish();
}

// The lock of the file is all that a list needs.
std::vector<stored_check> writing_transaction::list(const check_range& range) {
  return sqlite::list(database_, range, now_, counts_);
}

std::size_t writing_transaction::revive_dead(std::span<const std::int64_t> ids) {
  std::vector<std::int64_t> in_turn(ids.begin(), ids.end());
  std::sort(in_turn.rbegin(), in_turn.rend());
  std::size_t count = 0;
  for (const std::int64_t id : in_turn) {
    if (revive_.run().bind(id).bind(microseconds_of(now_)).finish() == 1) {
      delete_dead_.run().bind(id).finish();
      ++count;
    }
  }
  return count;
}

std::size_t writing_transaction::delete_dead(std::span<const std::int64_t> ids) {
  std::size_t count = 0;
  for (const std::int64_t id : ids) {
    count += static_cast<std::size_t>(delete_dead_.run().bind(id).finish());
  }
  return count;
}

// Not kept prepared: nobody pauses often.
bool writing_transaction::mark(query make_table, query mark_it, std::string_view name) {
  database_.execute(make_table);
  statement once(database_.get(), mark_it, &counts_.statements);
  return once.run().bind_text(name).bind(microseconds_of(now_)).finish() == 1;
}

bool writing_transaction::unmark(query look_for_table, query unmark_it, std::string_view name) {
  if (database_.ask(look_for_table).empty()) {
    return false;
  }
  statement once(database_.get(), unmark_it, &counts_.statements);
  return once.run().bind_text(name).finish() == 1;
}

bool writing_transaction::pause(std::string_view kind) { return mark(sql::make_paused_kinds, sql::pause, kind); }

bool writing_transaction::resume(std::string_view kind) {
  return unmark(sql::look_for_paused_kinds, sql::resume, kind);
}

bool writing_transaction::drain(std::string_view node) { return mark(sql::make_drained_nodes, sql::drain, node); }

bool writing_transaction::end_drain(std::string_view node) {
  return unmark(sql::look_for_drained_nodes, sql::end_drain, node);
}

void writing_transaction::tell_drained(std::string_view node, std::size_t held) {
  if (!database_.ask(sql::look_for_drained_nodes).empty()) {
    statement once(database_.get(), sql::tell_drained, &counts_.statements);
    once.run().bind_text(node).bind(count_of(held)).bind(microseconds_of(now_)).finish();
  }
}

std::size_t writing_transaction::restore(std::span<const stored_check> checks, std::span<const dead_check> dead) {
  const std::int64_t highest = highest_fence(checks, dead);
  statement raise(database_.get(), sql::raise_fence, &counts_.statements);
  raise.run().bind(highest).finish();
  last_fence_ = std::max(last_fence_, highest);
  statement check(database_.get(), sql::restore, &counts_.statements);
  std::size_t written = 0;
  for (const stored_check& each : checks) {
    execution run = check.run();
    run.bind(microseconds_of(each.due)).bind_text(each.kind).bind_blob(each.key).bind_blob(each.payload);
    written += static_cast<std::size_t>(run.bind(each.fence).bind(each.attempt).finish());
  }
  statement bury(database_.get(), sql::bury_consumed, &counts_.statements);
  for (const dead_check& each : dead) {
    execution run = bury.run();
    run.bind_text(each.kind).bind_blob(each.key).bind_blob(each.payload).bind(microseconds_of(each.due));
    run.bind(each.fence).bind(each.attempt).bind_text(each.error).bind(microseconds_of(each.died)).finish();
  }
  return written;
}

void writing_transaction::record(const audit_entry& entry) { sqlite::record(database_, entry, now_, counts_); }

}  // namespace timing_wheel::durable::sqlite

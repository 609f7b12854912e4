#include "durable/node/transactional_runs.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "durable/store/fail_point.hpp"

namespace timing_wheel::durable {

namespace {

// What the transaction knows of its checks that wait, for the time of its handlers.
class waiting_checks {
 public:
  waiting_checks(store_transaction& open, store_transaction::due_of_waiting due_of) : open_(open) {
    open_.has_waiting(std::move(due_of));
  }
  ~waiting_checks() { open_.has_waiting({}); }
  waiting_checks(const waiting_checks&) = delete;
  waiting_checks& operator=(const waiting_checks&) = delete;

 private:
  store_transaction& open_;
};

// If there is nothing to go back to, the handler has ended the transaction, and that is the reason.
void undo_part(store_transaction& open) {
  try {
    open.rollback_to_savepoint();
  } catch (...) {
    open.check_open();
    throw;
  }
}

}  // namespace

transactional_runs::transactional_runs(store& where, const scheduler_options& options,
                                       const std::vector<any_handler>& handlers, machine& of, store_calls& calls,
                                       node_figures& figures, run_reports& reports, failures& reported,
                                       std::function<void()> show_state)
    : store_(where),
      options_(options),
      handlers_(handlers),
      machine_(of),
      calls_(calls),
      figures_(figures),
      reports_(reports),
      failures_(reported),
      show_state_(std::move(show_state)),
      done_in_a_row_(handlers.size(), 8 * options.batch) {}

bool transactional_runs::run_ready() {
  if (machine_.resting(store_.now()) || !schedule_left_behind()) {
    return false;
  }
  asked_rows asked(machine_, machine_.to_consume(consume_limit_));
  const std::vector<upcoming>& rows = asked.rows();
  if (rows.empty()) {
    return false;
  }
  if (lost_alone_.size() > options_.batch) {  // of rows that went elsewhere
    lost_alone_.clear();
  }
  std::vector<claimed> got;
  const auto begin = std::chrono::steady_clock::now();
  bool worked = consume(rows, true, got);
  // A commit is lost once, or twice; what is lost again and again alone is broken by its handler.
  constexpr unsigned most_losses = 3;
  constexpr std::chrono::seconds aside(5);
  if (!worked && calls_.entered() && rows.size() == 1 && ++lost_alone_[rows.front().id] >= most_losses) {
    worked = consume(rows, false, got);
    if (!worked) {  // such as by a trigger, or for want of a right: others must not wait behind it
      const instant now = store_.now();
      asked.answered();
      machine_.consume_later(rows, now, aside);
      return false;
    }
  }
  if (!worked) {
    consume_limit_ = 1;  // so that one that breaks its transaction stands alone
    schedule_left_behind();
    return false;
  }
  asked.answered();
  adapt(rows.size(), std::chrono::steady_clock::now() - begin);
  for (const upcoming& row : lost_alone_.empty() ? std::span<const upcoming>() : std::span(rows)) {
    lost_alone_.erase(row.id);
  }
  machine_.has_consumed(rows, got, calls_.answered_at());
  for (const row_put_back& one : put_back_) {
    machine_.expect(one.row, calls_.answered_at());
  }
  count_consumed(got);
  return true;
}

// \returns whether it was committed. Without its handlers, each job is one that has failed.
bool transactional_runs::consume(std::span<const upcoming> asked, bool with_handlers, std::vector<claimed>& got) {
  const std::string why = calls_.why();
  const transaction_limits limits{.idle = options_.lease, .orphans_until = machine_.orphans_until(store_.now())};
  const bool worked = calls_.tried(true, [&] {
    store_.consume_within(limits, asked, got, [&](store_transaction& open) {
      machine_.answered(store_.now(), true);
      put_back_.clear();
      died_.clear();
      bad_runs_.clear();
      show_state_();  // what may hang is not ready any more
      if (with_handlers) {
        consumed_ = waiting_ = got;
        const waiting_checks told(open, [this](auto kind, auto key) { return due_of_waiting(kind, key); });
        run_all_or_leave_behind(got, open);
      } else {
        for (const claimed& one : got) {
          const outcome said = retry(why);
          bad_runs_.push_back({one.id, one.kind, one.key, one.attempt, said, nullptr, false});
          put_back(one, said, open);
        }
      }
      TIMING_WHEEL_FAIL_POINT("node.before_commit_of_transactional");
    });
  });
  figures_.enter_handler(std::nullopt);
  tell_bad_runs(worked);
  if (worked) {
    TIMING_WHEEL_FAIL_POINT("node.after_commit_of_transactional");
  }
  return worked;
}

void transactional_runs::run_all_or_leave_behind(std::vector<claimed>& got, store_transaction& open) {
  left_behind_.reserve(got.size());
  try {
    run_all(got, open);
  } catch (...) {
    if (open.was_ended()) {
      std::move(got.end() - static_cast<std::ptrdiff_t>(waiting_.size()), got.end(), std::back_inserter(left_behind_));
    }
    throw;
  }
}

// Where a handler has rolled back, and not committed, they are there. \returns whether that has worked.
bool transactional_runs::schedule_left_behind() {
  if (left_behind_.empty()) {
    return true;
  }
  std::vector<request> all;
  std::vector<append_op> ops(left_behind_.size());
  for (const claimed& one : left_behind_) {
    all.push_back({.kind = machine_.kinds()[one.kind].name, .key = one.key, .payload = one.payload, .due = one.due});
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    ops[i].asked = &all[i];
  }
  if (!calls_.tried(true, [&] { store_.transact([&](store_transaction& open) { open.append(ops); }); })) {
    return false;
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].result.inserted) {
      const claimed& one = left_behind_[i];
      machine_.expect({ops[i].id, ops[i].result.due, {}, one.kind, 0, one.payload.size()}, calls_.answered_at());
    }
  }
  left_behind_.clear();
  return true;
}

// As many as are likely to take `transaction_time`.
void transactional_runs::adapt(std::size_t took, std::chrono::steady_clock::duration time) {
  const std::chrono::nanoseconds most = saturating_nanoseconds(options_.transaction_time);
  if (time > most) {
    consume_limit_ = std::max<std::size_t>(1, took / 2);
  } else if (took == consume_limit_ && time < most / 2) {
    consume_limit_ = std::min(options_.batch, consume_limit_ * 2);
  }
}

void transactional_runs::run_all(const std::vector<claimed>& got, store_transaction& open) {
  for (auto first = got.begin(); first != got.end();) {
    const auto last = std::find_if(first, got.end(), [&](const claimed& one) { return one.kind != first->kind; });
    if (const auto* const batch = handlers_[first->kind].get<batch_handler>(); batch != nullptr) {
      run_batch(*batch, {first, last}, open);
    } else {
      run_each(*handlers_[first->kind].get<transactional_handler>(), {first, last}, open);
    }
    first = last;
  }
}

// A part of the transaction for each run costs a round trip. So runs share one where all are likely to be done: as many
// as an eighth of those of their kind that were done in a row. If one is not done, all of them are undone, and each is
// repeated in a part of its own.
void transactional_runs::run_each(const transactional_handler& handler, std::span<const claimed> some,
                                  store_transaction& open) {
  std::size_t& in_a_row = done_in_a_row_[some.front().kind];
  while (!some.empty()) {
    const std::span<const claimed> part = some.first(std::clamp<std::size_t>(in_a_row / 8, 1, some.size()));
    bool all_done = true;
    if (part.size() == 1) {
      all_done = run_alone(handler, part, open, std::nullopt);
    } else if (const std::optional<ended_run> undone = run_together(handler, part, open)) {
      run_alone(handler, part, open, undone);
      all_done = false;
    }
    in_a_row = all_done ? in_a_row + part.size() : 0;
    some = some.subspan(part.size());
  }
}

// \returns the first that was not done; then none has had an effect.
std::optional<transactional_runs::ended_run> transactional_runs::run_together(const transactional_handler& handler,
                                                                              std::span<const claimed> some,
                                                                              store_transaction& open) {
  open.savepoint();
  for (const claimed& one : some) {
    count_begin(one);
    ended_run end = call_transactional(handler, one, open);
    if (end.said.what() != outcome::verdict::done) {
      undo_part(open);
      return end;
    }
  }
  open.release_savepoint();
  return std::nullopt;
}

// Each in a part of its own. \param undone one that was not done when they ran together. \returns whether all are done.
bool transactional_runs::run_alone(const transactional_handler& handler, std::span<const claimed> some,
                                   store_transaction& open, const std::optional<ended_run>& undone) {
  bool all_done = true;
  bool counted = undone.has_value();  // a repetition is no other run
  for (const claimed& one : some) {
    if (!counted) {
      count_begin(one);
    }
    const bool was_undone = undone && undone->id == one.id;
    counted = counted && !was_undone;
    open.savepoint();
    ended_run end = call_transactional(handler, one, open);
    if (end.said.what() != outcome::verdict::done) {
      undo_part(open);
      put_back(one, end.said, open);
      bad_runs_.push_back(std::move(end));
      all_done = false;
      continue;
    }
    open.release_savepoint();
    if (was_undone) {
      bad_runs_.push_back(*undone);
      bad_runs_.back().repeated = true;
    }
  }
  return all_done;
}

void transactional_runs::run_batch(const batch_handler& handler, std::span<const claimed> some, store_transaction& open,
                                   bool is_repetition) {
  std::vector<job> jobs;
  jobs.reserve(some.size());
  for (const claimed& one : some) {
    jobs.push_back(job_of(machine_.kinds()[one.kind], one, {}));
  }
  calls_.enters_handler();
  waiting_ = consumed_after(some.back());
  for (const claimed& one : is_repetition ? std::span<const claimed>() : some) {
    count_begin(one);
  }
  figures_.enter_handler(some.front().kind);
  open.savepoint();
  try {
    handler(open, jobs);
    open.check_open();
    open.release_savepoint();
    return;
  } catch (...) {
    if (some.size() == 1) {
      const claimed& one = some.front();
      const outcome said = retry(words_of(std::current_exception()));
      bad_runs_.push_back({one.id, one.kind, one.key, one.attempt, said, std::current_exception(), false});
      undo_part(open);
      put_back(one, said, open);
      return;
    }
    undo_part(open);
  }
  for (const claimed& one : some) {
    run_batch(handler, {&one, 1}, open, true);
  }
}

transactional_runs::ended_run transactional_runs::call_transactional(const transactional_handler& handler,
                                                                     const claimed& one, store_transaction& open) {
  const job what = job_of(machine_.kinds()[one.kind], one, {});
  calls_.enters_handler();
  waiting_ = consumed_after(one);
  figures_.enter_handler(one.kind);
  TIMING_WHEEL_FAIL_POINT("node.before_transactional_handler");
  ended_run end{one.id, one.kind, one.key, one.attempt, done, nullptr, false};
  try {
    end.said = handler(open, what);
    if (end.said.what() == outcome::verdict::done) {
      open.check_open();  // a handler may overlook that its statement has failed
    }
  } catch (...) {
    end.thrown = std::current_exception();
    end.said = retry(words_of(end.thrown));
  }
  TIMING_WHEEL_FAIL_POINT("node.after_transactional_handler");
  return end;
}

std::span<const claimed> transactional_runs::consumed_after(const claimed& one) const {
  return consumed_.subspan(static_cast<std::size_t>(&one - consumed_.data()) + 1);
}

std::optional<instant> transactional_runs::due_of_waiting(std::string_view kind, std::string_view key) const {
  const auto found = std::ranges::find_if(
      waiting_, [&](const claimed& one) { return one.key == key && machine_.kinds()[one.kind].name == kind; });
  return found == waiting_.end() ? std::nullopt : std::optional(found->due);
}

// Outside the transaction, so that the user's code may use the scheduler. A run that was undone, with its transaction
// or to be repeated, ends no check.
void transactional_runs::tell_bad_runs(bool committed) {
  for (const ended_run& one : bad_runs_) {
    if (committed && !one.repeated) {
      reports_.tell_end(one.id, one.kind, one.key, one.attempt, one.said, one.thrown);
    } else if (one.thrown != nullptr) {
      failures_.report({"handler", machine_.kinds()[one.kind].name, one.key, one.thrown, one.attempt});
    }
  }
  bad_runs_.clear();
}

void transactional_runs::put_back(const claimed& one, const outcome& said, store_transaction& open) {
  const ending how = machine_.decide(one.kind, one.attempt, said, open.now());
  const std::string& kind = machine_.kinds()[one.kind].name;
  if (how.what == outcome::verdict::retry) {
    open.put_back(one, kind, how.due, one.attempt - (how.counts ? 0 : 1));
    put_back_.push_back({{one.id, how.due, {}, one.kind, 0, one.payload.size()}, how.counts});
  } else {
    open.bury_consumed(one, kind, how.reason);
    died_.push_back(one.kind);
  }
}

// What was consumed is over; what was put back, or died, is not done.
void transactional_runs::count_consumed(std::span<const claimed> got) {
  for (const claimed& one : got) {
    ++figures_.written(one.kind).done;
  }
  for (const row_put_back& one : put_back_) {
    run_tally& of = figures_.written(one.row.kind);
    --of.done;
    ++(of.*(one.counts ? &run_tally::retried : &run_tally::snoozed));
  }
  for (const std::uint32_t kind : died_) {
    run_tally& of = figures_.written(kind);
    --of.done;
    ++of.dead;
  }
  figures_.show_written();
}

void transactional_runs::count_begin(const claimed& one) { figures_.count_begin(one.kind, one.due, store_.now()); }

}  // namespace timing_wheel::durable

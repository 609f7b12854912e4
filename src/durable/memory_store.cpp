#include "timing_wheel/durable/memory_store.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "durable/instant.hpp"
#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable {

namespace {

struct stored {
  std::string kind;
  std::string key;
  std::string payload;
  instant due{};
  instant lease{};
  std::int64_t fence = 0;
  int attempt = 0;
};

using name = std::pair<std::string, std::string>;  // kind and key

struct tables {
  std::map<std::int64_t, stored> checks;
  std::set<std::pair<instant, std::int64_t>> by_due;
  std::map<name, std::int64_t> by_name;
  std::map<std::int64_t, dead_check> dead;
  std::int64_t last_id = 0;
  std::int64_t last_fence = 0;  // that was drawn; a draw is not undone
};

// Undoes, last first, what was done to single rows.
class journal {
 public:
  void remember(std::int64_t id, const tables& from) {
    const auto found = from.checks.find(id);
    steps_.push_back({id, found == from.checks.end() ? std::nullopt : std::optional(found->second), {}, false});
  }
  void remember_dead(std::int64_t id, const tables& from) {
    const auto found = from.dead.find(id);
    steps_.push_back({id, {}, found == from.dead.end() ? std::nullopt : std::optional(found->second), true});
  }
  [[nodiscard]] std::size_t mark() const noexcept { return steps_.size(); }

  template <class Put, class PutDead>
  void undo(std::size_t mark, Put put, PutDead put_dead) {
    while (steps_.size() > mark) {
      step& last = steps_.back();
      if (last.of_dead) {
        put_dead(last.id, std::move(last.dead));
      } else {
        put(last.id, std::move(last.check));
      }
      steps_.pop_back();
    }
  }

 private:
  struct step {
    std::int64_t id;
    std::optional<stored> check;  // as it was; none: it was not there
    std::optional<dead_check> dead;
    bool of_dead;
  };
  std::vector<step> steps_;
};

// Of 64 shares. The store itself is not divided: tests do that.
bool is_of(const window& which, std::int64_t id, instant due) {
  return !which.shares || due < which.overdue ||
         std::find(which.shares->begin(), which.shares->end(), id % 64) != which.shares->end();
}

}  // namespace

class memory_store::implementation {
 public:
  class open_transaction;

  implementation(const timer& its_clock, const request_limits& its_limits) : clock(its_clock), limits(its_limits) {}

  [[nodiscard]] instant now() const {
    return instant(std::chrono::floor<std::chrono::microseconds>(clock.now().time_since_epoch()));
  }

  // Puts a row in the place of what is there; none: removes that.
  void put(std::int64_t id, std::optional<stored> row) {
    if (const auto old = all.checks.find(id); old != all.checks.end()) {
      all.by_due.erase({old->second.due, id});
      all.by_name.erase({old->second.kind, old->second.key});
      all.checks.erase(old);
    }
    if (row) {
      all.by_due.insert({row->due, id});
      all.by_name.insert({{row->kind, row->key}, id});
      all.checks.emplace(id, std::move(*row));
    }
  }
  void put_dead(std::int64_t id, std::optional<dead_check> row) {
    all.dead.erase(id);
    if (row) {
      all.dead.emplace(id, std::move(*row));
    }
  }
  [[nodiscard]] std::optional<std::int64_t> id_of(std::string_view kind, std::string_view key) const {
    const auto found = all.by_name.find({std::string(kind), std::string(key)});
    return found == all.by_name.end() ? std::nullopt : std::optional(found->second);
  }

  const timer& clock;
  const request_limits limits;
  mutable std::mutex writing;  // held by a transaction
  mutable std::mutex mutex;    // guards what follows; taken after `writing`
  tables all;
  store_counts counts;
};

class memory_store::implementation::open_transaction final : public store_transaction {
 public:
  open_transaction(implementation& owner, instant orphans_until)
      : owner_(owner), now_(owner.now()), takes_over_(now_ <= orphans_until) {}

  [[nodiscard]] instant now() override { return now_; }
  [[nodiscard]] void* native_handle(std::string_view /*api*/) noexcept override { return nullptr; }

  void append(std::span<append_op> ops) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    for (append_op& op : ops) {
      append(op);
    }
  }

  void cancel(std::span<cancel_op> ops) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    for (cancel_op& op : ops) {
      const auto id = owner_.id_of(op.kind, op.key);
      op.result = !id ? cancel_result::finished : pending(*id) ? cancel_result::cancelled : cancel_result::running;
      if (op.result == cancel_result::cancelled) {
        op.attempts = row_of(*id).attempt;
        put(*id, std::nullopt);
      }
    }
  }

  void reschedule(std::span<reschedule_op> ops) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    for (reschedule_op& op : ops) {
      const auto id = owner_.id_of(op.kind, op.key);
      op.result = !id            ? reschedule_result::finished
                  : pending(*id) ? reschedule_result::moved
                                 : reschedule_result::running;
      if (op.result == reschedule_result::moved) {
        stored row = row_of(*id);
        row.due = op.due.at(now_);
        put(*id, std::move(row));
      }
    }
  }

  void claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    for (const upcoming& one : wanted) {
      if (due_and_free(one.id)) {
        stored row = row_of(one.id);
        got.push_back(begin(one, row));
        row.lease = lease;
        put(one.id, std::move(row));
      }
    }
  }

  void take(std::span<const upcoming> wanted, std::vector<claimed>& got) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    for (const upcoming& one : wanted) {
      if (due_and_free(one.id)) {
        stored row = row_of(one.id);
        got.push_back(begin(one, row));
        put(one.id, std::nullopt);
      }
    }
  }

  void put_back(const claimed& taken, std::string_view kind, instant due, int attempt) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    if (owner_.id_of(kind, taken.key)) {
      return;  // what ran has scheduled that key anew
    }
    put(taken.id,
        stored{std::string(kind), taken.key, taken.payload, due, given_up(taken.orphaned), taken.fence, attempt});
  }

  void bury_taken(const claimed& taken, std::string_view kind, std::string_view error) override {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    undo_.remember_dead(taken.id, owner_.all);
    owner_.put_dead(taken.id, dead_check{taken.id, std::string(kind), taken.key, taken.payload, taken.due, taken.fence,
                                         taken.attempt, std::string(error), now_});
  }

  void complete(std::span<ticket> ops) override {
    for_held(ops, [&](ticket& op) { put(op.id, std::nullopt); });
  }
  void extend(std::span<ticket> ops, instant lease) override {
    for_held(ops, [&](ticket& op) {
      stored row = row_of(op.id);
      row.lease = lease;
      put(op.id, std::move(row));
    });
  }
  void retry(std::span<retry_op> ops) override {
    for (retry_op& op : ops) {
      for_held({&op.of, 1}, [&](ticket& of) {
        stored row = row_of(of.id);
        row.lease = given_up(op.orphaned);
        row.due = op.due;
        row.attempt = op.attempt;
        put(of.id, std::move(row));
      });
    }
  }
  void bury(std::span<bury_op> ops) override {
    for (bury_op& op : ops) {
      for_held({&op.of, 1}, [&](ticket& of) {
        const stored row = row_of(of.id);
        put(of.id, std::nullopt);
        undo_.remember_dead(of.id, owner_.all);
        owner_.put_dead(
            of.id, dead_check{of.id, row.kind, row.key, row.payload, row.due, row.fence, row.attempt, op.error, now_});
      });
    }
  }

  void savepoint() override { savepoint_ = undo_.mark(); }
  void rollback_to_savepoint() override { roll_back(savepoint_); }
  void release_savepoint() override {}

  void roll_back(std::size_t mark = 0) {
    const std::scoped_lock lock(owner_.mutex);
    undo_.undo(
        mark, [&](std::int64_t id, std::optional<stored> row) { owner_.put(id, std::move(row)); },
        [&](std::int64_t id, std::optional<dead_check> row) { owner_.put_dead(id, std::move(row)); });
  }

 protected:
  [[nodiscard]] const request_limits& limits() const noexcept override { return owner_.limits; }

 private:
  void put(std::int64_t id, std::optional<stored> row) {
    undo_.remember(id, owner_.all);
    owner_.put(id, std::move(row));
  }
  [[nodiscard]] const stored& row_of(std::int64_t id) const { return owner_.all.checks.at(id); }
  [[nodiscard]] bool pending(std::int64_t id) const { return row_of(id).lease == instant{}; }
  [[nodiscard]] instant given_up(bool orphaned) const { return orphaned ? instant_of(held_by_nobody) : instant{}; }
  [[nodiscard]] bool due_and_free(std::int64_t id) const {
    const auto found = owner_.all.checks.find(id);
    return found != owner_.all.checks.end() && found->second.due <= now_ &&
           (found->second.lease == instant{} || (takes_over_ && found->second.lease <= now_));
  }

  void append(append_op& op) {
    const request& asked = *op.asked;
    const auto id = owner_.id_of(asked.kind, asked.key);
    const instant due = asked.due.at(now_);
    if (!id) {
      op.id = ++owner_.all.last_id;
      put(op.id, stored{asked.kind, asked.key, asked.payload, due, {}, 0, 0});
      op.result = {true, false, due};
      return;
    }
    op.id = *id;
    stored row = row_of(*id);
    if (asked.replace && pending(*id)) {
      row.payload = asked.payload;
      row.due = due;
      row.attempt = 0;
      put(*id, std::move(row));
      op.result = {false, true, due};
    } else {
      op.result = {false, false, row.due};
    }
  }

  claimed begin(const upcoming& one, stored& row) {
    ++owner_.counts.rows_read;
    row.fence = ++owner_.all.last_fence;
    ++row.attempt;
    return {one.id, row.fence, one.kind, row.attempt, row.due, row.key, row.payload, row.lease != instant{}};
  }

  template <class Do>
  void for_held(std::span<ticket> ops, Do change) {
    const std::scoped_lock lock(owner_.mutex);
    ++owner_.counts.statements;
    for (ticket& op : ops) {
      const auto found = owner_.all.checks.find(op.id);
      op.held = found != owner_.all.checks.end() && found->second.fence == op.fence &&
                found->second.lease > instant_of(held_by_nobody);
      if (op.held) {
        change(op);
      }
    }
  }

  implementation& owner_;
  const instant now_;
  const bool takes_over_;
  journal undo_;
  std::size_t savepoint_ = 0;
};

memory_store::memory_store(const timer& clock, const request_limits& limits)
    : implementation_(std::make_unique<implementation>(clock, limits)) {}

memory_store::~memory_store() = default;

void memory_store::migrate() {}

instant memory_store::now() { return implementation_->now(); }

const request_limits& memory_store::limits() const noexcept { return implementation_->limits; }

void memory_store::transact(const std::function<void(store_transaction&)>& work) { transact_within({}, work); }

void memory_store::transact_within(const transaction_limits& limits,
                                   const std::function<void(store_transaction&)>& work) {
  const std::scoped_lock writing(implementation_->writing);
  implementation::open_transaction open(*implementation_, limits.orphans_until.value_or(instant::max()));
  try {
    work(open);
  } catch (...) {
    open.roll_back();
    throw;
  }
  const std::scoped_lock lock(implementation_->mutex);
  ++implementation_->counts.commits;
}

void memory_store::read_ahead(const window& which, std::vector<upcoming>& found) {
  const std::scoped_lock lock(implementation_->mutex);
  tables& all = implementation_->all;
  ++implementation_->counts.statements;
  std::size_t count = 0;
  for (auto at = all.by_due.upper_bound({which.from, which.after_id});
       at != all.by_due.end() && at->first < which.until && count < which.limit; ++at) {
    const stored& row = all.checks.at(at->second);
    const auto kind = std::find(which.kinds.begin(), which.kinds.end(), row.kind);
    if (kind != which.kinds.end() && is_of(which, at->second, row.due)) {
      found.push_back(
          {at->second, row.due, row.lease, static_cast<std::uint32_t>(kind - which.kinds.begin()), row.attempt});
      ++count;
    }
  }
  implementation_->counts.rows_read += count;
}

std::optional<stored_check> memory_store::find(std::string_view kind, std::string_view key) {
  const std::scoped_lock lock(implementation_->mutex);
  ++implementation_->counts.statements;
  const auto id = implementation_->id_of(kind, key);
  if (!id) {
    return std::nullopt;
  }
  ++implementation_->counts.rows_read;
  const stored& row = implementation_->all.checks.at(*id);
  return stored_check{row.kind, row.key, row.payload, row.due, row.fence, row.attempt, row.lease != instant{}};
}

std::vector<dead_check> memory_store::list_dead(std::size_t limit, std::int64_t after) {
  const std::scoped_lock lock(implementation_->mutex);
  std::vector<dead_check> some;
  const tables& all = implementation_->all;
  for (auto at = all.dead.upper_bound(after); at != all.dead.end() && some.size() < limit; ++at) {
    some.push_back(at->second);
  }
  return some;
}

bool memory_store::retry_dead(std::int64_t id) {
  const std::scoped_lock writing(implementation_->writing);
  const std::scoped_lock lock(implementation_->mutex);
  tables& all = implementation_->all;
  const auto found = all.dead.find(id);
  if (found == all.dead.end() || implementation_->id_of(found->second.kind, found->second.key)) {
    return false;
  }
  const dead_check& dead = found->second;
  implementation_->put(id, stored{dead.kind, dead.key, dead.payload, now(), {}, dead.fence, 0});
  all.dead.erase(found);
  return true;
}

bool memory_store::delete_dead(std::int64_t id) {
  const std::scoped_lock writing(implementation_->writing);
  const std::scoped_lock lock(implementation_->mutex);
  return implementation_->all.dead.erase(id) != 0;
}

store_counts memory_store::counts() const noexcept {
  const std::scoped_lock lock(implementation_->mutex);
  return implementation_->counts;
}

std::size_t memory_store::size() const {
  const std::scoped_lock lock(implementation_->mutex);
  return implementation_->all.checks.size();
}

}  // namespace timing_wheel::durable

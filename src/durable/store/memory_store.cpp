#include "timing_wheel/durable/memory_store.hpp"

#include <algorithm>
#include <boost/intrusive/set.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "durable/store/instant.hpp"
#include "durable/store/overview.hpp"
#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable {

namespace {

namespace intrusive = boost::intrusive;

template <class Order>
using link_of = intrusive::set_base_hook<intrusive::tag<Order>>;

// The orders of rows: each says by what.
struct by_id {
  using type = std::int64_t;
  template <class Row>
  type operator()(const Row& row) const noexcept {
    return row.id;
  }
};
struct by_due {
  using type = std::pair<instant, std::int64_t>;
  template <class Row>
  type operator()(const Row& row) const noexcept {
    return {row.due, row.id};
  }
};
struct by_name {
  using type = std::pair<std::string_view, std::string_view>;
  template <class Row>
  type operator()(const Row& row) const noexcept {
    return {row.kind, row.key};
  }
};

template <class Row, class Order>
using rows = intrusive::set<Row, intrusive::base_hook<link_of<Order>>, intrusive::key_of_value<Order>>;

// It has its places in all orders in itself: to put it there, or take it out, needs no memory.
struct stored : link_of<by_id>, link_of<by_due>, link_of<by_name> {
  stored(std::int64_t its_id, std::string_view its_kind, std::string_view its_key, std::string_view its_payload,
         instant its_due)
      : id(its_id), kind(its_kind), key(its_key), payload(its_payload), due(its_due) {}
  std::int64_t id;
  std::string kind;
  std::string key;
  std::string payload;
  instant due;
  instant lease{};
  std::int64_t fence = 0;
  int attempt = 0;
};

struct buried : link_of<by_id>, dead_check {
  explicit buried(dead_check what) : dead_check(std::move(what)) {}
};

struct tables {
  tables() = default;
  tables(const tables&) = delete;
  tables& operator=(const tables&) = delete;
  ~tables() {
    due.clear();
    names.clear();
    checks.clear_and_dispose(std::default_delete<stored>());
    dead.clear_and_dispose(std::default_delete<buried>());
  }

  // Puts a row in the place of what is there; none: removes that. \returns what was there.
  std::unique_ptr<stored> put(std::int64_t id, std::unique_ptr<stored> row) noexcept {
    std::unique_ptr<stored> old;
    if (const auto found = checks.find(id); found != checks.end()) {
      old.reset(&*found);
      due.erase(due.iterator_to(*old));
      names.erase(names.iterator_to(*old));
      checks.erase(found);
    }
    if (row) {
      due.insert(*row);
      names.insert(*row);
      checks.insert(*row.release());
    }
    return old;
  }
  std::unique_ptr<buried> put_dead(std::int64_t id, std::unique_ptr<buried> row) noexcept {
    std::unique_ptr<buried> old;
    if (const auto found = dead.find(id); found != dead.end()) {
      old.reset(&*found);
      dead.erase(found);
    }
    if (row) {
      dead.insert(*row.release());
    }
    return old;
  }
  [[nodiscard]] const stored* find(std::int64_t id) const noexcept {
    const auto found = checks.find(id);
    return found == checks.end() ? nullptr : &*found;
  }
  [[nodiscard]] const stored* find(std::string_view kind, std::string_view key) const noexcept {
    const auto found = names.find(by_name::type(kind, key));
    return found == names.end() ? nullptr : &*found;
  }

  rows<stored, by_id> checks;  // which own them
  rows<stored, by_due> due;
  rows<stored, by_name> names;
  rows<buried, by_id> dead;
  std::int64_t last_id = 0;
  std::int64_t last_fence = 0;  // that was drawn; a draw is not undone
};

// Undoes, last first, what was done to single rows. It keeps the rows that were there, so that undoing needs no memory.
class journal {
 public:
  explicit journal(tables& all) : all_(all) {}

  void put(std::int64_t id, std::unique_ptr<stored> row) {
    step& next = steps_.emplace_back();
    next.id = id;
    next.check = all_.put(id, std::move(row));
  }
  void put_dead(std::int64_t id, std::unique_ptr<buried> row) {
    step& next = steps_.emplace_back();
    next.id = id;
    next.of_dead = true;
    next.dead = all_.put_dead(id, std::move(row));
  }
  [[nodiscard]] std::size_t mark() const noexcept { return steps_.size(); }

  void undo(std::size_t mark) noexcept {
    while (steps_.size() > mark) {
      step& last = steps_.back();
      if (last.of_dead) {
        all_.put_dead(last.id, std::move(last.dead));
      } else {
        all_.put(last.id, std::move(last.check));
      }
      steps_.pop_back();
    }
  }

 private:
  struct step {
    std::int64_t id = 0;
    std::unique_ptr<stored> check;  // as it was; none: it was not there
    std::unique_ptr<buried> dead;
    bool of_dead = false;
  };
  tables& all_;
  std::vector<step> steps_;
};

stored_check shown(const stored& row, bool with_payload) {
  return {.kind = row.kind,
          .key = row.key,
          .payload = with_payload ? row.payload : std::string(),
          .due = row.due,
          .fence = row.fence,
          .attempt = row.attempt,
          .running = row.lease != instant{},
          .lease = row.lease,
          .id = row.id,
          .size = row.payload.size()};
}

// Of 64 shares. The store itself is not divided: tests do that.
bool is_of(const read_range& which, std::int64_t id, instant due) {
  return !which.shares || due < which.overdue ||
         std::find(which.shares->begin(), which.shares->end(), id % 64) != which.shares->end();
}

}  // namespace

class memory_store::implementation final : public store {
 public:
  class open_transaction;

  implementation(const timer& its_clock, const request_limits& its_limits) : clock(its_clock), allowed(its_limits) {}

  [[nodiscard]] instant now() override {
    return instant(std::chrono::floor<std::chrono::microseconds>(clock.now().time_since_epoch()));
  }
  void migrate() override {}
  [[nodiscard]] const request_limits& limits() const noexcept override { return allowed; }
  void transact(const std::function<void(store_transaction&)>& work) override { transact_within({}, work); }
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override;
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override {
    const statement lock = run_statement();
    std::size_t count = 0;
    for (auto at = all.due.upper_bound(by_due::type(which.from, which.after_id));
         at != all.due.end() && at->due < which.until && count < which.limit; ++at) {
      const stored& row = *at;
      const auto kind = std::find(which.kinds.begin(), which.kinds.end(), row.kind);
      if (kind != which.kinds.end() && is_of(which, row.id, row.due)) {
        found.push_back({row.id, row.due, row.lease, static_cast<std::uint32_t>(kind - which.kinds.begin()),
                         row.attempt, row.payload.size()});
        ++count;
      }
    }
    counted.rows_read += count;
    if (which.paused != nullptr) {
      for (const auto& [kind, since] : paused) {
        which.paused->push_back(kind);
      }
      if (drained.contains(which.node)) {
        which.paused->emplace_back();
      }
    }
  }
  void read_overdue(std::vector<overdue_kind>& found) override {
    const statement lock = run_statement();
    const instant at = now();
    const auto begin = static_cast<std::ptrdiff_t>(found.size());
    for (const stored& row : all.due) {
      if (row.due > at) {
        break;
      }
      if (row.lease > at) {
        continue;
      }
      const instant since = std::max(row.due, row.lease);
      const auto known = std::find_if(found.begin() + begin, found.end(),
                                      [&](const overdue_kind& each) { return each.kind == row.kind; });
      if (known == found.end()) {
        found.push_back({row.kind, since});
      } else {
        known->since = std::min(known->since, since);
      }
    }
    counted.rows_read += found.size() - static_cast<std::size_t>(begin);
  }
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override {
    const statement lock = run_statement();
    const stored* const row = all.find(kind, key);
    if (row == nullptr) {
      return std::nullopt;
    }
    ++counted.rows_read;
    return shown(*row, true);
  }
  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override {
    const std::scoped_lock lock(mutex);
    return list_at(range, now());
  }
  [[nodiscard]] std::size_t count(const check_filter& which, std::size_t most) override {
    return list({.limit = most, .which = which}).size();
  }
  [[nodiscard]] std::vector<kind_counts> count_kinds(std::size_t most, bool with_waits) override {
    const statement lock = run_statement();
    const instant at = now();
    std::map<std::string, kind_counts> kinds;
    std::map<std::string, std::size_t> looked_at;
    std::map<std::string, std::vector<instant>> waiting;
    for (const stored& row : all.due) {
      if (kind_counts& of = kinds[row.kind]; ++looked_at[row.kind] > most) {
        of.at_least = true;
      } else {
        add_to(of, waiting[row.kind], shown(row, false), at);
      }
    }
    for (auto& [kind, since] : waiting) {
      tell_waiting(kinds[kind], since, with_waits);
    }
    const bool all_dead = all.dead.size() <= most;
    std::size_t left = std::min(all.dead.size(), most);
    for (auto each = all.dead.rbegin(); left > 0; ++each, --left) {
      kind_counts& of = kinds[each->kind];
      ++of.dead;
      of.dead_lately += each->died > at - lately ? 1U : 0U;
    }
    std::vector<kind_counts> found;
    found.reserve(kinds.size());
    for (auto& [kind, counts] : kinds) {
      counts.kind = kind;
      counts.at_least = counts.at_least || !all_dead;
      found.push_back(std::move(counts));
    }
    mark_paused(pauses(), found);
    return found;
  }
  [[nodiscard]] std::vector<dead_check> list_dead(const dead_range& range) override {
    const statement lock = run_statement();
    std::vector<dead_check> some;
    const auto take = [&](const dead_check& each) {
      if (matches(range.which, each)) {
        some.push_back(each);
        if (!range.with_payloads) {
          some.back().payload.clear();
        }
      }
    };
    const rows<buried, by_id>& dead = all.dead;
    if (range.newest_first) {
      for (auto at = range.after == 0 ? dead.end() : dead.lower_bound(range.after);
           at != dead.begin() && some.size() < range.limit;) {
        take(*--at);
      }
    } else {
      for (auto at = dead.upper_bound(range.after); at != dead.end() && some.size() < range.limit; ++at) {
        take(*at);
      }
    }
    return some;
  }
  [[nodiscard]] std::vector<dead_group> count_dead(const dead_filter& which, std::size_t limit,
                                                   std::size_t most) override {
    std::map<std::pair<std::string, std::string>, dead_group> groups;
    for (const dead_check& each :
         list_dead({.limit = most, .which = which, .newest_first = true, .with_payloads = false})) {
      dead_group& of = groups.try_emplace({each.kind, each.error}, dead_group{each.kind, each.error, 0, each.died, {}})
                           .first->second;
      ++of.count;
      of.first = std::min(of.first, each.died);
      of.last = std::max(of.last, each.died);
    }
    std::vector<dead_group> found;
    found.reserve(groups.size());
    for (auto& [name, group] : groups) {
      found.push_back(std::move(group));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const dead_group& one, const dead_group& other) { return one.count > other.count; });
    found.resize(std::min(found.size(), limit));
    return found;
  }
  [[nodiscard]] std::vector<paused_kind> paused_kinds() override {
    const statement lock = run_statement();
    return pauses();
  }
  void read_all(const std::function<void(stored_check&&)>& check,
                const std::function<void(dead_check&&)>& dead) override {
    std::vector<stored_check> checks;
    std::vector<dead_check> buried;
    {
      const std::scoped_lock alone(writing);
      const statement lock = run_statement();
      for (const stored& row : all.due) {
        checks.push_back(shown(row, true));
      }
      buried.assign(all.dead.begin(), all.dead.end());
      counted.rows_read += checks.size() + buried.size();
    }
    for (stored_check& each : checks) {
      check(std::move(each));
    }
    for (dead_check& each : buried) {
      dead(std::move(each));
    }
  }
  [[nodiscard]] std::vector<drained_node> drained_nodes() override {
    const statement lock = run_statement();
    std::vector<drained_node> nodes;
    for (const auto& [name, node] : drained) {
      nodes.push_back(node);
    }
    return nodes;
  }
  void tell_drained(std::string_view node, std::size_t held) override {
    const std::scoped_lock alone(writing);
    const statement lock = run_statement();
    if (const auto found = drained.find(node); found != drained.end()) {
      found->second.held = held;
      found->second.told = now();
    }
  }
  [[nodiscard]] std::vector<long_run> long_runs() override {
    const statement lock = run_statement();
    std::vector<long_run> found;
    for (const auto& [node, runs] : told_runs) {
      for (const long_run& told : runs) {
        if (const stored* const check = all.find(told.id);
            check != nullptr && check->fence == told.fence && check->lease != instant{}) {
          found.push_back(told);
          found.back().node = node;
          found.back().kind = check->kind;
          found.back().key = check->key;
        }
      }
    }
    counted.rows_read += found.size();
    std::stable_sort(found.begin(), found.end(),
                     [](const long_run& left, const long_run& right) { return left.begun < right.begun; });
    return found;
  }
  void tell_long_runs(std::string_view node, std::span<const long_run> runs) override {
    const std::scoped_lock alone(writing);
    const statement lock = run_statement();
    std::vector<long_run>& told = told_runs[std::string(node)];
    told.assign(runs.begin(), runs.end());
    for (long_run& each : told) {
      each.told = now();
    }
  }
  [[nodiscard]] std::vector<failed_run> failed_runs(std::span<const std::int64_t> ids) override {
    const statement lock = run_statement();
    std::vector<failed_run> found;
    for (const auto& [id, told] : told_failures) {
      if (const stored* const check = all.find(id);
          check != nullptr && check->attempt >= told.attempt && std::find(ids.begin(), ids.end(), id) != ids.end()) {
        found.push_back(told);
      }
    }
    counted.rows_read += found.size();
    return found;
  }

  void tell_failed_runs(std::string_view node, std::span<const failed_run> runs) override {
    const std::scoped_lock write(writing);
    const statement lock = run_statement();
    const auto is_gone = [&](std::int64_t id) { return all.find(id) == nullptr; };
    for (const failed_run& each : runs) {
      if (!is_gone(each.id)) {
        failed_run& told = told_failures[each.id] = each;
        told.node = node;
        told.told = now();
      }
    }
    if (runs.empty()) {
      std::erase_if(told_failures, [&](const auto& told) { return is_gone(told.first); });
    }
  }

  [[nodiscard]] std::optional<run_counts> runs_of_last_minute() override {
    const statement lock = run_statement();
    const instant begin = now() - std::chrono::minutes(1);
    run_counts found;
    for (const auto& [told, runs] : told_counts) {
      if (told > begin) {
        found.begun += runs.begun;
        found.ended += runs.ended;
        found.failed += runs.failed;
      }
    }
    return told_counts.empty() ? std::nullopt : std::optional(found);
  }
  void tell_runs(std::string_view /*node*/, const run_counts& since) override {
    const std::scoped_lock write(writing);
    const statement lock = run_statement();
    const instant told = now();
    std::erase_if(told_counts, [&](const auto& each) { return each.first < told - std::chrono::minutes(1); });
    told_counts.emplace_back(told, since);
  }

  [[nodiscard]] std::vector<audit_entry> audit(std::size_t limit) override {
    const std::scoped_lock lock(mutex);
    return {entries.rbegin(), entries.rbegin() + static_cast<std::ptrdiff_t>(std::min(limit, entries.size()))};
  }
  [[nodiscard]] store_counts counts() const noexcept override {
    const std::scoped_lock lock(mutex);
    return counted;
  }

  const timer& clock;
  const request_limits allowed;
  std::mutex writing;        // held by a transaction
  mutable std::mutex mutex;  // guards what follows; taken after `writing`
  tables all;
  std::map<std::string, instant> paused;                                // by kind: since when
  std::map<std::string, drained_node, std::less<>> drained;             // by name
  std::map<std::string, std::vector<long_run>, std::less<>> told_runs;  // by node
  std::map<std::int64_t, failed_run> told_failures;                     // by check
  std::vector<std::pair<instant, run_counts>> told_counts;              // when they were told
  std::vector<audit_entry> entries;
  store_counts counted;

  // The mutex, for what counts as a statement.
  using statement = std::unique_lock<std::mutex>;
  [[nodiscard]] statement run_statement() {
    statement lock(mutex);
    ++counted.statements;
    return lock;
  }

  // Under the mutex.
  [[nodiscard]] std::vector<paused_kind> pauses() const {
    std::vector<paused_kind> kinds;
    for (const auto& [kind, since] : paused) {
      kinds.push_back({kind, since});
    }
    return kinds;
  }
  [[nodiscard]] std::vector<stored_check> list_at(const check_range& range, instant at) {
    ++counted.statements;
    std::vector<stored_check> found;
    const auto take_from = [&](auto row, auto end) {
      for (; row != end && found.size() < range.limit && !(range.from_key && row->kind != range.which.kind); ++row) {
        if (stored_check check = shown(*row, range.with_payloads); matches(range.which, check, at)) {
          found.push_back(std::move(check));
        }
      }
    };
    require_kind_of_keys(range);
    if (range.from_key) {
      take_from(all.names.lower_bound(by_name::type(range.which.kind, *range.from_key)), all.names.end());
    } else {
      const list_position from = begin_of(range);
      const by_due::type place(from.due, from.id);
      using reversed = decltype(all.due.rend());
      range.latest_first ? take_from(reversed(all.due.lower_bound(place)), all.due.rend())
                         : take_from(all.due.upper_bound(place), all.due.end());
    }
    counted.rows_read += found.size();
    return found;
  }
};

class memory_store::implementation::open_transaction final : public store_transaction {
 public:
  open_transaction(implementation& owner, instant orphans_until)
      : owner_(owner), now_(owner.now()), takes_over_(now_ <= orphans_until), undo_(owner.all) {
    const std::scoped_lock lock(owner_.mutex);
    at_begin_ = {owner_.paused, owner_.drained, owner_.entries.size()};
  }

  [[nodiscard]] instant now() override { return now_; }
  [[nodiscard]] void* native_handle(std::string_view /*api*/) noexcept override { return nullptr; }

  void append(std::span<append_op> ops) override {
    const statement lock = owner_.run_statement();
    for (append_op& op : ops) {
      append(op);
    }
  }

  void cancel(std::span<cancel_op> ops) override {
    const statement lock = owner_.run_statement();
    for (cancel_op& op : ops) {
      const stored* const row = owner_.all.find(op.kind, op.key);
      op.result = row == nullptr  ? cancel_result::finished
                  : pending(*row) ? cancel_result::cancelled
                                  : cancel_result::running;
      if (op.result == cancel_result::cancelled) {
        op.attempts = row->attempt;
        undo_.put(row->id, nullptr);
      }
    }
  }

  void reschedule(std::span<reschedule_op> ops) override {
    const statement lock = owner_.run_statement();
    for (reschedule_op& op : ops) {
      const stored* const row = owner_.all.find(op.kind, op.key);
      op.result = row == nullptr  ? reschedule_result::finished
                  : pending(*row) ? reschedule_result::moved
                                  : reschedule_result::running;
      if (op.result == reschedule_result::moved) {
        change(*row, [&](stored& moved) { moved.due = op.due.at(now_); });
      }
    }
  }

  void claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) override {
    claim_some(wanted, wanted.size(), lease, got);
  }
  std::size_t claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                         std::vector<claimed>& got) override {
    const statement lock = owner_.run_statement();
    const std::size_t end = got.size() + most;
    std::size_t tried = 0;
    for (; tried < wanted.size() && got.size() < end; ++tried) {
      const upcoming& one = wanted[tried];
      if (const stored* const row = owner_.all.find(one.id); row != nullptr && due_and_free(*row)) {
        change(*row, [&](stored& mine) {
          got.push_back(begin(one, mine));
          mine.lease = lease;
        });
      }
    }
    return tried;
  }

  void consume(std::span<const upcoming> wanted, std::vector<claimed>& got) override {
    const statement lock = owner_.run_statement();
    for (const upcoming& one : wanted) {
      if (const stored* const row = owner_.all.find(one.id); row != nullptr && due_and_free(*row)) {
        stored mine = *row;
        got.push_back(begin(one, mine));
        undo_.put(one.id, nullptr);
      }
    }
  }

  void put_back(const claimed& consumed, std::string_view kind, instant due, int attempt) override {
    const statement lock = owner_.run_statement();
    if (owner_.all.find(kind, consumed.key) != nullptr) {
      return;  // what ran has scheduled that key anew
    }
    auto row = std::make_unique<stored>(consumed.id, kind, consumed.key, consumed.payload, due);
    row->lease = given_up(consumed.orphaned);
    row->fence = consumed.fence;
    row->attempt = attempt;
    undo_.put(consumed.id, std::move(row));
  }

  void bury_consumed(const claimed& consumed, std::string_view kind, std::string_view error) override {
    const statement lock = owner_.run_statement();
    undo_.put_dead(consumed.id, std::make_unique<buried>(dead_check{consumed.id, std::string(kind), consumed.key,
                                                                    consumed.payload, consumed.due, consumed.fence,
                                                                    consumed.attempt, std::string(error), now_}));
  }

  void complete(std::span<ticket> ops) override {
    for_held(ops, [&](const stored& row) { undo_.put(row.id, nullptr); });
  }
  void extend(std::span<ticket> ops, instant lease) override {
    for_held(ops, [&](const stored& row) { change(row, [&](stored& mine) { mine.lease = lease; }); });
  }
  void release(std::span<release_op> ops) override {
    for (release_op& op : ops) {
      for_held({&op.of, 1}, [&](const stored& row) {
        change(row, [&](stored& mine) {
          mine.lease = given_up(op.orphaned);
          mine.due = op.due;
          mine.attempt = op.attempt;
        });
      });
    }
  }
  void bury(std::span<bury_op> ops) override {
    for (bury_op& op : ops) {
      for_held({&op.of, 1}, [&](const stored& row) {
        undo_.put_dead(row.id, std::make_unique<buried>(dead_check{row.id, row.kind, row.key, row.payload, row.due,
                                                                   row.fence, row.attempt, op.error, now_}));
        undo_.put(row.id, nullptr);
      });
    }
  }

  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override {
    const std::scoped_lock lock(owner_.mutex);
    return owner_.list_at(range, now_);
  }

  std::size_t revive_dead(std::span<const std::int64_t> ids) override {
    std::vector<std::int64_t> in_turn(ids.begin(), ids.end());
    std::sort(in_turn.rbegin(), in_turn.rend());
    const statement lock = owner_.run_statement();
    return static_cast<std::size_t>(
        std::count_if(in_turn.begin(), in_turn.end(), [this](std::int64_t id) { return revive_dead(id); }));
  }

  std::size_t delete_dead(std::span<const std::int64_t> ids) override {
    const statement lock = owner_.run_statement();
    std::size_t count = 0;
    for (const std::int64_t id : ids) {
      if (owner_.all.dead.find(id) != owner_.all.dead.end()) {
        undo_.put_dead(id, nullptr);
        ++count;
      }
    }
    return count;
  }

  std::size_t restore(std::span<const stored_check> checks, std::span<const dead_check> dead) override {
    const statement lock = owner_.run_statement();
    tables& into = owner_.all;
    std::size_t written = 0;
    for (const stored_check& each : checks) {
      into.last_fence = std::max(into.last_fence, each.fence);
      if (into.find(each.kind, each.key) == nullptr) {
        const std::int64_t id = ++into.last_id;
        auto row = std::make_unique<stored>(id, each.kind, each.key, each.payload, each.due);
        row->fence = each.fence;
        row->attempt = each.attempt;
        undo_.put(id, std::move(row));
        ++written;
      }
    }
    for (dead_check each : dead) {
      into.last_fence = std::max(into.last_fence, each.fence);
      each.id = ++into.last_id;
      undo_.put_dead(into.last_id, std::make_unique<buried>(std::move(each)));
    }
    return written;
  }

  bool pause(std::string_view kind) override {
    const std::scoped_lock lock(owner_.mutex);
    return owner_.paused.emplace(kind, now_).second;
  }
  bool resume(std::string_view kind) override {
    const std::scoped_lock lock(owner_.mutex);
    return owner_.paused.erase(std::string(kind)) != 0;
  }
  bool drain(std::string_view node) override {
    const std::scoped_lock lock(owner_.mutex);
    return owner_.drained.emplace(node, drained_node{.node = std::string(node), .since = now_}).second;
  }
  bool end_drain(std::string_view node) override {
    const std::scoped_lock lock(owner_.mutex);
    return owner_.drained.erase(std::string(node)) != 0;
  }
  void record(const audit_entry& entry) override {
    const std::scoped_lock lock(owner_.mutex);
    owner_.entries.push_back(entry);
    owner_.entries.back().at = now_;
  }

  void savepoint() override {
    savepoint_ = undo_.mark();
    const std::scoped_lock lock(owner_.mutex);
    at_savepoint_ = {owner_.paused, owner_.drained, owner_.entries.size()};
  }
  void rollback_to_savepoint() override { roll_back(savepoint_, at_savepoint_); }
  void release_savepoint() override {}

  void roll_back() noexcept { roll_back(0, at_begin_); }

 protected:
  [[nodiscard]] const request_limits& limits() const noexcept override { return owner_.allowed; }

 private:
  // What no row has.
  struct rest {
    std::map<std::string, instant> paused;
    std::map<std::string, drained_node, std::less<>> drained;
    std::size_t audit = 0;
  };

  void roll_back(std::size_t mark, rest& before) noexcept {
    const std::scoped_lock lock(owner_.mutex);
    undo_.undo(mark);
    owner_.paused.swap(before.paused);
    owner_.drained.swap(before.drained);
    owner_.entries.erase(owner_.entries.begin() + static_cast<std::ptrdiff_t>(before.audit), owner_.entries.end());
  }

  bool revive_dead(std::int64_t id) {
    const tables& of = owner_.all;
    const auto found = of.dead.find(id);
    if (found == of.dead.end() || of.find(found->kind, found->key) != nullptr) {
      return false;
    }
    auto row = std::make_unique<stored>(id, found->kind, found->key, found->payload, now_);
    row->fence = found->fence;
    undo_.put(id, std::move(row));
    undo_.put_dead(id, nullptr);
    return true;
  }

  // A changed copy takes its place.
  template <class Do>
  void change(const stored& row, Do how) {
    auto changed = std::make_unique<stored>(row);
    how(*changed);
    undo_.put(row.id, std::move(changed));
  }
  [[nodiscard]] static bool pending(const stored& row) { return row.lease == instant{}; }
  [[nodiscard]] static instant given_up(bool orphaned) { return orphaned ? instant_of(held_by_nobody) : instant{}; }
  [[nodiscard]] bool due_and_free(const stored& row) const {
    return row.due <= now_ && (pending(row) || row.lease <= (takes_over_ ? now_ : instant_of(held_by_nobody)));
  }

  void append(append_op& op) {
    const request& asked = *op.asked;
    const stored* const row = owner_.all.find(asked.kind, asked.key);
    const instant due = asked.due_in_window().at(now_);
    if (row == nullptr) {
      op.id = ++owner_.all.last_id;
      undo_.put(op.id, std::make_unique<stored>(op.id, asked.kind, asked.key, asked.payload, due));
      op.result = {true, false, due};
      return;
    }
    op.id = row->id;
    if (asked.replace && pending(*row)) {
      change(*row, [&](stored& replaced) {
        replaced.payload = asked.payload;
        replaced.due = due;
        replaced.attempt = 0;
      });
      op.result = {false, true, due};
    } else {
      op.result = {false, false, row->due};
    }
  }

  claimed begin(const upcoming& one, stored& row) {
    ++owner_.counted.rows_read;
    row.fence = ++owner_.all.last_fence;
    ++row.attempt;
    return {one.id, row.fence, one.kind, row.attempt, row.due, row.key, row.payload, row.lease != instant{}};
  }

  template <class Do>
  void for_held(std::span<ticket> ops, Do what) {
    const statement lock = owner_.run_statement();
    for (ticket& op : ops) {
      const stored* const row = owner_.all.find(op.id);
      op.still_ours = row != nullptr && row->fence == op.fence && row->lease > instant_of(held_by_nobody);
      if (op.still_ours) {
        what(*row);
      }
    }
  }

  implementation& owner_;
  const instant now_;
  const bool takes_over_;
  journal undo_;
  std::size_t savepoint_ = 0;
  rest at_begin_;
  rest at_savepoint_;
};

void memory_store::implementation::transact_within(const transaction_limits& limits,
                                                   const std::function<void(store_transaction&)>& work) {
  const std::scoped_lock alone(writing);
  open_transaction open(*this, limits.orphans_until.value_or(instant::max()));
  try {
    work(open);
  } catch (...) {
    open.roll_back();
    throw;
  }
  const std::scoped_lock lock(mutex);
  ++counted.commits;
}

memory_store::memory_store(const timer& clock, const request_limits& limits)
    : memory_store(std::make_unique<implementation>(clock, limits)) {}

memory_store::memory_store(std::unique_ptr<implementation> inside)
    : forwarding_store(*inside), implementation_(std::move(inside)) {}

memory_store::~memory_store() = default;

std::size_t memory_store::size() const {
  const std::scoped_lock lock(implementation_->mutex);
  return implementation_->all.checks.size();
}

}  // namespace timing_wheel::durable

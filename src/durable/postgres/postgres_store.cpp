#include "timing_wheel/durable/postgres_store.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "durable/postgres/clock.hpp"
#include "durable/postgres/overview.hpp"
#include "durable/postgres/pool.hpp"
#include "durable/postgres/schema.hpp"
#include "durable/postgres/transaction.hpp"
#include "durable/postgres/vacuum.hpp"
#include "durable/store/instant.hpp"
#include "durable/store/overview.hpp"
#include "durable/store/range.hpp"
#include "durable/store/rows.hpp"
#include "shared/fork_watch.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

using namespace postgres;  // NOLINT(google-build-using-namespace): the parts of this class

namespace {

using std::chrono::milliseconds;

// In one statement; the server holds it several times at once.
constexpr std::size_t most_bytes_at_once = std::size_t{16} << 20;

constexpr milliseconds longest_limit(1'000'000'000);  // PostgreSQL counts them in 32 bits

void in_range(const char* name, milliseconds value) { validate_range(name, value, milliseconds(1), longest_limit); }

postgres_options validated(postgres_options options) {
  if (options.connections < 1 || options.connections > 64) {
    throw timer_error(timer_errc::invalid_option,
                      "connections is " + std::to_string(options.connections) + "; it must be in [1, 64]");
  }
  in_range("connect_timeout", options.connect_timeout);
  in_range("statement_timeout", options.statement_timeout);
  in_range("transaction_timeout", options.transaction_timeout);
  if (options.schema.empty() || options.schema.size() > 63 || options.schema.find('\0') != std::string::npos) {
    throw timer_error(timer_errc::invalid_option, "schema has " + std::to_string(options.schema.size()) +
                                                      " bytes; it must have 1 to 63, and none of them zero");
  }
  return options;
}

transaction_limits validated(transaction_limits limits) {
  for (auto& [name, limit] : {std::pair<const char*, std::optional<milliseconds>&>("lock_wait", limits.lock_wait),
                              std::pair<const char*, std::optional<milliseconds>&>("urgent", limits.urgent),
                              std::pair<const char*, std::optional<milliseconds>&>("idle", limits.idle)}) {
    if (limit) {
      limit = std::min(*limit, longest_limit);  // a lease may be longer than the server can count
      in_range(name, *limit);
    }
  }
  return limits;
}

// Runs `work`, which changes nothing; and once more, on a new connection, if the used one has ended, or is stale.
template <class Work>
auto also_after_a_break(pool::guard& held, const Work& work) {
  try {
    return work();
  } catch (const timer_error&) {
    if ((held->works() && !held->is_stale()) || !held->used) {
      throw;
    }
  }
  held.renew();
  return work();
}

}  // namespace

class postgres_store::implementation final : public store {
 public:
  implementation(const std::string& conninfo, const postgres_options& options)
      : options_(validated(options)),
        connection_rules_{prefix_of(options_.schema), options_.statement_timeout, options_.prepare, &counts_},
        transaction_rules_(rules_for(options_, counts_)),
        reading_rules_(rules_for(options_, counts_, true)),
        pool_(conninfo, options_.connections, options_, connection_rules_),
        kept_(conninfo, 1, options_, connection_rules_),
        vacuum_(conninfo, connection_rules_) {
    if (options_.connect_at_once) {
      const pool::guard first(pool_);
    }
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;
  ~implementation() override;

  void migrate() override;
  [[nodiscard]] migration_plan plan_migration() override;
  [[nodiscard]] instant now() override;
  [[nodiscard]] const request_limits& limits() const noexcept override { return options_.limits; }
  void transact(const std::function<void(store_transaction&)>& work) override { change({}, work); }
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override {
    change(validated(limits), work);
  }
  void consume_within(const transaction_limits& limits, std::span<const upcoming> wanted, std::vector<claimed>& got,
                      const std::function<void(store_transaction&)>& work) override {
    got.clear();
    const consumption first{wanted, &got};
    change(validated(limits), work, &first);
  }
  bool append_at_once(const transaction_limits& limits, std::span<append_op> ops) override;
  bool complete_and_claim_at_once(const transaction_limits& limits, lease_round& round) override;
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override;
  void read_overdue(std::vector<overdue_kind>& found) override;
  [[nodiscard]] std::chrono::microseconds clock_difference() override;
  [[nodiscard]] std::optional<std::vector<std::int16_t>> renew_shares(std::string_view node,
                                                                      std::span<const std::string> kinds,
                                                                      milliseconds hold, bool leave) override;
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override;
  // Runs `what` in a transaction that only reads, also in one of this thread.
  template <class What>
  auto look(const What& what) {
    check_process();
    decltype(what(std::declval<connection&>(), instant())) found{};
    in_a_transaction(
        [&](writing_transaction& open) {
          const instant at = open.now();
          found = what(open.planned_by_server(), at);
        },
        {}, reading_rules_);
    return found;
  }
  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override {
    return look([&](connection& on, instant at) { return postgres::list(on, range, at, false); });
  }
  [[nodiscard]] std::size_t count(const check_filter& which, std::size_t most) override {
    return look([&](connection& on, instant at) { return postgres::count(on, which, most, at); });
  }
  [[nodiscard]] std::vector<kind_counts> count_kinds(std::size_t most, bool with_waits) override {
    auto kinds = look([&](connection& on, instant at) { return postgres::count_kinds(on, most, at, with_waits); });
    mark_paused(paused_kinds(), kinds);
    return kinds;
  }
  [[nodiscard]] std::optional<std::vector<node_info>> nodes() override {
    return look([](connection& on, instant /*at*/) { return postgres::nodes(on); });
  }
  [[nodiscard]] std::vector<dead_check> list_dead(const dead_range& range) override {
    return look([&](connection& on, instant /*at*/) { return postgres::list_dead(on, range); });
  }
  [[nodiscard]] std::vector<dead_group> count_dead(const dead_filter& which, std::size_t limit,
                                                   std::size_t most) override {
    return look([&](connection& on, instant /*at*/) { return postgres::count_dead(on, which, limit, most); });
  }
  void read_all(const std::function<void(stored_check&&)>& check,
                const std::function<void(dead_check&&)>& dead) override;
  [[nodiscard]] std::vector<paused_kind> paused_kinds() override;
  [[nodiscard]] std::vector<drained_node> drained_nodes() override;
  void tell_drained(std::string_view node, std::size_t held) override;
  [[nodiscard]] std::vector<long_run> long_runs() override;
  void tell_long_runs(std::string_view node, std::span<const long_run> runs) override;
  [[nodiscard]] std::vector<failed_run> failed_runs(std::span<const std::int64_t> ids) override;
  void tell_failed_runs(std::string_view node, std::span<const failed_run> runs) override;
  [[nodiscard]] std::optional<run_counts> runs_of_last_minute() override;
  void tell_runs(std::string_view node, const run_counts& since) override;
  [[nodiscard]] std::vector<audit_entry> audit(std::size_t limit) override;
  [[nodiscard]] store_counts counts() const noexcept override { return counts_.read(); }

 private:
  class in_transaction;

  void check_process() const;
  void change(const transaction_limits& limits, const std::function<void(store_transaction&)>& work,
              const consumption* first = nullptr);
  template <class Work>
  void in_a_transaction(const Work& work, const transaction_limits& limits, const transaction_rules& rules,
                        const consumption* first = nullptr);
  template <class What>
  bool at_once(std::atomic<int>& refused, const What& what);
  result ask(const query& which, const parameters& values);
  template <class Read>
  auto read_counted(const query& which, const parameters& values, const Read& read);
  result write(const query& which, const parameters& values);
  [[nodiscard]] bool has_table(const std::string& name);
  [[nodiscard]] std::vector<paused_kind> read_paused_kinds();
  [[nodiscard]] std::vector<drained_node> read_drained_nodes();
  void read_pauses(bool nodes_too, const read_range& into);
  [[nodiscard]] std::optional<std::pair<instant, std::int64_t>> read_page(const read_range& which, std::size_t limit,
                                                                          std::vector<upcoming>& found);

  // Immutable.
  const postgres_options options_;
  const detail::fork_watch process_{true};
  const connection_rules connection_rules_;
  const transaction_rules transaction_rules_;
  const transaction_rules reading_rules_;  // also on a standby
  const std::string paused_kinds_name_ = connection_rules_.prefix + "paused_kind";
  const std::string drained_nodes_name_ = connection_rules_.prefix + "drained_node";
  const std::string long_runs_name_ = connection_rules_.prefix + "long_run";
  const std::string failed_runs_name_ = connection_rules_.prefix + "failed_run";
  const std::string run_counts_name_ = connection_rules_.prefix + "run_count";
  std::atomic<bool> may_tell_runs_{false};  // so it was the last time. Relaxed: it publishes nothing.

  // Any thread.
  counters counts_;
  // The tables, when last looked for. Relaxed: they publish nothing.
  std::atomic<bool> has_paused_kinds_{false};
  std::atomic<bool> has_drained_nodes_{false};  // and that of paused kinds
  // So many are not tried at once. Relaxed: a wrong count does no harm.
  std::atomic<int> refused_appends_{0};
  std::atomic<int> refused_rounds_{0};
  server_clock clock_;
  pool pool_;
  pool kept_;  // for urgent transactions: no other use of the store can take its one connection
  table_vacuum vacuum_;

  std::mutex mutex_;
  std::set<std::thread::id> writing_;  // guarded by mutex_: who is in a transaction
};

// A second transaction of one thread would be another one for the server: what is asked for in a handler would not be
// undone with it, or would wait for its own locks.
class postgres_store::implementation::in_transaction {
 public:
  explicit in_transaction(implementation& store) : store_(store) {
    const std::scoped_lock lock(store_.mutex_);
    if (!store_.writing_.insert(std::this_thread::get_id()).second) {
      fail("beginning a transaction", "25001", "this thread is in one of this store already");
    }
  }
  in_transaction(const in_transaction&) = delete;
  in_transaction& operator=(const in_transaction&) = delete;
  ~in_transaction() {
    const std::scoped_lock lock(store_.mutex_);
    store_.writing_.erase(std::this_thread::get_id());
  }

 private:
  implementation& store_;
};

// The connections of the parent are not ours: closing them here would end them there.
postgres_store::implementation::~implementation() {
  if (process_.is_child()) {
    pool_.abandon();
    kept_.abandon();
    vacuum_.abandon();
  }
}

void postgres_store::implementation::check_process() const {
  if (process_.is_child()) {
    throw timer_error(timer_errc::forked);
  }
}

void postgres_store::implementation::migrate() {
  check_process();
  pool::guard held(pool_);
  if (held->used) {
    held.renew();  // what is done in several steps is not begun on a connection that may be dead
  }
  if (make_tables(*held, options_.schema)) {
    counts_.commits.fetch_add(1, std::memory_order_relaxed);
  }
}

migration_plan postgres_store::implementation::plan_migration() {
  check_process();
  pool::guard held(pool_);
  return also_after_a_break(held, [&] { return planned(*held, options_.schema); });
}

void postgres_store::implementation::change(const transaction_limits& limits,
                                            const std::function<void(store_transaction&)>& work,
                                            const consumption* first) {
  check_process();
  const in_transaction alone(*this);
  in_a_transaction(work, limits, transaction_rules_, first);
}

bool postgres_store::implementation::append_at_once(const transaction_limits& limits, std::span<append_op> ops) {
  std::size_t bytes = 0;
  for (const append_op& op : ops) {
    bytes += op.asked->payload.size();
    if (op.asked->replace || bytes > most_bytes_at_once) {
      return false;
    }
  }
  return !ops.empty() &&
         at_once(refused_appends_, [&](connection& on) { return postgres::append_at_once(on, limits, ops, counts_); });
}

bool postgres_store::implementation::complete_and_claim_at_once(const transaction_limits& limits, lease_round& round) {
  return at_once(refused_rounds_, [&](connection& on) {
    const std::optional<instant> now = postgres::complete_and_claim_at_once(on, limits, round, counts_);
    if (now) {
      clock_.saw(*now);
    }
    return now.has_value();
  });
}

// Where the session is the store's own, so that its plan is kept and its statements end. A connection that was idle for
// longer may be dead, which a statement that commits must not be the first to find out. Where keys are often taken, or
// rows locked, the statement would often be in vain.
template <class What>
bool postgres_store::implementation::at_once(std::atomic<int>& refused, const What& what) {
  constexpr std::chrono::seconds recently(1);
  constexpr int pause_after_a_refusal = 16;
  if (!options_.prepare) {
    return false;
  }
  if (const int left = refused.load(std::memory_order_relaxed); left > 0) {
    refused.store(left - 1, std::memory_order_relaxed);
    return false;
  }
  check_process();
  const in_transaction alone(*this);
  pool::guard held(pool_);
  if (!held->used || std::chrono::steady_clock::now() - held->used_at > recently) {
    return false;
  }
  const bool done = what(*held);
  refused.store(done ? 0 : pause_after_a_refusal, std::memory_order_relaxed);
  return done;
}

template <class Work>
void postgres_store::implementation::in_a_transaction(const Work& work, const transaction_limits& limits,
                                                      const transaction_rules& rules, const consumption* first) {
  pool::guard held(limits.urgent ? kept_ : pool_, limits.urgent);
  std::optional<writing_transaction> open;
  also_after_a_break(held, [&] { open.emplace(*held, rules, limits, first); });
  clock_.saw(open->now());
  work(*open);
  open->commit();
}

// One statement that only reads, or that `write` has.
result postgres_store::implementation::ask(const query& which, const parameters& values) {
  check_process();
  pool::guard held(pool_);
  return also_after_a_break(held, [&] {
    if (!held->checked) {
      const result shown = held->run(sql::read_clock);
      check_version(shown.integer(0, 1), options_.schema);
      held->checked = true;
    }
    return held->run(which, values);
  });
}

template <class Read>
auto postgres_store::implementation::read_counted(const query& which, const parameters& values, const Read& read) {
  const result rows = ask(which, values);
  counts_.rows_read.fetch_add(static_cast<std::uint64_t>(rows.rows()), std::memory_order_relaxed);
  return read_each(rows, read);
}

// One statement that may be repeated. A session of the user's settings may take no writes without a BEGIN that says so.
result postgres_store::implementation::write(const query& which, const parameters& values) {
  if (options_.prepare) {
    result rows = ask(which, values);
    counts_.commits.fetch_add(1, std::memory_order_relaxed);
    return rows;
  }
  check_process();
  result rows;
  in_a_transaction([&](writing_transaction& open) { rows = open.run(which, values); }, {}, transaction_rules_);
  return rows;
}

instant postgres_store::implementation::now() {
  check_process();
  if (const std::optional<instant> known = clock_.now()) {
    return *known;
  }
  try {
    clock_.saw(instant_of(ask(sql::read_clock, {}).integer(0, 0)));
  } catch (const timer_error&) {
    if (!clock_.go_on()) {
      throw;
    }
  }
  return clock_.last_guess();
}

void postgres_store::implementation::read_ahead(const read_range& which, std::vector<upcoming>& found) {
  const bool reads = which.limit != 0 && !which.kinds.empty() && which.from < which.until;
  if (!reads && which.paused == nullptr) {
    return;
  }
  read_range page = which;
  page.until = reads ? which.until : which.from;
  const std::size_t limit = found.size() + std::min(which.limit, found.max_size() - found.size());
  do {
    const auto end = read_page(page, limit - found.size(), found);
    if (!end) {
      return;
    }
    if (which.stopped_at != nullptr) {
      *which.stopped_at = end;
      return;
    }
    std::tie(page.from, page.after_id) = *end;
    page.paused = nullptr;
  } while (found.size() < limit);
}

// \returns where the next page begins, if this one has ended before the window has.
std::optional<std::pair<instant, std::int64_t>> postgres_store::implementation::read_page(
    const read_range& which, std::size_t limit, std::vector<upcoming>& found) {
  constexpr std::int64_t most_looked_at = 5000;
  array kinds(element::text, which.kinds);
  array wanted(element::bigint, which.shares ? std::span(*which.shares) : std::span<const std::int16_t>());
  parameters values;
  values.bind(which.from.time_since_epoch().count()).bind(which.after_id);
  values.bind(which.until.time_since_epoch().count()).bind(kinds);
  if (which.shares) {
    values.bind(wanted);
  } else {
    values.bind_null();
  }
  values.bind(which.overdue.time_since_epoch().count()).bind(most_looked_at).bind(count_of(limit));
  values.bind(paused_kinds_name_).bind(drained_nodes_name_);
  const bool with_paused = which.paused != nullptr && has_paused_kinds_.load(std::memory_order_relaxed);
  const bool with_drained = with_paused && has_drained_nodes_.load(std::memory_order_relaxed);
  if (with_drained) {
    values.bind(which.node);
  }
  const result rows = [&] {
    try {
      return ask(with_drained  ? sql::read_ahead_and_drained
                 : with_paused ? sql::read_ahead_and_paused
                               : sql::read_ahead,
                 values);
    } catch (...) {
      has_paused_kinds_.store(false, std::memory_order_relaxed);  // a table may be gone
      throw;
    }
  }();
  std::optional<std::pair<instant, std::int64_t>> next;
  for (int row = 0; row < rows.rows(); ++row) {
    const instant due = instant_of(rows.integer(row, 0));
    if (rows.is_null(row, 1) && rows.is_null(row, 3)) {
      counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
      which.paused->emplace_back(rows.bytes(row, 7));
      continue;
    }
    if (rows.is_null(row, 1)) {
      check_version(rows.integer(row, 3), options_.schema);
      clock_.saw(due);
      const bool there = !rows.is_null(row, 7);
      const bool both_there = there && rows.integer(row, 5) != 0;
      has_paused_kinds_.store(there, std::memory_order_relaxed);
      has_drained_nodes_.store(both_there, std::memory_order_relaxed);
      if (which.paused != nullptr && ((there && !with_paused) || (both_there && !with_drained))) {
        read_pauses(both_there, which);
      }
      continue;
    }
    counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
    if (!rows.is_null(row, 3)) {
      found.push_back({rows.integer(row, 1), due, instant_of(rows.integer(row, 2)),
                       static_cast<std::uint32_t>(rows.integer(row, 3) - 1), static_cast<int>(rows.integer(row, 5)),
                       static_cast<std::size_t>(rows.integer(row, 6))});
    }
    if (rows.integer(row, 4) == most_looked_at) {
      next.emplace(due, rows.integer(row, 1));
    }
  }
  return next;
}

std::optional<std::vector<std::int16_t>> postgres_store::implementation::renew_shares(
    std::string_view node, std::span<const std::string> kinds, milliseconds hold, bool leave) {
  const std::string set = name_of_set(kinds);
  parameters values;
  values.bind(node).bind(set);
  if (leave) {
    write(sql::leave, values);
    return std::vector<std::int16_t>();
  }
  values.bind(saturating_microseconds(hold).count());
  std::vector<std::int16_t> mine;
  // \returns whether all rows of the set were there.
  const auto take = [&] {
    const result rows = write(sql::renew_shares, values);
    mine.clear();
    bool all = true;
    for (int row = 0; row < rows.rows(); ++row) {
      if (rows.is_null(row, 0)) {
        all = false;
      } else {
        mine.push_back(static_cast<std::int16_t>(rows.integer(row, 0)));
      }
    }
    return all;
  };
  if (!take()) {
    write(sql::make_shares, parameters().bind(set));
    take();
  }
  std::sort(mine.begin(), mine.end());
  return mine;
}

void postgres_store::implementation::read_overdue(std::vector<overdue_kind>& found) {
  constexpr std::int64_t most_looked_at = 5000;
  const result rows = ask(sql::read_overdue, parameters().bind(most_looked_at));
  counts_.rows_read.fetch_add(static_cast<std::uint64_t>(rows.rows()), std::memory_order_relaxed);
  for (int row = 0; row < rows.rows(); ++row) {
    found.push_back({std::string(rows.bytes(row, 0)), instant_of(rows.integer(row, 1))});
  }
}

std::optional<stored_check> postgres_store::implementation::find(std::string_view kind, std::string_view key) {
  const result rows = ask(sql::find, parameters().bind(kind).bind(key));
  if (rows.rows() == 0) {
    return std::nullopt;
  }
  counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
  return stored_check_in(result_row(rows, 0), kind, key, 0);
}

std::chrono::microseconds postgres_store::implementation::clock_difference() {
  const instant shown = now();
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch()) -
         shown.time_since_epoch();
}

std::vector<audit_entry> postgres_store::implementation::audit(std::size_t limit) {
  if (!has_table(connection_rules_.prefix + "audit")) {
    return {};
  }
  return look([&](connection& on, instant /*at*/) { return postgres::audit(on, limit); });
}

// On a connection that works, since it cannot be repeated.
void postgres_store::implementation::read_all(const std::function<void(stored_check&&)>& check,
                                              const std::function<void(dead_check&&)>& dead) {
  const auto counted = [this](const auto& into) {
    return [this, &into](auto&& row) {
      counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
      into(std::forward<decltype(row)>(row));
    };
  };
  static_cast<void>(ask(sql::read_clock, {}));
  pool::guard held(pool_);
  postgres::read_all(*held, counted(check), counted(dead));
}

bool postgres_store::implementation::has_table(const std::string& name) {
  return ask(sql::look_for_table, parameters().bind(name)).rows() != 0;
}

std::vector<paused_kind> postgres_store::implementation::paused_kinds() {
  return has_table(paused_kinds_name_) ? read_paused_kinds() : std::vector<paused_kind>();
}

// When the tables are seen for the first time. What is told twice does no harm.
void postgres_store::implementation::read_pauses(bool nodes_too, const read_range& into) {
  for (const paused_kind& each : read_paused_kinds()) {
    into.paused->push_back(each.kind);
  }
  for (const drained_node& each : nodes_too ? read_drained_nodes() : std::vector<drained_node>()) {
    if (each.node == into.node) {
      into.paused->emplace_back();
    }
  }
}

std::vector<drained_node> postgres_store::implementation::drained_nodes() {
  return has_table(drained_nodes_name_) ? read_drained_nodes() : std::vector<drained_node>();
}

std::vector<drained_node> postgres_store::implementation::read_drained_nodes() {
  return read_counted(sql::drained_nodes, {}, drained_node_in<result_row>);
}

void postgres_store::implementation::tell_drained(std::string_view node, std::size_t held) {
  write(sql::tell_drained, parameters().bind(node).bind(count_of(held)));
}

std::vector<long_run> postgres_store::implementation::long_runs() {
  if (!has_table(long_runs_name_)) {
    return {};
  }
  return read_counted(sql::long_runs, {}, long_run_in<result_row>);
}

void postgres_store::implementation::tell_long_runs(std::string_view node, std::span<const long_run> runs) {
  if (ask(sql::look_for_rights, parameters().bind(long_runs_name_)).rows() == 0) {
    return;
  }
  if (runs.empty()) {
    write(sql::forget_long_runs, parameters().bind(node));
  } else {
    array ids(element::bigint, runs, &long_run::id);
    array fences(element::bigint, runs, &long_run::fence);
    array begun(element::bigint, runs, [](const long_run& each) { return microseconds_of(each.begun); });
    write(sql::tell_long_runs, parameters().bind(node).bind(ids).bind(fences).bind(begun));
  }
}

// An error may have what not everybody may see, so a role may lack the right to read it.
std::vector<failed_run> postgres_store::implementation::failed_runs(std::span<const std::int64_t> ids) {
  if (ids.empty() || ask(sql::look_for_right_to_read, parameters().bind(failed_runs_name_)).rows() == 0) {
    return {};
  }
  array all(element::bigint, ids);
  return read_counted(sql::failed_runs, parameters().bind(all), [](const result_row& row) {
    return failed_run{.node = std::string(row.bytes(0)),
                      .id = row.integer(1),
                      .attempt = row.count(2),
                      .error = std::string(row.bytes(3)),
                      .told = instant_of(row.integer(4))};
  });
}

void postgres_store::implementation::tell_failed_runs(std::string_view node, std::span<const failed_run> runs) {
  if (ask(sql::look_for_rights, parameters().bind(failed_runs_name_)).rows() == 0) {
    return;
  }
  if (runs.empty()) {
    write(sql::forget_failed_runs, {});
  } else {
    array ids(element::bigint, runs, &failed_run::id);
    array attempts(element::integer, runs, &failed_run::attempt);
    array errors(element::bytea, runs, &failed_run::error);
    write(sql::tell_failed_runs, parameters().bind(node).bind(ids).bind(attempts).bind(errors));
  }
}

std::optional<run_counts> postgres_store::implementation::runs_of_last_minute() {
  if (!has_table(run_counts_name_)) {
    return std::nullopt;
  }
  const result sums = ask(sql::runs_of_last_minute, {});
  counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
  const auto sum = [&](int column) { return static_cast<std::uint64_t>(sums.integer(0, column)); };
  return run_counts{.begun = sum(0), .ended = sum(1), .failed = sum(2)};
}

void postgres_store::implementation::tell_runs(std::string_view node, const run_counts& since) {
  check_process();
  if (options_.vacuum && options_.prepare) {
    vacuum_.ended(since.ended);
  }
  if (!may_tell_runs_.exchange(false, std::memory_order_relaxed) &&
      ask(sql::look_for_rights, parameters().bind(run_counts_name_)).rows() == 0) {
    return;
  }
  write(sql::tell_runs,
        parameters().bind(node).bind(count_of(since.begun)).bind(count_of(since.ended)).bind(count_of(since.failed)));
  may_tell_runs_.store(true, std::memory_order_relaxed);
}

std::vector<paused_kind> postgres_store::implementation::read_paused_kinds() {
  return read_counted(sql::paused_kinds, {}, paused_kind_in<result_row>);
}

postgres_store::postgres_store(const std::string& conninfo, const postgres_options& options)
    : postgres_store(std::make_unique<implementation>(conninfo, options)) {}

postgres_store::postgres_store(std::unique_ptr<implementation> inside)
    : forwarding_store(*inside), implementation_(std::move(inside)) {}

postgres_store::~postgres_store() = default;

const char* postgres_prepare(transaction& open, const std::string& sql) {
  static_cast<void>(postgres_connection(open));  // gives the planner back, so that it is not done in between
  auto* const on = static_cast<connection*>(open.native_handle(connection::api));
  if (on == nullptr) {
    throw timer_error(timer_errc::invalid_option, "preparing a statement: the store is no postgres_store");
  }
  return on->prepare(sql).c_str();
}

pg_conn* postgres_connection(transaction& open) noexcept {
  return static_cast<pg_conn*>(open.native_handle("postgres"));
}

}  // namespace timing_wheel::durable

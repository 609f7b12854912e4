#include "timing_wheel/durable/sqlite_store.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "durable/sqlite/disk_reserve.hpp"
#include "durable/sqlite/fair_lock.hpp"
#include "durable/sqlite/opening.hpp"
#include "durable/sqlite/overview.hpp"
#include "durable/sqlite/range_reader.hpp"
#include "durable/sqlite/schema.hpp"
#include "durable/sqlite/transaction.hpp"
#include "durable/store/fail_point.hpp"
#include "durable/store/instant.hpp"
#include "durable/store/overview.hpp"
#include "durable/store/rows.hpp"
#include "shared/fork_watch.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

using namespace sqlite;  // NOLINT(google-build-using-namespace): the parts of this class

namespace {

// Reads the row of the clock, and checks the version beside it. Nothing if the clock was never set.
std::optional<clock_row> read_row(statement& read, sqlite3* connection) {
  execution run = read.run();
  const bool has_version = run.step();
  check_version(connection, has_version ? run.integer(3) : 0);
  if (run.is_null(0)) {
    return std::nullopt;
  }
  return clock_row{run.integer(0), std::string(run.bytes(1)), std::chrono::microseconds(run.integer(2))};
}

// A machine without a battery may show 1970; then each deadline looks like a count of seconds.
constexpr std::chrono::sys_days begin_of_times = std::chrono::year(2001) / 1 / 1;

bool is_valid(const std::optional<clock_row>& row) { return row && row->boot == clocks().boot(); }

}  // namespace

class sqlite_store::implementation final : public store {
 public:
  implementation(const std::string& file, const sqlite_options& options)
      : options_(options), writer_(open_writer(file, options)), reader_(open_reader(file, options)) {}
  // In memory: one connection, which reads, too.
  implementation(const timer& clock, const sqlite_options& options)
      : options_(options), writer_(open_in_memory(options)) {
    virtual_ = std::make_unique<virtual_clock>(writer_->get(), clock);
  }
  implementation(const implementation&) = delete;
  implementation& operator=(const implementation&) = delete;
  ~implementation() override;

  void migrate() override;
  [[nodiscard]] migration_plan plan_migration() override;
  [[nodiscard]] instant now() override;
  [[nodiscard]] const request_limits& limits() const noexcept override { return options_.limits; }
  void transact(const std::function<void(store_transaction&)>& work) override { transact_within({}, work); }
  void transact_within(const transaction_limits& limits, const std::function<void(store_transaction&)>& work) override;
  void read_ahead(const read_range& which, std::vector<upcoming>& found) override;
  void read_overdue(std::vector<overdue_kind>& found) override;
  [[nodiscard]] std::chrono::microseconds clock_difference() override;
  [[nodiscard]] std::optional<stored_check> find(std::string_view kind, std::string_view key) override;
  // Runs `what` on the connection that reads, with what the clock shows.
  template <class What>
  auto look(const What& what) {
    const instant at = now();
    const reading held(*this);
    return what(on_reader(), at);
  }
  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override {
    return look([&](database& on, instant at) { return sqlite::list(on, range, at, counts_); });
  }
  [[nodiscard]] std::size_t count(const check_filter& which, std::size_t most) override {
    return look([&](database& on, instant at) { return sqlite::count(on, which, most, at, counts_); });
  }
  [[nodiscard]] std::vector<kind_counts> count_kinds(std::size_t most, bool with_waits) override {
    auto kinds = look([&](database& on, instant at) { return sqlite::count_kinds(on, most, at, with_waits, counts_); });
    mark_paused(paused_kinds(), kinds);
    return kinds;
  }
  [[nodiscard]] std::vector<dead_check> list_dead(const dead_range& range) override {
    return look([&](database& on, instant /*at*/) { return sqlite::list_dead(on, range, counts_); });
  }
  [[nodiscard]] std::vector<dead_group> count_dead(const dead_filter& which, std::size_t limit,
                                                   std::size_t most) override {
    return look([&](database& on, instant /*at*/) { return sqlite::count_dead(on, which, limit, most, counts_); });
  }
  [[nodiscard]] std::vector<long_run> long_runs() override {
    return look([&](database& on, instant /*at*/) { return sqlite::long_runs(on, counts_); });
  }
  [[nodiscard]] std::vector<audit_entry> audit(std::size_t limit) override {
    return look([&](database& on, instant /*at*/) { return sqlite::audit(on, limit, counts_); });
  }
  void read_all(const std::function<void(stored_check&&)>& check,
                const std::function<void(dead_check&&)>& dead) override;
  [[nodiscard]] std::vector<paused_kind> paused_kinds() override;
  [[nodiscard]] std::vector<drained_node> drained_nodes() override;
  void tell_drained(std::string_view node, std::size_t held) override {
    transact([&](store_transaction& /*open*/) { transaction_.tell_drained(node, held); });
  }
  void tell_long_runs(std::string_view node, std::span<const long_run> runs) override {
    transact([&](store_transaction& open) { sqlite::tell_long_runs(*writer_, node, runs, open.now(), counts_); });
  }
  [[nodiscard]] std::vector<failed_run> failed_runs(std::span<const std::int64_t> ids) override {
    return look([&](database& on, instant /*at*/) { return sqlite::failed_runs(on, ids, counts_); });
  }
  void tell_failed_runs(std::string_view node, std::span<const failed_run> runs) override {
    transact([&](store_transaction& open) { sqlite::tell_failed_runs(*writer_, node, runs, open.now(), counts_); });
  }
  [[nodiscard]] std::optional<run_counts> runs_of_last_minute() override {
    return look([&](database& on, instant at) { return sqlite::runs_of_last_minute(on, at, counts_); });
  }
  void tell_runs(std::string_view /*node*/, const run_counts& since) override {
    transact([&](store_transaction& open) { sqlite::tell_runs(*writer_, since, open.now(), counts_); });
  }
  [[nodiscard]] store_counts counts() const noexcept override { return counts_.read(); }
  void adopt_wall_clock();
  [[nodiscard]] sqlite3* connection() const noexcept { return virtual_ ? writer_->get() : nullptr; }

 private:
  class writing;
  // The lock for reading, of a file that is there. In memory it is that for writing: a handler that reads has it.
  class reading {
   public:
    explicit reading(implementation& store) {
      store.check_process();
      if (store.reader_) {
        held_ = std::unique_lock(store.read_lock_);
        store.reader_->check_in_place();
      } else if (store.writing_thread_.load(std::memory_order_relaxed) != std::this_thread::get_id()) {
        held_in_memory_ = std::unique_lock(store.write_lock_);
      }
    }

   private:
    std::unique_lock<std::mutex> held_;
    std::unique_lock<fair_lock> held_in_memory_;
  };

  void check_process() const;
  void set_clock();
  void see_clock_to_write();
  void leave_room_for_others() const;
  void see_clock_to_read();
  void see_pauses(bool has_read);
  [[nodiscard]] database& on_reader() const noexcept { return reader_ ? *reader_ : *writer_; }

  // Immutable.
  const sqlite_options options_;
  const detail::fork_watch process_{true};

  // Any thread.
  counters counts_;
  file_clock clock_;
  std::atomic<std::thread::id> writing_thread_{};

  // Guarded by the lock above it. The connection outlives its statements.
  fair_lock write_lock_;
  std::unique_ptr<database> writer_;
  std::unique_ptr<virtual_clock> virtual_;  // of a store in memory; set by the constructor
  writing_transaction transaction_{*writer_, options_.limits, counts_};
  disk_reserve reserve_{*writer_};
  statement read_clock_{writer_->get(), sql::read_clock, &counts_.statements};
  statement set_clock_{writer_->get(), sql::set_clock, &counts_.statements};
  std::optional<unsigned> written_version_;            // of the file, when this connection last knew its clock
  bool clock_is_new_ = false;                          // set in the transaction that is open, and not seen yet
  std::chrono::steady_clock::time_point had_lock_at_;  // of the file, the last time
  std::optional<std::chrono::steady_clock::time_point> saw_others_at_;  // that write this file, too

  std::mutex read_lock_;
  std::unique_ptr<database> reader_;  // none in memory: then the lock for writing guards what follows
  statement see_clock_{on_reader().get(), sql::read_clock, &counts_.statements};
  range_reader window_reader_{on_reader().get(), counts_};
  statement read_overdue_{on_reader().get(), sql::read_overdue, &counts_.statements};
  statement find_{on_reader().get(), sql::find, &counts_.statements};
  statement look_for_pauses_{on_reader().get(), sql::look_for_pauses, &counts_.statements};
  statement paused_kinds_{on_reader().get(), sql::paused_kinds, &counts_.statements};
  statement drained_nodes_{on_reader().get(), sql::drained_nodes, &counts_.statements};
  std::optional<unsigned> read_version_;
  std::vector<paused_kind> paused_;
  std::vector<drained_node> drained_;
  std::optional<unsigned> paused_version_;  // of the file, when these were read
};

// The lock for writing, and the transaction that is open then: undone at the end if it was not committed.
//
// Another process may have the lock of the file, and be frozen. A thread that waits for `write_lock_` meanwhile waits
// for that, too. So its time counts from `asked_at`, unless this store has had the file's lock since: else each of
// those who wait would have a whole busy timeout after all before it.
class sqlite_store::implementation::writing {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  explicit writing(implementation& store, time_point asked_at = std::chrono::steady_clock::now())
      : store_(store), asked_at_(asked_at) {
    store_.check_process();
    if (store_.writing_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
      fail(store_.writer_->get(), "beginning a transaction", SQLITE_MISUSE,
           "this thread is in one of this store already");
    }
    store_.write_lock_.lock();
    store_.writing_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  }
  writing(const writing&) = delete;
  writing& operator=(const writing&) = delete;
  ~writing() {
    const bool was_full = !committed_ && store_.reserve_.was_full();
    if (!is_users_) {
      store_.transaction_.roll_back();
    }
    if (was_full) {
      store_.reserve_.clear_log();
    }
    store_.clock_is_new_ = false;
    if (begun_) {
      store_.had_lock_at_ = std::chrono::steady_clock::now();
    }
    store_.writing_thread_.store({}, std::memory_order_relaxed);
    store_.write_lock_.unlock();
  }

  void begin() {
    store_.leave_room_for_others();
    is_users_ = store_.virtual_ != nullptr && sqlite3_get_autocommit(store_.writer_->get()) == 0;
    if (is_users_) {  // the connection is the user's, too
      fail(store_.writer_->get(), "beginning a transaction", SQLITE_BUSY,
           "a transaction of yours is open on the store's connection");
    }
    store_.writer_->check_in_place();
    store_.writer_->waits_since(std::max(asked_at_, store_.had_lock_at_));
    store_.transaction_.begin();
    store_.writer_->waits_since(std::nullopt);
    begun_ = true;
    if (store_.writer_->has_waited()) {
      store_.saw_others_at_ = std::chrono::steady_clock::now();
    }
  }
  void commit() {
    store_.transaction_.check_open();
    store_.reserve_.reserve();
    store_.transaction_.commit();
    committed_ = true;
    store_.reserve_.committed();
    store_.written_version_.reset();
    if (!std::exchange(store_.clock_is_new_, false)) {
      store_.written_version_ = store_.writer_->data_version();
    }
  }

 private:
  implementation& store_;
  const time_point asked_at_;
  bool is_users_ = false;  // the transaction that is open
  bool begun_ = false;
  bool committed_ = false;
};

// The connections of the parent are not ours: closing them here could write into its file.
sqlite_store::implementation::~implementation() {
  if (process_.is_child()) {
    if (virtual_.release() != nullptr) {
      virtual_clock::leave_all();
    }
    static_cast<void>(writer_.release());  // NOLINT(bugprone-unused-return-value)
    static_cast<void>(reader_.release());  // NOLINT(bugprone-unused-return-value)
  }
}

void sqlite_store::implementation::check_process() const {
  if (process_.is_child()) {
    throw timer_error(timer_errc::forked);
  }
}

void sqlite_store::implementation::migrate() {
  writing held(*this);
  held.begin();
  make_tables(*writer_, virtual_ != nullptr || clocks().wall() < begin_of_times);
  if (virtual_) {
    set_clock_.run().bind(1).bind_text(virtual_boot).bind(0).finish();
  } else if (!is_valid(read_row(read_clock_, writer_->get()))) {
    set_clock();
  }
  clock_is_new_ = true;
  held.commit();
}

migration_plan sqlite_store::implementation::plan_migration() {
  const reading held(*this);
  return planned(on_reader(), virtual_ != nullptr || clocks().wall() < begin_of_times);
}

// In the transaction that is open. What it wrote is seen when it is committed.
void sqlite_store::implementation::set_clock() {
  const std::optional<clock_row> old = read_row(read_clock_, writer_->get());
  const clock_row row = row_of_wall_clock(old ? old->revision + 1 : 1);
  set_clock_.run().bind(row.revision).bind_text(row.boot).bind(row.offset.count()).finish();
  clock_is_new_ = true;
}

// SQLite's lock is not fair: a connection that waits asks again now and then (`database::wait_for_lock`), and one that
// takes it again at once has it all the time. So where others write the file, too, the lock stays free for a little
// longer than other stores wait between two tries.
void sqlite_store::implementation::leave_room_for_others() const {
  constexpr std::chrono::seconds recently(1);
  constexpr auto room = database::longest_nap + std::chrono::microseconds(100);
  if (saw_others_at_ && had_lock_at_ - *saw_others_at_ < recently) {
    std::this_thread::sleep_until(had_lock_at_ + room);
  }
}

// In the transaction that is open: a transaction of another connection may have set the clock, or a migration changed
// the tables.
void sqlite_store::implementation::see_clock_to_write() {
  if (written_version_ == writer_->data_version()) {
    return;
  }
  if (written_version_ && !virtual_) {
    saw_others_at_ = std::chrono::steady_clock::now();
  }
  std::optional<clock_row> row = read_row(read_clock_, writer_->get());
  if (virtual_) {
    written_version_ = writer_->data_version();
    return;
  }
  if (!is_valid(row)) {
    set_clock();
    transaction_.commit();
    clock_is_new_ = false;
    transaction_.begin();
    row = read_row(read_clock_, writer_->get());
  }
  clock_.saw(*row);
  written_version_ = writer_->data_version();
}

void sqlite_store::implementation::transact_within(const transaction_limits& limits,
                                                   const std::function<void(store_transaction&)>& work) {
  writing held(*this, limits.asked_at.value_or(std::chrono::steady_clock::now()));
  held.begin();
  see_clock_to_write();
  transaction_.set_time(virtual_ ? now() : clock_.now().value(), limits.orphans_until.value_or(instant::max()));
  work(transaction_);
  held.commit();
}

instant sqlite_store::implementation::now() {
  if (virtual_) {
    return instant(virtual_->passed());
  }
  if (!clock_.now()) {
    const reading held(*this);
    see_clock_to_read();
  }
  if (!clock_.now()) {
    transact([](store_transaction&) {});
  }
  return clock_.now().value();
}

// After a read: which version it saw is known then.
void sqlite_store::implementation::see_clock_to_read() {
  if (virtual_ || (read_version_ && read_version_ == reader_->data_version())) {
    return;
  }
  const std::optional<clock_row> row = read_row(see_clock_, reader_->get());
  if (is_valid(row)) {
    clock_.saw(*row);
    read_version_ = reader_->data_version();
  } else if (options_.read_only) {
    clock_.saw(row_of_wall_clock(0));
  }
}

void sqlite_store::implementation::read_ahead(const read_range& which, std::vector<upcoming>& found) {
  const bool reads = which.limit != 0 && !which.kinds.empty() && which.from < which.until;
  if (!reads && which.paused == nullptr) {
    return;
  }
  const reading held(*this);
  if (reads) {
    window_reader_.read(which, found);
    see_clock_to_read();
  }
  if (which.paused != nullptr) {
    see_pauses(reads);
    for (const paused_kind& each : paused_) {
      which.paused->push_back(each.kind);
    }
    if (std::any_of(drained_.begin(), drained_.end(), [&](const auto& each) { return each.node == which.node; })) {
      which.paused->emplace_back();
    }
  }
}

// What nobody has written to since then, is as it was. Which version of the file this is, a read has to see.
void sqlite_store::implementation::see_pauses(bool has_read) {
  const std::optional<unsigned> version = has_read && reader_ ? std::optional(reader_->data_version()) : std::nullopt;
  if (version && version == paused_version_) {
    return;
  }
  bool has_kinds = false;
  bool has_nodes = false;
  for (execution look = look_for_pauses_.run(); look.step();) {
    (look.bytes(0).ends_with("kind") ? has_kinds : has_nodes) = true;
  }
  std::vector<paused_kind> paused;
  std::vector<drained_node> drained;
  if (has_kinds) {
    execution run = paused_kinds_.run();
    paused = read_each(run, counts_, paused_kind_in<execution>);
  }
  if (has_nodes) {
    execution run = drained_nodes_.run();
    drained = read_each(run, counts_, drained_node_in<execution>);
  }
  paused_ = std::move(paused);
  drained_ = std::move(drained);
  paused_version_ = version;
}

void sqlite_store::implementation::read_overdue(std::vector<overdue_kind>& found) {
  const std::int64_t now_is = microseconds_of(now());
  const reading held(*this);
  execution run = read_overdue_.run();
  run.bind(now_is);
  while (run.step()) {
    if (!run.is_null(1) || !run.is_null(2)) {
      constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();
      const std::int64_t pending = run.is_null(1) ? never : run.integer(1);
      const std::int64_t orphaned = run.is_null(2) ? never : run.integer(2);
      counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
      found.push_back({std::string(run.bytes(0)), instant_of(std::min(pending, orphaned))});
    }
  }
}

// Another process may have set the clock since this one has last looked.
std::chrono::microseconds sqlite_store::implementation::clock_difference() {
  if (virtual_) {
    return {};
  }
  {
    const reading held(*this);
    read_version_.reset();
    see_clock_to_read();
  }
  const instant shown = now();
  return std::chrono::floor<std::chrono::microseconds>(clocks().wall()) - shown;
}

std::optional<stored_check> sqlite_store::implementation::find(std::string_view kind, std::string_view key) {
  const reading held(*this);
  execution run = find_.run();
  if (!run.bind_text(kind).bind_blob(key).step()) {
    return std::nullopt;
  }
  counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
  return stored_check_in(run, kind, key, 0);
}

void sqlite_store::implementation::read_all(const std::function<void(stored_check&&)>& check,
                                            const std::function<void(dead_check&&)>& dead) {
  const reading held(*this);
  database& on = on_reader();
  if (!reader_) {  // in memory, where a handler that reads is in a transaction
    sqlite::read_all(on, check, dead, counts_);
    return;
  }
  on.execute({"reading all checks", "BEGIN"});
  try {
    sqlite::read_all(on, check, dead, counts_);
  } catch (...) {
    on.execute({"reading all checks", "ROLLBACK"});
    throw;
  }
  on.execute({"reading all checks", "COMMIT"});
}

std::vector<paused_kind> sqlite_store::implementation::paused_kinds() {
  const reading held(*this);
  see_pauses(false);
  return paused_;
}

std::vector<drained_node> sqlite_store::implementation::drained_nodes() {
  const reading held(*this);
  see_pauses(false);
  return drained_;
}

void sqlite_store::implementation::adopt_wall_clock() {
  if (virtual_) {
    return;
  }
  transact([this](store_transaction&) { set_clock(); });
  transact([](store_transaction&) {});
}

sqlite_store::sqlite_store(const std::string& file, const sqlite_options& options)
    : sqlite_store(std::make_unique<implementation>(file, options)) {}

sqlite_store::sqlite_store(const timer& clock, const sqlite_options& options)
    : sqlite_store(std::make_unique<implementation>(clock, options)) {}

sqlite_store::sqlite_store(std::unique_ptr<implementation> inside)
    : forwarding_store(*inside), implementation_(std::move(inside)) {}

sqlite_store::~sqlite_store() = default;

void sqlite_store::adopt_wall_clock() { implementation_->adopt_wall_clock(); }

sqlite3* sqlite_store::connection() const noexcept { return implementation_->connection(); }

sqlite3* sqlite_connection(transaction& open) noexcept { return static_cast<sqlite3*>(open.native_handle("sqlite3")); }

}  // namespace timing_wheel::durable

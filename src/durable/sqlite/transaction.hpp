#pragma once

#include "durable/sqlite/clock.hpp"
#include "durable/sqlite/database.hpp"
#include "durable/sqlite/sql.hpp"
#include "durable/store/counters.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable::sqlite {

/// The transactions of the writing connection, one after another, with the statements that they share.
class writing_transaction final : public store_transaction {
 public:
  writing_transaction(database& on, const request_limits& limits, counters& counts);
  writing_transaction(const writing_transaction&) = delete;
  writing_transaction& operator=(const writing_transaction&) = delete;
  ~writing_transaction() override;

  /// Waits for the lock of the file.
  void begin();
  /// What `now` shows until the end, and until when leases that have ended may be claimed.
  void set_time(instant now, instant orphans_until) noexcept {
    now_ = now;
    takes_over_ = now <= orphans_until;
  }
  /// Throws SQLITE_ABORT_ROLLBACK if what ran in it has ended it: then SQLite's write lock is somebody else's.
  void check_open() override;
  /// As `roll_back` and the ends of a savepoint, it first resets the statements that a handler has left running.
  void commit();
  /// Undoes what is open, if anything is. Never throws: SQLite undoes it at the latest when the connection is closed.
  void roll_back() noexcept;

  [[nodiscard]] instant now() override { return now_; }
  [[nodiscard]] void* native_handle(std::string_view api) noexcept override;

  using store_transaction::cancel;
  void append(std::span<append_op> ops) override;
  void cancel(std::span<cancel_op> ops) override;
  void reschedule(std::span<reschedule_op> ops) override;
  void claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) override;
  std::size_t claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                         std::vector<claimed>& got) override;
  void consume(std::span<const upcoming> wanted, std::vector<claimed>& got) override;
  void put_back(const claimed& consumed, std::string_view kind, instant due, int attempt) override;
  void complete(std::span<ticket> ops) override;
  void extend(std::span<ticket> ops, instant lease) override;
  void release(std::span<release_op> ops) override;
  void bury(std::span<bury_op> ops) override;
  void bury_consumed(const claimed& consumed, std::string_view kind, std::string_view error) override;
  void savepoint() override;
  void rollback_to_savepoint() override;
  void release_savepoint() override;

  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override;
  std::size_t revive_dead(std::span<const std::int64_t> ids) override;
  std::size_t delete_dead(std::span<const std::int64_t> ids) override;
  std::size_t restore(std::span<const stored_check> checks, std::span<const dead_check> dead) override;
  bool pause(std::string_view kind) override;
  bool resume(std::string_view kind) override;
  bool drain(std::string_view node) override;
  bool end_drain(std::string_view node) override;
  void tell_drained(std::string_view node, std::size_t held);
  void record(const audit_entry& entry) override;

 protected:
  [[nodiscard]] const request_limits& limits() const noexcept override { return limits_; }

 private:
  template <class Visitor>
  void for_each_running(const Visitor& visit) const;
  void reset_what_runs() noexcept;
  bool mark(query make_table, query mark_it, std::string_view name);
  bool unmark(query look_for_table, query unmark_it, std::string_view name);
  void append(append_op& op);
  void append_some(std::span<append_op> ops, std::int64_t& last_id);
  [[nodiscard]] std::int64_t read_last_id();
  void stands(append_op& op);
  /// A row that has a key.
  struct standing {
    instant due;
    std::int64_t id;
  };
  [[nodiscard]] std::optional<standing> find(std::string_view kind, std::string_view key);
  [[nodiscard]] bool complete(const ticket& of);
  template <class Takes>
  std::size_t take(std::span<const upcoming> wanted, std::size_t most, std::vector<claimed>& got, const Takes& takes);
  void read_wanted(std::span<const upcoming> wanted);
  void bind_taken(execution& run, const claimed& one) const;
  [[nodiscard]] std::int64_t first_fence(std::size_t count);
  [[nodiscard]] std::int64_t changes() const noexcept { return sqlite3_total_changes(database_.get()); }

  database& database_;
  const request_limits& limits_;
  counters& counts_;
  instant now_{};
  bool takes_over_ = true;
  std::int64_t last_fence_ = 0;  // that was drawn here, undone draws included
  std::int64_t changes_before_ = 0;
  bool is_open_ = false;  // a COMMIT that is not ours is undone: the other checks in it would be lost
  std::vector<sqlite3_stmt*> running_before_;  // when it began
  std::vector<claimed> found_;                 // of those to claim or consume, a part at a time

  statement begin_, commit_, roll_back_, savepoint_, undo_savepoint_, release_savepoint_;
  statement insert_, insert_some_, last_id_, replace_, find_due_, cancel_, reschedule_, read_wanted_, claim_, consume_,
      draw_fences_, put_back_;
  statement complete_, extend_, release_, bury_, bury_consumed_, revive_, delete_dead_;
};

}  // namespace timing_wheel::durable::sqlite

#pragma once

#include <chrono>

#include "durable/postgres/connection.hpp"
#include "durable/postgres/sql.hpp"
#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable::postgres {

/// What transactions of a store have in common.
struct transaction_rules {
  std::string begin;               ///< Begins one, reads the clock and the version, and sets most of its limits.
  bool reads;                      ///< Only.
  std::string statement;           ///< The limit of a statement, in milliseconds.
  std::chrono::milliseconds idle;  ///< The limit that it lacks, where the transaction brings none of its own.
  std::string schema;              ///< Its name.
  request_limits limits;           ///< What may be written.
  counters* counts;                ///< Of the store.
};
/// \param reads for transactions that only read, which a standby runs, too.
[[nodiscard]] transaction_rules rules_for(const postgres_options& options, counters& counts, bool reads = false);

/// Claims, as a statement takes them.
struct names;
struct tickets;

/// Rows to consume, and where those that were go.
struct consumption {
  std::span<const upcoming> wanted;
  std::vector<claimed>* got;
};

[[nodiscard]] array ids_of(std::span<const upcoming> rows);
/// \returns how many of `wanted` there are up to the last row that was claimed.
std::size_t read_claims(const result& rows, std::span<const upcoming> wanted, std::vector<claimed>& got,
                        counters& counts);

/// Which of the elements of a statement a row is for.
inline std::size_t place_in(const result& rows, int row) { return static_cast<std::size_t>(rows.integer(row, 0)) - 1; }

/// Runs a statement that commits by itself. \returns nothing if the server has refused it, so that nothing was written.
/// \throws timer_error if nobody knows whether it was done.
result run_unless_refused(connection& on, const query& which, const parameters& values);

/// Writes new checks in one statement that commits by itself. \returns false, and has written nothing, if a key is
/// taken, or the server refuses it for another reason, which a transaction will tell. \throws timer_error if nobody
/// knows whether it was done.
bool append_at_once(connection& on, const transaction_limits& limits, std::span<append_op> ops, counters& counts);

/// Completes and claims in one statement that commits by itself. \returns the server's clock; none, and has written
/// nothing, as above. \throws timer_error as above.
std::optional<instant> complete_and_claim_at_once(connection& on, const transaction_limits& limits, lease_round& round,
                                                  counters& counts);

/// A transaction that is open on a connection.
class writing_transaction final : public store_transaction {
 public:
  /// Begins it, and consumes `first`, if there is one, before handlers are called. \throws timer_error, also for tables
  /// that are not there or newer.
  writing_transaction(connection& on, const transaction_rules& rules, const transaction_limits& limits = {},
                      const consumption* first = nullptr);

  void commit();

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
  void own_savepoint() override;
  void rollback_to_savepoint() override;
  void release_savepoint() override;
  [[nodiscard]] bool was_ended() const noexcept override {
    return has_lost_its_part_ || connection_.transaction() == PQTRANS_IDLE;
  }
  void check_open() override;

  [[nodiscard]] std::vector<stored_check> list(const check_range& range) override;
  std::size_t revive_dead(std::span<const std::int64_t> ids) override;
  std::size_t delete_dead(std::span<const std::int64_t> ids) override;
  std::size_t restore(std::span<const stored_check> checks, std::span<const dead_check> dead) override;
  bool pause(std::string_view kind) override;
  bool resume(std::string_view kind) override;
  bool drain(std::string_view node) override;
  bool end_drain(std::string_view node) override;
  void record(const audit_entry& entry) override;

  /// Runs one that may write.
  result run(const query& which, const parameters& values);
  /// The connection, for statements that only read, planned as the user's server plans.
  [[nodiscard]] connection& planned_by_server();

 protected:
  [[nodiscard]] const request_limits& limits() const noexcept override { return rules_.limits; }

 private:
  // On claims: the statement, or the one that leaves out locked rows.
  template <class Op>
  void change_claims(std::span<Op> ops, const query& waiting, const query& skipping, tickets& of,
                     const parameters& values);
  result look(const query& which, const parameters& values);
  [[nodiscard]] result look_at_what_stands(names& of);
  void append_different(std::vector<append_op*> ops);
  [[nodiscard]] std::vector<append_op*> sort_out(const std::vector<append_op*>& ops, const result& inserted);
  void replace(const std::vector<append_op*>& ops);
  void reschedule_different(std::vector<reschedule_op*> ops);
  template <class Op, class Result, class Change>
  void change_pending(const char* doing, std::vector<Op*> left, Result done, const Change& change);
  void begin_in_one_message(const transaction_limits& limits, const consumption* first);
  void has_begun(const result& look);
  void set_savepoint(const std::string& before, unsigned statements);
  [[nodiscard]] std::string planner_for_others();

  connection& connection_;
  const transaction_rules& rules_;
  const bool skips_locked_;
  const instant orphans_until_;
  instant now_{};
  bool wrote_ = false;
  bool answers_of_others_ = false;  // tells the caller what another transaction has done
  bool planner_is_ours_ = true;
  bool savepoint_is_set_ = false;   // and nothing has been done since
  bool has_lost_its_part_ = false;  // the savepoint is gone, so this is another transaction
  bool part_has_ended_ = false;     // released, and the server has not been told yet
};

}  // namespace timing_wheel::durable::postgres

#include "timing_wheel/durable/store.hpp"

#include <algorithm>
#include <system_error>

#include "durable/store/text.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

namespace {

[[noreturn]] void refuse(const char* what) {
  throw timer_error(std::make_error_code(std::errc::operation_not_supported), what);
}

// \returns what `change` does, in a transaction of its own.
template <class Change>
bool transact_one(store& in, const Change& change) {
  bool done = false;
  in.transact([&](store_transaction& open) { done = change(open); });
  return done;
}

}  // namespace

void validate_node(std::string_view node) {
  if (node.empty() || !is_utf8(node) || node.find('\0') != std::string_view::npos) {
    throw timer_error(make_error_code(errc::invalid_request),
                      "the name of a node must be UTF-8 without a zero byte, and not empty");
  }
}

scheduled transaction::schedule(const request& asked) {
  validate(asked, limits());
  if (due_of_waiting_) {
    if (const std::optional<instant> due = due_of_waiting_(asked.kind, asked.key)) {
      return {.due = *due};
    }
  }
  append_op op{&asked};
  append({&op, 1});
  return op.result;
}

cancel_answer transaction::cancel(std::string_view kind, std::string_view key) {
  if (due_of_waiting_ && due_of_waiting_(kind, key)) {
    return {.result = cancel_result::running};
  }
  cancel_op op{kind, key};
  cancel({&op, 1});
  return {op.result, op.attempts};
}

std::size_t store_transaction::claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                                          std::vector<claimed>& got) {
  const std::size_t tried = std::min(most, wanted.size());
  claim(wanted.first(tried), lease, got);
  return tried;
}

std::vector<stored_check> store_transaction::list(const check_range& /*range*/) { refuse("listing checks"); }

std::size_t store_transaction::revive_dead(std::span<const std::int64_t> /*ids*/) { refuse("reviving dead checks"); }

std::size_t store_transaction::delete_dead(std::span<const std::int64_t> /*ids*/) { refuse("deleting dead checks"); }

std::size_t store_transaction::restore(std::span<const stored_check> /*checks*/, std::span<const dead_check> /*dead*/) {
  refuse("restoring checks");
}

bool store_transaction::pause(std::string_view /*kind*/) { refuse("pausing a kind"); }

bool store_transaction::resume(std::string_view /*kind*/) { refuse("resuming a kind"); }

bool store_transaction::drain(std::string_view /*node*/) { refuse("draining a node"); }

bool store_transaction::end_drain(std::string_view /*node*/) { refuse("ending the drain of a node"); }

void store_transaction::record(const audit_entry& /*entry*/) { refuse("writing the audit"); }

migration_plan store::plan_migration() { return {}; }

void store::consume_within(const transaction_limits& limits, std::span<const upcoming> wanted,
                           std::vector<claimed>& got, const std::function<void(store_transaction&)>& work) {
  transact_within(limits, [&](store_transaction& open) {
    got.clear();
    open.consume(wanted, got);
    work(open);
  });
}

bool store::append_at_once(const transaction_limits& /*limits*/, std::span<append_op> /*ops*/) { return false; }

bool store::complete_and_claim_at_once(const transaction_limits& /*limits*/, lease_round& /*round*/) { return false; }

void store::read_overdue(std::vector<overdue_kind>& /*found*/) {}

std::chrono::microseconds store::clock_difference() { return {}; }

std::vector<paused_kind> store::paused_kinds() { return {}; }

std::vector<drained_node> store::drained_nodes() { return {}; }

void store::tell_drained(std::string_view /*node*/, std::size_t /*held*/) {}

std::vector<long_run> store::long_runs() { return {}; }

void store::tell_long_runs(std::string_view /*node*/, std::span<const long_run> /*runs*/) {}

std::vector<failed_run> store::failed_runs(std::span<const std::int64_t> /*ids*/) { return {}; }

void store::tell_failed_runs(std::string_view /*node*/, std::span<const failed_run> /*runs*/) {}

std::vector<stored_check> store::list(const check_range& /*range*/) { refuse("listing checks"); }

void store::read_all(const std::function<void(stored_check&&)>& /*check*/,
                     const std::function<void(dead_check&&)>& /*dead*/) {
  refuse("reading all checks");
}

std::size_t store::count(const check_filter& /*which*/, std::size_t /*most*/) { refuse("counting checks"); }

std::vector<kind_counts> store::count_kinds(std::size_t /*most*/, bool /*with_waits*/) { refuse("counting checks"); }

std::optional<run_counts> store::runs_of_last_minute() { return std::nullopt; }

void store::tell_runs(std::string_view /*node*/, const run_counts& /*since*/) {}

std::vector<dead_group> store::count_dead(const dead_filter& /*which*/, std::size_t /*limit*/, std::size_t /*most*/) {
  refuse("counting dead checks");
}

std::optional<std::vector<node_info>> store::nodes() { return std::nullopt; }

std::vector<audit_entry> store::audit(std::size_t /*limit*/) { return {}; }

bool store::revive_dead(std::int64_t id) {
  return transact_one(*this, [&](store_transaction& open) { return open.revive_dead({&id, 1}) == 1; });
}

bool store::delete_dead(std::int64_t id) {
  return transact_one(*this, [&](store_transaction& open) { return open.delete_dead({&id, 1}) == 1; });
}

bool store::pause(std::string_view kind) {
  validate_kind(std::string(kind), limits());
  return transact_one(*this, [&](store_transaction& open) { return open.pause(kind); });
}

bool store::resume(std::string_view kind) {
  validate_kind(std::string(kind), limits());
  return transact_one(*this, [&](store_transaction& open) { return open.resume(kind); });
}

bool store::drain(std::string_view node) {
  validate_node(node);
  return transact_one(*this, [&](store_transaction& open) { return open.drain(node); });
}

bool store::end_drain(std::string_view node) {
  validate_node(node);
  return transact_one(*this, [&](store_transaction& open) { return open.end_drain(node); });
}

void store::transact_within(const transaction_limits& /*limits*/, const std::function<void(store_transaction&)>& work) {
  transact(work);
}

std::optional<std::vector<std::int16_t>> store::renew_shares(std::string_view /*node*/,
                                                             std::span<const std::string> /*kinds*/,
                                                             std::chrono::milliseconds /*hold*/, bool /*leave*/) {
  return std::nullopt;
}

}  // namespace timing_wheel::durable

#include <algorithm>
#include <string>

#include "durable/postgres/schema.hpp"
#include "durable/postgres/transaction.hpp"
#include "durable/store/fail_point.hpp"
#include "durable/store/instant.hpp"

// What nodes do with rows: claim them, extend and end the claims.

namespace timing_wheel::durable::postgres {

namespace {

// The claim that an operation is about.
ticket& claim_of(ticket& op) { return op; }
template <class Op>
ticket& claim_of(Op& op) {
  return op.of;
}

// \returns how many of `wanted` there are up to that one.
std::size_t read_claim(const result& rows, int row, std::span<const upcoming> wanted, std::vector<claimed>& got) {
  const std::size_t place = place_in(rows, row);
  const upcoming& one = wanted[place];
  got.push_back({one.id, rows.integer(row, 1), one.kind, static_cast<int>(rows.integer(row, 2)),
                 instant_of(rows.integer(row, 3)), std::string(rows.bytes(row, 4)), std::string(rows.bytes(row, 5)),
                 rows.integer(row, 6) != 0});
  return place + 1;
}

}  // namespace

array ids_of(std::span<const upcoming> rows) { return {element::bigint, rows, &upcoming::id}; }

std::size_t read_claims(const result& rows, std::span<const upcoming> wanted, std::vector<claimed>& got,
                        counters& counts) {
  std::size_t end = 0;
  counts.rows_read.fetch_add(static_cast<std::uint64_t>(rows.rows()), std::memory_order_relaxed);
  for (int row = 0; row < rows.rows(); ++row) {
    end = std::max(end, read_claim(rows, row, wanted, got));
  }
  return end;
}

struct tickets {
  template <class Op>
  explicit tickets(std::span<Op> ops) {
    for (Op& op : ops) {
      ticket& of = claim_of(op);
      of.still_ours = of.locked = false;
      ids.add(of.id);
      fences.add(of.fence);
    }
  }
  array ids{element::bigint};
  array fences{element::bigint};
};

void writing_transaction::claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) {
  claim_some(wanted, wanted.size(), lease, got);
}

std::size_t writing_transaction::claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                                            std::vector<claimed>& got) {
  if (wanted.empty() || most == 0) {
    return 0;
  }
  const std::size_t before = got.size();
  array ids = ids_of(wanted);
  parameters values;
  values.bind(ids).bind(microseconds_of(orphans_until_)).bind(microseconds_of(lease));
  values.bind(static_cast<std::int64_t>(std::min(most, wanted.size())));
  const std::size_t end = read_claims(run(sql::claim, values), wanted, got, *rules_.counts);
  return got.size() - before == most ? end : wanted.size();
}

void writing_transaction::consume(std::span<const upcoming> wanted, std::vector<claimed>& got) {
  if (!wanted.empty()) {
    array ids = ids_of(wanted);
    const result rows = run(sql::consume, parameters().bind(ids).bind(microseconds_of(orphans_until_)));
    static_cast<void>(read_claims(rows, wanted, got, *rules_.counts));
  }
}

// A row that was claimed and cannot be read here, for want of memory, ends with its lease, as that of a dead node does.
std::optional<instant> complete_and_claim_at_once(connection& on, const transaction_limits& limits, lease_round& round,
                                                  counters& counts) {
  constexpr int clock = 0;
  constexpr int completed = 1;
  const std::string wait = std::to_string(limits.lock_wait.value_or(std::chrono::milliseconds(0)).count());
  tickets of(round.done);
  array wanted = ids_of(round.wanted);
  parameters values;
  values.bind(wanted).bind(microseconds_of(limits.orphans_until.value_or(instant::max())));
  values.bind(std::chrono::microseconds(round.lease).count()).bind(static_cast<std::int64_t>(round.most));
  values.bind(of.ids).bind(of.fences).bind(schema_version).bind(wait);
  round.got.clear();
  round.got.reserve(std::min(round.most, round.wanted.size()));
  round.looked_at = 0;
  const result rows = run_unless_refused(on, sql::complete_and_claim, values);
  std::optional<instant> now;
  for (int row = 0; rows && row < rows.rows(); ++row) {
    const std::int64_t what = rows.integer(row, 7);
    if (what == clock) {
      now = instant_of(rows.integer(row, 3));
    } else if (what == completed) {
      round.done[place_in(rows, row)].still_ours = true;
    } else {
      round.looked_at = std::max(round.looked_at, read_claim(rows, row, round.wanted, round.got));
    }
  }
  if (round.got.size() < round.most) {
    round.looked_at = round.wanted.size();
  }
  counts.rows_read.fetch_add(round.got.size(), std::memory_order_relaxed);
  if (now && rows.rows() > 1) {
    counts.commits.fetch_add(1, std::memory_order_relaxed);
    TIMING_WHEEL_FAIL_POINT("postgres.after_commit");
  }
  return now;
}

// If what ran has scheduled that key anew, that stands.
void writing_transaction::put_back(const claimed& consumed, std::string_view kind, instant due, int attempt) {
  run(sql::put_back, parameters()
                         .bind(consumed.id)
                         .bind(consumed.fence)
                         .bind(std::int64_t{attempt})
                         .bind(microseconds_of(due))
                         .bind(std::int64_t{consumed.orphaned ? 1 : 0})
                         .bind(kind)
                         .bind(std::string_view(consumed.key))
                         .bind(std::string_view(consumed.payload)));
}

template <class Op>
void writing_transaction::change_claims(std::span<Op> ops, const query& waiting, const query& skipping, tickets& of,
                                        const parameters& values) {
  const result changed = run(skips_locked_ ? skipping : waiting, values);
  for (int row = 0; row < changed.rows(); ++row) {
    claim_of(ops[place_in(changed, row)]).still_ours = true;
  }
  if (!skips_locked_ || changed.rows() == static_cast<int>(ops.size())) {
    return;
  }
  const result ours = look(sql::still_ours, parameters().bind(of.ids).bind(of.fences));
  for (int row = 0; row < ours.rows(); ++row) {
    ticket& one = claim_of(ops[place_in(ours, row)]);
    one.locked = !one.still_ours;
  }
}

void writing_transaction::complete(std::span<ticket> ops) {
  if (!ops.empty()) {
    tickets of(ops);
    change_claims(ops, sql::complete, sql::complete_unlocked, of, parameters().bind(of.ids).bind(of.fences));
  }
}

void writing_transaction::extend(std::span<ticket> ops, instant lease) {
  if (!ops.empty()) {
    tickets of(ops);
    change_claims(ops, sql::extend, sql::extend_unlocked, of,
                  parameters().bind(of.ids).bind(of.fences).bind(microseconds_of(lease)));
  }
}

void writing_transaction::release(std::span<release_op> ops) {
  if (ops.empty()) {
    return;
  }
  tickets of(ops);
  array dues(element::bigint, ops, [](const release_op& op) { return microseconds_of(op.due); });
  array attempts(element::integer, ops, &release_op::attempt);
  array orphaned(element::integer, ops, &release_op::orphaned);
  change_claims(ops, sql::release, sql::release_unlocked, of,
                parameters().bind(of.ids).bind(of.fences).bind(dues).bind(attempts).bind(orphaned));
}

void writing_transaction::bury(std::span<bury_op> ops) {
  if (ops.empty()) {
    return;
  }
  tickets of(ops);
  array errors(element::bytea, ops, &bury_op::error);
  change_claims(ops, sql::bury, sql::bury_unlocked, of, parameters().bind(of.ids).bind(of.fences).bind(errors));
}

void writing_transaction::bury_consumed(const claimed& consumed, std::string_view kind, std::string_view error) {
  run(sql::bury_consumed, parameters()
                              .bind(kind)
                              .bind(std::string_view(consumed.key))
                              .bind(std::string_view(consumed.payload))
                              .bind(microseconds_of(consumed.due))
                              .bind(consumed.fence)
                              .bind(std::int64_t{consumed.attempt})
                              .bind(error));
}

}  // namespace timing_wheel::durable::postgres

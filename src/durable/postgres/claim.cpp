#include <algorithm>
#include <limits>

#include "durable/postgres/transaction.hpp"
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

}  // namespace

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

// \returns how many of `wanted` there are up to the last row that was claimed.
std::size_t writing_transaction::read_claimed(const result& rows, std::span<const upcoming> wanted,
                                              std::vector<claimed>& got) {
  std::size_t end = 0;
  rules_.counts->rows_read.fetch_add(static_cast<std::uint64_t>(rows.rows()), std::memory_order_relaxed);
  for (int row = 0; row < rows.rows(); ++row) {
    const std::size_t place = place_in(rows, row);
    const upcoming& one = wanted[place];
    got.push_back({one.id, rows.integer(row, 1), one.kind, static_cast<int>(rows.integer(row, 2)),
                   instant_of(rows.integer(row, 3)), std::string(rows.bytes(row, 4)), std::string(rows.bytes(row, 5)),
                   rows.integer(row, 6) != 0});
    end = std::max(end, place + 1);
  }
  return end;
}

std::int64_t writing_transaction::ended_leases() const noexcept {
  return now_ <= orphans_until_ ? microseconds_of(now_) : std::numeric_limits<std::int64_t>::min();
}

void writing_transaction::claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) {
  claim_some(wanted, wanted.size(), lease, got);
}

std::size_t writing_transaction::claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                                            std::vector<claimed>& got) {
  array ids(element::bigint);
  for (const upcoming& row : wanted) {
    ids.add(row.id);
  }
  if (wanted.empty() || most == 0) {
    return 0;
  }
  const std::size_t before = got.size();
  parameters values;
  values.bind(ids).bind(ended_leases()).bind(microseconds_of(lease));
  values.bind(static_cast<std::int64_t>(std::min(most, wanted.size())));
  const std::size_t end = read_claimed(run(sql::claim, values), wanted, got);
  return got.size() - before == most ? end : wanted.size();
}

void writing_transaction::consume(std::span<const upcoming> wanted, std::vector<claimed>& got) {
  array ids(element::bigint);
  for (const upcoming& row : wanted) {
    ids.add(row.id);
  }
  if (!wanted.empty()) {
    static_cast<void>(read_claimed(run(sql::consume, parameters().bind(ids).bind(ended_leases())), wanted, got));
  }
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
  array dues(element::bigint);
  array attempts(element::integer);
  array orphaned(element::integer);
  for (const release_op& op : ops) {
    dues.add(microseconds_of(op.due));
    attempts.add(std::int64_t{op.attempt});
    orphaned.add(std::int64_t{op.orphaned ? 1 : 0});
  }
  change_claims(ops, sql::release, sql::release_unlocked, of,
                parameters().bind(of.ids).bind(of.fences).bind(dues).bind(attempts).bind(orphaned));
}

void writing_transaction::bury(std::span<bury_op> ops) {
  if (ops.empty()) {
    return;
  }
  tickets of(ops);
  array errors(element::bytea);
  for (const bury_op& op : ops) {
    errors.add(op.error);
  }
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

#include <algorithm>
#include <limits>

#include "durable/sqlite/transaction.hpp"
#include "durable/store/instant.hpp"

// What nodes do with rows: claim them, extend and end the claims.

namespace timing_wheel::durable::sqlite {

void writing_transaction::read_claimed(execution& run, const upcoming& wanted, std::vector<claimed>& got) {
  while (run.step()) {
    counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
    got.push_back({wanted.id, run.integer(0), wanted.kind, static_cast<int>(run.integer(1)), instant_of(run.integer(2)),
                   std::string(run.bytes(3)), std::string(run.bytes(4)), run.integer(5) != 0});
  }
}

std::int64_t writing_transaction::first_fence(std::size_t count) {
  const auto some = static_cast<std::int64_t>(count);
  execution run = draw_fences_.run();
  if (!run.bind(last_fence_).bind(some).step()) {
    fail(database_.get(), "claiming", SQLITE_CORRUPT, "the row of timing_wheel_fence is not there");
  }
  last_fence_ = run.integer(0);
  return last_fence_ - some + 1;
}

void writing_transaction::claim(std::span<const upcoming> wanted, instant lease, std::vector<claimed>& got) {
  claim_some(wanted, wanted.size(), lease, got);
}

std::size_t writing_transaction::claim_some(std::span<const upcoming> wanted, std::size_t most, instant lease,
                                            std::vector<claimed>& got) {
  const std::size_t least = std::min(most, wanted.size());
  std::int64_t fence = least == 0 ? 0 : first_fence(least);
  const std::size_t end = got.size() + most;
  std::size_t tried = 0;
  for (; tried < wanted.size() && got.size() < end; ++tried) {
    const std::size_t before = got.size();
    claim(claim_, wanted[tried], lease, fence, got);
    if (got.size() == before && takes_over_) {
      claim(take_over_, wanted[tried], lease, fence, got);
    }
    fence += static_cast<std::int64_t>(got.size() - before);
  }
  return tried;
}

void writing_transaction::claim(statement& how, const upcoming& wanted, instant lease, std::int64_t fence,
                                std::vector<claimed>& got) {
  execution run = how.run();
  run.bind(wanted.id).bind(microseconds_of(now_)).bind(microseconds_of(lease)).bind(fence);
  read_claimed(run, wanted, got);
}

void writing_transaction::consume(std::span<const upcoming> wanted, std::vector<claimed>& got) {
  const std::int64_t ended = takes_over_ ? microseconds_of(now_) : std::numeric_limits<std::int64_t>::min();
  std::int64_t fence = wanted.empty() ? 0 : first_fence(wanted.size());
  for (const upcoming& row : wanted) {
    execution run = consume_.run();
    run.bind(row.id).bind(microseconds_of(now_)).bind(ended).bind(fence++);
    read_claimed(run, row, got);
  }
}

// If what ran has scheduled that key anew, that stands.
void writing_transaction::put_back(const claimed& consumed, std::string_view kind, instant due, int attempt) {
  execution run = put_back_.run();
  run.bind(consumed.id).bind(consumed.fence).bind(attempt).bind(microseconds_of(due));
  run.bind(consumed.orphaned ? 1 : 0)
      .bind(held_by_nobody)
      .bind_text(kind)
      .bind_blob(consumed.key)
      .bind_blob(consumed.payload)
      .finish();
}

bool writing_transaction::complete(const ticket& of) {
  return complete_.run().bind(of.id).bind(of.fence).finish() == 1;
}

void writing_transaction::complete(std::span<ticket> ops) {
  for (ticket& op : ops) {
    op.still_ours = complete(op);
  }
}

void writing_transaction::extend(std::span<ticket> ops, instant lease) {
  for (ticket& op : ops) {
    op.still_ours = extend_.run().bind(op.id).bind(op.fence).bind(microseconds_of(lease)).finish() == 1;
  }
}

void writing_transaction::release(std::span<release_op> ops) {
  for (release_op& op : ops) {
    execution run = release_.run();
    run.bind(op.of.id).bind(op.of.fence).bind(microseconds_of(op.due)).bind(op.attempt);
    run.bind(op.orphaned ? 1 : 0).bind(held_by_nobody);
    op.of.still_ours = run.finish() == 1;
  }
}

void writing_transaction::bury(std::span<bury_op> ops) {
  for (bury_op& op : ops) {
    execution run = bury_.run();
    run.bind(op.of.id).bind(op.of.fence).bind_text(op.error).bind(microseconds_of(now_));
    op.of.still_ours = run.finish() == 1 && complete(op.of);
  }
}

void writing_transaction::bury_consumed(const claimed& consumed, std::string_view kind, std::string_view error) {
  execution run = bury_consumed_.run();
  run.bind_text(kind).bind_blob(consumed.key).bind_blob(consumed.payload).bind(microseconds_of(consumed.due));
  run.bind(consumed.fence).bind(consumed.attempt).bind_text(error).bind(microseconds_of(now_)).finish();
}

}  // namespace timing_wheel::durable::sqlite

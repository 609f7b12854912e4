#include <algorithm>
#include <utility>

#include "durable/sqlite/transaction.hpp"
#include "durable/store/instant.hpp"

// What nodes do with rows: claim them, extend and end the claims.

namespace timing_wheel::durable::sqlite {

// Those of at most `sql::rows_at_once` that are there, whether they may be claimed or not.
void writing_transaction::read_wanted(std::span<const upcoming> wanted) {
  found_.clear();
  execution run = read_wanted_.run();
  for (std::size_t place = 0; place < sql::rows_at_once; ++place) {
    run.bind(place < wanted.size() ? wanted[place].id : 0);  // no row has the id 0
  }
  run.bind(static_cast<std::int64_t>(wanted.size()));  // stops before the places that are not used
  while (run.step()) {
    counts_.rows_read.fetch_add(1, std::memory_order_relaxed);
    const std::int64_t id = run.integer(0);
    const auto row = std::find_if(wanted.begin(), wanted.end(), [&](const upcoming& each) { return each.id == id; });
    found_.push_back({id, 0, row->kind, run.count(1), instant_of(run.integer(2)), std::string(run.bytes(3)),
                      std::string(run.bytes(4)), run.integer(5) != 0});
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
  const std::int64_t until = microseconds_of(lease);
  return take(wanted, most, got, [&](const claimed& one) {
    execution run = claim_.run();
    bind_taken(run, one);
    return run.bind(one.fence).bind(until).finish() == 1;
  });
}

void writing_transaction::consume(std::span<const upcoming> wanted, std::vector<claimed>& got) {
  take(wanted, wanted.size(), got, [&](const claimed& one) {
    execution run = consume_.run();
    bind_taken(run, one);
    return run.finish() == 1;
  });
}

// \param takes writes a row that was read, if it may be claimed. \returns how many of `wanted` were looked at.
template <class Takes>
std::size_t writing_transaction::take(std::span<const upcoming> wanted, std::size_t most, std::vector<claimed>& got,
                                      const Takes& takes) {
  const std::size_t least = std::min(most, wanted.size());
  std::int64_t fence = least == 0 ? 0 : first_fence(least);
  const std::size_t end = got.size() + least;
  std::size_t tried = 0;
  while (tried < wanted.size() && got.size() < end) {
    const auto some = wanted.subspan(tried, std::min({sql::rows_at_once, wanted.size() - tried, end - got.size()}));
    read_wanted(some);
    for (claimed& one : found_) {
      one.fence = fence;
      if (takes(one)) {
        got.push_back(std::move(one));
        ++fence;
      }
    }
    tried += some.size();
  }
  found_.clear();
  return tried;
}

// The row, and when it may be claimed.
void writing_transaction::bind_taken(execution& run, const claimed& one) const {
  const std::int64_t ended = takes_over_ ? microseconds_of(now_) : held_by_nobody;
  run.bind(one.id).bind(microseconds_of(now_)).bind(ended);
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

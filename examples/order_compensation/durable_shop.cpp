#include "durable_shop.hpp"

#include <algorithm>
#include <utility>

#include "common/program.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

/// Orders, and approvals, of one transaction at most: the worker waits meanwhile.
constexpr int most_in_a_batch = 250;

}  // namespace

std::string key_of_order(std::int64_t id) { return "order-" + std::to_string(id); }

shop::shop(const std::string& file, durable::store& clock, std::int64_t run, nanoseconds delay, order_plan plan)
    : clock_(clock),
      run_(run),
      delay_(delay),
      plan_(std::move(plan)),
      next_(plan_()),
      database_(file),
      insert_order_(database_.get(), "INSERT INTO orders(run,product,units,due) VALUES(?1,?2,?3,?4)"),
      reserve_(database_.get(), "UPDATE stock SET on_hand=on_hand-?2,reserved=reserved+?2 WHERE product=?1"),
      confirm_order_(database_.get(), "UPDATE orders SET confirmed=?2 WHERE id=?1"),
      sell_(database_.get(), "UPDATE stock SET reserved=reserved-?2,sold=sold+?2 WHERE product=?1") {
  // As the store does: a checkpoint at each 1 000 pages, the default, writes pages of the index again and again.
  database_.execute("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16000");
}

bool shop::due(nanoseconds now) const {
  return (next_ && next_->at <= now) || (!approvals_.empty() && approvals_.top().at <= now);
}

bool shop::work(nanoseconds now) {
  if (!due(now)) {
    return false;
  }
  write_transaction open(database_);
  const std::int64_t clock = clock_.now().time_since_epoch().count();
  for (int n = 0; n < most_in_a_batch && !approvals_.empty() && approvals_.top().at <= now; ++n) {
    approve(approvals_.top(), clock);
    approvals_.pop();
  }
  for (int n = 0; n < most_in_a_batch && next_ && next_->at <= now; ++n) {
    place(*next_, now, clock);
    next_ = plan_();
  }
  open.commit();
  ++transactions_;
  return due(now);
}

void shop::place(const planned_order& one, nanoseconds now, std::int64_t clock) {
  const std::int64_t due = clock + std::chrono::ceil<microseconds>(delay_).count();
  insert_order_.with(run_, one.what.product, one.what.units, due).run();
  const std::int64_t id = sqlite3_last_insert_rowid(database_.get());
  reserve_.with(one.what.product, one.what.units).run();
  const durable::instant at{microseconds(due)};
  const durable::scheduled done =
      durable::schedule(database_.get(), {.kind = check_kind, .key = key_of_order(id), .payload = {}, .due = at});
  if (!done.inserted || done.due != at) {
    throw common::failure("the check of order " + std::to_string(id) + " was there already");
  }
  if (one.approved) {
    approvals_.push({std::max(now, one.at) + (*one.approved - one.at), id, one.what});
  }
  ++placed_;
  late_approvals_ += one.too_late ? 1U : 0U;
}

void shop::approve(const approval& one, std::int64_t clock) {
  if (durable::cancel(database_.get(), check_kind, key_of_order(one.id)) != timing_wheel::cancel_result::cancelled) {
    ++late_approvals_;
    return;
  }
  confirm_order_.with(one.id, clock).run();
  sell_.with(one.what.product, one.what.units).run();
}

void shop::close() { next_.reset(); }

}  // namespace order_compensation

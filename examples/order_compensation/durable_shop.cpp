#include "durable_shop.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/program.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;
using std::chrono::nanoseconds;

/// Orders, and approvals, of one transaction at most: the worker waits meanwhile.
constexpr int most_in_a_batch = 250;

}  // namespace

std::string key_of_order(std::int64_t id) { return "order-" + std::to_string(id); }

std::string payload_of(const goods& what) {
  return std::to_string(what.units) + " of product " + std::to_string(what.product);
}

std::uint32_t product_in(const std::string& payload) {
  std::uint32_t product = 0;
  const char* const end = payload.data() + payload.size();
  if (std::from_chars(payload.data() + payload.rfind(' ') + 1, end, product).ptr != end) {
    throw common::failure("a check has the payload " + common::quoted(payload));
  }
  return product;
}

shop::shop(const shop_place& place, std::int64_t run, std::int64_t first_id, nanoseconds delay, order_plan plan)
    : run_(run), next_id_(first_id), delay_(delay), plan_(std::move(plan)), next_(plan_()), database_(place) {}

bool shop::due(nanoseconds now) const {
  return (next_ && next_->at <= now) || (!approvals_.empty() && approvals_.top().at <= now);
}

bool shop::work(nanoseconds now) {
  if (!due(now)) {
    return false;
  }
  const batch what = pick(now);
  database_.use([&](database& in) {
    if (!write(in, what)) {
      find_late_approvals(in, what);
    }
  });
  ++transactions_;
  late_approvals_ += late_;
  placed_ += what.orders.size();
  for (const auto& [id, one] : what.orders) {
    late_approvals_ += one.too_late ? 1U : 0U;
    if (one.approved) {
      approvals_.push({std::max(now, one.at) + (*one.approved - one.at), id, one.what});
    }
  }
  return due(now);
}

shop::batch shop::pick(nanoseconds now) {
  batch what;
  for (int n = 0; n < most_in_a_batch && !approvals_.empty() && approvals_.top().at <= now; ++n) {
    what.approvals.push_back(approvals_.top());
    approvals_.pop();
  }
  for (int n = 0; n < most_in_a_batch && next_ && next_->at <= now; ++n) {
    what.orders.push_back({next_id_++, *next_});
    next_ = plan_();
  }
  return what;
}

// Its first statement waits for a commit of the same batch that is still on its way, and then finds nothing to do.
bool shop::write(database& in, const batch& what) {
  changes_.clear();
  late_ = 0;
  write_transaction open(in);
  if (in.run("UPDATE shop_run SET transactions=$1 WHERE id=$2 AND transactions=$1-1 RETURNING id", transactions_ + 1,
             run_)
          .empty()) {
    return false;
  }
  const std::int64_t clock = in.now();
  for (const approval& one : what.approvals) {
    approve(in, one, clock);
  }
  for (const placement& one : what.orders) {
    place(in, one, clock);
  }
  change_stock(in);
  open.commit();
  return true;
}

void shop::place(database& in, const placement& one, std::int64_t clock) {
  const goods& what = one.what.what;
  const std::int64_t due = clock + std::chrono::ceil<std::chrono::microseconds>(delay_).count();
  in.run("INSERT INTO orders(id,run,product,units,due) VALUES($1,$2,$3,$4,$5)", one.id, run_, what.product, what.units,
         due);
  changes_[what.product].reserved += what.units;
  const durable::instant at{std::chrono::microseconds(due)};
  const durable::scheduled done =
      in.schedule({.kind = check_kind, .key = key_of_order(one.id), .payload = payload_of(what), .due = at});
  if (!done.inserted || done.due != at) {
    throw common::failure("the check of order " + std::to_string(one.id) + " was there already");
  }
}

void shop::approve(database& in, const approval& one, std::int64_t clock) {
  if (in.cancel(check_kind, key_of_order(one.id)) != timing_wheel::cancel_result::cancelled) {
    ++late_;
    return;
  }
  in.run("UPDATE orders SET confirmed=$1 WHERE id=$2", clock, one.id);
  changes_[one.what.product].reserved -= one.what.units;
  changes_[one.what.product].sold += one.what.units;
}

void shop::change_stock(database& in) {
  for (const auto& [product, by] : changes_) {
    in.run("UPDATE stock SET on_hand=on_hand-$1-$2,reserved=reserved+$1,sold=sold+$2 WHERE product=$3", by.reserved,
           by.sold, product);
  }
}

void shop::find_late_approvals(database& in, const batch& what) {
  late_ = 0;
  for (const approval& one : what.approvals) {
    late_ +=
        static_cast<std::uint64_t>(in.ask("SELECT count(*) FROM orders WHERE id=$1 AND confirmed IS NULL", one.id));
  }
}

void shop::close() { next_.reset(); }

}  // namespace order_compensation

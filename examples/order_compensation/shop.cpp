#include "shop.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "common/program.hpp"
#include "durable/support/keeper.hpp"
#include "timing_wheel/error.hpp"

namespace order_compensation {
namespace {

namespace durable = timing_wheel::durable;
using std::chrono::nanoseconds;

std::string key_of_order(std::int64_t id) { return "order-" + std::to_string(id); }

/// `orders` says what was sold, the ledger what the checks did: each run of a check adds a row, so that one too many is
/// seen. `stock` is counted up and down beside them, and at the end the two must agree. Times are microseconds of the
/// clock of the checks. `shop_run` counts its transactions: so a commit whose answer was lost is not done again. The
/// name of the first table is the version of all.
constexpr const char* tables =
    "CREATE TABLE order_compensation_5(version BIGINT);"
    "CREATE TABLE shop_run(id BIGINT PRIMARY KEY,transactions BIGINT NOT NULL);"
    "CREATE TABLE stock(product BIGINT PRIMARY KEY,delivered BIGINT NOT NULL,on_hand BIGINT NOT NULL,"
    " reserved BIGINT NOT NULL,sold BIGINT NOT NULL);"
    "CREATE TABLE orders(id BIGINT PRIMARY KEY,run BIGINT NOT NULL,product BIGINT NOT NULL,units BIGINT NOT NULL,"
    " due BIGINT NOT NULL,confirmed BIGINT);";

void make_tables(rig::database& in) {
  constexpr std::int64_t delivered_of_each = 1'000'000'000;
  in.run(tables);
  rig::make_ledger(in);
  in.run("CREATE INDEX run_number ON run(number)");
  for (std::uint32_t product = 0; product < product_count; ++product) {
    in.run("INSERT INTO stock VALUES($1,$2,$2,0,0)", product, delivered_of_each);
  }
}

/// Changes nothing. \returns whether the tables are there. A site that has others in their way cannot be used.
bool has_tables(const rig::site& where) {
  const std::unique_ptr<rig::database> in = where.connect();
  const auto count = [&](const std::string& which) {
    return in->ask("SELECT count(*) FROM " + where.tables() + which);
  };
  if (count(" AND name='order_compensation_5'") == 1) {
    return true;
  }
  if (count(where.on_server() ? " AND name IN ('shop_run','stock','orders','run')" : "") != 0) {
    throw std::runtime_error("it has the tables of something else, or of another version of this program");
  }
  return false;
}

/// The orders and the runs of their checks say what the stock should be. Conditions are counted as numbers, which all
/// databases can sum.
std::string fate_of_all_orders(const rig::site& where) {
  const std::string checks = where.table("check");
  return "WITH fired AS (SELECT number,count(*) AS times FROM run WHERE kind='verify' GROUP BY number),"
         "fate AS ("
         " SELECT o.product,o.units,CASE WHEN o.confirmed IS NULL THEN 0 ELSE 1 END AS confirmed,"
         "  coalesce(r.times,0) AS times,CASE WHEN c.kind IS NULL THEN 0 ELSE 1 END AS pending"
         " FROM orders o LEFT JOIN fired r ON r.number=o.id"
         " LEFT JOIN " +
         checks + " c ON c.kind='verify' AND c.key=" + where.bytes_of("'order-'||o.id") +
         "),"
         "sums AS ("
         " SELECT product,count(*) AS orders,sum(confirmed) AS confirmed,sum(times) AS fired,sum(pending) AS pending,"
         "  sum(CASE WHEN confirmed=0 AND times=0 AND pending=0 THEN 1 ELSE 0 END) AS lost,"
         "  sum(CASE WHEN confirmed+times>1 THEN 1 ELSE 0 END) AS doubled,"
         "  sum(CASE WHEN pending=1 AND confirmed+times>0 THEN 1 ELSE 0 END) AS strays,"
         "  sum(units) AS units,sum(units*confirmed) AS sold,sum(units*times) AS returned,"
         "  sum(CASE WHEN confirmed+times=0 THEN units ELSE 0 END) AS reserved"
         " FROM fate GROUP BY product) "
         "SELECT sum(orders),sum(confirmed),sum(fired),sum(pending),sum(lost),sum(doubled),"
         " (SELECT count(*) FROM run f JOIN orders o ON o.id=f.number WHERE f.kind='verify' AND f.at<o.due),"
         " coalesce(sum(strays),0)"
         "  +(SELECT count(*) FROM run WHERE kind='verify' AND number NOT IN (SELECT id FROM orders))"
         "  +(SELECT count(*) FROM " +
         checks +
         " WHERE kind='verify')-coalesce(sum(pending),0),"
         " sum(units),sum(p.sold),sum(returned),sum(p.reserved),"
         " sum(CASE WHEN s.reserved<>coalesce(p.reserved,0) OR s.sold<>coalesce(p.sold,0)"
         "  OR s.on_hand<>s.delivered-coalesce(units,0)+coalesce(returned,0) THEN 1 ELSE 0 END) "
         "FROM stock s LEFT JOIN sums p ON p.product=s.product";
}

}  // namespace

void prepare(rig::site& where) {
  try {
    const bool is_there = has_tables(where);
    where.prepare();
    const std::unique_ptr<rig::database> in = where.connect();
    rig::write_transaction open(*in);
    if (!is_there) {
      make_tables(*in);
    }
    open.commit();
  } catch (const std::runtime_error& error) {
    throw common::usage_error("--store: cannot use " + where.name() + ": " + error.what());
  }
}

shop::shop(const rig::site& where, std::int64_t run, std::int64_t first_id, nanoseconds delay, order_plan plan)
    : run_(run), next_id_(first_id), delay_(delay), plan_(std::move(plan)), next_(plan_()), database_(where) {}

bool shop::due(nanoseconds now) const {
  return (next_ && next_->at <= now) || (!approvals_.empty() && approvals_.top().first <= now);
}

bool shop::work(nanoseconds now) {
  if (!due(now)) {
    return false;
  }
  const batch what = pick(now);
  late_approvals_ += database_.use([&](rig::database& in) { return write(in, what); });
  ++transactions_;
  placed_ += what.orders.size();
  for (const auto& [id, one] : what.orders) {
    if (!one.approved) {
      continue;
    }
    const nanoseconds wait = *one.approved - one.at;
    if (wait > delay_) {
      ++late_approvals_;
    } else {
      approvals_.emplace(std::max(now, one.at) + wait, id);
    }
  }
  return due(now);
}

/// At most so many of each: the workers wait meanwhile.
shop::batch shop::pick(nanoseconds now) {
  constexpr std::size_t most = 250;
  batch what;
  while (what.approvals.size() < most && !approvals_.empty() && approvals_.top().first <= now) {
    what.approvals.push_back(approvals_.top().second);
    approvals_.pop();
  }
  while (what.orders.size() < most && next_ && next_->at <= now) {
    what.orders.emplace_back(next_id_++, *next_);
    next_ = plan_();
  }
  return what;
}

// Its first statement waits for a commit of the same batch that is still on its way, and then finds nothing to do: that
// commit was done, and its answer was lost.
//
// A transaction that changes the stock of several products does that last, and in their order: so none waits for
// another that waits for it.
std::uint64_t shop::write(rig::database& in, const batch& what) const {
  rig::write_transaction open(in);
  const bool is_done = in.run("UPDATE shop_run SET transactions=$1 WHERE id=$2 AND transactions=$1-1 RETURNING id",
                              transactions_ + 1, run_)
                           .empty();
  std::uint64_t late = 0;
  std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> changes;  // of a product: reserved, sold
  const std::int64_t clock = in.now();
  for (const std::int64_t id : what.approvals) {
    if (is_done) {
      late += static_cast<std::uint64_t>(in.ask("SELECT count(*) FROM orders WHERE id=$1 AND confirmed IS NULL", id));
    } else if (in.cancel(check_kind, key_of_order(id)) != timing_wheel::cancel_result::cancelled) {
      ++late;
    } else {
      const goods what_is_sold = goods_of(static_cast<std::uint64_t>(id));
      in.run("UPDATE orders SET confirmed=$1 WHERE id=$2", clock, id);
      auto& [reserved, sold] = changes[what_is_sold.product];
      reserved -= what_is_sold.units;
      sold += what_is_sold.units;
    }
  }
  if (is_done) {
    return late;
  }
  for (const auto& [id, one] : what.orders) {
    place(in, id, clock);
    const goods reserved = goods_of(static_cast<std::uint64_t>(id));
    changes[reserved.product].first += reserved.units;
  }
  for (const auto& [product, by] : changes) {
    in.run("UPDATE stock SET on_hand=on_hand-($1)-($2),reserved=reserved+($1),sold=sold+($2) WHERE product=$3",
           by.first, by.second, product);
  }
  open.commit();
  return late;
}

void shop::place(rig::database& in, std::int64_t id, std::int64_t clock) const {
  const goods what = goods_of(static_cast<std::uint64_t>(id));
  const std::int64_t due = clock + std::chrono::ceil<std::chrono::microseconds>(delay_).count();
  const durable::instant at{std::chrono::microseconds(due)};
  in.run("INSERT INTO orders(id,run,product,units,due) VALUES($1,$2,$3,$4,$5)", id, run_, what.product, what.units,
         due);
  const std::string payload = std::to_string(what.units) + " of product " + std::to_string(what.product);
  const durable::scheduled done =
      in.schedule({.kind = check_kind, .key = key_of_order(id), .payload = payload, .due = at});
  if (!done.inserted || done.due != at) {
    throw common::failure("the check of order " + std::to_string(id) + " was there already");
  }
}

void serve(durable::scheduler& checks, const rig::site& where, std::int64_t worker) {
  checks.on(check_kind, [&where, worker](durable::transaction& open, std::span<const durable::job> all) {
    const std::unique_ptr<rig::database> in = where.within(open);
    std::set<std::pair<std::uint32_t, std::int64_t>> orders;  // by product, as `shop` changes the stock
    for (const durable::job& check : all) {
      const std::int64_t id = rig::number_in(check.key());
      rig::write_run(*in, check, open.now().time_since_epoch().count(), worker, id);
      orders.emplace(goods_of(static_cast<std::uint64_t>(id)).product, id);
    }
    for (const auto& [product, id] : orders) {
      in->run(
          "UPDATE stock SET on_hand=on_hand+o.units,reserved=reserved-o.units "
          "FROM orders o WHERE o.id=$1 AND stock.product=o.product",
          id);
    }
  });
}

bool verdict::exact() const noexcept {
  return stock.balanced() && lost == 0 && doubled == 0 && early == 0 && strays == 0 &&
         std::all_of(faults.begin(), faults.end(), [](const auto& each) { return each.second == 0; });
}

verdict judge(rig::database& in, const rig::site& where) {
  const std::vector<std::int64_t> row = in.run(fate_of_all_orders(where));
  verdict all;
  std::size_t column = 0;
  for (auto* figure : {&all.orders, &all.cancelled, &all.fired, &all.pending, &all.lost, &all.doubled, &all.early,
                       &all.strays, &all.stock.reserved, &all.stock.confirmed, &all.stock.given_back,
                       &all.stock.still_reserved, &all.stock.wrong_products}) {
    *figure = static_cast<std::uint64_t>(row[column++]);
  }
  all.faults = rig::faults_in(in, where);
  return all;
}

}  // namespace order_compensation

#include "orders.hpp"

#include <algorithm>
#include <queue>
#include <random>
#include <tuple>
#include <utility>

#include "common/program.hpp"
#include "timing_wheel/time.hpp"

namespace order_compensation {
namespace {

using std::chrono::nanoseconds;
using timing_wheel::saturating_nanoseconds;

nanoseconds scaled(nanoseconds duration, double factor) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double, std::nano>(duration) * factor);
}

double ratio(nanoseconds a, nanoseconds b) { return static_cast<double>(a.count()) / static_cast<double>(b.count()); }

}  // namespace

orders_file read_orders(std::istream& in, const std::string& name, common::progress& shown) {
  orders_file file;
  const auto leave_out = [&](std::uint64_t line, const std::string& reason) {
    constexpr std::size_t most_reported = 20;
    ++file.malformed;
    if (file.reported.size() < most_reported) {
      file.reported.push_back(std::to_string(line) + ": " + reason);
    }
  };
  const auto add = [&](const order& row) {
    file.orders.push_back(row);
    if (constexpr std::size_t often = 4096; file.orders.size() % often == 0) {
      shown.show("read " + std::to_string(file.orders.size()) + " orders");
    }
  };
  try {
    common::orders_table table(in);
    for (bool more = true; more;) {
      try {
        const std::optional<order> row = table.next();
        more = row.has_value();
        if (row) {
          add(*row);
        }
      } catch (const common::row_error& error) {
        leave_out(table.line(), error.what());
      }
    }
  } catch (const common::file_error& error) {
    leave_out(error.line(), error.what());
  }
  if (in.bad()) {
    throw common::usage_error("cannot read " + name + " to its end");
  }
  return file;
}

order_plan steady_plan(double per_second, nanoseconds length, nanoseconds delay, std::uint64_t seed) {
  return [=, random = std::mt19937_64(seed), number = std::uint64_t{0}]() mutable -> std::optional<planned_order> {
    constexpr double approved_share = 0.95;
    constexpr double longest_wait = 0.9;
    const auto part = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };  // the same on every machine
    const nanoseconds at = scaled(std::chrono::seconds(1), static_cast<double>(number++) / per_second);
    if (at >= length) {
      return std::nullopt;
    }
    const bool is_approved = part() < approved_share;
    const nanoseconds approved = at + scaled(delay, longest_wait * part());
    return planned_order{at, is_approved ? std::optional(approved) : std::nullopt};
  };
}

order_plan recorded_plan(std::vector<order> orders, std::uint64_t repeat) {
  using cursor = std::tuple<std::chrono::sys_seconds, std::uint64_t, std::size_t>;  // when, which copy, which order
  std::stable_sort(orders.begin(), orders.end(),
                   [](const order& a, const order& b) { return a.purchased < b.purchased; });
  std::priority_queue<cursor, std::vector<cursor>, std::greater<>> next;  // of each copy
  for (std::uint64_t copy = 0; copy < repeat && !orders.empty(); ++copy) {
    next.emplace(orders.front().purchased + std::chrono::seconds(copy), copy, 0);
  }
  return [orders = std::move(orders), next = std::move(next)]() mutable -> std::optional<planned_order> {
    if (next.empty()) {
      return std::nullopt;
    }
    const auto [at, copy, position] = next.top();
    next.pop();
    const std::chrono::seconds shift(copy);
    if (const std::size_t following = position + 1; following < orders.size()) {
      next.emplace(orders[following].purchased + shift, copy, following);
    }
    planned_order planned{saturating_nanoseconds(at.time_since_epoch())};
    if (const auto& approved = orders[position].approved) {
      planned.approved = saturating_nanoseconds((*approved + shift).time_since_epoch());
    }
    return planned;
  };
}

scaled_plan plan_of_file(const std::vector<order>& orders, std::uint64_t repeat, nanoseconds delay,
                         nanoseconds length) {
  const auto [first, last] = std::minmax_element(
      orders.begin(), orders.end(), [](const order& a, const order& b) { return a.purchased < b.purchased; });
  const nanoseconds begin = first->purchased.time_since_epoch();
  const nanoseconds took = last->purchased - first->purchased + std::chrono::seconds(repeat - 1);
  const double factor = took > nanoseconds::zero() ? ratio(length, took) : 1;
  const double life_factor = ratio(delay, std::chrono::minutes(30));
  auto plan = [=, next = recorded_plan(orders, repeat)]() {
    std::optional<planned_order> one = next();
    if (one) {
      const nanoseconds placed = scaled(one->at - begin, factor);
      if (one->approved) {
        one->approved = placed + scaled(*one->approved - one->at, life_factor);
      }
      one->at = placed;
    }
    return one;
  };
  return {1 / factor, 1 / life_factor, std::move(plan)};
}

}  // namespace order_compensation

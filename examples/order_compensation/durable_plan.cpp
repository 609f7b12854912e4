#include "durable_plan.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <utility>

namespace order_compensation {
namespace {

using std::chrono::nanoseconds;
using std::chrono::sys_seconds;

constexpr double approved_share = 0.95;
constexpr double longest_wait = 0.9;

nanoseconds scaled(nanoseconds duration, double factor) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double, std::nano>(duration) * factor);
}

double ratio(nanoseconds a, nanoseconds b) { return static_cast<double>(a.count()) / static_cast<double>(b.count()); }

/// In [0, 1), the same on every machine.
double random_part(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

class steady_orders {
 public:
  steady_orders(double per_second, nanoseconds length, nanoseconds delay, std::uint64_t seed)
      : per_second_(per_second), length_(length), delay_(delay), random_(seed) {}

  std::optional<planned_order> operator()() {
    const auto at = scaled(std::chrono::seconds(1), static_cast<double>(number_) / per_second_);
    if (at >= length_) {
      return std::nullopt;
    }
    planned_order next{at, goods_of(hash_of(number_++))};
    const double chance = random_part(random_);
    const double part = random_part(random_);
    if (chance < approved_share) {
      next.approved = at + scaled(delay_, longest_wait * part);
    }
    return next;
  }

 private:
  double per_second_;
  nanoseconds length_;
  nanoseconds delay_;
  std::mt19937_64 random_;
  order_index number_ = 0;
};

/// The next order of one copy.
struct planned_cursor {
  sys_seconds at;
  std::uint64_t copy = 0;
  std::size_t position = 0;

  friend bool operator>(const planned_cursor& a, const planned_cursor& b) {
    return a.at != b.at ? a.at > b.at : a.copy > b.copy;
  }
};

class recorded_orders {
 public:
  recorded_orders(const std::vector<order>& orders, std::uint64_t repeat, nanoseconds delay, nanoseconds length)
      : orders_(by_purchase(orders)), life_factor_(ratio(delay, delay_in_file)) {
    for (std::uint64_t copy = 0; copy < repeat; ++copy) {
      next_.push({first() + std::chrono::seconds(copy), copy, 0});
    }
    const nanoseconds took = orders_.back()->purchased - first() + std::chrono::seconds(repeat - 1);
    if (took > nanoseconds::zero()) {
      factor_ = ratio(length, took);
    }
  }

  [[nodiscard]] double factor() const { return factor_; }
  [[nodiscard]] double life_factor() const { return life_factor_; }

  std::optional<planned_order> operator()() {
    if (next_.empty()) {
      return std::nullopt;
    }
    const planned_cursor now = next_.top();
    next_.pop();
    if (const std::size_t following = now.position + 1; following < orders_.size()) {
      next_.push({orders_[following]->purchased + std::chrono::seconds(now.copy), now.copy, following});
    }
    return planned(*orders_[now.position], scaled(now.at - first(), factor_));
  }

 private:
  static std::vector<const order*> by_purchase(const std::vector<order>& orders) {
    std::vector<const order*> sorted;
    std::transform(orders.begin(), orders.end(), std::back_inserter(sorted), [](const order& one) { return &one; });
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const order* a, const order* b) { return a->purchased < b->purchased; });
    return sorted;
  }

  [[nodiscard]] sys_seconds first() const { return orders_.front()->purchased; }

  [[nodiscard]] planned_order planned(const order& original, nanoseconds at) const {
    planned_order next{at, goods_of(original.id_hash)};
    if (!original.approved) {
      return next;
    }
    const nanoseconds wait = *original.approved - original.purchased;
    next.too_late = wait > delay_in_file;
    if (!next.too_late) {
      next.approved = at + scaled(wait, life_factor_);
    }
    return next;
  }

  std::vector<const order*> orders_;
  double factor_ = 1;
  double life_factor_;
  std::priority_queue<planned_cursor, std::vector<planned_cursor>, std::greater<>> next_;
};

}  // namespace

order_plan steady_plan(double per_second, nanoseconds length, nanoseconds delay, std::uint64_t seed) {
  return steady_orders(per_second, length, delay, seed);
}

scaled_plan plan_of_file(const std::vector<order>& orders, std::uint64_t repeat, nanoseconds delay,
                         nanoseconds length) {
  recorded_orders recorded(orders, repeat, delay, length);
  const double speed = 1 / recorded.factor();
  const double life_speed = 1 / recorded.life_factor();
  return {speed, life_speed, std::move(recorded)};
}

}  // namespace order_compensation

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace order_compensation {

/// A dense number for each order of a run.
using order_index = std::uint32_t;

/// What one order reserves: some units of one product.
struct goods {
  std::uint32_t product = 0;
  std::uint32_t units = 0;
};

inline constexpr std::uint32_t product_count = 97;

/// 1 to 5 units, the same on every machine. The finalizer of SplitMix64 spreads them.
[[nodiscard]] constexpr goods goods_of(std::uint64_t order) noexcept {
  std::uint64_t hash = (order + 1) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  hash ^= hash >> 31;
  return {static_cast<std::uint32_t>(hash / 5 % product_count), static_cast<std::uint32_t>(1 + hash % 5)};
}

/// Units of stock, over all products.
struct stock_figures {
  std::uint64_t reserved = 0;  ///< Ever reserved.
  std::uint64_t confirmed = 0;
  std::uint64_t given_back = 0;
  std::uint64_t still_reserved = 0;    ///< Summed over the open orders, not calculated from the others.
  std::uint64_t wrong_products = 0;    ///< Products whose `reserved` is not the sum of the other three.
  std::uint64_t refused_bookings = 0;  ///< Orders that were reserved, confirmed or given back a second time.

  [[nodiscard]] bool balanced() const noexcept {
    return reserved == confirmed + given_back + still_reserved && wrong_products == 0 && refused_bookings == 0;
  }
};

/// Who has reserved what, in memory. Each order goes from nothing to reserved, and from there once to confirmed or
/// given back; any other step changes nothing, is counted, and makes the balance wrong.
///
/// Thread safety: orders may be booked from any thread; `balance` when nobody books.
class ledger {
 public:
  explicit ledger(std::size_t orders) : states_(orders) {}

  /// \returns whether the step was allowed; so do the other two.
  bool reserve(order_index order, goods what) noexcept { return book(order, none, reserved, what); }
  bool confirm(order_index order, goods what) noexcept { return book(order, reserved, confirmed, what); }
  bool give_back(order_index order, goods what) noexcept { return book(order, reserved, given_back, what); }

  /// \param goods_of_order what an order was booked with, by its index. Complexity: O(orders).
  [[nodiscard]] stock_figures balance(const std::function<goods(order_index)>& goods_of_order) const {
    std::array<std::uint64_t, product_count> open{};
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].load(std::memory_order_relaxed) == reserved) {
        const goods what = goods_of_order(static_cast<order_index>(i));
        open[what.product] += what.units;
      }
    }
    stock_figures sum;
    sum.refused_bookings = refused_bookings_;
    for (std::size_t p = 0; p < product_count; ++p) {
      const std::uint64_t in = units_[reserved][p];
      sum.reserved += in;
      sum.confirmed += units_[confirmed][p];
      sum.given_back += units_[given_back][p];
      sum.still_reserved += open[p];
      sum.wrong_products += in != units_[confirmed][p] + units_[given_back][p] + open[p] ? 1U : 0U;
    }
    return sum;
  }

 private:
  enum state : std::uint8_t { none, reserved, confirmed, given_back };

  // Memory order: relaxed; the timer service and the threads' joins publish what `balance` reads.
  bool book(order_index order, state from, state to, goods what) noexcept {
    if (!states_[order].compare_exchange_strong(from, to, std::memory_order_relaxed)) {
      refused_bookings_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    units_[to][what.product].fetch_add(what.units, std::memory_order_relaxed);
    return true;
  }

  std::vector<std::atomic<state>> states_;
  std::array<std::array<std::atomic<std::uint64_t>, product_count>, 4> units_{};  // by the state that they went to
  std::atomic<std::uint64_t> refused_bookings_{0};
};

}  // namespace order_compensation

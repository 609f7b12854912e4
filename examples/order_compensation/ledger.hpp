#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
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

/// FNV-1a, 64 bits: the same on every machine, unlike `std::hash`.
[[nodiscard]] constexpr std::uint64_t hash_of(std::string_view order_id) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : order_id) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return hash;
}

/// The same for orders without a name: the finalizer of SplitMix64.
[[nodiscard]] constexpr std::uint64_t hash_of(order_index order) noexcept {
  std::uint64_t hash = (std::uint64_t{order} + 1) * 0x9e3779b97f4a7c15;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return hash ^ (hash >> 31);
}

/// The goods of the order whose id has this hash: 1 to 5 units.
[[nodiscard]] constexpr goods goods_of(std::uint64_t id_hash) noexcept {
  return {static_cast<std::uint32_t>(id_hash / 5 % product_count), static_cast<std::uint32_t>(1 + id_hash % 5)};
}

/// Units of stock, over all products.
struct stock_figures {
  std::uint64_t reserved = 0;  ///< Ever reserved.
  std::uint64_t confirmed = 0;
  std::uint64_t given_back = 0;
  std::uint64_t still_reserved = 0;    ///< Summed over the open orders, not calculated from the others.
  std::uint32_t wrong_products = 0;    ///< Products whose `reserved` is not the sum of the other three.
  std::uint64_t refused_bookings = 0;  ///< Orders that were reserved, confirmed or given back a second time.

  [[nodiscard]] bool balanced() const noexcept {
    return reserved == confirmed + given_back + still_reserved && wrong_products == 0 && refused_bookings == 0;
  }
};

/// Who has reserved what. Each order goes from nothing to reserved, and from there once to confirmed or given back; any
/// other step changes nothing, is counted, and makes the balance wrong.
///
/// Thread safety: orders may be booked from any thread; `balance` when nobody books.
class ledger {
 public:
  explicit ledger(std::size_t orders) : states_(orders) {}

  /// \returns whether the step was allowed; so do the other two.
  bool reserve(order_index order, goods what) noexcept {
    return book(order, state::none, state::reserved, reserved_[what.product], what.units);
  }
  bool confirm(order_index order, goods what) noexcept {
    return book(order, state::reserved, state::confirmed, confirmed_[what.product], what.units);
  }
  bool give_back(order_index order, goods what) noexcept {
    return book(order, state::reserved, state::given_back, given_back_[what.product], what.units);
  }

  /// \param goods_of_order the goods that an order was booked with, by its index. Complexity: O(orders).
  template <class GoodsOfOrder>
  [[nodiscard]] stock_figures balance(GoodsOfOrder goods_of_order) const {
    std::array<std::uint64_t, product_count> open{};
    for (std::size_t i = 0; i < states_.size(); ++i) {
      if (states_[i].load(std::memory_order_relaxed) == state::reserved) {
        const goods what = goods_of_order(static_cast<order_index>(i));
        open[what.product] += what.units;
      }
    }
    return add_up(open);
  }

 private:
  enum class state : std::uint8_t { none, reserved, confirmed, given_back };
  using units_per_product = std::array<std::atomic<std::uint64_t>, product_count>;

  // Memory order: relaxed; the timer service and the threads' joins publish what `balance` reads.
  bool book(order_index order, state from, state to, std::atomic<std::uint64_t>& account,
            std::uint32_t units) noexcept {
    if (!states_[order].compare_exchange_strong(from, to, std::memory_order_relaxed)) {
      refused_bookings_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    account.fetch_add(units, std::memory_order_relaxed);
    return true;
  }

  [[nodiscard]] stock_figures add_up(const std::array<std::uint64_t, product_count>& open) const noexcept {
    stock_figures sum;
    sum.refused_bookings = refused_bookings_.load(std::memory_order_relaxed);
    for (std::size_t p = 0; p < product_count; ++p) {
      const std::uint64_t reserved = reserved_[p].load(std::memory_order_relaxed);
      const std::uint64_t confirmed = confirmed_[p].load(std::memory_order_relaxed);
      const std::uint64_t given_back = given_back_[p].load(std::memory_order_relaxed);
      sum.reserved += reserved;
      sum.confirmed += confirmed;
      sum.given_back += given_back;
      sum.still_reserved += open[p];
      sum.wrong_products += reserved != confirmed + given_back + open[p] ? 1U : 0U;
    }
    return sum;
  }

  std::vector<std::atomic<state>> states_;
  units_per_product reserved_{};
  units_per_product confirmed_{};
  units_per_product given_back_{};
  std::atomic<std::uint64_t> refused_bookings_{0};
};

}  // namespace order_compensation

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// This node's hold on its shares of the table: 3 s long, and renewed each second.
///
/// Example: renewed at 10 s and at 11 s; then the store is silent. The node asks again each second, and reads by its
/// shares until 14 s; from then on it reads all.
///
/// Invariants, checked by `invariants_hold()`:
/// 1. There are shares exactly if there is an end of the hold on them.
/// 2. The shares are sorted.
///
/// Thread safety: as a plain object.
class share_hold {
 public:
  /// How late a row is when it is anybody's.
  static constexpr std::chrono::seconds grace{1};

  explicit share_hold(instant now) : next_renewal_(now) {}

  /// Whether the hold is to be renewed now, and for how long.
  [[nodiscard]] std::optional<std::chrono::milliseconds> next_renewal(instant now) const {
    return divided_ && now >= next_renewal_ ? std::optional<std::chrono::milliseconds>(hold) : std::nullopt;
  }
  /// The store is being asked. \returns whether the shares are lost: the hold on them is over.
  bool expects(instant now) {
    next_renewal_ = saturating_add(now, renewal);
    const bool is_over = now >= hold_ends_;
    if (is_over) {
      shares_.reset();
      hold_ends_ = instant::max();
    }
    return is_over;
  }
  /// The store's answer; none if its table is not divided. \returns whether there are shares that it did not have.
  bool has(std::optional<std::vector<std::int16_t>> shares, instant now) {
    divided_ = shares.has_value();
    if (!shares) {
      return false;
    }
    hold_ends_ = saturating_add(now, hold);
    std::sort(shares->begin(), shares->end());
    const bool some_are_new =
        !shares_ || !std::includes(shares_->begin(), shares_->end(), shares->begin(), shares->end());
    shares_ = std::move(shares);
    return some_are_new;
  }
  /// They are given up. From then on it is time to ask for some again.
  void leave() noexcept {
    shares_.reset();
    hold_ends_ = instant::max();
    next_renewal_ = instant::min();
  }
  /// The clock was set back.
  void restart(instant now) noexcept { next_renewal_ = now; }

  /// None: the node reads all.
  [[nodiscard]] const std::optional<std::vector<std::int16_t>>& shares() const noexcept { return shares_; }
  [[nodiscard]] std::size_t size() const noexcept { return shares_ ? shares_->size() : 0; }
  [[nodiscard]] instant next_event() const noexcept { return shares_ ? next_renewal_ : instant::max(); }

  [[nodiscard]] bool invariants_hold() const {
    return shares_.has_value() == (hold_ends_ != instant::max()) &&
           (!shares_ || std::is_sorted(shares_->begin(), shares_->end()));
  }

 private:
  static constexpr std::chrono::seconds hold{3};
  static constexpr std::chrono::seconds renewal{1};

  bool divided_ = true;  // as far as is known
  std::optional<std::vector<std::int16_t>> shares_;
  instant next_renewal_;
  instant hold_ends_ = instant::max();
};

}  // namespace timing_wheel::durable

#include "workload.hpp"

#include <cmath>
#include <numeric>
#include <utility>

namespace timing_wheel::bench {

// Of a delay uniform in [0, 1], the residual life x has the density 2 (1 - x), and so the distribution 1 - (1 - x)^2.
tick delays::residual() {
  const double u = static_cast<double>(random() >> 11U) * 0x1p-53;
  return 1 + static_cast<tick>(static_cast<double>(half_hour - 1) * (1 - std::sqrt(1 - u)));
}

// Not std::shuffle, whose order is the standard library's own.
std::vector<timer_number> random_order(timer_number count, delays& random) {
  std::vector<timer_number> order(count);
  std::iota(order.begin(), order.end(), timer_number{0});
  for (std::size_t left = count; left > 1; --left) {
    std::swap(order[left - 1], order[random.below(left)]);
  }
  return order;
}

namespace {

constexpr tick not_cancelled = 0;

// For each timer, in the order of arrival, when it is cancelled: after it came, and in time.
std::vector<std::uint32_t> cancel_times(timer_number count, unsigned percent, delays& random) {
  std::vector<std::uint32_t> times(count);
  for (std::size_t i = 0; i < count; ++i) {
    const tick arrival = 1 + i * compensation_plan::last_arrival / count;
    const bool cancelled = random.below(100) < percent;
    const tick when = arrival + 1 + random.below(compensation_plan::last_cancel - arrival);
    times[i] = static_cast<std::uint32_t>(cancelled ? when : not_cancelled);
  }
  return times;
}

}  // namespace

// A counting sort by the time of the cancel.
compensation_plan::compensation_plan(timer_number count, unsigned percent) : cancelled_before_(last_cancel + 2) {
  delays random(5);
  order_ = random_order(count, random);
  const std::vector<std::uint32_t> times = cancel_times(count, percent, random);
  for (const std::uint32_t when : times) {
    cancelled_before_[when + 1] += when != not_cancelled ? 1 : 0;
  }
  std::partial_sum(cancelled_before_.begin(), cancelled_before_.end(), cancelled_before_.begin());
  cancelled_.resize(cancelled_before_.back());
  std::vector<std::size_t> next = cancelled_before_;
  for (std::size_t i = 0; i < count; ++i) {
    if (times[i] != not_cancelled) {
      cancelled_[next[times[i]]++] = order_[i];
    }
  }
}

}  // namespace timing_wheel::bench

#include "compare/workload.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "compare/input.hpp"

namespace timing_wheel::compare {
namespace {

using namespace std::chrono_literals;

constexpr nanoseconds never_cancelled = nanoseconds::max();
constexpr nanoseconds order_delay = 30min;
constexpr std::uint64_t default_timers = 1'000'000;
constexpr std::uint64_t bytes_of_timer =
    sizeof(planned_timer) + 16;  // in the plan, and in what counts; without engines

/// Numbers that do not depend on the standard library's distributions, which differ between implementations.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : bits_(seed) {}

  /// In [0, 1).
  double unit() { return static_cast<double>(bits_() >> 11U) * 0x1p-53; }

  nanoseconds between(nanoseconds first, nanoseconds last) {
    const auto width = static_cast<std::uint64_t>((last - first).count()) + 1;
    __extension__ using wide = unsigned __int128;
    return first + nanoseconds(static_cast<std::int64_t>(static_cast<wide>(bits_()) * width >> 64U));
  }

  /// Of the mean 1.
  double exponential() { return -std::log1p(-unit()); }

 private:
  std::mt19937_64 bits_;
};

/// At most the longest delay.
nanoseconds rounded(double ns) {
  return nanoseconds(std::llround(std::min(ns, static_cast<double>(longest_delay.count()))));
}

nanoseconds draw(const duration_spec& spec, std::size_t index, random_source& random) {
  using kind = duration_spec::kind;
  switch (spec.shape) {
    case kind::constant:
      return spec.first;
    case kind::uniform:
      return random.between(spec.first, spec.second);
    case kind::exponential:
      return rounded(random.exponential() * static_cast<double>(spec.first.count()));
    case kind::bimodal:
      return random.unit() < spec.share_of_first ? spec.first : spec.second;
    case kind::list:
    case kind::csv:
      return spec.list[index % spec.list.size()];
  }
  return {};
}

/// Of step `i` of `all`.
void tell_step(const progress_function& progress, std::size_t i, std::size_t all) {
  if (constexpr std::size_t often = 1U << 16U; progress && i % often == 0) {
    progress(static_cast<double>(i) / static_cast<double>(all));
  }
}

void set_arrivals(std::vector<planned_timer>& timers, const arrival_spec& spec, random_source& random,
                  const progress_function& progress) {
  using kind = arrival_spec::kind;
  const auto count = static_cast<double>(timers.size());
  // Up to this rate in whole ns, so that a seed means what it always meant. Above it, a ns is too coarse for a gap.
  const bool in_ns = spec.per_second <= 1e5;
  const auto whole = [in_ns](double ns) { return in_ns ? std::round(ns) : ns; };
  double clock = 0;  // in ns
  for (std::size_t i = 0; i < timers.size(); ++i) {
    tell_step(progress, i, timers.size());
    if (spec.shape == kind::even) {
      timers[i].arrival =
          nanoseconds(std::llround(static_cast<double>(spec.over.count()) * static_cast<double>(i) / count));
    } else if (spec.shape == kind::poisson) {
      clock += whole(random.exponential() * whole(1e9 / spec.per_second));
      if (clock > static_cast<double>(longest_delay.count())) {
        throw usage_error("--arrivals: '" + spec.text + "': " + std::to_string(timers.size()) +
                          " timers would take more than 100 years to arrive");
      }
      timers[i].arrival = rounded(clock);
    }
  }
}

void set_cancellations(workload& plan, const cancel_spec& spec, random_source& random,
                       const progress_function& progress) {
  for (std::size_t i = 0; i < plan.timers.size(); ++i) {
    tell_step(progress, i, plan.timers.size());
    planned_timer& timer = plan.timers[i];
    const nanoseconds delay = timer.due - timer.arrival;
    if (random.unit() >= spec.share) {
      continue;
    }
    const nanoseconds after = spec.when ? draw(*spec.when, i, random) : random.between(0ns, std::max(delay - 1ns, 0ns));
    if (after < delay) {
      timer.cancelled = timer.arrival + after;
    } else {
      ++plan.too_late;
    }
  }
}

void sort_cancellations(workload& plan) {
  for (std::size_t i = 0; i < plan.timers.size(); ++i) {
    if (plan.timers[i].cancelled != never_cancelled) {
      plan.cancellations.push_back(static_cast<std::uint32_t>(i));
    }
  }
  std::stable_sort(plan.cancellations.begin(), plan.cancellations.end(), [&](std::uint32_t a, std::uint32_t b) {
    return plan.timers[a].cancelled < plan.timers[b].cancelled;
  });
}

/// The orders are the workload: when they come, and which are cancelled.
void plan_orders(workload& plan, std::vector<common::order_row> orders, const workload_spec& spec) {
  if (spec.arrivals || spec.cancel) {
    throw usage_error("--delays csv:" + spec.delays.file + " is a file of orders, which tells when they come and are " +
                      "cancelled: " + (spec.arrivals ? "--arrivals" : "--cancel") + " cannot be given with it");
  }
  std::stable_sort(orders.begin(), orders.end(),
                   [](const common::order_row& a, const common::order_row& b) { return a.purchased < b.purchased; });
  orders.resize(std::min<std::uint64_t>(orders.size(), spec.timers.value_or(orders.size())));
  const auto first = orders.front().purchased;
  for (const common::order_row& one : orders) {
    const nanoseconds arrival = one.purchased - first;
    planned_timer timer{arrival, arrival + order_delay, never_cancelled};
    if (one.approved && *one.approved - one.purchased < order_delay) {
      timer.cancelled = *one.approved - first;
    } else if (one.approved) {
      ++plan.too_late;
    }
    plan.timers.push_back(timer);
  }
  plan.arrivals = "as purchased";
  plan.cancel = "as approved";
}

}  // namespace

nanoseconds workload::longest() const {
  nanoseconds found{};
  for (const planned_timer& timer : timers) {
    found = std::max(found, timer.due - timer.arrival);
  }
  return found;
}

nanoseconds workload::median() const {
  std::vector<nanoseconds> all;
  all.reserve(timers.size());
  for (const planned_timer& timer : timers) {
    all.push_back(timer.due - timer.arrival);
  }
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

nanoseconds workload::end() const {
  nanoseconds found{};
  for (const planned_timer& timer : timers) {
    found = std::max(found, timer.due);
  }
  return found;
}

workload make_workload(const workload_spec& spec, const progress_function& progress) {
  workload plan;
  plan.delays = spec.delays.text;
  plan.window = spec.window;
  plan.seed = spec.seed;
  duration_spec delays = spec.delays;
  if (delays.shape == duration_spec::kind::csv) {
    timers_file file = read_timers(delays.file);
    if (!file.orders.empty()) {
      plan_orders(plan, std::move(file.orders), spec);
      sort_cancellations(plan);
      return plan;
    }
    delays.list = std::move(file.delays);
  }
  const std::uint64_t count =
      spec.timers.value_or(delays.list.empty() ? default_timers : std::uint64_t{delays.list.size()});
  random_source random(spec.seed);
  common::check_memory("--timers: " + common::grouped(count) + " timers", count * bytes_of_timer);
  plan.timers.resize(count);
  const arrival_spec arrivals = spec.arrivals.value_or(arrival_spec{});
  set_arrivals(plan.timers, arrivals, random, progress);
  for (std::size_t i = 0; i < plan.timers.size(); ++i) {
    tell_step(progress, i, plan.timers.size());
    plan.timers[i].due = plan.timers[i].arrival + draw(delays, i, random);
    plan.timers[i].cancelled = never_cancelled;
  }
  const cancel_spec cancel = spec.cancel.value_or(cancel_spec{});
  set_cancellations(plan, cancel, random, progress);
  sort_cancellations(plan);
  plan.arrivals = arrivals.text;
  plan.cancel = cancel.text;
  return plan;
}

}  // namespace timing_wheel::compare

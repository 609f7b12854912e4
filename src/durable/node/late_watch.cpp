#include "durable/node/late_watch.hpp"

#include <algorithm>
#include <utility>

#include "durable/store/instant.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

constexpr std::chrono::seconds late_after(1);

std::string in_seconds(microseconds time) {
  return std::to_string(std::chrono::floor<std::chrono::seconds>(std::chrono::abs(time)).count()) + " s";
}

}  // namespace

late_watch::late_watch(store& where, const std::vector<std::string>& kinds, std::chrono::milliseconds sweep,
                       failures& reported)
    : store_(where), kinds_(kinds), sweep_(saturating_microseconds(sweep)), failures_(reported) {}

bool late_watch::is_time(instant now) const noexcept {
  return now >= next_sweep_ || (now >= next_ && (is_late_ || asked_.load(std::memory_order_relaxed)));
}

void late_watch::look(instant now) {
  next_ = saturating_add(now, microseconds(std::chrono::seconds(1)));
  next_sweep_ = saturating_add(now, sweep_);
  asked_.store(false, std::memory_order_relaxed);
  const auto begin = std::chrono::steady_clock::now();
  found_.clear();
  store_.read_overdue(found_);
  const auto took = std::chrono::ceil<microseconds>(std::chrono::steady_clock::now() - begin);
  next_ = std::max(next_, saturating_add(now, 100 * took));
  std::vector<kind_lag> late = late_by(store_.now());
  is_late_ = std::any_of(late.begin(), late.end(), [](const kind_lag& each) { return each.handled; });
  tell_unhandled(late);
  const microseconds difference = store_.clock_difference();
  tell_clock(difference);
  const std::scoped_lock lock(mutex_);
  late_.swap(late);
  difference_ = difference;
}

std::vector<kind_lag> late_watch::late_by(instant now) const {
  std::vector<kind_lag> late;
  for (const overdue_kind& each : found_) {
    const microseconds lag = saturating_difference(now, each.due);
    if (lag >= late_after) {
      const bool handled = std::find(kinds_.begin(), kinds_.end(), each.kind) != kinds_.end();
      late.push_back({each.kind, lag, handled});
    }
  }
  return late;
}

void late_watch::tell_unhandled(const std::vector<kind_lag>& late) {
  std::vector<std::string> told;
  for (const kind_lag& each : late) {
    if (each.handled || each.lag < sweep_) {
      continue;
    }
    if (std::find(told_.begin(), told_.end(), each.kind) == told_.end()) {
      failures_.report({"unhandled",
                        each.kind,
                        {},
                        exception_of("a check has been due for " + in_seconds(each.lag) +
                                     ", and no node has begun it; this one has no handler for it")});
    }
    told.push_back(each.kind);
  }
  told_.swap(told);
}

void late_watch::tell_clock(microseconds difference) {
  constexpr std::chrono::seconds too_far(10);
  const bool differs = std::chrono::abs(difference) >= too_far;
  if (differs && !told_clock_) {
    failures_.report(
        {"clock",
         {},
         {},
         exception_of("the clock of the store is " + in_seconds(difference) +
                      (difference < difference.zero() ? " ahead of" : " behind") + " the wall clock here")});
  }
  told_clock_ = differs;
}

void late_watch::read(scheduler_stats& into) const {
  asked_.store(true, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    into.store_lag = late_;
    into.clock_difference = difference_;
  }
  for (const kind_lag& each : into.store_lag) {
    into.lag = std::max(into.lag, each.lag);
    for (kind_stats& of : into.kinds) {
      of.lag = of.kind == each.kind ? std::max(of.lag, each.lag) : of.lag;
    }
  }
}

}  // namespace timing_wheel::durable

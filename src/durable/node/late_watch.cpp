#include "durable/node/late_watch.hpp"

#include <algorithm>
#include <utility>

#include "durable/store/instant.hpp"
#include "durable/store/text.hpp"

namespace timing_wheel::durable {

using std::chrono::microseconds;

namespace {

constexpr std::chrono::seconds late_after(1);
constexpr std::chrono::hours silence(1);

std::string in_seconds(microseconds time) {
  return std::to_string(std::chrono::floor<std::chrono::seconds>(std::chrono::abs(time)).count()) + " s";
}

// A kind that was written by SQL may be any bytes.
std::string as_utf8(const std::string& kind) {
  return is_utf8(kind) ? kind : std::string(shown(kind, std::string::npos, ""));
}

}  // namespace

late_watch::late_watch(store& where, std::vector<std::string> kinds, const scheduler_options& options,
                       failures& reported)
    : store_(where),
      kinds_(std::move(kinds)),
      sweep_(saturating_microseconds(options.sweep)),
      poll_(saturating_microseconds(options.poll)),
      failures_(reported) {}

bool late_watch::is_time(instant now) const noexcept {
  return now >= next_sweep_ || (now >= next_ && (is_late_ || asked_.load(std::memory_order_relaxed)));
}

microseconds late_watch::pause() const noexcept { return kinds_.empty() ? poll_ : microseconds::max(); }

void late_watch::look(instant now) {
  asked_.store(false, std::memory_order_relaxed);
  const auto begin = std::chrono::steady_clock::now();
  const auto rest = [&] {
    const auto took = std::chrono::ceil<microseconds>(std::chrono::steady_clock::now() - begin);
    next_ = saturating_add(now, std::max<microseconds>(late_after, 100 * took));
    next_sweep_ = std::max(next_, saturating_add(now, sweep_));
  };
  try {
    look_at_clock();
    if (std::exchange(begun_, true)) {
      look_at_checks();
    }
  } catch (...) {
    forget();  // nobody knows
    rest();
    throw;
  }
  rest();
}

void late_watch::look_at_checks() {
  found_.clear();
  store_.read_overdue(found_);
  const instant now = store_.now();
  std::vector<kind_lag> late = late_by(now);
  is_late_ = std::any_of(late.begin(), late.end(), [](const kind_lag& each) { return each.handled; });
  tell_unhandled(late, now);
  const std::scoped_lock lock(mutex_);
  late_.swap(late);
}

void late_watch::look_at_clock() {
  const microseconds difference = store_.clock_difference();
  tell_clock(difference);
  const std::scoped_lock lock(mutex_);
  difference_ = difference;
}

std::vector<kind_lag> late_watch::late_by(instant now) const {
  std::vector<kind_lag> late;
  for (const overdue_kind& each : found_) {
    const microseconds lag = saturating_difference(now, each.since);
    if (lag >= late_after) {
      const bool handled = std::find(kinds_.begin(), kinds_.end(), each.kind) != kinds_.end();
      late.push_back({as_utf8(each.kind), lag, handled});
    }
  }
  return late;
}

void late_watch::tell_unhandled(const std::vector<kind_lag>& late, instant now) {
  std::erase_if(told_, [&](const auto& of) { return of.second < now - silence || of.second > now; });
  for (const kind_lag& each : late) {
    if (!each.handled && each.lag >= sweep_ && told_.emplace(each.kind, now).second) {
      failures_.report({"unhandled",
                        each.kind,
                        {},
                        exception_of("a check has been due for " + in_seconds(each.lag) +
                                     " and is free, and this node has no handler for it")});
    }
  }
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

void late_watch::forget() noexcept {
  const std::scoped_lock lock(mutex_);
  late_.clear();
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

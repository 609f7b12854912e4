#include "durable/node/run_reports.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace timing_wheel::durable {

using std::chrono::microseconds;

void run_reports::tell_end(std::int64_t id, std::uint32_t kind, std::string_view key, int attempt, const outcome& said,
                           const std::exception_ptr& thrown) noexcept {
  if (said.what() == outcome::verdict::done || said.what() == outcome::verdict::snooze) {
    return;
  }
  const std::string& name = machine_.kinds()[kind].name;
  const std::optional<microseconds> again = machine_.longest_pause(kind, attempt, said);
  if (thrown != nullptr) {
    failures_.report({"handler", name, key, thrown, attempt, again});
  }
  if (again) {
    failed_.add(id, attempt, said.reason());
  } else {
    failures_.report({"dead", name, key, thrown != nullptr ? thrown : exception_of(said.reason()), attempt});
  }
}

void run_reports::tell_given_up(const slow_run& which, const std::string& why) noexcept {
  const std::optional<microseconds> again = machine_.longest_pause(which.kind, which.attempt, retry({}));
  failures_.report(
      {"time_limit", machine_.kinds()[which.kind].name, which.key, exception_of(why), which.attempt, again});
  if (again) {
    failed_.add(which.id, which.attempt, why);
  }
}

instant run_reports::tell_store(instant now) {
  return std::min({tell_drained(now), tell_long_runs(now), tell_failed_runs(now), tell_runs(now)});
}

// An operator waits until it holds nothing, and takes it for dead if it is silent.
instant run_reports::tell_drained(instant now) {
  constexpr std::chrono::seconds pause(1);
  constexpr std::chrono::seconds silence(5);
  if (!machine_.is_drained()) {
    told_held_.reset();
    return instant::max();
  }
  const std::size_t held = machine_.held() + runs_.lost();
  told_at_ = std::min(told_at_, now);  // the clock may have been set back
  const bool is_empty = held == 0 && told_held_ != held;
  const auto next_telling = [&] { return saturating_add(told_at_, told_held_ != held ? pause : silence); };
  if ((is_empty && told_held_) || (now >= next_telling() && (held != 0 || is_empty))) {
    told_at_ = now;
    calls_.hinted([&] {
      store_.tell_drained(name_, held);
      told_held_ = held;
    });
  }
  return held == 0 && told_held_ == held ? instant::max() : next_telling();
}

// So that an operator sees where a run is, and since when. It goes on without that: if the store refuses, the node
// tells it again ten seconds later.
instant run_reports::tell_long_runs(instant now) {
  constexpr std::chrono::seconds pause(5);
  constexpr std::chrono::seconds long_pause(10);
  constexpr std::size_t most = 1000;
  if (machine_.held() == 0 && runs_.lost() == 0 && !has_told_runs_) {
    return instant::max();
  }
  tells_runs_at_ = std::min(tells_runs_at_, saturating_add(now, long_pause));  // the clock may have been set back
  if (now < tells_runs_at_ || machine_.resting(now)) {
    return std::max(tells_runs_at_, now + pause);
  }
  tells_runs_at_ = saturating_add(now, pause);
  try {
    const instant here = clock_.run_now();
    std::vector<long_run> runs = runs_.begun_before(here - pause, most);
    for (long_run& each : runs) {
      each.begun = now - (here - each.begun);
    }
    if (!runs.empty() || has_told_runs_) {
      store_.tell_long_runs(name_, runs);
      has_told_runs_ = !runs.empty();
    }
  } catch (...) {
    tells_runs_at_ = saturating_add(now, long_pause);
    calls_.report_failure();
  }
  return tells_runs_at_;
}

// So that an operator sees why a check runs again. What the store refuses is not told again. What was told of checks
// that have gone since is forgotten later, in one go.
instant run_reports::tell_failed_runs(instant now) {
  constexpr std::chrono::seconds pause(5);
  constexpr std::chrono::minutes some_time(10);
  const auto next = [&] { return failed_.empty() ? forgets_at_ : tells_failed_at_; };
  if (next() == instant::max()) {
    return instant::max();
  }
  tells_failed_at_ = std::min(tells_failed_at_, saturating_add(now, pause));  // the clock may have been set back
  forgets_at_ = std::min(forgets_at_, saturating_add(now, some_time));
  if (now < next() || machine_.resting(now)) {
    return std::max(next(), now + pause);
  }
  tells_failed_at_ = saturating_add(now, pause);
  try {
    const std::vector<failed_run> failed = failed_.take();  // or none: to forget
    forgets_at_ = failed.empty() ? instant::max() : forgets_at_;
    store_.tell_failed_runs(name_, failed);
  } catch (...) {
    calls_.report_failure();
  }
  return next();
}

// So that an operator sees how fast it goes, at the first look. What the store refuses is not told again, since it
// would count for another minute.
instant run_reports::tell_runs(instant now) {
  constexpr std::chrono::seconds pause(5);
  if (tells_counts_at_ == instant::max()) {
    if (figures_.runs() != told_runs_) {
      tells_counts_at_ = saturating_add(now, pause);
    }
    return tells_counts_at_;
  }
  tells_counts_at_ = std::min(tells_counts_at_, saturating_add(now, pause));  // the clock may have been set back
  if (now < tells_counts_at_) {
    return tells_counts_at_;
  }
  if (machine_.resting(now)) {
    return saturating_add(now, pause);
  }
  tells_counts_at_ = instant::max();
  const run_counts all = figures_.runs();
  const run_counts before = std::exchange(told_runs_, all);
  try {
    store_.tell_runs(name_, {all.begun - before.begun, all.ended - before.ended, all.failed - before.failed});
  } catch (...) {
    calls_.report_failure();
  }
  return instant::max();
}

}  // namespace timing_wheel::durable

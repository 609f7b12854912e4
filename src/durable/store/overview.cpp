#include "durable/store/overview.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>

#include "durable/store/instant.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

namespace {

bool is(check_state state, const stored_check& check, instant now) {
  const bool pending = check.lease == instant{};
  switch (state) {
    case check_state::pending:
      return pending;
    case check_state::running:
      return check.lease > now;
    case check_state::suspect:
      return !pending && check.lease <= now;
    case check_state::due:
      return check.due <= now;
    case check_state::waiting:
      return check.due <= now && check.lease <= now;
    case check_state::retrying:
      return pending && check.attempt > 0;
  }
  return false;
}

}  // namespace

const char* to_string(check_state state) noexcept {
  switch (state) {
    case check_state::pending:
      return "pending";
    case check_state::running:
      return "running";
    case check_state::suspect:
      return "suspect";
    case check_state::due:
      return "due";
    case check_state::waiting:
      return "waiting";
    case check_state::retrying:
      return "retrying";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, check_state state) { return out << to_string(state); }

check_state state_of(const stored_check& check, instant now) noexcept {
  for (const check_state each :
       {check_state::suspect, check_state::running, check_state::waiting, check_state::retrying}) {
    if (is(each, check, now)) {
      return each;
    }
  }
  return check_state::pending;
}

void require_kind_of_keys(const check_range& range) {
  if (range.from_key && range.which.kind.empty()) {
    throw timer_error(make_error_code(errc::invalid_request), "a list in the order of the keys needs a kind");
  }
}

list_position begin_of(const check_range& range) {
  const bool is_beginning = range.after.due == list_position().due && range.after.id == list_position().id;
  return is_beginning && range.latest_first ? list_position{instant::max(), std::numeric_limits<std::int64_t>::max()}
                                            : range.after;
}

bool matches(const check_filter& which, const stored_check& check, instant now) {
  return (which.kind.empty() || which.kind == check.kind) && check.key.starts_with(which.key_prefix) &&
         (!which.state || is(*which.state, check, now)) && (!which.due_before || check.due < *which.due_before) &&
         (!which.due_after || check.due > *which.due_after);
}

bool matches(const dead_filter& which, const dead_check& check) {
  return (which.kind.empty() || which.kind == check.kind) && check.key.starts_with(which.key_prefix) &&
         (which.error.empty() || which.error == check.error) && (which.key.empty() || which.key == check.key);
}

std::string condition_of(const check_filter& which, instant now) {
  const std::string at = std::to_string(microseconds_of(now));
  std::string text;
  if (which.state) {
    switch (*which.state) {
      case check_state::pending:
        text = " AND lease IS NULL";
        break;
      case check_state::running:  // what is claimed is due, unless the clock was set back
        text = " AND due<=" + at + " AND lease>" + at;
        break;
      case check_state::suspect:
        text = " AND lease<=" + at;
        break;
      case check_state::due:
        text = " AND due<=" + at;
        break;
      case check_state::waiting:
        text = " AND due<=" + at + " AND (lease IS NULL OR lease<=" + at + ")";
        break;
      case check_state::retrying:
        text = " AND lease IS NULL AND attempt>0";
        break;
    }
  }
  if (which.due_before) {
    text += " AND due<" + std::to_string(microseconds_of(*which.due_before));
  }
  if (which.due_after) {
    text += " AND due>" + std::to_string(microseconds_of(*which.due_after));
  }
  return text;
}

std::optional<std::string> end_of_prefix(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) {
    end.pop_back();
  }
  if (end.empty()) {
    return std::nullopt;
  }
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

std::int64_t highest_fence(std::span<const stored_check> checks, std::span<const dead_check> dead) {
  std::int64_t highest = 0;
  for (const stored_check& each : checks) {
    highest = std::max(highest, each.fence);
  }
  for (const dead_check& each : dead) {
    highest = std::max(highest, each.fence);
  }
  return highest;
}

void add_to(kind_counts& counts, std::vector<instant>& waiting, const stored_check& check, instant now) {
  const auto count = [&](check_state state, std::size_t& number) { number += is(state, check, now) ? 1U : 0U; };
  count(check_state::pending, counts.pending);
  count(check_state::running, counts.running);
  count(check_state::suspect, counts.suspect);
  count(check_state::due, counts.due);
  count(check_state::waiting, counts.waiting);
  count(check_state::retrying, counts.retrying);
  if (is(check_state::waiting, check, now)) {
    waiting.push_back(std::max(check.due, check.lease));
  }
}

void tell_waiting(kind_counts& counts, std::vector<instant>& waiting, bool with_waits) {
  if (waiting.empty()) {
    return;
  }
  const auto of_percent = [&](std::size_t percent) {
    const auto at = waiting.begin() + static_cast<std::ptrdiff_t>((waiting.size() * percent + 99) / 100 - 1);
    std::nth_element(waiting.begin(), at, waiting.end(), std::greater<>());
    return *at;
  };
  counts.oldest_waiting = *std::min_element(waiting.begin(), waiting.end());
  if (with_waits) {
    counts.median_waiting = of_percent(50);
    counts.p99_waiting = of_percent(99);
  }
}

void mark_paused(const std::vector<paused_kind>& paused, std::vector<kind_counts>& kinds) {
  for (const paused_kind& each : paused) {
    const auto at = std::lower_bound(kinds.begin(), kinds.end(), each.kind,
                                     [](const kind_counts& of, const std::string& kind) { return of.kind < kind; });
    if (at != kinds.end() && at->kind == each.kind) {
      at->paused = true;
    } else {
      kinds.insert(at, {.kind = each.kind, .paused = true});
    }
  }
}

}  // namespace timing_wheel::durable

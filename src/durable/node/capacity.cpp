#include "durable/node/capacity.hpp"

#include <algorithm>
#include <limits>

namespace timing_wheel::durable {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr microseconds shortest_run(2);       // a thread needs as much for what is around it
constexpr std::chrono::hours longest_run(1);  // also of a kind that has not run
constexpr milliseconds shortest_trip(1);
constexpr milliseconds longest_trip(50);  // one that took longer was held up
constexpr std::chrono::seconds guess_is_sure(1);
constexpr std::int64_t window = 256;  // of so many runs, the older ones count half as much

}  // namespace

microseconds allowance::cost_of(std::uint32_t kind) const noexcept {
  return costs.empty() ? microseconds::zero() : costs[kind];
}

bool allowance::admit(std::uint32_t kind, std::size_t size) noexcept {
  const microseconds cost = cost_of(kind);
  const bool has_time = cost <= time || (time > time.zero() && cost <= short_run);
  if (rows == 0 || (threads == 0 && !has_time)) {
    return false;
  }
  --rows;
  bytes -= std::min(bytes, size);
  threads -= std::min<std::size_t>(threads, 1);
  time -= std::min(time, cost);
  took_bytes = took_bytes || size != 0;
  return true;
}

capacity::capacity(std::size_t kinds, std::optional<std::size_t> threads)
    : threads_(threads), round_trip_(shortest_trip), runs_(kinds), costs_(kinds, longest_run) {}

void capacity::took(microseconds round_trip) noexcept {
  const microseconds error = std::clamp<microseconds>(round_trip, shortest_trip, longest_trip) - round_trip_;
  round_trip_ += error / 8;
  deviation_ += (std::chrono::abs(error) - deviation_) / 8;
}

void capacity::ran(std::uint32_t kind, microseconds time) noexcept {
  past_runs& past = runs_[kind];
  const microseconds cost = std::clamp<microseconds>(time, shortest_run, longest_run);
  if (past.count == window) {
    past.count /= 2;
    past.time /= 2;
  }
  ++past.count;
  past.time += cost;
  costs_[kind] = std::max(past.time / past.count, std::min(past.last, cost));
  past.last = cost;
}

std::size_t capacity::guess(std::size_t running, instant now) noexcept {
  if (running >= guess_ && now >= sure_until_) {
    guess_ = 2 * std::max(guess_, running);
  }
  return std::max(guess_, running);
}

void capacity::was_late(std::size_t running, instant now) noexcept {
  guess_ = std::max({std::size_t{1}, running, guess_ / 2});
  sure_until_ = now + guess_is_sure;
}

allowance capacity::now(const run_queue& runs, instant now, std::size_t rows) noexcept {
  const microseconds short_run = threads_ ? patience() / 4 : microseconds::zero();
  const run_queue::state all = runs.look(now, horizon(), costs_, short_run);
  if (all.asked > all.waiting) {
    return {};
  }
  const std::size_t threads = threads_ ? *threads_ - std::min(*threads_, all.lost) : guess(all.running, now);
  const std::size_t idle = threads - std::min(threads, all.running);
  const std::size_t free_soon = all.young + (threads_ ? idle : std::min<std::size_t>(1, idle));
  const microseconds time = std::max(static_cast<std::int64_t>(free_soon) * horizon(), all.ahead);
  return {.rows = rows,
          .bytes = std::numeric_limits<std::size_t>::max(),
          .threads = idle - std::min(idle, all.asked),
          .time = time - std::min(time, all.work),
          .short_run = short_run,
          .costs = costs_};
}

microseconds capacity::patience() const noexcept { return std::max<microseconds>(8 * round_trip_, milliseconds(100)); }

}  // namespace timing_wheel::durable

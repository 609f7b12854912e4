#include "durable/node/run_queue.hpp"

#include <algorithm>
#include <iterator>

namespace timing_wheel::durable {

using std::chrono::microseconds;

run_queue::~run_queue() {
  for (run_list* const some : {&waiting_, &running_, &ended_}) {
    some->clear_and_dispose(std::default_delete<leased_run>());
  }
}

bool run_queue::push(std::unique_ptr<leased_run> run, instant now) noexcept {
  const std::scoped_lock lock(mutex_);
  run->since = now;
  ++waiting_of_[run->kind];
  waiting_.push_back(*run.release());
  const bool asks = threads_ < waiting_.size();
  threads_ += asks ? 1U : 0U;
  return asks;
}

leased_run* run_queue::begin(instant now) noexcept {
  const std::scoped_lock lock(mutex_);
  --threads_;
  if (waiting_.empty()) {
    return nullptr;
  }
  leased_run& run = waiting_.front();
  running_.splice(running_.end(), waiting_, waiting_.begin());
  run.since = now;
  --waiting_of_[run.kind];
  ++running_of_[run.kind];
  return &run;
}

void run_queue::end(leased_run& run) noexcept {
  const std::scoped_lock lock(mutex_);
  --running_of_[run.kind];
  ended_.splice(ended_.end(), running_, run_list::s_iterator_to(run));
}

void run_queue::drop() noexcept {
  const std::scoped_lock lock(mutex_);
  --threads_;
  if (threads_ < waiting_.size()) {
    --waiting_of_[waiting_.back().kind];
    ended_.splice(ended_.end(), waiting_, std::prev(waiting_.end()));
  }
}

bool run_queue::end_late(instant limit) noexcept {
  const std::scoped_lock lock(mutex_);
  const std::size_t before = waiting_.size();
  while (!waiting_.empty() && waiting_.front().since < limit) {
    --waiting_of_[waiting_.front().kind];
    ended_.splice(ended_.end(), waiting_, waiting_.begin());
  }
  return waiting_.size() != before;
}

std::vector<std::int64_t> run_queue::late(instant limit) const {
  std::vector<std::int64_t> ids;
  const std::scoped_lock lock(mutex_);
  for (auto one = waiting_.begin(); one != waiting_.end() && one->since < limit; ++one) {
    ids.push_back(one->id);
  }
  return ids;
}

run_list run_queue::take_ended() noexcept {
  const std::scoped_lock lock(mutex_);
  return std::move(ended_);
}

instant run_queue::first() const noexcept {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() ? instant::max() : waiting_.front().since;
}

bool run_queue::empty() const noexcept {
  const std::scoped_lock lock(mutex_);
  return waiting_.empty() && running_.empty() && ended_.empty();
}

std::size_t run_queue::waiting() const noexcept {
  const std::scoped_lock lock(mutex_);
  return waiting_.size();
}

std::size_t run_queue::asked() const noexcept {
  const std::scoped_lock lock(mutex_);
  return threads_;
}

std::size_t run_queue::running() const noexcept {
  const std::scoped_lock lock(mutex_);
  return running_.size();
}

std::size_t run_queue::begun_after(instant since) const noexcept {
  const std::scoped_lock lock(mutex_);
  const auto is_before = [&](const leased_run& one) { return one.since <= since; };
  const auto last = std::find_if(running_.rbegin(), running_.rend(), is_before);
  return static_cast<std::size_t>(std::distance(running_.rbegin(), last));
}

void run_queue::count(std::span<std::size_t> waiting, std::span<std::size_t> running,
                      std::span<instant> oldest) const noexcept {
  const std::scoped_lock lock(mutex_);
  std::copy(waiting_of_.begin(), waiting_of_.end(), waiting.begin());
  std::copy(running_of_.begin(), running_of_.end(), running.begin());
  std::fill(oldest.begin(), oldest.end(), instant::max());
  for (const leased_run& one : waiting_) {
    oldest[one.kind] = std::min(oldest[one.kind], one.what.due());
  }
}

microseconds run_queue::work(std::span<const microseconds> costs) const noexcept {
  constexpr microseconds most = std::chrono::hours(1);
  const std::scoped_lock lock(mutex_);
  microseconds all{};
  for (std::size_t kind = 0; kind < costs.size(); ++kind) {
    all += static_cast<std::int64_t>(waiting_of_[kind]) * std::min(costs[kind], most);
  }
  return all;
}

}  // namespace timing_wheel::durable

#include "durable/node/untold_failures.hpp"

#include <new>

#include "durable/node/run_rules.hpp"

namespace timing_wheel::durable {

void untold_failures::add(std::int64_t id, int attempt, const std::string& error) noexcept {
  constexpr std::size_t most = 1000;
  constexpr std::size_t longest = 1000;
  try {
    failed_run run{.node = {}, .id = id, .attempt = attempt, .error = copy_of(error, longest), .told = {}};
    const std::scoped_lock lock(mutex_);
    if (runs_.size() < most || runs_.contains(id)) {
      runs_.insert_or_assign(id, std::move(run));
    }
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the run counts, and not what is told of it
  }
}

std::vector<failed_run> untold_failures::take() {
  const std::scoped_lock lock(mutex_);
  std::vector<failed_run> all;
  all.reserve(runs_.size());
  for (auto& each : runs_) {
    all.push_back(std::move(each.second));
  }
  runs_.clear();
  return all;
}

bool untold_failures::empty() const noexcept {
  const std::scoped_lock lock(mutex_);
  return runs_.empty();
}

}  // namespace timing_wheel::durable

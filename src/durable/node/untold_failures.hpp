#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// The runs that have failed, and that the store has not been told of: the last one of each check. Those beyond 1 000
/// checks are left out. Thread safety: any thread.
class untold_failures {
 public:
  /// Leaves it out if there is no memory for it.
  void add(std::int64_t id, int attempt, const std::string& error) noexcept;
  /// All of them, in the order of the ids. They are told from now on. \throws std::bad_alloc; then they are not.
  [[nodiscard]] std::vector<failed_run> take();
  [[nodiscard]] bool empty() const noexcept;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, failed_run> runs_;  // guarded by mutex_
};

}  // namespace timing_wheel::durable

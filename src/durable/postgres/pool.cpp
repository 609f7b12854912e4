#include "durable/postgres/pool.hpp"

#include <utility>

namespace timing_wheel::durable::postgres {

std::unique_ptr<connection> pool::connect(limit within) const {
  return address_.connect(within.value_or(options_.connect_timeout), rules_, within.has_value());
}

// A thread that waits in vain is told so: it may hold the only connection itself.
std::unique_ptr<connection> pool::borrow(limit within) {
  const auto patience = within.value_or(options_.connect_timeout + options_.statement_timeout);
  std::unique_lock lock(mutex_);
  if (!freed_.wait_for(lock, patience, [&] { return !idle_.empty() || open_ < most_; })) {
    fail(
        "connecting", "53300",
        "each of " + std::to_string(most_) + " connections was in use for " + std::to_string(patience.count()) + " ms");
  }
  if (!idle_.empty()) {
    std::unique_ptr<connection> found = std::move(idle_.back());
    idle_.pop_back();
    return found;
  }
  ++open_;
  lock.unlock();
  try {
    return connect(within);
  } catch (...) {
    give_back(nullptr);
    throw;
  }
}

void pool::give_back(std::unique_ptr<connection> used) noexcept {
  if (used) {
    used->roll_back();
    used->used = true;
    if (!used->works() || used->is_stale() || used->transaction() != PQTRANS_IDLE) {
      used.reset();
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    if (used) {
      idle_.push_back(std::move(used));  // there is room, see `borrow`
    } else {
      --open_;
    }
  }
  freed_.notify_one();
}

// The others are likely to be dead, too: what has ended one was the server's end, most of the time.
void pool::guard::renew() {
  std::vector<std::unique_ptr<connection>> dropped;
  {
    const std::scoped_lock lock(from_.mutex_);
    dropped.swap(from_.idle_);
    from_.open_ -= dropped.size();
    from_.idle_.reserve(from_.most_);
  }
  connection_.reset();
  connection_ = from_.connect(within_);
  connection_->answer_within = within_;
}

void pool::abandon() {
  for (std::unique_ptr<connection>& each : idle_) {
    static_cast<void>(each.release());  // NOLINT(bugprone-unused-return-value)
  }
}

}  // namespace timing_wheel::durable::postgres

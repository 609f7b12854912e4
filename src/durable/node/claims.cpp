#include "durable/node/claims.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::durable {

std::size_t claims::room() const noexcept { return max_claimed_ - std::min(max_claimed_, held_); }

std::size_t claims::free_runs(std::uint32_t kind) const noexcept {
  const std::size_t limit = kinds_[kind].transactional ? no_limit : kinds_[kind].options.max_running;
  return limit - std::min(limit, running_[kind] + lost_[kind]);
}

void claims::ask(timer_number number) noexcept {
  known_row& which = rows_[number];
  which.at = stage::asked;
  suspect_ = suspect_ || which.suspect;
  ++running_[which.what.kind];
  held_ += kinds_[which.what.kind].transactional ? 0U : 1U;
  bytes_ += kinds_[which.what.kind].transactional ? 0U : which.what.size;
}

void claims::has_got(timer_number number, const claimed& got) noexcept {
  known_row& which = rows_[number];
  which.at = stage::claimed;
  which.fence = got.fence;
  which.attempt = got.attempt;
  which.orphaned = got.orphaned;
  which.what.due = got.due;
  bytes_ += got.payload.size() - which.what.size;  // it may have been replaced since it was read
  which.what.size = got.payload.size();
}

void claims::is_over(timer_number number) noexcept {
  const known_row& which = rows_[number];
  --running_[which.what.kind];
  held_ -= kinds_[which.what.kind].transactional ? 0U : 1U;
  bytes_ -= kinds_[which.what.kind].transactional ? 0U : which.what.size;
  suspect_ = suspect_ && !which.suspect;
}

void claims::ended(timer_number number, ending how) noexcept {
  assert(rows_[number].at == stage::claimed);
  rows_[number].how = std::move(how);
  queue_end(number);
}

void claims::queue_end(timer_number number) noexcept {
  rows_[number].at = stage::ending;
  ending_.push_back(rows_, number);
}

void claims::set_aside(timer_number number) noexcept {
  rows_[number].at = stage::set_aside;
  ++set_aside_;
}

void claims::is_back(timer_number number) noexcept {
  --set_aside_;
  queue_end(number);
}

void claims::restart() noexcept {
  for (timer_number number = 0; number < rows_.numbers() && set_aside_ != 0; ++number) {
    if (rows_[number].at == stage::set_aside) {
      is_back(number);
    }
  }
}

ends_to_write claims::to_end(std::size_t limit) const {
  ends_to_write write;
  for (timer_number at = ending_.first(); at != nobody && write.size() < limit; at = rows_[at].next) {
    const known_row& which = rows_[at];
    const ticket of{which.what.id, which.fence};
    switch (which.how.what) {
      case outcome::verdict::done:
        write.complete.push_back(of);
        break;
      case outcome::verdict::retry:
      case outcome::verdict::snooze: {
        auto& some = !which.how.began ? write.give_back : which.how.counts ? write.retry : write.snooze;
        some.push_back({of, which.how.due, which.attempt - (which.how.counts ? 0 : 1), which.orphaned});
        break;
      }
      case outcome::verdict::dead:
        write.bury.push_back({of, which.how.reason});
        break;
    }
  }
  return write;
}

bool claims::invariants_hold() const {
  std::vector<std::size_t> running(kinds_.size());
  std::size_t held = 0;
  std::size_t bytes = 0;
  std::size_t ending = 0;
  std::size_t aside = 0;
  std::size_t suspects = 0;
  for (timer_number number = 0; number < rows_.numbers(); ++number) {
    const known_row& which = rows_[number];
    if (which.at < stage::asked) {
      continue;
    }
    ++running[which.what.kind];
    held += kinds_[which.what.kind].transactional ? 0U : 1U;
    bytes += kinds_[which.what.kind].transactional ? 0U : which.what.size;
    ending += which.at == stage::ending ? 1U : 0U;
    aside += which.at == stage::set_aside ? 1U : 0U;
    suspects += which.suspect ? 1U : 0U;
  }
  return running == running_ && held == held_ && bytes == bytes_ && suspects == (suspect_ ? 1U : 0U) &&
         aside == set_aside_ && ending == ending_.size() && ending_.holds(rows_, stage::ending);
}

}  // namespace timing_wheel::durable

#include "durable/node/held_leases.hpp"

#include <algorithm>
#include <utility>

namespace timing_wheel::durable {

using std::chrono::microseconds;

held_leases::held_leases(microseconds length) noexcept
    : length_(length), retry_(std::min<microseconds>(length / 12, std::chrono::milliseconds(250))) {}

held_leases::~held_leases() = default;

held_leases::lease* held_leases::find(std::int64_t id) noexcept {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : &found->second;
}

const held_leases::lease* held_leases::find(std::int64_t id) const noexcept {
  const auto found = all_.find(id);
  return found == all_.end() ? nullptr : &found->second;
}

void held_leases::reserve(std::size_t count) {
  const std::scoped_lock lock(mutex_);
  all_.reserve(all_.size() + count);
  spare_.reserve(all_.size() + count);  // so that `drop` can keep each
  while (spare_.size() < count) {
    leases one;
    one.try_emplace(0);
    spare_.push_back(one.extract(one.begin()));
  }
}

void held_leases::hold(std::int64_t id, std::int64_t fence, instant sent) noexcept {
  const std::scoped_lock lock(mutex_);
  leases::node_type node = std::move(spare_.back());
  spare_.pop_back();
  node.key() = id;
  lease& mine = all_.insert(std::move(node)).position->second;
  mine.id = id;
  mine.fence = fence;
  mine.valid = saturating_add(sent, length_ * 5 / 12);
  put_off(mine, regular_, saturating_add(sent, length_ / 3));
}

void held_leases::attach(std::int64_t id, std::stop_source stop) noexcept {
  const std::scoped_lock lock(mutex_);
  if (lease* const mine = find(id); mine != nullptr) {
    mine->stop = std::move(stop);
  }
}

void held_leases::let_go(std::int64_t id, std::int64_t fence) noexcept {
  const std::scoped_lock lock(mutex_);
  if (lease* const mine = find(id); mine != nullptr && mine->fence == fence) {
    mine->unlink();
    mine->valid = instant::min();
  }
}

void held_leases::drop(std::int64_t id) noexcept {
  std::stop_source unused(std::nostopstate);  // destroyed outside the lock
  const std::scoped_lock lock(mutex_);
  const auto found = all_.find(id);
  if (found == all_.end()) {
    return;
  }
  found->second.unlink();
  std::swap(unused, found->second.stop);
  if (spare_.size() < spare_.capacity()) {
    spare_.push_back(all_.extract(found));
  } else {
    all_.erase(found);
  }
}

bool held_leases::may_begin(std::int64_t id, std::int64_t fence, instant now) const noexcept {
  const std::scoped_lock lock(mutex_);
  const lease* const mine = find(id);
  return mine != nullptr && mine->fence == fence && now < mine->valid;
}

void held_leases::request_stop(std::int64_t id, std::int64_t fence) {
  std::stop_source mine(std::nostopstate);
  {
    const std::scoped_lock lock(mutex_);
    if (const lease* const found = find(id); found != nullptr && found->fence == fence) {
      mine = found->stop;
    }
  }
  mine.request_stop();
}

void held_leases::stop_all() {
  std::vector<std::stop_source> all;
  {
    const std::scoped_lock lock(mutex_);
    all.reserve(all_.size());
    for (auto& [id, one] : all_) {
      all.push_back(one.stop);
    }
  }
  for (std::stop_source& one : all) {
    one.request_stop();
  }
}

instant held_leases::next_event() const noexcept {
  const std::scoped_lock lock(mutex_);
  instant next = instant::max();
  for (const lease_list* some : {&regular_, &locked_}) {
    if (!some->empty()) {
      next = std::min(next, some->front().next);
    }
  }
  return std::max(next, rests_until_);
}

std::vector<ticket> held_leases::due(instant now, std::size_t limit) const {
  std::vector<ticket> found;
  const std::scoped_lock lock(mutex_);
  for (const lease_list* some : {&locked_, &regular_}) {
    for (auto one = some->begin(); one != some->end() && one->next <= now && found.size() < limit; ++one) {
      found.push_back({one->id, one->fence});
    }
  }
  return found;
}

std::vector<std::int64_t> held_leases::extended(std::span<const ticket> asked, instant sent) {
  std::vector<std::int64_t> lost;
  std::vector<std::stop_source> told;
  lost.reserve(asked.size());
  told.reserve(asked.size());
  {
    const std::scoped_lock lock(mutex_);
    rests_until_ = instant::min();
    for (const ticket& one : asked) {
      lease* const mine = find(one.id);
      if (mine == nullptr || mine->fence != one.fence) {
        continue;  // its end was written meanwhile
      }
      if (one.still_ours) {
        mine->valid = saturating_add(sent, length_ * 5 / 12);
        put_off(*mine, regular_, saturating_add(sent, length_ / 3));
      } else if (one.locked) {
        put_off(*mine, locked_, saturating_add(sent, retry_));
      } else {
        mine->unlink();  // nobody extends it any more; its end will find that it is lost
        mine->valid = instant::min();
        lost.push_back(one.id);
        told.push_back(mine->stop);
      }
    }
  }
  for (std::stop_source& one : told) {
    one.request_stop();
  }
  return lost;
}

void held_leases::failed(instant now) noexcept {
  const std::scoped_lock lock(mutex_);
  rests_until_ = saturating_add(now, retry_);
}

void held_leases::put_off(lease& which, lease_list& into, instant until) noexcept {
  which.unlink();
  which.next = until;
  into.push_back(which);
}

}  // namespace timing_wheel::durable

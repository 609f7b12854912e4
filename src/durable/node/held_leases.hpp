#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "timing_wheel/durable/store.hpp"

namespace timing_wheel::durable {

/// The leases that a node holds, from the claim until the end of the run is written: says which to extend, and when.
/// Each is extended a third of a lease after the last time. One whose row somebody else has locked is tried again soon,
/// and so are all of them while the store fails.
///
/// It is told the time, by a clock that nobody sets: the database's may jump.
///
/// Thread safety: any thread. Lock: `mutex_` guards all members; nothing is called under it.
class held_leases {
 public:
  explicit held_leases(std::chrono::microseconds length) noexcept;
  held_leases(const held_leases&) = delete;
  held_leases& operator=(const held_leases&) = delete;
  ~held_leases();

  /// So that the next `count` calls of `hold` need no memory. \throws std::bad_alloc.
  void reserve(std::size_t count);
  /// A claim that was sent at `sent` was committed. \pre there is room. Complexity: O(1).
  void hold(std::int64_t id, std::int64_t fence, instant sent) noexcept;
  /// What asks its run to stop. The run has begun its way to a thread.
  void attach(std::int64_t id, std::stop_source stop) noexcept;
  /// Its run may not begin any more, and the lease of that fence is not extended. Complexity: O(1).
  void let_go(std::int64_t id, std::int64_t fence) noexcept;
  /// The end is written. Complexity: O(1).
  void drop(std::int64_t id) noexcept;

  /// Whether a run may still begin: so long before the end of its lease that the next extension is not overdue.
  [[nodiscard]] bool may_begin(std::int64_t id, std::int64_t fence, instant now) const noexcept;
  /// Asks the run of that fence to stop. Calls what waits for that, outside the lock.
  void request_stop(std::int64_t id, std::int64_t fence);
  /// Asks all of them to stop. Calls what waits for that, outside the lock.
  void stop_all();

  /// When there is something to extend; `instant::max()` if nothing is held.
  [[nodiscard]] instant next_event() const noexcept;
  /// What is to be extended at `now`, at most `limit`. \throws std::bad_alloc.
  [[nodiscard]] std::vector<ticket> due(instant now, std::size_t limit) const;
  /// The store has answered: they were sent at `sent`. What is neither held nor locked is lost, and its run is asked to
  /// stop. \returns the ids of the lost ones. \throws std::bad_alloc.
  std::vector<std::int64_t> extended(std::span<const ticket> asked, instant sent);
  /// The store has failed.
  void failed(instant now) noexcept;

 private:
  struct lease : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    std::int64_t id = 0;
    std::int64_t fence = 0;
    instant next{};   // when to extend it
    instant valid{};  // until when its run may begin
    std::stop_source stop{std::nostopstate};
  };
  using lease_list = boost::intrusive::list<lease, boost::intrusive::constant_time_size<false>>;
  using leases = std::unordered_map<std::int64_t, lease>;

  [[nodiscard]] lease* find(std::int64_t id) noexcept;
  [[nodiscard]] const lease* find(std::int64_t id) const noexcept;
  void put_off(lease& which, lease_list& into, instant until) noexcept;

  const std::chrono::microseconds length_;
  const std::chrono::microseconds retry_;

  mutable std::mutex mutex_;
  leases all_;
  std::vector<leases::node_type> spare_;
  // Each in the order of `next`: what goes in goes to the end, since all of a list are put off by the same time.
  lease_list regular_;
  lease_list locked_;
  instant rests_until_ = instant::min();  // after a failure
};

}  // namespace timing_wheel::durable

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <vector>

#include "contender.hpp"
#include "measurement.hpp"
#include "workload.hpp"

namespace timing_wheel::bench {
namespace {

// Ordered by deadline; each timer knows its node, so that a cancel need not search.
class multimap_timers {
 public:
  explicit multimap_timers(timer_number count) : nodes_(count) {}

  void arm(timer_number s, tick delay) { nodes_[s].place = pending_.emplace(now_ + delay, s); }
  void cancel(timer_number s) { pending_.erase(nodes_[s].place); }

  std::size_t advance(tick by, delays* again) {
    now_ += by;
    std::size_t fired = 0;
    for (; !pending_.empty() && pending_.begin()->first <= now_; ++fired) {
      const timer_number s = pending_.begin()->second;
      pending_.erase(pending_.begin());
      ++nodes_[s].data.fired;
      if (again != nullptr) {
        arm(s, again->next());
      }
    }
    return fired;
  }

  [[nodiscard]] std::size_t bytes() const { return heap_.grown(); }

 private:
  using map = std::multimap<tick, timer_number>;
  struct node {
    map::iterator place;
    payload data;
  };

  heap_watch heap_;
  map pending_;
  std::vector<node> nodes_;
  tick now_ = 0;
};

// A cancel only marks: the entry is dropped when it comes to the top, or when more than half of all entries are dead.
class priority_queue_timers {
 public:
  explicit priority_queue_timers(timer_number count) : nodes_(count) {}

  void arm(timer_number s, tick delay) {
    pending_.push({.deadline = now_ + delay, .which = s, .generation = nodes_[s].generation});
  }

  void cancel(timer_number s) {
    ++nodes_[s].generation;
    ++dead_;
    if (dead_ > 1024 && dead_ > pending_.size() / 2) {
      drop_the_dead();
    }
  }

  std::size_t advance(tick by, delays* again) {
    now_ += by;
    std::size_t fired = 0;
    while (!pending_.empty() && pending_.top().deadline <= now_) {
      const entry top = pending_.top();
      pending_.pop();
      if (alive(top)) {
        fire(top.which, again);
        ++fired;
      } else {
        --dead_;
      }
    }
    return fired;
  }

  [[nodiscard]] std::size_t bytes() const { return heap_.grown(); }

 private:
  struct entry {
    tick deadline;
    timer_number which;
    std::uint32_t generation;
    bool operator>(const entry& other) const { return deadline > other.deadline; }
  };
  struct node {
    std::uint32_t generation = 0;
    payload data;
  };
  struct queue : std::priority_queue<entry, std::vector<entry>, std::greater<>> {
    template <class Dead>
    void drop(const Dead& dead) {
      std::erase_if(c, dead);
      std::make_heap(c.begin(), c.end(), comp);
    }
  };

  [[nodiscard]] bool alive(const entry& e) const { return nodes_[e.which].generation == e.generation; }

  void fire(timer_number s, delays* again) {
    ++nodes_[s].data.fired;
    if (again != nullptr) {
      arm(s, again->next());
    }
  }

  void drop_the_dead() {
    pending_.drop([this](const entry& e) { return !alive(e); });
    dead_ = 0;
  }

  heap_watch heap_;
  queue pending_;
  std::vector<node> nodes_;
  tick now_ = 0;
  std::size_t dead_ = 0;
};

[[maybe_unused]] const bool multimap_joined = join(contend<multimap_timers>("std_multimap", "std::multimap"));
[[maybe_unused]] const bool priority_queue_joined =
    join(contend<priority_queue_timers>("std_priority_queue", "std::priority_queue, lazy cancel"));

}  // namespace
}  // namespace timing_wheel::bench

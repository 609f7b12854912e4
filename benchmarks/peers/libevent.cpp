#include <event2/event.h>
#include <event2/event_struct.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "contender.hpp"
#include "peers/loop_timers.hpp"

namespace timing_wheel::bench {
namespace {

// Without locks, as in a program with one thread.
event_base* make_base() {
  const virtual_time::driving scope;
  event_config* config = event_config_new();
  event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
  event_base* base = event_base_new_with_config(config);
  event_config_free(config);
  if (base == nullptr) {
    throw std::runtime_error("libevent has no loop for this machine");
  }
  return base;
}

class libevent_timers : public loop_timers<libevent_timers> {
 public:
  explicit libevent_timers(timer_number count) : base_(make_base()), nodes_(count) {
    for (node& n : nodes_) {
      n.owner = this;
      evtimer_assign(&n.timer, base_, on_timer, &n);
    }
  }

  ~libevent_timers() { event_base_free(base_); }  // takes out what is pending

  libevent_timers(const libevent_timers&) = delete;
  libevent_timers& operator=(const libevent_timers&) = delete;

  void arm(timer_number s, tick delay) {
    const virtual_time::driving scope;  // it reads the clock
    const timeval after = {.tv_sec = static_cast<time_t>(delay / second),
                           .tv_usec = static_cast<suseconds_t>(delay % second) * 1000};
    event_add(&nodes_[s].timer, &after);
  }

  void cancel(timer_number s) { event_del(&nodes_[s].timer); }

  void poll() {
    const virtual_time::driving scope;
    event_base_loop(base_, EVLOOP_NONBLOCK);
  }

 private:
  struct node {
    event timer = {};
    libevent_timers* owner = nullptr;
    payload data;
  };

  static void on_timer(evutil_socket_t /*none*/, short /*what*/, void* argument) {
    node& n = *static_cast<node*>(argument);
    n.owner->fire(static_cast<timer_number>(&n - n.owner->nodes_.data()), n.data);
  }

  event_base* base_;
  std::vector<node> nodes_;
};

[[maybe_unused]] const bool libevent_joined =
    join(contend<libevent_timers>("libevent", std::string("libevent ") + event_get_version()));

}  // namespace
}  // namespace timing_wheel::bench

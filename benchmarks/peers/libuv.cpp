#include <uv.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "contender.hpp"
#include "peers/loop_timers.hpp"

namespace timing_wheel::bench {
namespace {

class libuv_timers : public loop_timers<libuv_timers> {
 public:
  explicit libuv_timers(timer_number count) : nodes_(count) {
    const virtual_time::driving scope;
    if (uv_loop_init(&loop_) != 0) {
      throw std::runtime_error("libuv has no loop for this machine");
    }
    loop_.data = this;
    for (node& n : nodes_) {
      uv_timer_init(&loop_, &n.timer);
      n.timer.data = &n;
    }
  }

  ~libuv_timers() {
    const virtual_time::driving scope;
    for (node& n : nodes_) {
      uv_close(reinterpret_cast<uv_handle_t*>(&n.timer), nullptr);
    }
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  libuv_timers(const libuv_timers&) = delete;
  libuv_timers& operator=(const libuv_timers&) = delete;

  void arm(timer_number s, tick delay) { uv_timer_start(&nodes_[s].timer, on_timer, delay, 0); }
  void cancel(timer_number s) { uv_timer_stop(&nodes_[s].timer); }

  void poll() {
    const virtual_time::driving scope;
    uv_run(&loop_, UV_RUN_NOWAIT);
  }

 private:
  struct node {
    uv_timer_t timer = {};
    payload data;
  };

  static void on_timer(uv_timer_t* timer) {
    auto& mine = *static_cast<libuv_timers*>(timer->loop->data);
    auto& n = *static_cast<node*>(timer->data);
    mine.fire(static_cast<timer_number>(&n - mine.nodes_.data()), n.data);
  }

  uv_loop_t loop_ = {};
  std::vector<node> nodes_;
};

[[maybe_unused]] const bool libuv_joined =
    join(contend<libuv_timers>("libuv", std::string("libuv ") + uv_version_string()));

}  // namespace
}  // namespace timing_wheel::bench

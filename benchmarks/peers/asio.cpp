#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <boost/version.hpp>
#include <chrono>
#include <cstddef>
#include <vector>

#include "contender.hpp"
#include "peers/loop_timers.hpp"

namespace timing_wheel::bench {
namespace {

struct virtual_clock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<virtual_clock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static time_point now() { return time_point(duration(virtual_time::now())); }
};

class asio_timers : public loop_timers<asio_timers> {
 public:
  explicit asio_timers(timer_number count) {
    const virtual_time::driving scope;  // the first timer makes the reactor
    nodes_.reserve(count);
    for (timer_number s = 0; s < count; ++s) {
      nodes_.emplace_back(context_);
    }
  }

  void arm(timer_number s, tick delay) {
    auto& timer = nodes_[s].timer;
    timer.expires_after(std::chrono::milliseconds(delay));
    timer.async_wait([this, s](const boost::system::error_code& error) {
      if (!error) {
        fire(s, nodes_[s].data);
      }
    });
  }

  // A cancelled wait ends in its handler too. A loop would run these now and then; so many at a time are cheap and stay
  // few.
  void cancel(timer_number s) {
    constexpr std::size_t batch = 64;
    nodes_[s].timer.cancel();
    if (++cancelled_ % batch == 0) {
      poll();
    }
  }

  void poll() {
    const virtual_time::driving scope;
    context_.poll();
  }

 private:
  struct node {
    explicit node(boost::asio::io_context& context) : timer(context) {}
    boost::asio::basic_waitable_timer<virtual_clock> timer;
    payload data;
  };

  boost::asio::io_context context_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  std::vector<node> nodes_;
  std::size_t cancelled_ = 0;
};

[[maybe_unused]] const bool asio_joined = join(contend<asio_timers>("asio", "Boost " BOOST_LIB_VERSION));

}  // namespace
}  // namespace timing_wheel::bench

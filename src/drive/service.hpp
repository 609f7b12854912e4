#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "drive/driver.hpp"
#include "drive/stopping.hpp"
#include "shard/context.hpp"
#include "shard/shards.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::detail {

/// What is behind a `timer`, a `manual_timer` and a `loop_timer`.
///
/// A callback may destroy the front. So the front is not the only owner: each poller thread is one, and each call that
/// runs callbacks. The last of them buries it.
class service {
 public:
  /// For a front that drives it in its own way: one lane, and `pollers` is not read.
  /// \throws as the constructors of the fronts.
  service(timer_options options, const time_point* start, std::function<void()> on_earlier)
      : service(without_pollers(options), 1, start, std::move(on_earlier)) {}
  /// For pollers, which are still to be started.
  explicit service(const timer_options& options) : service(options, options.pollers, nullptr, nullptr) {}

  service(const service&) = delete;
  service& operator=(const service&) = delete;
  ~service() { end.bury(); }

  /// Starts the poller threads of `one`, which keep it alive. \throws as `poller::start`; then it has ended.
  static void start_pollers(const std::shared_ptr<service>& one);

  // Immutable, or thread-safe by themselves.
  const std::shared_ptr<service_context> context;
  shards parts;
  const shard_group& all = parts.all();
  std::deque<lane> lanes;  // where nothing has to be moved
  driver& drive;           // of the first lane, which is the only one unless it has pollers
  stopping end{lanes, all, *context};

 private:
  service(const timer_options& options, std::uint32_t lane_count, const time_point* start,
          std::function<void()> on_earlier);

  static const timer_options& without_pollers(timer_options& options) noexcept {
    options.pollers = 1;
    return options;
  }
  static std::deque<lane> make_lanes(const shards& parts, service_context& context) {
    std::deque<lane> made;
    for (std::uint32_t i = 0; i < context.sleepers.size(); ++i) {
      made.emplace_back(parts, i, context);
    }
    return made;
  }
  // On the thread of a poller, before it polls.
  void begin_poller(std::uint32_t index) noexcept;

  static std::shared_ptr<service_context> make_context(const timer_options& options, std::uint32_t lanes,
                                                       const time_point* start, std::function<void()> on_earlier) {
    validate(options);
    return std::make_shared<service_context>(options, lanes, start, std::move(on_earlier));
  }
};

}  // namespace timing_wheel::detail

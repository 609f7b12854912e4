#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "service/context.hpp"
#include "service/driver.hpp"
#include "service/poller.hpp"
#include "service/shards.hpp"
#include "service/stopping.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel::detail {

/// What is behind a `timer`, a `manual_timer` and a `loop_timer`.
///
/// A callback may destroy the front. So the front is not the only owner: the poller thread is one, and each call that
/// runs callbacks. The last of them buries it.
class service {
 public:
  /// \throws as the constructors of the fronts.
  service(const timer_options& options, const time_point* start, std::function<void()> on_earlier)
      : context(make_context(options, start, std::move(on_earlier))), all(options, context) {}

  service(const service&) = delete;
  service& operator=(const service&) = delete;
  ~service() { end.bury(); }

  /// Starts the poller thread of `one`, which keeps it alive.
  static void start_poller(const std::shared_ptr<service>& one) { one->thread.start(one); }

  /// Schedules on the shard of the calling thread.
  started start(time_point now, time_point deadline, task_source& callback, std::uint64_t tag, bool recurring) {
    if (context->process.is_child()) [[unlikely]] {
      return {{}, refusal::forked};
    }
    shard& home = all.home();
    const admitted result = home.schedule(now, deadline, callback, tag, recurring);
    if (result.answer != verdict::accepted) [[unlikely]] {
      return {{}, result.answer == verdict::stopped ? refusal::stopped : refusal::too_many_pending};
    }
    return {timer_handle(&home, result.id)};
  }

  // Immutable, or thread-safe by themselves.
  const std::shared_ptr<service_context> context;
  shards all;
  driver drive{all, *context};
  poller thread{drive, all, *context};
  stopping end{drive, thread, all, *context};

 private:
  static std::shared_ptr<service_context> make_context(const timer_options& options, const time_point* start,
                                                       std::function<void()> on_earlier) {
    check(options);
    return std::make_shared<service_context>(options, start, std::move(on_earlier));
  }
};

}  // namespace timing_wheel::detail

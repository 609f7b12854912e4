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

/// What is behind a `timer`, a `manual_timer` and a `loop_timer`. It lives as long as its front, or as somebody who drives it: a
/// callback may destroy the front.
class service {
 public:
  /// \throws as the constructors of the fronts.
  service(const timer_options& options, const time_point* start, std::function<void()> on_earlier)
      : context(make_context(options, start, std::move(on_earlier))), all(options, context) {}

  /// Starts the poller thread of `one`, which keeps it alive.
  static void start_poller(const std::shared_ptr<service>& one) {
    one->thread.start([one] { one->end.bury(); });
  }

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

/// Keeps a service alive while its thread is inside, and buries it afterwards if a callback has destroyed the front.
class visit {
 public:
  explicit visit(std::shared_ptr<service> visited) noexcept : service_(std::move(visited)) {}
  ~visit() { service_->end.bury(); }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  service* operator->() const noexcept { return service_.get(); }

 private:
  std::shared_ptr<service> service_;
};

}  // namespace timing_wheel::detail

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

  /// What came of a request.
  struct started {
    timer_owner* owner = nullptr;
    timer_id id{};
    refusal why = refusal::none;
  };

  /// Schedules on the shard of the calling thread.
  started start(const request& wanted, task_source& callback, std::uint64_t tag) {
    if (context->process.is_child()) [[unlikely]] {
      return {.why = refusal::forked};
    }
    shard& home = all.home();
    const admitted result = home.schedule(wanted.now, wanted.deadline, callback, tag, wanted.recurring);
    if (result.answer != verdict::accepted) [[unlikely]] {
      return {.why = result.answer == verdict::stopped ? refusal::stopped : refusal::too_many_pending};
    }
    return {&home, result.id};
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

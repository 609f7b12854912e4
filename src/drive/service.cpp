#include "drive/service.hpp"

#include "shard/run_frame.hpp"

namespace timing_wheel::detail {

service::service(const timer_options& options, std::uint32_t lane_count, const time_point* start,
                 std::function<void()> on_earlier)
    : context(make_context(options, lane_count, start, std::move(on_earlier))),
      parts(options, context),
      lanes(make_lanes(parts, *context)),
      drive(lanes.front().drive) {}

void service::start_pollers(const std::shared_ptr<service>& one) {
  try {
    std::uint32_t index = 0;
    for (lane& l : one->lanes) {
      l.thread.start(one, index, [inside = one.get(), index] { inside->begin_poller(index); });
      ++index;
    }
  } catch (...) {
    one->end.destroy();
    throw;
  }
}

void service::begin_poller(std::uint32_t index) noexcept {
  if (lanes.size() > 1) {
    parts.make_home(index);
  }
  if (context->on_thread_start) {
    const run_frame frame(context.get(), doing::callback);  // it may stop the service, which must not wait for it then
    try {
      context->on_thread_start();
    } catch (...) {
      context->errors.report("on_thread_start", 0, context->clock.now());
    }
  }
}

}  // namespace timing_wheel::detail

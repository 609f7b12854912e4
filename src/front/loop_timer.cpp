#include "timing_wheel/loop_timer.hpp"

#include <utility>

#include "front/inside_service.hpp"

namespace timing_wheel {

loop_timer::loop_timer(const timer_options& options, std::function<void()> on_earlier)
    : timer(std::make_shared<detail::service>(options, nullptr, std::move(on_earlier))) {}

// It announces, and then looks again: see sleeper.hpp for why nothing is lost.
std::optional<time_point> loop_timer::next_event() noexcept {
  const detail::service& one = *service();
  detail::service_context& context = *one.context;
  detail::sleeper& sleeper = context.sleepers.front();
  if (context.process.is_child()) {
    return std::nullopt;
  }
  tick next = one.all.next_event();
  for (tick seen = never;; next = seen) {
    sleeper.announce(next);
    seen = one.all.next_event();
    if (seen >= next) {
      break;
    }
  }
  return next == never ? std::nullopt : std::optional(context.scale.begin_of(next));
}

// The threads of an executor are not here, and tasks that were called or destroyed here before have told nobody.
void loop_timer::continue_after_fork() noexcept {
  const detail::inside_service inside(service());
  if (!inside->context->process.is_child()) {
    return;
  }
  inside->context->process.begin_here();
  if (inside->context->run_on) {
    for (detail::shard* const s : inside->all) {
      s->take_back();
    }
  }
}

std::size_t loop_timer::run_due(std::size_t budget) {
  const detail::inside_service inside(service());
  if (inside->context->process.is_child()) {
    return 0;
  }
  const detail::driver::seat mine(inside->drive, detail::driver::seat::or_throw{});
  const detail::turns done = inside->drive.run_due(time_point::max(), budget);
  detail::sleeper& sleeper = inside->context->sleepers.front();
  sleeper.count_wakeup();
  if (done.handled == 0) {
    sleeper.count_empty();
  }
  return done.ran;
}

}  // namespace timing_wheel

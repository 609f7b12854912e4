#include "timing_wheel/manual_timer.hpp"

#include <algorithm>

#include "front/inside_service.hpp"

namespace timing_wheel {

manual_timer::manual_timer(const timer_options& options, time_point start)
    : timer(std::make_shared<detail::service>(options, &start, nullptr)) {}

std::size_t manual_timer::advance_to(time_point when) {
  const detail::inside_service inside(service());
  const detail::driver::seat mine(inside->drive, detail::driver::seat::or_throw{});
  const std::size_t ran = inside->drive.run_through(inside->context->scale.floor(when));
  inside->context->clock.move_to(when);
  return ran;
}

std::optional<time_point> manual_timer::next_event() const noexcept {
  const detail::service& one = *service();
  const tick next = one.all.next_event();
  if (next == never) {
    return std::nullopt;
  }
  return std::max(one.context->clock.now(), one.context->scale.begin_of(next));
}

}  // namespace timing_wheel

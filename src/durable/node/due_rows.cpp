#include "durable/node/due_rows.hpp"

namespace timing_wheel::durable {

namespace {

time_point nanoseconds_of(instant when) noexcept { return time_point(saturating_nanoseconds(when.time_since_epoch())); }

}  // namespace

due_rows::due_rows(instant now, std::chrono::milliseconds tick, std::chrono::milliseconds poll)
    : tick_(tick), poll_(poll), scale_(nanoseconds_of(now), tick), clock_(now) {}

bool due_rows::add(timer_number number, instant until, instant now) {
  wheel_->catch_up(tick_of(now));
  return wheel_->insert(number, scale_.ceil(nanoseconds_of(until)));
}

void due_rows::restart(instant now) {
  wheel_ = std::make_unique<hierarchical_wheel>();
  scale_ = tick_scale(nanoseconds_of(now), tick_);
}

instant due_rows::next_event() const noexcept {
  const std::optional<tick> expiration = wheel_->next_expiration();
  return expiration ? begin_of(*expiration) : instant::max();
}

tick due_rows::tick_of(instant now) const noexcept { return scale_.floor(nanoseconds_of(now)); }

instant due_rows::begin_of(tick t) const noexcept {
  return instant(std::chrono::ceil<std::chrono::microseconds>(scale_.begin_of(t).time_since_epoch()));
}

bool due_rows::invariants_hold(const known_rows& rows) const {
  std::size_t waiting = 0;
  for (timer_number number = 0; number < rows.numbers(); ++number) {
    if (rows[number].at == stage::waiting || rows[number].at == stage::set_aside) {
      ++waiting;
      if (!wheel_->contains(number)) {
        return false;
      }
    }
  }
  return waiting == wheel_->size() && wheel_->invariants_hold();
}

}  // namespace timing_wheel::durable

#include "reservation.hpp"

#include <timing_wheel/timer.hpp>

reservation::reservation(timing_wheel::timer& timer, std::chrono::nanoseconds patience)
    : timer_(timer), check_(timer.schedule_after(patience, [goods = given_back_] { *goods = true; }).key()) {}

reservation::~reservation() { timer_.cancel(check_); }

bool reservation::pay() { return timer_.cancel(check_) == timing_wheel::cancel_result::cancelled; }

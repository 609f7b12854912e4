#pragma once

#include <chrono>
#include <cstdint>

#include "timing_wheel/durable/request.hpp"

namespace timing_wheel::durable {

/// The instant that a database keeps as a count of microseconds.
inline instant instant_of(std::int64_t count) { return instant(std::chrono::microseconds(count)); }

}  // namespace timing_wheel::durable

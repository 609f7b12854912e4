#include "timing_wheel/detail/same_build.hpp"

const char timing_wheel::detail::TIMING_WHEEL_SAME_BUILD = 0;

#pragma once

#include "timing_wheel/detail/requirements.hpp"

// For Boost.Asio; for the Asio that is not of Boost where TIMING_WHEEL_STANDALONE_ASIO is defined, as the target
// timing_wheel::standalone_asio does. docs/asio.md tells more.

#include "timing_wheel/asio/cancel_after.hpp"   // an operation with a limit of time
#include "timing_wheel/asio/executor.hpp"       // callbacks of a service, on a pool of Asio's
#include "timing_wheel/asio/loop_driver.hpp"    // a service on an io_context, without a thread
#include "timing_wheel/asio/wheel_service.hpp"  // which wheel the timers of a context wait on
#include "timing_wheel/asio/wheel_timer.hpp"    // in place of steady_timer

#pragma once

#include <system_error>
#include <timing_wheel/asio.hpp>
#include <timing_wheel/timing_wheel.hpp>

// What a shared library of the user does with a timer of the program's, and what it knows of this library.
namespace boundary {

#define OFFERED [[gnu::visibility("default")]]

OFFERED timing_wheel::timer_handle schedule(timing_wheel::timer& timer, int& runs);
OFFERED void refuse(timing_wheel::timer& timer);
OFFERED bool runs_a_timer_of_its_own();
OFFERED const std::error_category& category();
OFFERED const void* asio_category();
OFFERED const void* asio_service();

#undef OFFERED

}  // namespace boundary

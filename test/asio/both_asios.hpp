#pragma once

namespace timing_wheel::test {

/// With a wheel timer of the standalone Asio, in a program whose other half uses Boost's. \returns whether it fired.
bool waits_on_the_standalone_asio();

}  // namespace timing_wheel::test

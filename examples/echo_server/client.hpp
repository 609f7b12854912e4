#pragma once

#include <chrono>
#include <cstddef>

namespace echo {

/// Opens `connections` to a server on this machine, and sends it messages over them, one after the other, for `time`;
/// `at_once` of them are on their way at any time. Then waits until the server has closed all connections.
/// \throws boost::system::system_error; std::runtime_error if an answer is not what was sent.
void load(unsigned short port, std::size_t connections, std::size_t at_once, std::chrono::nanoseconds time);

}  // namespace echo

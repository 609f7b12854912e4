// cpp: statements
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <timing_wheel/asio/wheel_timer.hpp>

using namespace std::chrono_literals;
void hang_up(const boost::system::error_code& error);

// cpp: statements
#include <boost/asio/io_context.hpp>
#include <chrono>

using namespace std::chrono_literals;

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>

using namespace std::chrono_literals;

extern boost::asio::io_context context;
extern boost::asio::io_context first;
extern boost::asio::io_context second;

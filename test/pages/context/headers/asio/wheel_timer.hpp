// cpp: statements
#include <boost/asio/io_context.hpp>
#include <chrono>

using namespace std::chrono_literals;

extern boost::asio::io_context context;
void hang_up();

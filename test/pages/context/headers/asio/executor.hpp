// cpp: statements
#include <boost/asio/thread_pool.hpp>

using namespace timing_wheel;

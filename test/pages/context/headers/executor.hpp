// cpp: statements
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <utility>

using namespace timing_wheel;

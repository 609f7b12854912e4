#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stop_token>

using namespace std::chrono_literals;

extern timing_wheel::timer timer;
extern std::stop_token token;
extern boost::asio::thread_pool pool;
void send_heartbeat();
void on_timeout();
void log(const timing_wheel::timer_handle& self);
void report(std::exception_ptr failure, std::uint64_t tag);

struct session {
  void close();
};

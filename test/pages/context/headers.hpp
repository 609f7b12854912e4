#include <unistd.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cassert>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <ostream>
#include <sstream>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "coroutines/task.hpp"

using namespace std::chrono_literals;
using namespace timing_wheel;

using coroutine = example::task<>;

struct reservation {
  reservation(timing_wheel::timer& timer, int order);
  bool given_back() const;
};
struct connection {
  void close();
};
struct new_order {
  std::string id;
};

extern timing_wheel::timer timer;
extern timing_wheel::timer timer_;
extern timing_wheel::timer next;
extern boost::asio::io_context context;
extern std::function<void()> f;
extern std::error_code error;
extern std::stop_token token;
extern std::stop_source source;
extern std::ostream& page;
extern new_order order;

void check();
void close();
void give_up();
void hang_up();
void retry();
void ring();
void send_heartbeat();
void serve();
void try_later();
void verify(int id);
void wake_the_loop();
void sleep_until_or_woken(std::optional<time_point> when);
void sleep_until_tick(tick when);
void expire(timer_number n);
void save(std::uint64_t tag, time_point deadline);
void log_it(const std::exception_ptr& failure, std::uint64_t tag);
std::chrono::milliseconds backoff();
sleep_operation fetch(int url, std::stop_token stop);

void handler(const durable::job& check);
void give_back_if_unpaid(sqlite3* on, const std::string& order);
bool is_paid(std::string_view order);
void execute(sqlite3* on, std::string_view sql);
void execute(pg_conn* on, std::string_view sql);
void insert_order(sqlite3* on, const new_order& what);
void insert_order(pg_conn* on, const new_order& what);

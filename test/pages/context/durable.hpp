#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

extern sqlite3* connection;
extern durable::scheduler checks;
void execute(sqlite3* on, std::string_view sql);
void give_back_if_unpaid(sqlite3* on, const std::string& order);
int post(const std::string& url, const std::string& body, const std::string& idempotency_key);
void handler(const durable::job& check);

enum class answer { booked, busy, unknown };
struct carriers {
  answer book(const std::string& order, std::int64_t fence);
};
extern carriers carrier;

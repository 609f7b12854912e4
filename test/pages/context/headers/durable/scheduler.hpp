// cpp: statements
#include <chrono>
#include <string>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

void give_back_if_unpaid(sqlite3* on, const std::string& order);

// cpp: statements
#include <chrono>
#include <string>
#include <string_view>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

struct new_order {
  std::string id;
};
extern sqlite3* connection;
extern new_order order;
void execute(sqlite3* on, std::string_view sql);
void insert_order(sqlite3* on, const new_order& what);

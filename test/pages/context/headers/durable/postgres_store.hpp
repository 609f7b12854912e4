// cpp: statements
#include <chrono>
#include <string>
#include <string_view>

namespace durable = timing_wheel::durable;
using namespace std::chrono_literals;

struct new_order {
  std::string id;
};
extern pg_conn* connection;
extern new_order order;
void execute(pg_conn* on, std::string_view sql);
void insert_order(pg_conn* on, const new_order& what);

#include "durable_place.hpp"

#include "common/program.hpp"

namespace order_compensation {

std::unique_ptr<shop_place> make_place(const store_choice& chosen) {
  if (chosen.what == store_choice::kind::sqlite) {
#ifdef ORDER_COMPENSATION_SQLITE
    return sqlite_place(chosen.where);
#else
    throw common::usage_error("--store: this program was built without SQLite");
#endif
  }
#ifdef ORDER_COMPENSATION_POSTGRES
  return chosen.what == store_choice::kind::postgres ? postgres_place(chosen.where) : private_postgres_place();
#else
  throw common::usage_error("--store: this program was built without PostgreSQL");
#endif
}

}  // namespace order_compensation

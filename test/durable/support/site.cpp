#include "durable/support/site.hpp"

#include <thread>

namespace timing_wheel::rig {

std::string database::with_numbers(const std::string& sql, const std::vector<std::int64_t>& values) {
  std::string text;
  for (std::size_t at = 0; at < sql.size(); ++at) {
    if (sql[at] == '$' && at + 1 < sql.size() && sql[at + 1] >= '1' && sql[at + 1] <= '9') {
      text += std::to_string(values.at(static_cast<std::size_t>(sql[++at] - '1')));
    } else {
      text += sql[at];
    }
  }
  return text;
}

void patient_connection::pause() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

std::unique_ptr<site> site_of(const std::string& argument) {
  [[maybe_unused]] const std::string where = argument.substr(argument.find(':') + 1);
#ifdef TIMING_WHEEL_RIG_SQLITE
  if (argument.starts_with("sqlite:")) {
    return sqlite_site(where);
  }
#endif
#ifdef TIMING_WHEEL_RIG_POSTGRES
  if (argument.starts_with("postgres:")) {
    return postgres_site(where);
  }
#endif
  throw std::runtime_error("this program was built without a store for " + argument.substr(0, argument.find(':')));
}

#ifndef TIMING_WHEEL_RIG_POSTGRES
std::unique_ptr<site> private_site() { throw std::runtime_error("this program was built without PostgreSQL"); }
#endif

}  // namespace timing_wheel::rig

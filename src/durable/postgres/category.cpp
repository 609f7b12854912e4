#include <string>

#include "durable/postgres/values.hpp"

namespace timing_wheel::durable {

namespace {

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "postgres"; }
  [[nodiscard]] std::string message(int code) const override {
    return code == 0 ? "no error" : "SQLSTATE " + postgres::sqlstate_of(code);
  }
};

}  // namespace

const std::error_category& postgres_category() noexcept {
  static const category instance;
  return instance;
}

namespace postgres {

std::error_code code_of(std::string_view sqlstate) {
  int number = 0;
  for (const char each : sqlstate) {
    number = (number * 36) + (each >= '0' && each <= '9' ? each - '0' : each - 'A' + 10);
  }
  return {number, postgres_category()};
}

std::string sqlstate_of(int code) {
  std::string sqlstate(5, '0');
  for (auto place = sqlstate.rbegin(); place != sqlstate.rend(); ++place, code /= 36) {
    const int digit = code % 36;
    *place = static_cast<char>(digit < 10 ? '0' + digit : 'A' + digit - 10);
  }
  return sqlstate;
}

}  // namespace postgres

}  // namespace timing_wheel::durable

#include <sqlite3.h>

#include <string>

#include "timing_wheel/durable/sqlite_store.hpp"

namespace timing_wheel::durable {

namespace {

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "sqlite"; }
  [[nodiscard]] std::string message(int code) const override { return sqlite3_errstr(code); }
};

}  // namespace

const std::error_category& sqlite_category() noexcept {
  static const category instance;
  return instance;
}

}  // namespace timing_wheel::durable

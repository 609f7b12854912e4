#include "timing_wheel/durable/error.hpp"

#include <string>

namespace timing_wheel::durable {

namespace {

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "timing_wheel.durable"; }

  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<errc>(code)) {
      case errc::invalid_request:
        return "the request cannot be kept";
      case errc::kind_too_long:
        return "the kind is too long";
      case errc::key_too_long:
        return "the key is too long";
      case errc::payload_too_long:
        return "the payload is too long";
      case errc::no_schema:
        return "the database has no tables of timing_wheel; call migrate()";
      case errc::newer_schema:
        return "a newer version of the library has made the tables";
      case errc::lost_lease:
        return "the lease was lost before the job ended";
      case errc::handler_exists:
        return "there is a handler for that kind already";
      case errc::already_started:
        return "the scheduler was started already";
      case errc::store_damaged:
        return "the store is damaged";
      case errc::row_locked:
        return "another transaction keeps the row; call again";
    }
    return "unknown error " + std::to_string(code);
  }
};

}  // namespace

const std::error_category& durable_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), durable_category()}; }

}  // namespace timing_wheel::durable

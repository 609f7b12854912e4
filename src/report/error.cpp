#include "timing_wheel/error.hpp"

namespace timing_wheel {

namespace {

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "timing_wheel"; }

  [[nodiscard]] std::string message(int code) const override {
    switch (static_cast<timer_errc>(code)) {
      case timer_errc::stopped:
        return "the timer service is stopped";
      case timer_errc::too_many_pending:
        return "too many timers are pending";
      case timer_errc::invalid_option:
        return "an option is out of its range";
      case timer_errc::empty_callback:
        return "the callback is empty";
      case timer_errc::invalid_period:
        return "the period is not positive";
      case timer_errc::nested_advance:
        return "advance_to or run_due is running already";
      case timer_errc::forked:
        return "the timer service stayed in the process that was forked";
    }
    return "unknown error " + std::to_string(code);
  }
};

}  // namespace

const std::error_category& timer_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(timer_errc code) noexcept { return {static_cast<int>(code), timer_category()}; }

}  // namespace timing_wheel

#pragma once

#include <chrono>
#include <string>

#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

/// Refuses a duration that is out of its range, by its name and the numbers.
/// \throws timer_error (`invalid_option`), for instance "scheduler_options::poll is 0 ms; it must be in [1 ms, 20 ms]".
inline void validate_range(const char* name, std::chrono::milliseconds value, std::chrono::milliseconds least,
                           std::chrono::milliseconds most) {
  const auto in_words = [](std::chrono::milliseconds time) { return std::to_string(time.count()) + " ms"; };
  if (value < least || value > most) {
    throw timer_error(timer_errc::invalid_option, std::string(name) + " is " + in_words(value) + "; it must be in [" +
                                                      in_words(least) + ", " + in_words(most) + "]");
  }
}

}  // namespace timing_wheel::durable

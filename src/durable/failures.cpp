#include "durable/failures.hpp"

#include <iostream>

namespace timing_wheel::durable {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void failures::report(const failure& what) noexcept {
  try {
    if (told_) {
      told_(what);
      return;
    }
  } catch (...) {  // NOLINT(bugprone-empty-catch): it is written instead
  }
  try {
    write(what);
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody left to tell
  }
}

void failures::write(const failure& what) {
  {
    const std::scoped_lock lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const auto [last, first] = last_.try_emplace(std::string(what.what), now);
    if (!first && now - last->second < std::chrono::seconds(1)) {
      return;
    }
    last->second = now;
  }
  std::string line = "timing_wheel: durable " + std::string(what.what) + " failed";
  if (!what.kind.empty()) {
    line += " (kind " + std::string(what.kind) + ")";
  }
  std::cerr << line + ": " + text_of(what.error) + '\n';
}

}  // namespace timing_wheel::durable

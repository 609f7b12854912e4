#include "durable/failures.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace timing_wheel::durable {

namespace {

// What was caught was no exception of C++, but the end of the thread.
[[noreturn]] void report_ended_thread() noexcept {
  std::fputs("timing_wheel: a durable handler or a hook ended its thread (pthread_exit), which the scheduler needs\n",
             stderr);
  std::abort();
}

}  // namespace

std::string text_of(const std::exception_ptr& error) {
  if (error == nullptr) {
    report_ended_thread();
  }
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void failures::report(const failure& what) noexcept {
  if (what.error == nullptr) {
    report_ended_thread();
  }
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

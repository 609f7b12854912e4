#include "durable/node/failures.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>

#include "durable/store/text.hpp"

namespace timing_wheel::durable {

namespace {

// What was caught was no exception of C++, but the end of the thread.
[[noreturn]] void report_ended_thread() noexcept {
  std::fputs("timing_wheel: a durable handler or a hook ended its thread (pthread_exit), which the scheduler needs\n",
             stderr);
  std::abort();
}

std::string in_words(std::chrono::microseconds time) {
  const auto whole = std::chrono::ceil<std::chrono::milliseconds>(time);
  const bool seconds = whole >= std::chrono::seconds(10) || whole % std::chrono::seconds(1) == whole.zero();
  return seconds ? std::to_string(std::chrono::ceil<std::chrono::seconds>(whole).count()) + " s"
                 : std::to_string(whole.count()) + " ms";
}

std::string job_in_words(const failure& what) {
  constexpr std::size_t longest = 64;
  std::string job = "kind " + shown(what.kind, longest);
  job += what.key.empty() ? "" : ", key \"" + shown(what.key, longest) + '"';
  return what.attempt == 0 ? job : job + ", attempt " + std::to_string(what.attempt);
}

std::string begin_of_line(std::string_view what) {
  return what == "dead"        ? "check is dead"
         : what == "unhandled" ? "check is late"
         : what == "clock"     ? "clock differs"
                               : std::string(what) + " failed";
}

std::string line_about(const failure& what) {
  std::string line = "timing_wheel: durable " + begin_of_line(what.what);
  line += what.kind.empty() ? "" : " (" + job_in_words(what) + ")";
  line += ": " + shown(text_of(what.error), std::string::npos, "");
  return what.again ? line + "; it runs again within " + in_words(*what.again) : line;
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

std::string words_of(const std::exception_ptr& error) noexcept {
  try {
    return text_of(error);
  } catch (const std::bad_alloc&) {
    return {};
  }
}

std::exception_ptr exception_of(const std::string& reason) noexcept {
  try {
    throw std::runtime_error(reason);
  } catch (...) {
    return std::current_exception();
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
  std::cerr << line_about(what) + '\n';
}

}  // namespace timing_wheel::durable

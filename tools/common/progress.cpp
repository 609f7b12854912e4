#include "common/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <iostream>

namespace common {
namespace {

std::chrono::steady_clock::time_point next_line(bool on_terminal) {
  using namespace std::chrono_literals;
  return std::chrono::steady_clock::now() + (on_terminal ? 200ms : 2000ms);
}

}  // namespace

progress::progress(bool quiet)
    : quiet_(quiet), on_terminal_(::isatty(STDERR_FILENO) == 1), next_(next_line(on_terminal_)) {}

progress::~progress() { clear(); }

bool progress::due() const { return !quiet_ && std::chrono::steady_clock::now() >= next_; }

void progress::show(const std::string& text) {
  if (!due()) {
    return;
  }
  if (on_terminal_) {
    std::cerr << '\r' << text << "\033[K" << std::flush;
    line_shown_ = true;
  } else {
    std::cerr << text << '\n';
  }
  next_ = next_line(on_terminal_);
}

void progress::show(const std::string& text, double share) {
  show(text + ": " + std::to_string(static_cast<int>(std::clamp(share, 0.0, 1.0) * 100)) + " %");
}

void progress::clear() {
  if (line_shown_) {
    std::cerr << "\r\033[K" << std::flush;
    line_shown_ = false;
  }
}

}  // namespace common

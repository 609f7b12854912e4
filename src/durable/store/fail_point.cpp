#include "durable/store/fail_point.hpp"

#ifdef TIMING_WHEEL_FAIL_POINTS

#include <charconv>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "timing_wheel/error.hpp"

namespace timing_wheel::durable {

namespace {

struct plan {
  std::string name;
  std::string action;
  unsigned long left = 1;
};

plan read_plan() {
  const char* said = std::getenv("TIMING_WHEEL_FAIL_POINT");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  if (said == nullptr) {
    return {};
  }
  const std::string text = said;
  const std::size_t first = text.find(':');
  if (first == std::string::npos) {
    return {{}, text};
  }
  const std::size_t second = text.find(':', first + 1);
  plan read{text.substr(0, first), text.substr(first + 1, second - first - 1)};
  if (second != std::string::npos) {
    std::from_chars(text.data() + second + 1, text.data() + text.size(), read.left);
  }
  return read;
}

class fail_points {
 public:
  void pass(const char* name) {
    if (plan_.action.empty()) {
      return;
    }
    const std::scoped_lock lock(mutex_);
    if (plan_.action == "list") {
      if (seen_.insert(name).second) {
        std::cerr << "fail point " << name << '\n';
      }
    } else if (plan_.name == name && --plan_.left == 0) {
      act(name);
    }
  }

 private:
  void act(const char* name) const {
    if (plan_.action == "kill") {
      std::raise(SIGKILL);
    } else if (plan_.action == "stop") {
      std::raise(SIGSTOP);
    } else {
      throw timer_error(std::make_error_code(std::errc::io_error), std::string("fail point ") + name);
    }
  }

  std::mutex mutex_;  // guards what follows
  plan plan_ = read_plan();
  std::set<std::string, std::less<>> seen_;
};

}  // namespace

void pass_fail_point(const char* name) {
  static fail_points points;
  points.pass(name);
}

}  // namespace timing_wheel::durable

#endif

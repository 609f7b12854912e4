#include "report/error_sink.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

namespace timing_wheel::detail {

bool error_sink::is_news(const char* who, std::string_view what, time_point now) noexcept {
  const std::hash<std::string_view> hash_of;
  const std::size_t hash = hash_of(what) ^ hash_of(who);
  const std::lock_guard lock(mutex_);
  auto place = std::find_if(kinds_.begin(), kinds_.end(), [&](const kind& k) { return k.hash == hash; });
  if (place == kinds_.end()) {
    place = std::min_element(kinds_.begin(), kinds_.end(),
                             [](const kind& a, const kind& b) { return a.silent_until < b.silent_until; });
    *place = {hash};
  }
  if (now < place->silent_until) {
    return false;
  }
  place->silent_until = saturating_add(now, std::chrono::seconds(1));
  return true;
}

void error_sink::print(const std::exception_ptr& failure, const char* who, std::uint64_t tag, time_point now) noexcept {
  const auto tell = [&](const char* what) {
    if (is_news(who, what, now)) {
      std::fprintf(stderr, "timing_wheel: %s threw (tag %" PRIu64 "): %s\n", who, tag, what);
    }
  };
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    tell(e.what());
  } catch (...) {
    tell("not a std::exception");
  }
}

// The end of its thread could not be caught here: an exception is being handled.
void error_sink::give(const std::exception_ptr& failure, std::uint64_t tag) const {
  class must_come_back {
   public:
    must_come_back() = default;
    ~must_come_back() {
      if (!came_back && std::uncaught_exceptions() == exceptions_) {
        report_ended_thread("on_error");
      }
    }
    must_come_back(const must_come_back&) = delete;
    must_come_back& operator=(const must_come_back&) = delete;

    bool came_back = false;

   private:
    const int exceptions_ = std::uncaught_exceptions();
  };
  must_come_back check;
  on_error_(failure, tag);
  check.came_back = true;
}

void error_sink::report(const char* who, std::uint64_t tag, time_point now) noexcept {
  const std::exception_ptr failure = std::current_exception();
  if (failure == nullptr) {
    report_ended_thread(who);
  }
  if (on_error_) {
    try {
      return give(failure, tag);
    } catch (...) {
      print(std::current_exception(), "on_error", tag, now);
    }
  }
  print(failure, who, tag, now);
}

void report_ended_thread(const char* who) noexcept {
  std::fprintf(stderr, "timing_wheel: %s ended its thread (pthread_exit), which the service still needs\n", who);
  std::abort();
}

}  // namespace timing_wheel::detail

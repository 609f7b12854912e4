#include "failure_log.hpp"

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <functional>

namespace timing_wheel::detail {

bool failure_log::is_news(std::string_view what, time_point now) noexcept {
  const std::size_t hash = std::hash<std::string_view>()(what);
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

void failure_log::report(const std::exception_ptr& failure, std::uint64_t tag, time_point now) noexcept {
  const auto tell = [&](const char* what) {
    if (is_news(what, now)) {
      std::fprintf(stderr, "timing_wheel: a callback threw (tag %" PRIu64 "): %s\n", tag, what);
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

}  // namespace timing_wheel::detail

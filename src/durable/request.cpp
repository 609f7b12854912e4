#include "timing_wheel/durable/request.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <tuple>

#include "durable/store/fnv.hpp"
#include "durable/store/text.hpp"
#include "timing_wheel/durable/error.hpp"

namespace timing_wheel::durable {

namespace {

void at_most(std::size_t length, std::size_t limit, const char* what, errc code) {
  if (length > limit) {
    throw timer_error(make_error_code(code), std::string(what) + " has " + std::to_string(length) + " bytes; at most " +
                                                 std::to_string(limit) + " are allowed");
  }
}

void not_empty(const std::string& text, const char* what) {
  if (text.empty()) {
    throw timer_error(make_error_code(errc::invalid_request), std::string(what) + " is empty");
  }
}

__extension__ using wide = unsigned __int128;

}  // namespace

void validate_kind(const std::string& kind, const request_limits& limits) {
  not_empty(kind, "kind");
  if (kind.find('\0') != std::string::npos) {
    throw timer_error(make_error_code(errc::invalid_request), "kind has a zero byte");
  }
  if (!is_utf8(kind)) {
    throw timer_error(make_error_code(errc::invalid_request), "kind \"" + shown(kind, limits.kind) + "\" is not UTF-8");
  }
  at_most(kind.size(), limits.kind, "kind", errc::kind_too_long);
}

void validate(const request& asked, const request_limits& limits) {
  validate_kind(asked.kind, limits);
  not_empty(asked.key, "key");
  at_most(asked.key.size(), limits.key, "key", errc::key_too_long);
  at_most(asked.payload.size(), limits.payload, "payload", errc::payload_too_long);
}

// The upper bits of a hash by FNV-1a hardly depend on the last bytes of a text, so they are mixed once more, as
// MurmurHash3 ends (Appleby, 2011).
due_time request::due_in_window() const noexcept {
  if (window <= window.zero()) {
    return due;
  }
  if (within == window_use::gather) {
    return due.rounded_up_to(window);
  }
  std::uint64_t mixed = fnv1a(key);
  mixed = (mixed ^ mixed >> 33U) * 0xff51afd7ed558ccdU;
  mixed = (mixed ^ mixed >> 33U) * 0xc4ceb9fe1a85ec53U;
  mixed ^= mixed >> 33U;
  const auto place = static_cast<std::int64_t>(wide{mixed} * static_cast<std::uint64_t>(window.count()) >> 64U);
  return due.later_by(std::chrono::microseconds(place));
}

void spread_in_key_order(std::span<request> requests) {
  std::ranges::sort(requests, {}, [](const request& one) { return std::tie(one.key, one.kind); });
  std::size_t place = 0;
  for (request& one : requests) {
    const wide whole = static_cast<std::uint64_t>(std::max(one.window, one.window.zero()).count());
    one.due = one.due.later_by(std::chrono::microseconds(static_cast<std::int64_t>(whole * place++ / requests.size())));
    one.window = one.window.zero();
  }
}

std::ostream& operator<<(std::ostream& out, const cancel_answer& answer) {
  out << to_string(answer.result);
  if (answer.attempts > 0) {
    out << " after " << answer.attempts << (answer.attempts == 1 ? " attempt" : " attempts");
  }
  return out;
}

const char* to_string(reschedule_result result) noexcept {
  switch (result) {
    case reschedule_result::moved:
      return "moved";
    case reschedule_result::running:
      return "running";
    case reschedule_result::finished:
      return "finished";
  }
  return "unknown";
}

std::ostream& operator<<(std::ostream& out, reschedule_result result) { return out << to_string(result); }

}  // namespace timing_wheel::durable

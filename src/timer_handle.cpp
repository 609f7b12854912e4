#include "timing_wheel/timer_handle.hpp"

#include <algorithm>
#include <ostream>

#include "timer_owner.hpp"

namespace timing_wheel {

const char* to_string(cancel_result result) noexcept {
  switch (result) {
    case cancel_result::cancelled:
      return "cancelled";
    case cancel_result::running:
      return "running";
    case cancel_result::finished:
      break;
  }
  return "finished";
}

const char* to_string(timer_status status) noexcept {
  switch (status) {
    case timer_status::pending:
      return "pending";
    case timer_status::running:
      return "running";
    case timer_status::finished:
      break;
  }
  return "finished";
}

std::ostream& operator<<(std::ostream& out, cancel_result result) { return out << to_string(result); }
std::ostream& operator<<(std::ostream& out, timer_status status) { return out << to_string(status); }

timer_handle::timer_handle(const timer_handle& other) noexcept : owner_(other.owner_), key_(other.key_) {
  if (owner_ != nullptr) {
    owner_->add_references(1);
  }
}

void timer_handle::drop() const noexcept { owner_->drop_references(1); }

cancel_result timer_handle::cancel() const noexcept {
  return owner_ == nullptr ? cancel_result::finished : owner_->cancel(key_);
}

cancel_result timer_handle::cancel_and_wait() const noexcept {
  return owner_ == nullptr ? cancel_result::finished : owner_->cancel_and_wait(key_);
}

bool timer_handle::reschedule(time_point deadline) const {
  return owner_ != nullptr && owner_->reschedule(key_, deadline);
}

bool timer_handle::reschedule_from_now(std::chrono::nanoseconds delay) const {
  return owner_ != nullptr && owner_->reschedule(key_, saturating_add(owner_->now(), delay));
}

timer_status timer_handle::status() const noexcept {
  return owner_ == nullptr ? timer_status::finished : owner_->look(key_).status;
}

std::optional<time_point> timer_handle::deadline() const noexcept {
  const detail::timer_view view = owner_ == nullptr ? detail::timer_view{} : owner_->look(key_);
  return view.status == timer_status::finished ? std::nullopt : std::optional(view.deadline);
}

std::optional<std::chrono::nanoseconds> timer_handle::remaining() const noexcept {
  const std::optional<time_point> until = deadline();
  if (!until) {
    return std::nullopt;
  }
  const time_point now = owner_->now();
  return *until <= now ? std::chrono::nanoseconds::zero() : saturating_difference(*until, now);
}

std::optional<std::uint64_t> timer_handle::tag() const noexcept {
  const detail::timer_view view = owner_ == nullptr ? detail::timer_view{} : owner_->look(key_);
  return view.status == timer_status::finished ? std::nullopt : std::optional(view.tag);
}

std::ostream& operator<<(std::ostream& out, const timer_handle& handle) {
  out << "timer " << handle.key_.where << '#' << handle.key_.generation << ": " << handle.status();
  if (const auto left = handle.remaining(); left) {
    out << ", " << std::chrono::duration_cast<std::chrono::milliseconds>(*left).count() << " ms left";
  }
  return out;
}

}  // namespace timing_wheel

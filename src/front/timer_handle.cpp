#include "timing_wheel/timer_handle.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <ostream>
#include <span>
#include <sstream>

#include "shard/shards.hpp"
#include "timing_wheel/detail/callable.hpp"

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

timer_handle::timer_handle(const timer_handle& other) noexcept : owner_(other.owner_), id_(other.id_) {
  if (owner_ != nullptr) {
    owner_->add_references(1);
  }
}

void timer_handle::drop() const noexcept { owner_->drop_references(1); }

cancel_result timer_handle::cancel() const noexcept {
  return owner_ == nullptr ? cancel_result::finished : owner_->cancel(id_);
}

cancel_result timer_handle::cancel_and_wait() const noexcept {
  return owner_ == nullptr ? cancel_result::finished : owner_->cancel_and_wait(id_);
}

bool timer_handle::move_to(time_point deadline, std::error_code* error) const {
  if (error != nullptr) {
    error->clear();
  }
  try {
    return owner_ != nullptr && owner_->reschedule(id_, deadline);
  } catch (const std::bad_alloc&) {
    if (error == nullptr) {
      throw;
    }
    *error = std::make_error_code(std::errc::not_enough_memory);
    return false;
  }
}

bool timer_handle::move_to(detail::wall_time deadline, std::error_code* error) const {
  return move_to(owner_ == nullptr ? time_point() : owner_->from_wall(deadline), error);
}

bool timer_handle::move_after(std::chrono::nanoseconds delay, std::error_code* error) const {
  return move_to(owner_ == nullptr ? time_point() : saturating_add(owner_->now(), delay), error);
}

std::size_t cancel_many(std::span<const timer_handle> timers) noexcept {
  std::array<detail::timer_id, detail::timers_per_group> ids;
  std::size_t cancelled = 0;
  while (!timers.empty()) {
    detail::timer_owner* const owner = timers.front().owner_;
    std::size_t count = 0;
    for (; count < std::min(timers.size(), ids.size()) && timers[count].owner_ == owner; ++count) {
      ids[count] = timers[count].id_;
    }
    cancelled += owner == nullptr ? 0 : owner->cancel_some(std::span(ids.data(), count));
    timers = timers.subspan(count);
  }
  return cancelled;
}

std::uint64_t timer_handle::key() const noexcept { return owner_ == nullptr ? 0 : owner_->key_of(id_); }

timer_status timer_handle::status() const noexcept {
  return owner_ == nullptr ? timer_status::finished : owner_->look(id_).status;
}

std::optional<time_point> timer_handle::deadline() const noexcept {
  const detail::timer_view view = owner_ == nullptr ? detail::timer_view{} : owner_->look(id_);
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
  const detail::timer_view view = owner_ == nullptr ? detail::timer_view{} : owner_->look(id_);
  return view.status == timer_status::finished ? std::nullopt : std::optional(view.tag);
}

std::string to_string(const timer_handle& handle) {
  std::ostringstream text;
  text << handle;
  return text.str();
}

std::ostream& operator<<(std::ostream& out, const timer_handle& handle) {
  if (!handle) {
    return out << "no timer";
  }
  out << "timer " << handle.owner_->index() << '/' << handle.id_.number << '#' << handle.id_.generation << ": "
      << handle.status();
  if (const auto left = handle.remaining(); left) {
    out << ", " << std::chrono::duration_cast<std::chrono::milliseconds>(*left).count() << " ms left";
  }
  return out;
}

namespace detail {

void throw_bad_alloc() { throw std::bad_alloc(); }

}  // namespace detail

}  // namespace timing_wheel

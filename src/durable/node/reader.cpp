#include "durable/node/reader.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "durable/node/share_hold.hpp"

namespace timing_wheel::durable {

namespace {

// Rows in a page, at most.
constexpr std::size_t long_page = 2000;
constexpr std::size_t short_page = 200;
constexpr std::chrono::milliseconds long_page_takes(10);  // with room to spare
constexpr std::int64_t before_all = std::numeric_limits<std::int64_t>::min();

}  // namespace

read_range reader::page(instant from, std::int64_t after, instant now) const {
  return {.from = from,
          .after_id = after,
          .until = saturating_add(now, options_.look_ahead),
          .limit = std::min(page_size_, options_.max_known),
          .kinds = names_read_};
}

// Those that the pass has left out, up to twice the quota; or the others. \returns whether there are any.
bool reader::choose_kinds(bool of_full_ones) {
  kinds_read_.clear();
  names_read_.clear();
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    const bool is_full = parts_[kind].left_out || rows_.full(kind);
    if (is_full == of_full_ones && rows_.has_room(kind) && !parts_[kind].paused) {
      kinds_read_.push_back(kind);
      names_read_.push_back(kinds_[kind].name);
    }
  }
  return !kinds_read_.empty();
}

bool reader::hungry() const noexcept {
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    if (parts_[kind].left_out && rows_.half_empty(kind)) {
      return true;
    }
  }
  return false;
}

// Of a kind of which nothing was missed.
instant reader::low_water(instant now, bool has_shares) const noexcept {
  using std::chrono::microseconds;
  // What others leave is seen for a second, and for two polls, after it became anybody's.
  constexpr microseconds grace = share_hold::grace;
  const microseconds seen = grace + std::max<microseconds>(grace, 2 * options_.poll);
  constexpr std::chrono::seconds late_commit(1);  // how long after its deadline a row may be committed, without a sweep
  const microseconds back = std::max<microseconds>(options_.look_ahead, has_shares ? seen : late_commit);
  return saturating_add(std::min(now, pass_began_), -back);
}

void reader::begin_pass(instant now, bool has_shares, bool busy) {
  const bool sweeps = now >= next_sweep_;
  if (sweeps) {
    next_sweep_ = now + options_.sweep;
  }
  const instant low = sweeps ? instant::min() : low_water(now, has_shares);
  helps_ = sweeps || !busy || !has_shares || ++looks_ % 4 == 0;
  for (part& of : parts_) {
    of.from = std::min(low, of.missed);
    of.missed = helps_ ? instant::max() : of.from;  // what is left out now is in the range of the next that helps
    of.left_out = false;
  }
  passing_ = true;
  pass_began_ = now;
  cursor_due_ = instant::min();
  cursor_id_ = before_all;
}

// What is behind the cursor was not read.
void reader::break_off() noexcept {
  for (std::uint32_t kind = 0; passing_ && kind < kinds_.size(); ++kind) {
    miss(kind, std::max(cursor_due_, parts_[kind].from));
  }
  passing_ = false;
}

std::optional<read_range> reader::next_page(instant now) {
  for (std::uint32_t kind = 0; passing_ && kind < kinds_.size(); ++kind) {
    if (rows_.full(kind) && !parts_[kind].left_out) {
      leave_out(kind, std::max(cursor_due_, parts_[kind].from));
    }
  }
  if (std::exchange(look_due_, false) && choose_kinds(true)) {
    reading_pass_ = false;
    page_size_ = long_page;  // there is no second one
    return page(now - options_.look_ahead, before_all, now);
  }
  passing_ = passing_ && choose_kinds(false);
  if (!passing_) {
    return std::nullopt;
  }
  instant first = instant::max();
  for (const std::uint32_t kind : kinds_read_) {
    first = std::min(first, parts_[kind].from);
  }
  if (first > cursor_due_) {
    cursor_due_ = first;
    cursor_id_ = before_all;
  }
  reading_pass_ = true;
  read_range which = page(cursor_due_, cursor_id_, now);
  stopped_at_.reset();
  which.stopped_at = &stopped_at_;
  return which;
}

std::optional<read_range> reader::next(instant now, const std::optional<std::vector<std::int16_t>>& shares,
                                       std::size_t ready, instant next_due) {
  const bool busy = ready >= options_.batch;
  const bool delays_none = ready == 0 && next_due > saturating_add(now, long_page_takes);
  page_size_ = busy || delays_none ? long_page : short_page;
  const bool polls = now >= next_poll_;
  if (polls) {
    next_poll_ = now + options_.poll;
    look_due_ = true;
  }
  const bool is_hungry = hungry();
  if (is_hungry) {
    break_off();
  }
  if (!passing_ && (polls || is_hungry)) {
    begin_pass(now, shares.has_value(), busy);
  }
  std::optional<read_range> which = next_page(now);
  if (!which && polls) {
    reading_pass_ = false;
    which = page(now, before_all, now);
  }
  if (which && shares) {
    which->shares = *shares;
    which->overdue = helps_ ? now - share_hold::grace : instant::min();
  }
  return which;
}

void reader::has_read(const read_range& read, std::span<const upcoming> found) {
  if (!reading_pass_) {
    return;
  }
  passing_ = stopped_at_ || found.size() == read.limit;
  if (stopped_at_) {
    std::tie(cursor_due_, cursor_id_) = *stopped_at_;
  } else if (passing_) {
    cursor_due_ = found.back().due;
    cursor_id_ = found.back().id;
  }
}

void reader::pause(std::uint32_t kind) noexcept {
  parts_[kind].paused = true;
  parts_[kind].left_out = false;
}

void reader::resume(std::uint32_t kind, instant now) noexcept {
  parts_[kind].paused = false;
  read_anew(now);
}

void reader::leave_out(std::uint32_t kind, instant due) noexcept {
  parts_[kind].left_out = true;
  miss(kind, due);
}

void reader::read_anew(instant now) noexcept {
  next_poll_ = next_sweep_ = now;
  passing_ = false;
}

void reader::read_soon(instant now) noexcept {
  break_off();
  next_poll_ = now;
}

bool reader::invariants_hold() const {
  return std::none_of(parts_.begin(), parts_.end(),
                      [](const part& of) { return of.left_out && of.missed == instant::max(); }) &&
         std::equal(kinds_read_.begin(), kinds_read_.end(), names_read_.begin(), names_read_.end(),
                    [this](std::uint32_t kind, const std::string& name) { return kinds_[kind].name == name; });
}

}  // namespace timing_wheel::durable

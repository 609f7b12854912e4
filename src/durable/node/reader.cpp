#include "durable/node/reader.hpp"

#include <algorithm>
#include <limits>
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

// Those whose quota is used up, up to twice of it; or the others. \returns whether there are any.
bool reader::choose_kinds(bool of_full_ones) {
  kinds_read_.clear();
  names_read_.clear();
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    if (rows_.full(kind) == of_full_ones && rows_.has_room(kind) && !paused_[kind]) {
      kinds_read_.push_back(kind);
      names_read_.push_back(kinds_[kind].name);
    }
  }
  return !kinds_read_.empty();
}

bool reader::hungry() const noexcept {
  for (std::uint32_t kind = 0; kind < kinds_.size(); ++kind) {
    if (left_out_[kind] && rows_.half_empty(kind)) {
      return true;
    }
  }
  return false;
}

instant reader::low_water(instant now, bool has_shares) const noexcept {
  using std::chrono::microseconds;
  // What others leave is seen for a second, and for two polls, after it became anybody's.
  constexpr microseconds grace = share_hold::grace;
  const microseconds seen = grace + std::max<microseconds>(grace, 2 * options_.poll);
  constexpr std::chrono::seconds late_commit(1);  // how long after its deadline a row may be committed, without a sweep
  const microseconds back = std::max<microseconds>(options_.look_ahead, has_shares ? seen : late_commit);
  const instant low = std::min(saturating_add(std::min(now, passed_), -back), missed_);
  return rows_.earliest_due(low);
}

void reader::begin_pass(instant now, bool has_shares, bool busy) {
  passing_ = true;
  pass_began_ = now;
  cursor_id_ = before_all;
  const bool sweeps = now >= next_sweep_;
  if (sweeps) {
    cursor_due_ = instant::min();
    next_sweep_ = now + options_.sweep;
  } else {
    cursor_due_ = low_water(now, has_shares);
  }
  helps_ = sweeps || !busy || ++looks_ % 4 == 0;
  missed_ = helps_ ? instant::max() : cursor_due_;  // what is left out now is in the range of the next that helps
  left_out_.assign(kinds_.size(), false);
}

std::optional<read_range> reader::next_page(instant now) {
  if (std::exchange(look_due_, false) && choose_kinds(true)) {
    reading_pass_ = false;
    page_size_ = long_page;  // there is no second one
    return page(now - options_.look_ahead, before_all, now);
  }
  for (std::uint32_t kind = 0; passing_ && kind < kinds_.size(); ++kind) {
    if (rows_.full(kind) && !left_out_[kind]) {
      leave_out(kind, cursor_due_);
    }
  }
  passing_ = passing_ && choose_kinds(false);
  if (!passing_) {
    return std::nullopt;
  }
  reading_pass_ = true;
  return page(cursor_due_, cursor_id_, now);
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
  if (!passing_ && (polls || hungry())) {
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
  passing_ = found.size() == read.limit;
  if (passing_) {
    cursor_due_ = found.back().due;
    cursor_id_ = found.back().id;
  } else {
    passed_ = pass_began_;
  }
}

void reader::pause(std::uint32_t kind) noexcept {
  paused_[kind] = true;
  left_out_[kind] = false;
}

void reader::resume(std::uint32_t kind, instant now) noexcept {
  paused_[kind] = false;
  read_anew(now);
}

void reader::leave_out(std::uint32_t kind, instant due) noexcept {
  left_out_[kind] = true;
  miss(due);
}

void reader::read_anew(instant now) noexcept {
  next_poll_ = next_sweep_ = now;
  passing_ = false;
}

void reader::read_soon(instant now) noexcept {
  if (passing_) {
    miss(cursor_due_);  // what is behind it was not read
  }
  next_poll_ = now;
  passing_ = false;
}

bool reader::invariants_hold() const {
  const bool any_left_out = std::find(left_out_.begin(), left_out_.end(), true) != left_out_.end();
  return (!any_left_out || missed_ != instant::max()) &&
         std::equal(kinds_read_.begin(), kinds_read_.end(), names_read_.begin(), names_read_.end(),
                    [this](std::uint32_t kind, const std::string& name) { return kinds_[kind].name == name; });
}

}  // namespace timing_wheel::durable

#include "timing_wheel/engine/hashed_wheel.hpp"

#include <algorithm>
#include <bit>

#include "engine/engine_parts.hpp"
#include "engine/engine_trace.hpp"

namespace timing_wheel {

namespace {

// Whether the lower half of a deadline does not tell it, in a bucket that is visited then.
constexpr bool needs_upper_half(tick deadline, tick visit) noexcept { return deadline - visit > UINT32_MAX; }

}  // namespace

hashed_wheel::hashed_wheel(const engine_options& options)
    : mask_(std::bit_ceil(detail::checked_sizes(options, {512}).front()) - 1),
      shift_(static_cast<unsigned>(std::bit_width(mask_))),
      store_(options.huge_pages),
      wheel_(std::make_unique<bucket_pair[]>(slots())),
      marks_(slots()),
      clock_(detail::checked_start(options)),
      next_visit_(clock_ + 1),
      last_visit_(clock_) {
  for (std::uint32_t i = 0; i < slots(); ++i) {
    wheel_[i][0].set_number(i);
    wheel_[i][1].set_number(i);
  }
}

bool hashed_wheel::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  const tick visit = visit_after_clock(deadline);
  bucket& b = bucket_for(visit);
  cover_far(n, deadline, visit);
  store_.cover(n);
  b.push_back(store_, {static_cast<std::uint32_t>(deadline), n});
  b.set_expiration(visit);
  marks_.set(index_of(visit));
  TIMING_WHEEL_ENGINE_EVENT(filled, b.number(), n, deadline);
  set_far(n, deadline, visit);
  ++size_;
  return true;
}

void hashed_wheel::reserve(timer_number n, tick deadline) {
  store_.cover(n);
  store_.keep_spare();
  if (deadline > clock_) {
    cover_far(n, deadline, visit_after_clock(deadline));
  }
}

// The first tick after the clock whose slot is that of the deadline.
tick hashed_wheel::visit_after_clock(tick deadline) const noexcept {
  return clock_ + 1 + ((deadline - clock_ - 1) & mask_);
}

auto hashed_wheel::waiting_for(tick visit) noexcept -> bucket* {
  bucket_pair& pair = pair_of(visit);
  const auto found =
      std::find_if(pair.begin(), pair.end(), [&](const bucket& b) { return !b.empty() && b.expiration() == visit; });
  return found == pair.end() ? nullptr : &*found;
}

// The bucket that waits for the visit, or an empty one: at most one bucket of a slot waits for another visit, one under
// way.
auto hashed_wheel::bucket_for(tick visit) noexcept -> bucket& {
  bucket_pair& pair = pair_of(visit);
  if (bucket* const waiting = waiting_for(visit)) {
    return *waiting;
  }
  return pair[0].empty() ? pair[0] : pair[1];
}

void hashed_wheel::unmark_if_empty(std::uint32_t index) noexcept {
  const bucket_pair& pair = wheel_[index];
  if (pair[0].empty() && pair[1].empty()) {
    marks_.clear(index);
  }
}

// The first tick from `from` to `last` whose slot is marked, or the one after `last`.
tick hashed_wheel::next_marked(tick from, tick last) const noexcept {
  const std::uint32_t width = std::min(slots(), detail::bucket_marks::per_word);
  while (from <= last) {
    const std::uint32_t index = index_of(from);
    const std::uint64_t word = marks_.word_of(index) >> (index % detail::bucket_marks::per_word);
    const tick steps = word != 0 ? static_cast<tick>(std::countr_zero(word)) : width - index % width;
    if (steps > last - from) {
      break;
    }
    from += steps;
    if (word != 0) {
      return from;
    }
  }
  return last + 1;
}

bool hashed_wheel::erase(timer_number n) noexcept {
  if (!store_.linked(n)) {
    return false;
  }
  forget_far(n);
  TIMING_WHEEL_ENGINE_EVENT(erased, store_.owner(store_.place(n))->number(), n, 0);
  const detail::entry_place p = store_.place(n);
  const bucket* const empty = bucket::erase(store_, n, p) ? bucket::close_gaps(store_, p) : nullptr;
  if (empty != nullptr) {
    visiting_ = visiting_ == empty ? nullptr : visiting_;
    unmark_if_empty(empty->number());
  }
  if (--size_ == 0) {
    rest_at(clock_);
  }
  return true;
}

void hashed_wheel::catch_up(tick now) noexcept {
  if (size_ == 0) {
    rest_at(std::max(clock_, std::min(now, never - 1)));
  }
}

// Nothing is under way: the next visit is that of the next tick.
void hashed_wheel::rest_at(tick now) noexcept {
  clock_ = now;
  next_visit_ = now + 1;
  last_visit_ = now;
}

advance_result hashed_wheel::advance(tick now, std::size_t budget) {
  due_.clear();
  const tick target = std::max(clock_, std::min(now, never - 1));
  std::size_t left = budget;
  detail::show_what_is_due(due_, [&] {
    make_visits(left);
    if (!under_way() && clock_ != target) {
      begin_visits(target);
      make_visits(left);
    }
  });
  return {due_, under_way(), budget - left};
}

// Each slot is visited once, also when the clock passes it several times.
void hashed_wheel::begin_visits(tick target) noexcept {
  next_visit_ = clock_ + 1;
  last_visit_ = target - clock_ > mask_ ? clock_ + 1 + mask_ : target;
  clock_ = target;
}

void hashed_wheel::make_visits(std::size_t& budget) {
  while (bucket* const b = next_to_visit()) {
    if (budget == 0) {
      return;
    }
    visit(*b, budget);
  }
  rest_at(clock_);
}

// The bucket that waits for the first visit under way that finds something; none if all are made.
auto hashed_wheel::next_to_visit() noexcept -> bucket* {
  while ((next_visit_ = next_marked(next_visit_, last_visit_)) <= last_visit_) {
    if (bucket* const b = waiting_for(next_visit_)) {
      return b;
    }
    ++next_visit_;
  }
  return nullptr;
}

void hashed_wheel::visit(bucket& b, std::size_t& budget) {
  if (visiting_ != &b) {
    visiting_ = &b;
    visited_ = 0;
    ++visits_;
    TIMING_WHEEL_ENGINE_EVENT(flushed, b.number(), 0, b.expiration());
  }
  const tick next_round = visit_after_clock(b.expiration());
  bucket& next = bucket_for(next_round);
  if (next.empty()) {
    next.set_expiration(next_round);
  }
  const std::size_t before = budget;
  while (budget > 0 && !b.empty()) {
    look_at_front(b, next, budget);
  }
  visited_ += before - budget;
  largest_visit_ = std::max(largest_visit_, visited_);
  if (b.empty()) {
    visiting_ = nullptr;
    unmark_if_empty(b.number());
  }
}

// Where nothing is due, the whole chunk stays for another round, if the layout of the next bucket allows.
void hashed_wheel::look_at_front(bucket& b, bucket& next, std::size_t& budget) {
  const std::uint32_t count = b.front_count(store_);
  TIMING_WHEEL_IF_TRACED(const std::span<const entry> run = b.front_run(store_));
  if (count <= budget && nothing_due_in(b, b.front_run(store_)) && next.splice_front_chunk(store_, b)) {
    TIMING_WHEEL_IF_TRACED(std::for_each(run.begin(), run.end(), [&](const entry& e) {
      if (store_.linked(e.which) && &store_.at(store_.place(e.which)) == &e) {
        TIMING_WHEEL_ENGINE_EVENT(looked, b.number(), e.which, deadline_of(b, e));
      }
    }));
    looks_ += count;
    budget -= count;
  } else {
    b.flush_front(store_, budget, [&](entry e) { look_at(b, next, e); });
  }
}

// False also if that cannot be told from the lower halves: after several rounds at once, for a deadline far away, or
// for one that was erased.
bool hashed_wheel::nothing_due_in(const bucket& b, std::span<const entry> run) const noexcept {
  const auto now_low = static_cast<std::uint32_t>(b.expiration());
  return clock_ - b.expiration() <= mask_ &&
         std::none_of(run.begin(), run.end(), [&](const entry& e) { return e.deadline_low == now_low; });
}

void hashed_wheel::look_at(const bucket& b, bucket& next, entry e) {
  const tick deadline = deadline_of(b, e);
  if (deadline <= clock_) {
    due_.push_back(e.which);
    TIMING_WHEEL_ENGINE_EVENT(due, b.number(), e.which, clock_);
    store_.unlink(e.which);
    forget_far(e.which);
    --size_;
  } else {
    next.push_back(store_, e);
    TIMING_WHEEL_ENGINE_EVENT(looked, b.number(), e.which, deadline);
  }
  looks_ += ((std::min(deadline, clock_) - b.expiration()) >> shift_) + 1;
}

void hashed_wheel::cover_far(timer_number n, tick deadline, tick visit) {
  if (needs_upper_half(deadline, visit)) {
    far_deadlines_.cover(n);
  }
}

void hashed_wheel::set_far(timer_number n, tick deadline, tick visit) noexcept {
  if (needs_upper_half(deadline, visit)) {
    far_deadlines_.keep(n, deadline);
    ++far_timers_;
  }
}

void hashed_wheel::forget_far(timer_number n) noexcept {
  if (is_far(n)) {
    far_deadlines_.forget(n);
    --far_timers_;
  }
}

tick hashed_wheel::deadline_of(const bucket& b, entry e) const noexcept {
  return is_far(e.which) ? far_deadlines_.deadline_of(e) : b.deadline_of(e);
}

bool hashed_wheel::shrink_some() noexcept { return store_.shrink_some(); }

void hashed_wheel::read(engine_stats& counted) const {
  level_stats wheel;
  wheel.tick_length = 1;
  wheel.wheel_size = slots();
  wheel.interval = slots();
  wheel.current_time = clock_;
  wheel.flushes = visits_;
  wheel.largest_flush = largest_visit_;

  counted.levels.clear();
  counted.levels.push_back(wheel);
  counted.looks = looks_;
  counted.bytes =
      slots() * sizeof(bucket_pair) + marks_.bytes() + store_.bytes() + due_.capacity() * sizeof(timer_number);
}

bool hashed_wheel::visit_in_range(tick visit) const noexcept {
  return (visit >= next_visit_ && visit <= last_visit_) || (visit > clock_ && visit - clock_ <= slots());
}

bool hashed_wheel::bucket_holds(const bucket& b, std::uint32_t index, std::size_t& far) const {
  if (!b.invariants_hold(store_) || b.number() != index) {
    return false;
  }
  bool held = b.empty() || (visit_in_range(b.expiration()) && (b.expiration() & mask_) == index);  // 2, 1
  b.for_each(store_, [&](const entry& e) {
    const tick deadline = deadline_of(b, e);
    held = held && deadline >= b.expiration() && ((deadline - b.expiration()) & mask_) == 0;  // 1
    far += far_deadlines_.has(e.which) ? 1U : 0U;
  });
  return held;
}

bool hashed_wheel::invariants_hold() const {
  std::size_t timers = 0;
  std::size_t far = 0;
  for (std::uint32_t i = 0; i < slots(); ++i) {
    const auto& [first, second] = wheel_[i];
    if (!bucket_holds(first, i, far) || !bucket_holds(second, i, far)) {
      return false;
    }
    const bool both = !first.empty() && !second.empty();
    const bool none = first.empty() && second.empty();
    if ((both && first.expiration() == second.expiration()) || marks_.has(i) == none) {  // 2, 4
      return false;
    }
    timers += first.size(store_) + second.size(store_);
  }
  const bool visits_ordered = under_way() ? last_visit_ <= clock_ : next_visit_ == clock_ + 1;  // 3
  return visits_ordered && timers == size_ && far == far_timers_;                               // 5
}

}  // namespace timing_wheel

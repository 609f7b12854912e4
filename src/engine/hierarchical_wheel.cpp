#include "timing_wheel/engine/hierarchical_wheel.hpp"

#include <algorithm>
#include <bit>

#include "engine/engine_parts.hpp"
#include "engine/engine_trace.hpp"
#include "system/trace_point.hpp"

namespace timing_wheel {

namespace {

constexpr std::uint32_t buckets_per_word = detail::bucket_marks::per_word;

// A bucket's number is its level above its index.
constexpr std::uint32_t index_bits = 24;
constexpr std::uint32_t index_mask = (1U << index_bits) - 1;
static_assert(detail::largest_wheel <= index_mask + 1);

}  // namespace

// One wheel. The virtual id of a time, as Kafka calls it, is the number of the wheel's tick that it lies in. The `size`
// virtual ids from the clock's on lie in a ring with a power of two of buckets, so that each finds its bucket with a
// mask.
struct hierarchical_wheel::level {
  level(std::size_t index, tick length, std::uint32_t slots, std::uint32_t word, bool may_map)
      : tick_length(length),
        interval(saturating_multiply(length, slots)),
        surely_held(interval == never ? never : interval - length),
        size(slots),
        ring_mask(std::max(std::bit_ceil(slots), buckets_per_word) - 1),
        shift(static_cast<unsigned>(std::countr_zero(length))),
        divides(!std::has_single_bit(length)),
        far(length > (tick{1} << 32U)),
        quickly_held(divides || far ? 0 : surely_held),
        first_word(word),
        first_number(static_cast<std::uint32_t>(index << index_bits)),
        memory((std::size_t{ring_mask} + 1) * sizeof(bucket), may_map),
        buckets(static_cast<bucket*>(memory.data())),
        occupied(ring_mask + 1) {}

  [[nodiscard]] tick virtual_id(tick t) const noexcept { return divides ? t / tick_length : t >> shift; }

  // Whether fewer than `size` ticks of this level lie between the two. Only within a tick of the interval's end it
  // takes a division.
  [[nodiscard]] bool holds(tick deadline, tick clock) const noexcept {
    const tick distance = deadline - clock;
    return distance <= surely_held || (distance < interval && virtual_id(deadline) - virtual_id(clock) < size);
  }
  [[nodiscard]] bucket& at(tick id) noexcept { return buckets[id & ring_mask]; }
  [[nodiscard]] std::uint32_t number_of(tick id) const noexcept {
    return first_number | (static_cast<std::uint32_t>(id) & ring_mask);
  }

  tick tick_length;
  tick interval;
  tick surely_held;
  std::uint32_t size;
  std::uint32_t ring_mask;
  unsigned shift;
  bool divides;
  bool far;                      // a deadline needs more than the lower half that its entry has
  tick quickly_held;             // what is surely held, if it is neither; otherwise 0
  std::uint32_t first_word;      // of its words of marks, as members of the queue
  std::uint32_t first_number;    // of its buckets
  detail::sparse_memory memory;  // zeroed, and so full of empty buckets
  bucket* buckets;               // those
  detail::bucket_marks occupied;
  std::uint64_t moves = 0;
  std::uint64_t flushes = 0;
  std::uint64_t largest_flush = 0;
  std::uint64_t buckets_queued = 0;
};

hierarchical_wheel::hierarchical_wheel(const engine_options& options)
    : sizes_(detail::checked_sizes(options, {1024, 2048})),
      all_binary_(
          std::all_of(sizes_.begin(), sizes_.end(), [](std::uint32_t size) { return std::has_single_bit(size); })),
      store_(options.huge_pages),
      clock_(detail::checked_start(options)) {
  add_level();
}

hierarchical_wheel::~hierarchical_wheel() = default;

std::uint32_t hierarchical_wheel::size_of_level(std::size_t index) const noexcept {
  return sizes_[std::min(index, sizes_.size() - 1)];
}

void hierarchical_wheel::add_level() {
  const tick tick_length = levels_.empty() ? 1 : levels_.back().interval;
  const std::uint32_t first_word = levels_.empty() ? 0 : levels_.back().first_word + levels_.back().occupied.words();
  level wheel(levels_.size(), tick_length, size_of_level(levels_.size()), first_word, store_.memory().may_map());
  queue_.grow(first_word + wheel.occupied.words());
  levels_.push_back(std::move(wheel));
  TIMING_WHEEL_ENGINE_EVENT(level_made, levels_.size() - 1, levels_.back().size, tick_length);
  lowest_ = levels_.front().buckets;
  lowest_mask_ = levels_.front().ring_mask;
}

// Nearly always there is room behind another entry. The rest is kept apart, so that this saves no register.
bool hierarchical_wheel::insert(timer_number n, tick deadline) {
  if (deadline <= clock_) {
    return false;
  }
  if (store_.covers(n)) {
    const tick distance = deadline - clock_;
    for (level& wheel : levels_) {
      if (distance >= wheel.interval) {
        continue;
      }
      if (distance <= wheel.quickly_held) {
        if (bucket& b = wheel.at(deadline >> wheel.shift); b.has_room()) {
          b.push_behind(store_, {static_cast<std::uint32_t>(deadline), n});
          TIMING_WHEEL_ENGINE_EVENT(filled, b.number(), n, deadline);
          ++size_;
          return true;
        }
      }
      break;
    }
  }
  return insert_anew(n, deadline);
}

bool hierarchical_wheel::insert_anew(timer_number n, tick deadline) {
  store_.cover(n);
  link(level_for(deadline), deadline, {static_cast<std::uint32_t>(deadline), n});
  ++size_;
  return true;
}

bool hierarchical_wheel::insert(timer_number n, tick deadline, tick window) {
  const tick due = coalesce(deadline, window);
  if (due <= clock_) {
    return false;
  }
  const level& wheel = level_for(due);
  const std::uint64_t queued = wheel.buckets_queued;
  insert(n, due);
  const std::uint64_t moves = moves_to(due);
  const std::uint64_t moves_without = moves_to(deadline);
  moves_saved_ += moves_without - std::min(moves, moves_without);
  wakeups_shared_ += moves == 0 && wheel.buckets_queued == queued ? 1U : 0U;
  return true;
}

// How often a timer moves that is linked at this clock: once for each digit below that of its level that is not 0.
// \pre there is a level that holds it.
std::uint64_t hierarchical_wheel::moves_to(tick deadline) const noexcept {
  std::uint64_t moves = 0;
  if (deadline > clock_) {
    for (auto wheel = levels_.begin(); !wheel->holds(deadline, clock_); ++wheel) {
      moves += wheel->virtual_id(deadline) != (wheel + 1)->virtual_id(deadline) * wheel->size ? 1U : 0U;
    }
  }
  return moves;
}

void hierarchical_wheel::reserve(timer_number n, tick deadline) {
  store_.cover(n);
  store_.keep_spare();
  if (deadline > clock_) {
    cover_far(level_for(deadline), n);
  }
}

// Each level's tick is a multiple of the one below, so a level has a multiple in the window only if each lower one has.
// If all sizes are powers of two, the multiple of the largest power of two is one of the longest such tick.
tick hierarchical_wheel::coalesce(tick deadline, tick window) const noexcept {
  const tick latest = detail::latest_within(deadline, window);
  if (all_binary_ || latest == deadline) {
    return detail::most_even(deadline, latest);
  }
  tick unit = 1;
  tick next = 1;
  for (std::size_t index = 0;; ++index) {
    next = saturating_multiply(next, size_of_level(index));
    if (next > latest || latest - latest % next < deadline) {
      break;
    }
    unit = next;
  }
  const tick first = deadline / unit + (deadline % unit != 0 ? 1 : 0);
  return detail::most_even(first, latest / unit) * unit;
}

inline hierarchical_wheel::level& hierarchical_wheel::level_for(tick deadline) {
  for (level& wheel : levels_) {
    if (wheel.holds(deadline, clock_)) {
      return wheel;
    }
  }
  return new_level_for(deadline);
}

hierarchical_wheel::level& hierarchical_wheel::new_level_for(tick deadline) {
  do {
    add_level();
  } while (!levels_.back().holds(deadline, clock_));
  return levels_.back();
}

// The wheel for a timer that a flush brings back. The tick that has come of one wheel is the interval of the one below,
// so that one holds it, and nearly always no lower one does.
inline hierarchical_wheel::level& hierarchical_wheel::level_below(level& origin, tick deadline) noexcept {
  level* wheel = &origin - 1;
  while (wheel != levels_.data() && (wheel - 1)->holds(deadline, clock_)) {
    --wheel;
  }
  return *wheel;
}

void hierarchical_wheel::cover_far(const level& wheel, timer_number n) {
  if (wheel.far) {
    far_deadlines_.cover(n);
  }
}

void hierarchical_wheel::keep_far_deadline(timer_number n, tick deadline) {
  far_deadlines_.cover(n);
  far_deadlines_.keep(n, deadline);
}

inline void hierarchical_wheel::link(level& wheel, tick deadline, entry e) {
  if (wheel.far) {
    keep_far_deadline(e.which, deadline);
  }
  const tick id = wheel.virtual_id(deadline);
  bucket& b = wheel.at(id);
  if (b.has_room()) {
    b.push_behind(store_, e);
    TIMING_WHEEL_ENGINE_EVENT(filled, b.number(), e.which, deadline);
    return;
  }
  const bool first = b.empty();
  if (first) {
    b.set_number(wheel.number_of(id));
    b.set_expiration(id * wheel.tick_length);
  }
  b.push_back(store_, e);
  TIMING_WHEEL_ENGINE_EVENT(filled, b.number(), e.which, deadline);
  if (first) {
    enqueue(wheel, b);
  }
}

bool hierarchical_wheel::erase(timer_number n) noexcept {
  if (!store_.linked(n)) {
    return false;
  }
  --size_;
  TIMING_WHEEL_ENGINE_EVENT(erased, store_.owner(store_.place(n))->number(), n, 0);
  const detail::entry_place p = store_.place(n);
  return bucket::erase(store_, n, p) ? close_gaps(p) : true;
}

// Out of the way of `erase`, whose last call it is.
bool hierarchical_wheel::close_gaps(detail::entry_place p) noexcept {
  if (const bucket* const empty = bucket::close_gaps(store_, p); empty != nullptr) {
    dequeue(level_of(*empty), *empty);
  }
  return true;
}

hierarchical_wheel::level& hierarchical_wheel::level_of(const bucket& b) noexcept {
  return levels_[b.number() >> index_bits];
}

// The level of a member of the queue: most are in the lowest ones.
inline hierarchical_wheel::level& hierarchical_wheel::level_of(delay_queue::member m) noexcept {
  auto wheel = levels_.begin();
  while (wheel + 1 != levels_.end() && (wheel + 1)->first_word <= m) {
    ++wheel;
  }
  return *wheel;
}

inline void hierarchical_wheel::enqueue(level& wheel, const bucket& b) noexcept {
  ++wheel.buckets_queued;
  TIMING_WHEEL_ENGINE_EVENT(pushed, b.number(), 0, b.expiration());
  const std::uint32_t index = b.number() & index_mask;
  const delay_queue::member m = wheel.first_word + index / buckets_per_word;
  if (wheel.occupied.word_of(index) == 0) {
    queue_.push(m, b.expiration());
  } else if (b.expiration() < queue_.expiration(m)) {
    queue_.update(m, b.expiration());
  }
  wheel.occupied.set(index);
}

inline void hierarchical_wheel::dequeue(level& wheel, const bucket& b) noexcept {
  TIMING_WHEEL_ENGINE_EVENT(popped, b.number(), 0, b.expiration());
  if (flushing_ == &b) {
    flushing_ = nullptr;
  }
  const std::uint32_t index = b.number() & index_mask;
  const std::uint32_t bit = index % buckets_per_word;
  const std::uint64_t word = wheel.occupied.clear(index);
  const delay_queue::member m = wheel.first_word + index / buckets_per_word;
  if (word == 0) {
    queue_.erase(m);
  } else if (queue_.expiration(m) == b.expiration()) {
    // The virtual ids of a word's buckets follow in a circle, so the bucket after the earliest is the next that is
    // marked.
    const int steps = std::countr_zero(std::rotr(word, static_cast<int>(bit)));
    const std::uint32_t next = (bit + static_cast<std::uint32_t>(steps)) % buckets_per_word;
    queue_.update(m, wheel.buckets[index - bit + next].expiration());
  }
}

advance_result hierarchical_wheel::flush_until(tick target, std::size_t budget) {
  due_.clear();
  std::size_t left = budget;
  detail::show_what_is_due(due_, [&] {
    while (queue_.front().expiration <= target && left > 0) {
      const auto [expiration, word] = queue_.front();
      level& wheel = level_of(word);
      clock_ = expiration;
      flush(wheel, wheel.at(wheel.virtual_id(expiration)), left);
    }
  });
  const bool more = queue_.front().expiration <= target;
  if (more) [[unlikely]] {
    catch_up(target);
  } else {
    clock_ = target;
  }
  return {due_, more, budget - left, look_ahead()};
}

inline void hierarchical_wheel::flush(level& wheel, bucket& b, std::size_t& budget) {
  if (flushing_ != &b) {
    flushing_ = &b;
    flushed_ = 0;
    ++wheel.flushes;
    TIMING_WHEEL_ENGINE_EVENT(flushed, b.number(), 0, b.expiration());
  }
  const std::size_t before = budget;
  if (wheel.tick_length == 1) {
    expire(b, budget);
  } else {
    cascade(wheel, b, budget);
    TIMING_WHEEL_TRACE_CASCADE(this, b.number() >> index_bits, clock_, before - budget);
  }
  flushed_ += before - budget;
  wheel.largest_flush = std::max(wheel.largest_flush, flushed_);
  if (b.empty()) {
    dequeue(wheel, b);
  }
}

// A bucket of the lowest wheel is one tick: all of it is due.
inline void hierarchical_wheel::expire(bucket& b, std::size_t& budget) {
  do {
    b.flush_front(store_, budget, [&](entry e) {
      due_.push_back(e.which);
      store_.unlink(e.which);
      --size_;
      TIMING_WHEEL_ENGINE_EVENT(due, b.number(), e.which, clock_);
    });
  } while (budget > 0 && !b.empty());
}

// What `insert` decides for a timer that comes, this decides for one that a flush brings back: nearer wheel, or due.
inline void hierarchical_wheel::add_or_run(level& origin, const bucket& b, entry e) {
  const tick deadline = deadline_of(origin, b, e);
  if (deadline <= clock_) {
    due_.push_back(e.which);
    store_.unlink(e.which);
    --size_;
    TIMING_WHEEL_ENGINE_EVENT(due, b.number(), e.which, clock_);
  } else {
    TIMING_WHEEL_ENGINE_EVENT(moved, b.number(), e.which, deadline);
    link(level_below(origin, deadline), deadline, e);
    ++origin.moves;
  }
}

void hierarchical_wheel::cascade(level& origin, bucket& b, std::size_t& budget) {
  do {
    b.prefetch_second_chunk();
    b.flush_front(store_, budget, [&](entry e) { add_or_run(origin, b, e); });
  } while (budget > 0 && !b.empty());
}

inline tick hierarchical_wheel::deadline_of(const level& wheel, const bucket& b, entry e) const noexcept {
  return wheel.far ? far_deadlines_.deadline_of(e) : b.deadline_of(e);
}

bool hierarchical_wheel::shrink_some() noexcept { return store_.shrink_some(); }

void hierarchical_wheel::read(engine_stats& counted) const {
  counted.levels.clear();
  counted.heap_operations = queue_.operations();
  counted.moves_saved = moves_saved_;
  counted.wakeups_shared = wakeups_shared_;
  counted.bytes = store_.bytes() + queue_.bytes() + due_.capacity() * sizeof(timer_number);
  for (const level& wheel : levels_) {
    level_stats& one = counted.levels.emplace_back();
    one.tick_length = wheel.tick_length;
    one.wheel_size = wheel.size;
    one.interval = wheel.interval;
    one.current_time = clock_ - clock_ % wheel.tick_length;
    one.moves = wheel.moves;
    one.flushes = wheel.flushes;
    one.largest_flush = wheel.largest_flush;
    one.buckets_queued = wheel.buckets_queued;
    counted.bytes += (std::size_t{wheel.ring_mask} + 1) * sizeof(bucket) + wheel.occupied.bytes();
  }
}

bool hierarchical_wheel::level_holds(const level& wheel, std::size_t& timers, std::size_t& words) const {
  for (std::uint32_t i = 0; i <= wheel.ring_mask; ++i) {
    const bucket& b = wheel.buckets[i];
    if (wheel.occupied.has(i) == b.empty() || !b.invariants_hold(store_)) {  // 4
      return false;
    }
    if (b.empty()) {
      continue;
    }
    timers += b.size(store_);
    const tick id = wheel.virtual_id(b.expiration());
    if (id * wheel.tick_length != b.expiration() || (id & wheel.ring_mask) != i) {  // 2
      return false;
    }
    const bool ends = wheel.interval != never;
    if (b.expiration() < clock_ || (ends && id - wheel.virtual_id(clock_) >= wheel.size)) {  // 3
      return false;
    }
    bool within = true;
    b.for_each(store_, [&](const entry& e) { within = within && wheel.virtual_id(deadline_of(wheel, b, e)) == id; });
    if (!within) {  // 2
      return false;
    }
  }
  for (std::uint32_t w = 0; w < wheel.occupied.words(); ++w) {
    const delay_queue::member m = wheel.first_word + w;
    const bool occupied = wheel.occupied.word_of(w * buckets_per_word) != 0;
    if (queue_.contains(m) != occupied) {  // 4
      return false;
    }
    if (occupied) {
      ++words;
      tick first = never;
      for (std::uint32_t i = w * buckets_per_word; i < (w + 1) * buckets_per_word; ++i) {
        first = wheel.buckets[i].empty() ? first : std::min(first, wheel.buckets[i].expiration());
      }
      if (queue_.expiration(m) != first) {  // 4
        return false;
      }
    }
  }
  return true;
}

bool hierarchical_wheel::invariants_hold() const {
  std::size_t timers = 0;
  std::size_t words = 0;
  tick expected = 1;
  for (const level& wheel : levels_) {
    if (wheel.tick_length != expected || !level_holds(wheel, timers, words)) {  // 1
      return false;
    }
    expected = wheel.interval;
  }
  return timers == size_ && words == queue_.size() && queue_.invariants_hold();  // 5, 4
}

}  // namespace timing_wheel

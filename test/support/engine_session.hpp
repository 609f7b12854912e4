#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <new>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "fuzz/input.hpp"
#include "support/allocation.hpp"
#include "support/oracle.hpp"
#include "timing_wheel/engine/hashed_wheel.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"

namespace timing_wheel::test {

/// Bytes become the options of an engine and operations on it; after each it is compared with an ordered map.
/// What does not agree is thrown as a `std::logic_error`, which ends the fuzzer.
template <timer_engine Engine>
class engine_session {
 public:
  explicit engine_session(fuzz::input bytes) : bytes_(bytes), options_(read_options(bytes_)), engine_(options_) {}

  void run() {
    expect(!succeeds_with(0, [] { ::operator delete(::operator new(1)); }), "memory can be made scarce");
    check();
    while (!bytes_.empty()) {
      step();
      check();
    }
    fire_the_rest();
    check();
  }

 private:
  static void expect(bool holds, const char* claim) { holds ? void() : throw std::logic_error(claim); }

  static constexpr timer_number common_slots = 256;       // they fill a few chunks
  static constexpr timer_number distant_slot = 2 * 4096;  // in another page than the common ones

  static tick after(tick now, tick delay) { return delay > never - now ? never : now + delay; }
  static tick before(tick now, tick distance) { return now - std::min(now, distance); }

  // Small wheels, that make many levels, and a few large ones, that make the delay queue deep.
  static std::uint32_t read_wheel_size(fuzz::input& bytes) {
    const std::uint8_t size = bytes.byte();
    return size < 240 ? 2U + size : 64U * (size - 236U);
  }

  static engine_options read_options(fuzz::input& bytes) {
    engine_options options;
    options.wheel_size = read_wheel_size(bytes);
    const std::uint8_t form = bytes.byte();
    for (int level = form % 8; level < 4; ++level) {
      options.wheel_sizes.push_back(read_wheel_size(bytes));
    }
    const tick start = form < 64 ? 0 : bytes.number();
    options.start = form < 128 ? before(never - 1, start) : std::min(start, never - 1);
    return options;
  }

  // Arguments are read one after the other, so that an input means the same to each compiler.
  void step() {
    const std::uint8_t which = bytes_.below(12);
    if (which == 6) {
      return catch_up(read_time());
    }
    if (which == 11) {
      return shrink(bytes_.below(32));
    }
    if (which >= 8) {
      const tick now = read_time();
      const std::size_t budget = read_budget();
      return which == 8 ? advance_with_little_memory(now, budget, bytes_.below(4)) : advance(now, budget);
    }
    const timer_number s = read_slot();
    switch (which) {
      case 0:
      case 1:
        return insert(s, read_time());
      case 2:
        return insert_burst(s, read_time());
      case 3:
        return reserve(s, read_time());
      case 4:
        return insert_with_little_memory(s, read_time());
      default:
        return erase(s);
    }
  }

  // Some steps; the rest may come later, with other operations between.
  void shrink(std::size_t steps) {
    while (steps-- != 0 && engine_.shrink_some()) {
    }
  }

  timer_number read_slot() {
    const std::uint8_t s = bytes_.byte();
    return s == 255 ? distant_slot : s;
  }

  tick read_time() {
    window_.reset();
    switch (bytes_.below(9)) {
      case 8: {
        const tick deadline = after(engine_.now(), bytes_.number());
        window_ = bytes_.number();
        return recent_ = coalesced(deadline_ = deadline, *window_);
      }
      case 0:
        return recent_;
      case 1:
        return recent_ = after(recent_, bytes_.byte());
      case 2:
        return before(engine_.now(), bytes_.number());
      case 3:
        return recent_ = after(engine_.next_expiration().value_or(engine_.now()), bytes_.below(4)) - 1;
      case 4:
        return recent_ = after(expected_.earliest().value_or(engine_.now()), bytes_.below(4)) - 1;
      case 5:
        return recent_ = before(never, bytes_.number());
      default:
        return recent_ = after(engine_.now(), bytes_.number());
    }
  }

  tick coalesced(tick deadline, tick window) const {
    const tick chosen = engine_.coalesce(deadline, window);
    expect(chosen >= deadline && chosen - deadline <= window, "a timer falls due in its window");
    return chosen;
  }

  std::size_t read_budget() {
    const std::uint8_t budget = bytes_.byte();
    return budget < 128 ? budget : no_limit;
  }

  void insert(timer_number s, tick deadline) {
    if (expected_.contains(s)) {
      return;
    }
    const bool pending = deadline > engine_.now();
    const bool taken = window_ && deadline == recent_ ? insert_within(s, deadline) : engine_.insert(s, deadline);
    expect(taken == pending, "insert takes exactly what lies ahead of the clock");
    expect(engine_.contains(s) == pending, "a timer that was taken is linked, and no other");
    if (pending) {
      expected_.insert(s, deadline);
    }
  }

  // What a window saves is what a wheel does at this clock that has nothing but this timer.
  bool insert_within(timer_number s, tick put_off) {
    const engine_stats before = engine_.stats();
    const bool taken = engine_.insert(s, deadline_, *window_);
    const engine_stats after = engine_.stats();
    const std::uint64_t moves = moves_alone(put_off);
    const std::uint64_t saved = std::max(moves, moves_alone(deadline_)) - moves;
    const bool shared = has_levels && taken && moves == 0 && buckets_queued(after) == buckets_queued(before);
    expect(after.moves_saved - before.moves_saved == (taken ? saved : 0), "the moves are counted that a window saves");
    expect(after.wakeups_shared - before.wakeups_shared == (shared ? 1 : 0), "and the timers that fire with another");
    return taken;
  }

  static constexpr bool has_levels = std::same_as<Engine, hierarchical_wheel>;

  [[nodiscard]] std::uint64_t moves_alone(tick deadline) const {
    if (!has_levels) {
      return 0;
    }
    engine_options options = options_;
    options.start = engine_.now();
    Engine alone(options);
    alone.insert(0, deadline);
    alone.advance(deadline);
    return alone.stats().moves();
  }

  static std::uint64_t buckets_queued(const engine_stats& counted) {
    return std::accumulate(counted.levels.begin(), counted.levels.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const level_stats& level) { return sum + level.buckets_queued; });
  }

  void insert_burst(timer_number from, tick first) {
    const tick distance = (tick{1} << bytes_.below(9)) / 2;
    const unsigned count = 1U + bytes_.byte();
    for (unsigned i = 0; i < count; ++i) {
      insert((from + i) % common_slots, after(first, i * distance));
    }
  }

  void erase(timer_number s) {
    expect(engine_.contains(s) == expected_.contains(s), "contains knows what is pending");
    expect(engine_.erase(s) == expected_.take(s).has_value(), "erase takes exactly what is pending");
    expect(!engine_.contains(s), "a timer that was erased is not linked");
  }

  void reserve(timer_number s, tick deadline) {
    engine_.reserve(s, deadline);
    erase(s);
    if (bytes_.below(2) == 0) {
      erase(read_slot());
    }
    if (deadline > engine_.now()) {
      expect(succeeds_with(0, [&] { engine_.insert(s, deadline); }), "an insert that was reserved needs no memory");
      expected_.insert(s, deadline);
    }
  }

  void insert_with_little_memory(timer_number s, tick deadline) {
    const std::uint64_t memory = bytes_.below(3);
    if (expected_.contains(s) || deadline <= engine_.now()) {
      return;
    }
    if (succeeds_with(memory, [&] { engine_.insert(s, deadline); })) {
      expected_.insert(s, deadline);
    } else {
      expect(!engine_.contains(s), "an insert that finds no memory links nothing");
    }
  }

  void catch_up(tick now) {
    const tick old = engine_.now();
    engine_.catch_up(now);
    const tick next = engine_.next_expiration().value_or(never);
    expect(engine_.now() >= old, "catch_up does not go back");
    expect(engine_.now() <= std::max(old, std::min(now, never - 1)), "catch_up does not pass its goal");
    expect(engine_.now() == old || engine_.now() < next, "catch_up stops before what is pending");
    expect(engine_.now() == old || engine_.now() == now || engine_.now() + 1 == next, "catch_up goes as far as it can");
  }

  void advance(tick now, std::size_t budget) { compare(engine_.advance(now, budget), now, budget); }

  void advance_with_little_memory(tick now, std::size_t budget, std::uint64_t memory) {
    advance_result result;
    const tick old = engine_.now();
    const bool done = succeeds_with(memory, [&] { result = engine_.advance(now, budget); });
    if (done) {
      compare(result, now, result.more ? result.handled : budget);  // it may end early, but must say so
    }
    expect(engine_.now() >= old && engine_.now() <= std::max(old, now), "the clock moves towards its goal");
  }

  void compare(const advance_result& result, tick now, std::size_t budget) {
    const tick target = std::max(engine_.now(), std::min(now, never - 1));
    expect(result.handled <= budget, "no more is handled than the budget");
    expect(result.due.size() <= result.handled, "what is due was handled");
    for (const timer_number s : result.due) {
      const auto deadline = expected_.take(s);
      expect(deadline.has_value(), "what comes out was pending");
      expect(*deadline <= target, "nothing is early");
      expect(!engine_.contains(s), "what comes out is not linked");
    }
    expect(result.more == (engine_.next_expiration().value_or(never) <= target), "more says whether work is left");
    expect(!result.more || result.handled == budget, "the budget is used up if work is left");
    expect(result.more || expected_.earliest().value_or(never) > target, "nothing due is left behind");
    expect(result.more || engine_.now() == target, "the clock gets there if no work is left");
  }

  // From expiration to expiration: now each comes out exactly at its deadline.
  void fire_the_rest() {
    advance(engine_.now(), no_limit);
    for (auto next = next_stop(); next.value_or(never) < never; next = next_stop()) {
      expect(engine_.next_expiration() > engine_.now(), "the next expiration lies ahead when no work is left");
      const advance_result result = engine_.advance(*next, no_limit);
      expect(result.handled > 0, "there was something to do");
      for (const timer_number s : result.due) {
        expect(expected_.take(s) == *next, "each comes out at its deadline");
      }
      expect(expected_.earliest().value_or(never) > *next, "nothing due is left behind");
    }
    expect(expected_.earliest().value_or(never) == never, "only what is due at the end of time is left");
  }

  // The next expiration; but an engine that wakes on every tick goes to the next deadline at once.
  [[nodiscard]] std::optional<tick> next_stop() const {
    return std::same_as<Engine, hashed_wheel> ? expected_.earliest() : engine_.next_expiration();
  }

  void check() const {
    expect(engine_.invariants_hold(), "the invariants");
    expect(engine_.size() == expected_.size(), "size counts what is pending");
    const auto next = engine_.next_expiration();
    const auto earliest = expected_.earliest();
    expect(next.has_value() == earliest.has_value(), "there is a next expiration exactly if something is pending");
    expect(next <= earliest, "the next expiration is not after the earliest deadline");
    expect(engine_.now() < never, "the clock never reaches the end of time");
  }

  fuzz::input bytes_;
  const engine_options options_;
  Engine engine_;
  oracle expected_;
  tick recent_ = 0;
  tick deadline_ = 0;           // for which `recent_` was chosen
  std::optional<tick> window_;  // if it was, in this step
};

}  // namespace timing_wheel::test

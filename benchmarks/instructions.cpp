// A fixed piece of work for each operation, to count its instructions under Valgrind; tools/budget/budget.py does
// that.
//
//     instructions            all of them, which must do what they should; prints them as JSON, with the compiler
//     instructions NAME       that one
//
// What is counted is `counted`. The same work comes before it, twice, so that memory and wheels are as they stay.
// Numbers are the same in every run; those of `timer` within 1 %, because it depends on the time which bucket a
// deadline is in.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "timing_wheel/engine/hierarchical_wheel.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t timers = 50'000;
constexpr tick half_hour = 30 * 60 * 1000;
constexpr tick lowest = 1024;  // slots, by default
constexpr tick others = 2048;
constexpr int warm_up_rounds = 2;

// The script looks for this name.
[[gnu::noinline]] void counted(const std::function<void()>& work) { work(); }

/// Does `work` again and again, with what belongs before and after it, and counts the last time.
void in_steady_state(const std::function<void()>& before, const std::function<void()>& work,
                     const std::function<void()>& after) {
  for (int round = 0; round < warm_up_rounds; ++round) {
    before();
    work();
    after();
  }
  before();
  counted(work);
  after();
}

void nothing() {}

void expect(bool holds, std::string_view what) {
  if (!holds) {
    throw std::runtime_error("the work is wrong: " + std::string(what));
  }
}

/// Uniform in [1, limit], the same in each run.
std::vector<tick> delays(tick limit) {
  std::mt19937_64 random(1);
  std::vector<tick> result(timers);
  std::generate(result.begin(), result.end(), [&] { return 1 + random() % limit; });
  return result;
}

std::vector<timer_number> in_random_order() {
  std::mt19937_64 random(2);
  std::vector<timer_number> result(timers);
  std::iota(result.begin(), result.end(), timer_number{0});
  for (std::size_t i = timers - 1; i > 0; --i) {
    std::swap(result[i], result[random() % (i + 1)]);
  }
  return result;
}

/// The engine alone: integer ticks, no lock, no callback.
class wheel_work {
 public:
  static void insert() {
    wheel_work w(half_hour);
    in_steady_state(
        nothing, [&] { w.insert_all(); }, [&] { w.erase_all(); });
  }

  static void erase() {
    wheel_work w(half_hour);
    in_steady_state([&] { w.insert_all(); }, [&] { w.erase_all(); }, nothing);
  }

  /// A bucket of the third wheel goes into 2048 buckets of the second, about 24 into each.
  static void move() {
    constexpr tick bucket = lowest * others;
    wheel_work w(bucket - 1);
    tick expiration = 0;
    const auto moves = [&] { return w.wheel_.stats().moves(); };
    std::uint64_t moved = 0;
    const auto put_into_bucket = [&] {
      expiration += bucket;
      w.insert_all(expiration);
      moved = moves();
    };
    const auto erase_all = [&] {
      moved = moves() - moved;
      w.erase_all();
    };
    in_steady_state(
        put_into_bucket, [&] { w.wheel_.advance(expiration); }, erase_all);
    expect(moved == timers, "moves");
  }

  /// About 50 in each of the 1023 next buckets of the lowest wheel.
  static void due() { due_within(lowest - 1); }

  /// About 36 ms apart, nearly all of them from the wheel above: with their moves, and a bucket for nearly each.
  static void due_in_half_an_hour() { due_within(half_hour); }

 private:
  explicit wheel_work(tick limit) : delays_(delays(limit)) {}

  static void due_within(tick limit) {
    wheel_work w(limit);
    std::uint64_t fired = 0;
    const auto insert_all = [&] {
      w.insert_all(w.wheel_.now());
      fired = 0;
    };
    const auto advance = [&] {
      while (const auto next = w.wheel_.next_expiration()) {
        fired += w.wheel_.advance(*next).due.size();
      }
    };
    in_steady_state(insert_all, advance, [&] { expect(fired == timers, "due"); });
  }

  void insert_all(tick from = 0) {
    for (timer_number s = 0; s < timers; ++s) {
      wheel_.insert(s, from + delays_[s]);
    }
  }

  void erase_all() {
    for (const timer_number s : order_) {
      wheel_.erase(s);
    }
    expect(wheel_.size() == 0, "erase");
  }

  std::vector<tick> delays_;
  std::vector<timer_number> order_ = in_random_order();
  hierarchical_wheel wheel_;
};

/// The service, driven by hand or with its clock and its thread. The latter's poller sleeps all the while, since a
/// timer is pending that comes before those counted, and the thread that calls is the only one counted.
template <class Service, unsigned shards>
class service_work {
 public:
  static void schedule() {
    service_work w(half_hour);
    in_steady_state(
        nothing, [&] { w.schedule_all(); }, [&] { w.cancel_all(); });
  }

  static void schedule_many() {
    service_work w(half_hour);
    in_steady_state(
        nothing, [&] { w.schedule_all_in_groups(); }, [&] { w.cancel_all(); });
  }

  static void cancel() {
    service_work w(half_hour);
    in_steady_state([&] { w.schedule_all(); }, [&] { w.cancel_all(); }, nothing);
  }

  static void reschedule() {
    service_work w(half_hour);
    w.schedule_all();
    in_steady_state(
        nothing, [&] { w.reschedule_all(); }, nothing);
  }

  static void fire() { fire_within(lowest - 1); }
  static void fire_in_half_an_hour() { fire_within(half_hour); }

 private:
  explicit service_work(tick limit) : delays_(delays(limit)) {}

  static void fire_within(tick limit) {
    service_work w(limit);
    std::uint64_t fired = 0;
    const auto schedule_all = [&] {
      w.schedule_all();
      fired = w.fired_;
    };
    const milliseconds all(limit);
    in_steady_state(
        schedule_all, [&] { w.service_.advance_by(all); }, [&] { fired = w.fired_ - fired; });
    expect(fired == timers, "fire");
  }

  void schedule_all() {
    for (std::size_t i = 0; i < timers; ++i) {
      handles_[i] = service_.schedule_after(offset_ + milliseconds(delays_[i]), [this] { ++fired_; }, {.tag = i});
    }
  }

  // The requests are made anew for each group, since a schedule for each makes its callable too.
  void schedule_all_in_groups() {
    std::vector<pending_task> group(100);
    const time_point now = service_.now() + offset_;
    for (std::size_t begin = 0; begin < timers; begin += group.size()) {
      for (std::size_t i = 0; i < group.size(); ++i) {
        group[i].deadline = now + milliseconds(delays_[begin + i]);
        group[i].tag = begin + i;
        group[i].callback = task([this] { ++fired_; });
      }
      service_.schedule_many(group, std::span(handles_).subspan(begin, group.size()));
    }
  }

  void cancel_all() {
    std::uint64_t cancelled = 0;
    for (const timer_number s : order_) {
      cancelled += handles_[s].cancel() == cancel_result::cancelled ? 1U : 0U;
    }
    expect(cancelled == timers, "cancel");
  }

  void reschedule_all() {
    std::uint64_t done = 0;
    for (const timer_number s : order_) {
      done += handles_[s].reschedule_after(offset_ + milliseconds(delays_[timers - 1 - s])) ? 1U : 0U;
    }
    expect(done == timers, "reschedule");
  }

  std::vector<tick> delays_;
  std::vector<timer_number> order_ = in_random_order();
  std::uint64_t fired_ = 0;
  std::vector<timer_handle> handles_ = std::vector<timer_handle>(timers);
  Service service_{{.shards = shards}};
  // With the real clock, an hour away, so that nothing fires and nothing is near enough to wake the poller.
  milliseconds offset_{std::same_as<Service, timer> ? std::chrono::hours(1) : std::chrono::hours(0)};
  timer_handle first_ = service_.schedule_after(milliseconds(half_hour), [] {});
};

struct operation {
  std::string_view name;
  void (*run)();
};

using by_hand = service_work<manual_timer, 1>;
using on_the_clock = service_work<timer, 1>;
using on_two_shards = service_work<timer, 2>;

constexpr operation operations[] = {
    {"hierarchical_wheel.insert", wheel_work::insert},
    {"hierarchical_wheel.erase", wheel_work::erase},
    {"hierarchical_wheel.move", wheel_work::move},
    {"hierarchical_wheel.due", wheel_work::due},
    {"hierarchical_wheel.due_in_half_an_hour", wheel_work::due_in_half_an_hour},
    {"manual_timer.schedule", by_hand::schedule},
    {"manual_timer.schedule_many", by_hand::schedule_many},
    {"manual_timer.cancel", by_hand::cancel},
    {"manual_timer.reschedule", by_hand::reschedule},
    {"manual_timer.fire", by_hand::fire},
    {"manual_timer.fire_in_half_an_hour", by_hand::fire_in_half_an_hour},
    {"timer.schedule", on_the_clock::schedule},
    {"timer.schedule_many", on_the_clock::schedule_many},
    {"timer.cancel", on_the_clock::cancel},
    {"timer.reschedule", on_the_clock::reschedule},
    {"timer.schedule_with_two_shards", on_two_shards::schedule},
};

#if defined(__OPTIMIZE__) && defined(NDEBUG)
constexpr bool release = true;
#else
constexpr bool release = false;
#endif

void run_and_list_all() {
  std::cout << R"({"compiler": ")" TIMING_WHEEL_COMPILER R"(", "processor": ")" TIMING_WHEEL_PROCESSOR
               R"(", "release": )"
            << std::boolalpha << release << R"(, "operations": {)";
  const char* separator = "";
  for (const operation& each : operations) {
    each.run();
    std::cout << separator << '"' << each.name << "\": " << timers;
    separator = ", ";
  }
  std::cout << "}}\n";
}

void run(std::string_view name) {
  const auto* const found = std::ranges::find(operations, name, &operation::name);
  if (found == std::end(operations)) {
    throw std::invalid_argument("no such operation: " + std::string(name));
  }
  found->run();
}

}  // namespace
}  // namespace timing_wheel::bench

int main(int count, char** arguments) {
  try {
    if (count > 1) {
      timing_wheel::bench::run(arguments[1]);
    } else {
      timing_wheel::bench::run_and_list_all();
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "instructions: " << error.what() << '\n';
    return 1;
  }
}

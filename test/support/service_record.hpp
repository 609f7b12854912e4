#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <vector>

#include "support/service_captures.hpp"
#include "support/service_scale.hpp"
#include "support/service_virtual.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace timing_wheel::test {

using namespace std::chrono_literals;
using std::chrono::hours;
using std::chrono::nanoseconds;

inline constexpr hours hundred_years{876600};

/// Schedules numbers and keeps the order in which they ran.
struct recorder {
  explicit recorder(manual_timer& service) : timer(service) {}

  timer_handle after(nanoseconds delay, int number) {
    return timer.schedule_after(delay, [this, number] { ran.push_back(number); });
  }

  manual_timer& timer;
  std::vector<int> ran;
};

struct moment {
  nanoseconds start;  // of the service
  nanoseconds moved;  // and then the clock, before the timer is scheduled
  nanoseconds delay;
};

/// A timer must begin in [deadline, deadline + tick): here it is looked for at the last moment before and the last
/// moment within.
inline void expect_in_its_tick(const timer_options& options, const moment& m) {
  SCOPED_TRACE(testing::Message() << "tick " << options.tick.count() << " start " << m.start.count() << " moved "
                                  << m.moved.count() << " delay " << m.delay.count());
  manual_timer timer(options, starting_at(m.start));
  timer.advance_by(m.moved);
  const time_point deadline = timer.now() + m.delay;
  std::vector<time_point> runs;
  timer.schedule_after(m.delay, [&] { runs.push_back(timer.now()); });
  timer.advance_to(deadline - 1ns);
  ASSERT_TRUE(runs.empty()) << "early";
  timer.advance_to(deadline + options.tick - 1ns);
  ASSERT_EQ(runs.size(), 1U) << "late";
  EXPECT_GE(runs[0], deadline);
  timer.advance_to(deadline + 100 * options.tick);
  EXPECT_EQ(runs.size(), 1U) << "twice";
}

inline constexpr std::size_t many = scaled(1'000'000);

inline std::vector<timer_handle> schedule_far(manual_timer& timer, live_captures& captures, std::size_t count) {
  std::vector<timer_handle> handles;
  handles.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const nanoseconds delay = 1h + static_cast<int>(i % 100'000) * 1ms;
    handles.push_back(timer.schedule_after(delay, [token = captures.make()] {}));
  }
  return handles;
}

}  // namespace timing_wheel::test

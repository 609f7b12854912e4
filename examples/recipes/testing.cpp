// A class takes a timer, and its test decides what time it is. First the class, as it stands in a program. Then its
// test, which hands it a manual_timer. In production it gets a timing_wheel::timer, or the loop_timer of an event loop.

// ---- breaker.hpp: includes nothing of the library ----

#include <chrono>
#include <cstdint>

namespace timing_wheel {
class timer;
}

/// Keeps calls from a server that is down: after three failures it opens, and lets no call pass for ten seconds.
class breaker {
 public:
  explicit breaker(timing_wheel::timer& timer) : timer_(timer) {}
  ~breaker();
  breaker(const breaker&) = delete;
  breaker& operator=(const breaker&) = delete;

  [[nodiscard]] bool lets_pass() const { return failures_ < limit; }
  void failed();
  void succeeded();

 private:
  static constexpr int limit = 3;
  static constexpr std::chrono::seconds pause{10};

  timing_wheel::timer& timer_;
  int failures_ = 0;
  std::uint64_t closing_ = 0;  // the key of its timer
};

// ---- breaker.cpp ----

#include <timing_wheel/timer.hpp>

// Right as it stands in a loop. On the thread of a timing_wheel::timer, failures_ needs a lock, and closing_ is better
// a scoped_timer, which waits for a callback that runs.
void breaker::failed() {
  if (++failures_ == limit) {
    closing_ = timer_.schedule_after(pause, [this] { failures_ = 0; }).key();
  }
}

void breaker::succeeded() {
  if (lets_pass()) {
    failures_ = 0;
  }
}

breaker::~breaker() { timer_.cancel(closing_); }

// ---- breaker_test.cpp ----

#include <iostream>
#include <string>
#include <timing_wheel/manual_timer.hpp>

using namespace std::chrono_literals;

namespace {

bool all_is_well = true;

void expect(bool holds, const std::string& what) {
  std::cout << (holds ? "ok      " : "FAILED  ") << what << '\n';
  all_is_well = all_is_well && holds;
}

void fail_three_times(breaker& server) {
  for (int i = 0; i < 3; ++i) {
    server.failed();
  }
}

void it_opens_after_three_failures() {
  timing_wheel::manual_timer timer;
  breaker server(timer);
  fail_three_times(server);
  expect(!server.lets_pass(), "it opens after three failures");
}

void it_closes_after_ten_seconds_and_not_before() {
  timing_wheel::manual_timer timer;
  breaker server(timer);
  fail_three_times(server);
  timer.advance_by(10s - 1ns);
  expect(!server.lets_pass(), "it is open for ten seconds");
  timer.advance_by(1ms);
  expect(server.lets_pass(), "it closes then");
}

void it_leaves_no_timer_behind() {
  timing_wheel::manual_timer timer;
  {
    breaker server(timer);
    fail_three_times(server);
  }
  expect(timer.pending() == 0, "it leaves no timer behind");
}

}  // namespace

int main() {
  it_opens_after_three_failures();
  it_closes_after_ten_seconds_and_not_before();
  it_leaves_no_timer_behind();
  return all_is_well ? 0 : 1;
}

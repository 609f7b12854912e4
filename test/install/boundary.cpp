// A program and a shared library of its own, both hiding what they do not offer, on one shared timing_wheel: types,
// exceptions and error categories are the same for both.
#include "boundary.hpp"

#include <chrono>
#include <cstdio>
#include <string>
#include <typeinfo>

using namespace std::chrono_literals;

int failures = 0;

void expect(bool holds, const char* what) {
  if (!holds) {
    std::printf("not so: %s\n", what);
    ++failures;
  }
}

template <class Refusal>
bool refused_with(timing_wheel::timer& timer) {
  try {
    boundary::refuse(timer);
  } catch (const Refusal& error) {
    return typeid(error) == typeid(timing_wheel::timer_error) &&
           error.code() == timing_wheel::timer_errc::empty_callback;
  } catch (...) {
  }
  return false;
}

int main() {
  for (const auto engine :
       {timing_wheel::engine_kind::hierarchical, timing_wheel::engine_kind::hashed, timing_wheel::engine_kind::heap}) {
    timing_wheel::manual_timer timer({.engine = engine});
    int runs = 0;
    const auto handle = boundary::schedule(timer, runs);
    timer.advance_by(3s);
    expect(runs == 3 && handle.tag() == 5, "a callback of the shared library runs");
    expect(handle.cancel() == timing_wheel::cancel_result::cancelled, "its timer is cancelled here");
    expect(refused_with<timing_wheel::timer_error>(timer), "its exception is caught by its type");
    expect(refused_with<std::system_error>(timer), "its exception is caught by its base");
    expect(dynamic_cast<timing_wheel::manual_timer*>(static_cast<timing_wheel::timer*>(&timer)) != nullptr,
           "a timer knows its type");
  }
  expect(boundary::runs_a_timer_of_its_own(), "a timer of the shared library's own runs there");
#ifdef TIMING_WHEEL_SHARED
  expect(&boundary::category() == &timing_wheel::timer_category(), "there is one category");
  expect(boundary::asio_category() == &timing_wheel::asio::to_error_code(timing_wheel::timer_errc::stopped).category(),
         "there is one category for Asio");
  expect(boundary::asio_service() == &timing_wheel::asio::wheel_service::id, "there is one service of Asio's contexts");
#endif
  return failures == 0 ? 0 : 1;
}

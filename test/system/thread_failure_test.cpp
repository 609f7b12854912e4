// A system that has no thread left. `pthread_create` of this program stands before that of the system: it fails when
// told to.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <system_error>

#include "support/allocation.hpp"
#include "support/service_wait.hpp"
#include "timing_wheel/timing_wheel.hpp"

namespace {

constexpr int any_number = 1 << 30;
std::atomic<int> threads_left{any_number};
std::atomic<int> refused{0};

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of the system are reserved
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  if (threads_left <= 0) {
    ++refused;
    return EAGAIN;
  }
  --threads_left;
  using create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto next = reinterpret_cast<create>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, start, argument);
}

namespace timing_wheel::test {
namespace {

using namespace std::chrono_literals;

/// Whether a service cannot be made, for want of a thread where there are so many.
bool fails_for_want_of_a_thread(const timer_options& options, int threads = 0) {
  threads_left = threads;
  bool failed = false;
  try {
    const timer service(options);
  } catch (const std::system_error& e) {
    failed = e.code() == std::errc::resource_unavailable_try_again;
  }
  threads_left = any_number;
  return failed;
}

TEST(Timer, WithoutAThreadTheConstructorThrowsASystemError) {
  const int before = refused;
  EXPECT_TRUE(fails_for_want_of_a_thread({}));
  EXPECT_EQ(refused, before + 1);
}

TEST(Timer, WithoutAThreadNothingLeaks) {
  EXPECT_TRUE(fails_for_want_of_a_thread({}));
  const std::size_t before = allocations.live_bytes;
  const std::uint64_t count = allocations.count;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(fails_for_want_of_a_thread({.shards = 3, .executor = [](task&& work) { work(); }}));
  }
  EXPECT_GT(allocations.count, count);
  EXPECT_EQ(allocations.live_bytes, before);
}

TEST(Timer, WithTooFewThreadsForItsPollersThoseThatRunEnd) {
  for (const int threads : {1, 2}) {
    std::atomic<int> begun{0};
    const auto alive = std::make_shared<int>();  // the count of allocations is that of one thread
    EXPECT_TRUE(fails_for_want_of_a_thread({.shards = 3, .pollers = 3, .on_thread_start = [&begun, alive] { ++begun; }},
                                           threads));
    EXPECT_EQ(begun, threads);
    EXPECT_EQ(alive.use_count(), 1);
  }
}

TEST(Timer, AfterAFailureTheNextServiceRuns) {
  EXPECT_TRUE(fails_for_want_of_a_thread({}));
  std::atomic<bool> ran{false};
  timer service;
  service.schedule_after(1ms, [&] { ran = true; });
  EXPECT_TRUE(eventually([&] { return ran.load(); }));
}

TEST(ManualTimer, NeedsNoThread) {
  threads_left = 0;
  manual_timer service;
  bool ran = false;
  service.schedule_after(1ms, [&] { ran = true; });
  service.advance_by(1ms);
  threads_left = any_number;
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace timing_wheel::test

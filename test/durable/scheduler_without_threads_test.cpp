// A scheduler on a system that has no thread left. `pthread_create` of this program stands before that of the system:
// it fails when told to.

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <optional>
#include <system_error>

#include "durable/support/store_calls.hpp"
#include "support/allocation.hpp"
#include "timing_wheel/durable/memory_store.hpp"
#include "timing_wheel/durable/scheduler.hpp"
#include "timing_wheel/manual_timer.hpp"

namespace {

std::atomic<int> threads_left{0};

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the names of the system are reserved
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                              void* argument) noexcept {
  if (threads_left-- <= 0) {
    return EAGAIN;
  }
  using create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto next = reinterpret_cast<create>(dlsym(RTLD_NEXT, "pthread_create"));
  return next(thread, attributes, start, argument);
}

namespace timing_wheel::durable {
namespace {

class SchedulerWithoutThreads : public testing::Test {
 public:
  manual_timer clock;
  memory_store store{clock};
  scheduler_options options{.threads = 3};
};

TEST_F(SchedulerWithoutThreads, TheConstructorThrowsWhicheverThreadCannotBeHad) {
  constexpr int all = 5;  // its own, one that extends leases, and three for handlers
  for (int left = 0; left < all; ++left) {
    threads_left = left;
    const test::caught refused = test::error_of<std::system_error>([this] { const scheduler none(store, options); });
    EXPECT_EQ(refused.code, std::errc::resource_unavailable_try_again) << left;
  }
  threads_left = all;
  const scheduler made(store, options);
  EXPECT_EQ(threads_left, 0);
}

TEST_F(SchedulerWithoutThreads, TheConstructorThrowsWhicheverMemoryCannotBeHad) {
  threads_left = 1'000'000;
  std::optional<scheduler> made;
  std::uint64_t left = 0;
  while (!timing_wheel::test::succeeds_with(left, [&] { made.emplace(store, options); })) {
    ++left;
  }
  EXPECT_GT(left, 5U) << "each thread takes some";
}

}  // namespace
}  // namespace timing_wheel::durable

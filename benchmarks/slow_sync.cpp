// Makes each sync of a program slower, to stand for a disk that waits until the bytes are really there:
//
//     LD_PRELOAD=build/bench/benchmarks/slow_sync.so TIMING_WHEEL_SYNC_DELAY_US=3300 PROGRAM

#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <thread>

namespace {

std::chrono::microseconds delay() {
  static const std::chrono::microseconds chosen = [] {
    const char* wanted = std::getenv("TIMING_WHEEL_SYNC_DELAY_US");  // NOLINT(concurrency-mt-unsafe): nothing sets it
    return std::chrono::microseconds(wanted == nullptr ? 3300 : std::atoll(wanted));
  }();
  return chosen;
}

using sync_function = int (*)(int);

int slowly(sync_function real, int descriptor) {
  std::this_thread::sleep_for(delay());
  return real(descriptor);
}

sync_function next(const char* name) { return reinterpret_cast<sync_function>(dlsym(RTLD_NEXT, name)); }

}  // namespace

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the other name is the library's own
extern "C" int fsync(int descriptor) {
  static const sync_function real = next("fsync");
  return slowly(real, descriptor);
}

// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int fdatasync(int descriptor) {
  static const sync_function real = next("fdatasync");
  return slowly(real, descriptor);
}

#include "common/stop_signal.hpp"

#include <csignal>

namespace common {
namespace {

std::atomic<bool> asked{false};
std::atomic<int> first{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free, "a handler writes them");

extern "C" void note_signal(int number) {
  first.store(number, std::memory_order_relaxed);
  asked.store(true, std::memory_order_release);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void stop_on_signals() {
  std::signal(SIGINT, note_signal);
  std::signal(SIGTERM, note_signal);
}

const std::atomic<bool>& stop_asked() noexcept { return asked; }

int stop_signal() noexcept { return asked.load(std::memory_order_acquire) ? first.load(std::memory_order_relaxed) : 0; }

std::string stop_signal_name() { return stop_signal() == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace common

// trantor's event loop, by its public interface only, on the timers of this folder.

#include <sys/wait.h>
#include <trantor/net/EventLoop.h>
#include <trantor/utils/Logger.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <thread>

namespace {

/// Becomes a daemon, as drogon does: the loop and its timers go on in the child.
void go_on_in_a_child(trantor::EventLoop& loop) {
  const pid_t child = fork();
  if (child != 0) {
    int status = 1;
    waitpid(child, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }
  loop.resetTimerQueue();
}

void run_until_it_throws(trantor::EventLoop& loop) {
  int beats = 0;
  trantor::TimerId heartbeat = trantor::InvalidTimerId;
  heartbeat = loop.runEvery(0.002, [&] {
    if (++beats == 3) {
      loop.invalidateTimer(heartbeat);
    }
  });
  const auto idle = loop.runAfter(0.1, [] { std::cout << "closed\n"; });
  loop.runAfter(0.02, [&] { loop.invalidateTimer(idle); });
  // trantor's own timers would lose what is due together with one that throws.
  const auto at = trantor::Date::now().after(0.05);
  loop.runAt(at, [] { throw std::runtime_error("a callback threw, and the other timers have run"); });
  loop.runAt(at, [&] { std::cout << beats << " heartbeats\n"; });
  go_on_in_a_child(loop);
  try {
    loop.loop();
  } catch (const std::runtime_error& e) {
    std::cout << e.what() << '\n';
  }
}

void run_timers_of_another_thread(trantor::EventLoop& loop) {
  int fired = 0;
  std::jthread other([&] {
    for (int i = 0; i < 1000; ++i) {
      loop.runAfter(i % 20 * 0.001, [&] { ++fired; });
      loop.invalidateTimer(loop.runAfter(0.02, [&] { fired += 1000; }));
    }
    loop.runAfter(0.15, [&] { loop.quit(); });
  });
  loop.loop();
  std::cout << fired << " timers of another thread fired\n";
}

}  // namespace

int main() {
  trantor::Logger::setOutputFunction([](const char* /*text*/, std::uint64_t /*size*/) {}, [] {});
  try {
    trantor::EventLoop loop;
    run_until_it_throws(loop);
    run_timers_of_another_thread(loop);
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}

// A platform's delay tasks, periodic tasks and notifications, all on one wheel; at the end nothing is lost.

#include <algorithm>
#include <cstdint>
#include <string>

#include "story.hpp"

using namespace std::chrono_literals;

int main() {
  timing_wheel::manual_timer timer({.tick = 1s, .wheel_sizes = {60, 60, 24}});  // seconds, minutes, hours

  // Delay tasks: an order that is not paid within half an hour is closed.
  const auto close_unpaid = [&](std::uint64_t order) {
    return timer.schedule_after(30min, [&timer, order] { at(timer) << "order " << order << " is closed\n"; },
                                {.tag = order});
  };
  const auto first = close_unpaid(1);
  close_unpaid(2);

  // Periodic tasks: the report of each hour.
  int reports = 0;
  const auto hourly = timer.schedule_every(1h, [&] { at(timer) << "report " << ++reports << '\n'; });

  // Notifications: each at its time of day.
  const auto notify = [&](std::chrono::seconds time_of_day, const std::string& text, std::uint64_t tag) {
    timer.schedule_at(std::chrono::system_clock::time_point(time_of_day), [&timer, text] { at(timer) << text << '\n'; },
                      {.tag = tag});
  };
  notify(1h + 45min, "the sale begins in a quarter of an hour", 100);
  notify(23h, "the day is nearly over", 101);

  timer.advance_by(10min);
  at(timer) << "order 1 is paid; its task: " << first.cancel() << '\n';
  timer.advance_by(2h);
  close_unpaid(3);
  hourly.cancel();

  auto left = timer.stop();
  std::sort(left.begin(), left.end(), [](const auto& a, const auto& b) { return a.deadline < b.deadline; });
  for (const auto& task : left) {
    at(timer) << "kept for tomorrow: task " << task.tag << '\n';
  }
  const auto stats = timer.stats();
  const bool all_there = stats.scheduled == stats.fired + stats.cancelled + stats.returned + stats.pending;
  at(timer) << (all_there ? "nothing is lost\n" : "something is lost\n");
}

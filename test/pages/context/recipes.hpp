#include <algorithm>
#include <chrono>
#include <cstdint>

struct wake_up {
  void write() const;
};
wake_up make_wake_up();
void sleep_or_serve(const wake_up& wake, int milliseconds);
extern bool stopping;

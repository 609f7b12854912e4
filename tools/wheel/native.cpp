/// \file
/// Runs programs on the native build, and writes their events: the bytes that the browser's build has in its memory. It
/// reads one call a line: m(ake), a(dd), c(ancel), w(heel_advance) with its arguments; e ends a program.

#include <cstdint>
#include <cstdio>

extern "C" {
void wheel_make(unsigned, unsigned, unsigned, unsigned, unsigned, double);
int wheel_add(unsigned, unsigned, double);
int wheel_cancel(unsigned, unsigned);
int wheel_advance(unsigned, double, unsigned);
const void* wheel_events(unsigned);
unsigned wheel_event_count(unsigned);
double wheel_count(unsigned, unsigned);
}

int main() {
  char what = 0;
  unsigned engine = 0;
  double n[5];
  while (std::scanf(" %c %u %lf %lf %lf %lf %lf", &what, &engine, &n[0], &n[1], &n[2], &n[3], &n[4]) == 7) {
    const auto first = static_cast<unsigned>(n[0]);
    switch (what) {
      case 'm':
        wheel_make(engine, first, static_cast<unsigned>(n[1]), static_cast<unsigned>(n[2]), static_cast<unsigned>(n[3]),
                   n[4]);
        break;
      case 'a':
        wheel_add(engine, first, n[1]);
        break;
      case 'c':
        wheel_cancel(engine, first);
        break;
      case 'w':
        wheel_advance(engine, n[0], static_cast<unsigned>(n[1]));
        break;
      default:
        for (unsigned count = 0; count < 9; ++count) {
          const double value = count == 7 ? 0 : wheel_count(engine, count);  // bytes differ: pointers do
          std::fwrite(&value, sizeof value, 1, stdout);
        }
        const std::uint32_t events = wheel_event_count(engine);
        std::fwrite(&events, sizeof events, 1, stdout);
        std::fwrite(wheel_events(engine), 20, events, stdout);
    }
  }
}

#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "timing_wheel/durable/request.hpp"
#include "timing_wheel/timer.hpp"

struct sqlite3;

namespace timing_wheel::durable::sqlite {

/// The clocks of this machine. Tests put others in their place.
struct host_clocks {
  std::chrono::sys_time<std::chrono::nanoseconds> (*wall)();
  std::chrono::nanoseconds (*since_boot)();  // goes on while the machine sleeps
  std::string (*boot)();                     // another one after each start of the machine
};

[[nodiscard]] host_clocks& clocks() noexcept;

/// The row of the clock: that of the machine since its start, plus `offset`. Valid while `boot` names the start.
struct clock_row {
  std::int64_t revision = 0;  ///< Rises whenever the row is set.
  std::string boot;
  std::chrono::microseconds offset{};
};

/// The row that makes the clock of the file show the wall clock, now.
[[nodiscard]] clock_row row_of_wall_clock(std::int64_t revision);

/// The machine's clock since its start. Rounded down, as the offset is: what is due by the clock of the file is due.
[[nodiscard]] std::chrono::microseconds since_boot();

/// What counts the time for a connection: the machine, or the timer of a store in memory.
struct time_source {
  std::string boot;                    ///< Names the start of the machine.
  std::chrono::microseconds passed{};  ///< Since then.
};
[[nodiscard]] time_source time_of(sqlite3* connection);

/// Names no start of a machine.
inline constexpr const char* virtual_boot = "virtual time";

/// While it lives, a timer counts the time for a connection, which is that of a store in memory.
class virtual_clock {
 public:
  virtual_clock(sqlite3* connection, const timer& counts);
  virtual_clock(const virtual_clock&) = delete;
  virtual_clock& operator=(const virtual_clock&) = delete;
  ~virtual_clock();

  /// In a child of `fork`: those of the parent are left behind. Their lock may be held for ever here.
  static void leave_all() noexcept;

  [[nodiscard]] std::chrono::microseconds passed() const;

 private:
  sqlite3* connection_;
  const timer& counts_;
};

/// What the clock of the row shows.
[[nodiscard]] instant reading_of(const clock_row& row);

/// The clock of the file as this process knows it. Thread safety: any thread.
class file_clock {
 public:
  /// A row that was read, or is committed. An older one than the one known is ignored: a reader may come late with it.
  void saw(const clock_row& row);
  /// What it shows; nothing before a row was seen that is valid.
  [[nodiscard]] std::optional<instant> now() const;

 private:
  mutable std::mutex mutex_;
  std::optional<clock_row> row_;
};

}  // namespace timing_wheel::durable::sqlite

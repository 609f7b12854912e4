#include "durable/sqlite/clock.hpp"

#include <atomic>
#include <fstream>
#include <map>

#include "durable/store/boot_clock.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::durable::sqlite {

namespace {

std::chrono::sys_time<std::chrono::nanoseconds> wall_clock() { return std::chrono::system_clock::now(); }

std::string boot_id() {
  constexpr const char* file = "/proc/sys/kernel/random/boot_id";
  std::string id;
  if (!(std::ifstream(file) >> id)) {
    throw timer_error(std::make_error_code(std::errc::no_such_file_or_directory),
                      std::string("reading ") + file + ", which tells one start of the machine from another");
  }
  return id;
}

// All that live, for the calls that are given a connection alone.
struct virtual_clocks {
  // How many there are: a process without any takes no lock. Relaxed: a thread that uses a connection knows of its
  // store by other means.
  std::atomic<std::size_t> count{0};
  std::mutex mutex;  // guards what follows
  std::map<sqlite3*, const virtual_clock*> of;
};

virtual_clocks& all_virtual_clocks() {
  static virtual_clocks all;
  return all;
}

// It cannot change while the process lives.
std::string cached_boot_id() {
  static const std::string id = boot_id();
  return id;
}

}  // namespace

host_clocks& clocks() noexcept {
  static host_clocks in_use{wall_clock, time_since_boot, cached_boot_id};
  return in_use;
}

virtual_clock::virtual_clock(sqlite3* connection, const timer& counts) : connection_(connection), counts_(counts) {
  virtual_clocks& all = all_virtual_clocks();
  const std::scoped_lock lock(all.mutex);
  all.of.emplace(connection_, this);
  all.count.store(all.of.size(), std::memory_order_relaxed);
}

virtual_clock::~virtual_clock() {
  virtual_clocks& all = all_virtual_clocks();
  const std::scoped_lock lock(all.mutex);
  all.of.erase(connection_);
  all.count.store(all.of.size(), std::memory_order_relaxed);
}

void virtual_clock::leave_all() noexcept { all_virtual_clocks().count.store(0, std::memory_order_relaxed); }

std::chrono::microseconds virtual_clock::passed() const {
  return std::chrono::floor<std::chrono::microseconds>(counts_.now().time_since_epoch());
}

time_source time_of(sqlite3* connection) {
  virtual_clocks& all = all_virtual_clocks();
  if (all.count.load(std::memory_order_relaxed) != 0) {
    const std::scoped_lock lock(all.mutex);
    if (const auto found = all.of.find(connection); found != all.of.end()) {
      return {virtual_boot, found->second->passed()};
    }
  }
  return {clocks().boot(), since_boot()};
}

clock_row row_of_wall_clock(std::int64_t revision) {
  const auto wall =
      clocks().wall();  // read first: what time passes before the other makes the offset smaller, never greater
  const auto offset = wall.time_since_epoch() - clocks().since_boot();
  return {revision, clocks().boot(), std::chrono::floor<std::chrono::microseconds>(offset)};
}

std::chrono::microseconds since_boot() { return std::chrono::floor<std::chrono::microseconds>(clocks().since_boot()); }

instant reading_of(const clock_row& row) { return instant(since_boot() + row.offset); }

void file_clock::saw(const clock_row& row) {
  const std::scoped_lock lock(mutex_);
  if (!row_ || row.revision > row_->revision) {
    row_ = row;
  }
}

std::optional<instant> file_clock::now() const {
  const std::scoped_lock lock(mutex_);
  if (!row_) {
    return std::nullopt;
  }
  return reading_of(*row_);
}

}  // namespace timing_wheel::durable::sqlite

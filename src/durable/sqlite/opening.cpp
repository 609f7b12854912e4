#include "durable/sqlite/opening.hpp"

#include <chrono>
#include <thread>

#include "durable/sqlite/disk_reserve.hpp"
#include "durable/store/range.hpp"
#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::durable::sqlite {

namespace {

// For a file that we create. **How space comes back**: pages that checks leave are used for the next ones, so under a
// steady load a file does not grow beyond its fullest hour. After a peak, `PRAGMA incremental_vacuum` gives what is
// free back to the disk, in steps as small as one likes and beside the running scheduler. VACUUM, the only other way,
// locks all out while it copies the file.
void shape_new_file(database& opened) {
  if (opened.ask({"opening", "PRAGMA page_count"}) == "0") {
    opened.execute({"opening", "PRAGMA page_size=4096"});
    opened.execute({"opening", "PRAGMA auto_vacuum=INCREMENTAL"});
  }
}

// SQLite does not wait for its lock when it changes the mode, since it could wait for itself.
void use_log(database& opened, std::chrono::milliseconds busy_timeout) {
  const auto until =
      timing_wheel::saturating_add(std::chrono::steady_clock::now(), saturating_nanoseconds(busy_timeout));
  while (true) {
    try {
      const std::string mode = opened.ask({"turning the log on", "PRAGMA journal_mode=WAL"});
      if (mode != "wal") {
        fail(opened.get(), "turning the log on", SQLITE_CANTOPEN, "WAL is not possible here; the mode is " + mode);
      }
      return;
    } catch (const timer_error& error) {
      if ((error.code().value() & 0xff) != SQLITE_BUSY || std::chrono::steady_clock::now() > until) {
        throw;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void refuse_read_only(database& opened) {
  if (sqlite3_db_readonly(opened.get(), "main") == 1) {
    fail(opened.get(), "opening", SQLITE_READONLY, "the file cannot be written");
  }
}

std::string damage_in(database& opened) {
  statement check(opened.get(), {"checking the integrity", "PRAGMA integrity_check(10)"});
  execution run = check.run();
  std::string found;
  while (run.step()) {
    found.append(found.empty() ? "" : "; ").append(run.bytes(0));
  }
  return found;
}

// A page that cannot even be read ends the check itself.
void look_through(database& opened) {
  std::string found;
  try {
    found = damage_in(opened);
  } catch (const timer_error& error) {
    if ((error.code().value() & 0xff) != SQLITE_CORRUPT) {
      throw;
    }
    found = error.what();
  }
  if (found != "ok") {
    const char* file = sqlite3_db_filename(opened.get(), "main");
    throw timer_error(make_error_code(errc::store_damaged), std::string(file) + ": " + found);
  }
}

void validate(const sqlite_options& options) {
  validate_range("sqlite_options::busy_timeout", options.busy_timeout, std::chrono::milliseconds(0),
                 std::chrono::milliseconds::max());
  if (sqlite3_threadsafe() == 0) {
    throw timer_error(std::error_code(SQLITE_MISUSE, sqlite_category()), "this SQLite was built for a single thread");
  }
}

}  // namespace

std::unique_ptr<database> open_in_memory(const sqlite_options& options) {
  validate(options);
  return std::make_unique<database>(":memory:", options.busy_timeout);
}

std::unique_ptr<database> open_writer(const std::string& file, const sqlite_options& options) {
  validate(options);
  if (const std::size_t zero = file.find('\0'); zero != std::string::npos) {
    throw timer_error(std::error_code(SQLITE_CANTOPEN, sqlite_category()),
                      "opening " + file.substr(0, zero) + ": the name has a zero byte");
  }
  auto opened = std::make_unique<database>(file, options.busy_timeout, options.read_only);
  if (!options.read_only) {
    refuse_read_only(*opened);
    shape_new_file(*opened);
    use_log(*opened, options.busy_timeout);
    for (const char* pragma : {"PRAGMA synchronous=FULL", "PRAGMA cache_size=-65536",
                               "PRAGMA journal_size_limit=67108864", "PRAGMA secure_delete=FAST"}) {
      opened->ask({"opening", pragma});
    }
    sqlite3_wal_autocheckpoint(opened->get(), log_pages);
  }
  opened->ask({"opening", "PRAGMA schema_version"});  // the first read opens the log
  opened->note_log();
  if (options.check_integrity) {
    look_through(*opened);
  }
  return opened;
}

std::unique_ptr<database> open_reader(const std::string& file, const sqlite_options& options) {
  auto opened = std::make_unique<database>(file, options.busy_timeout, options.read_only);
  opened->ask({"opening", "PRAGMA cache_size=-16384"});
  return opened;
}

}  // namespace timing_wheel::durable::sqlite

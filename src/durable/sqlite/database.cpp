#include "durable/sqlite/database.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "timing_wheel/durable/error.hpp"
#include "timing_wheel/durable/sqlite_store.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel::durable::sqlite {

namespace {

std::string described(sqlite3* connection, std::string_view doing, std::string_view text) {
  const char* file = sqlite3_db_filename(connection, "main");
  std::string all(doing);
  all.append(", ").append(file == nullptr || *file == '\0' ? "database in memory" : file);
  return all.append(": ").append(text);
}

bool has_our_tables(sqlite3* connection) {
  return sqlite3_table_column_metadata(connection, nullptr, "timing_wheel_schema", nullptr, nullptr, nullptr, nullptr,
                                       nullptr, nullptr) == SQLITE_OK;
}

}  // namespace

void fail(sqlite3* connection, std::string_view doing, int code, std::string_view text) {
  throw timer_error(std::error_code(code, sqlite_category()), described(connection, doing, text));
}

void fail_as_ignored(sqlite3* connection) {
  fail(connection, "scheduling", SQLITE_CONSTRAINT_TRIGGER,
       "the table took no check and has none of that key: by a trigger?");
}

void fail(sqlite3* connection, std::string_view doing) {
  const int code = sqlite3_extended_errcode(connection);
  const std::string text = sqlite3_errmsg(connection);
  if (code == SQLITE_ERROR && !has_our_tables(connection)) {
    throw timer_error(make_error_code(errc::no_schema), described(connection, doing, text));
  }
  fail(connection, doing, code, text);
}

execution& execution::bind(std::int64_t value) {
  check(sqlite3_bind_int64(prepared_, ++bound_, value));
  return *this;
}

execution& execution::bind_text(std::string_view value) {
  const char* begin = value.empty() ? "" : value.data();
  check(sqlite3_bind_text64(prepared_, ++bound_, begin, value.size(), SQLITE_STATIC, SQLITE_UTF8));
  return *this;
}

execution& execution::bind_blob(std::string_view value) {
  // A null pointer would bind NULL in place of no bytes.
  const char* begin = value.empty() ? "" : value.data();
  check(sqlite3_bind_blob64(prepared_, ++bound_, begin, value.size(), SQLITE_STATIC));
  return *this;
}

bool execution::step() {
  const int result = sqlite3_step(prepared_);
  if (result != SQLITE_ROW && result != SQLITE_DONE) {
    fail(connection(), doing_);
  }
  return result == SQLITE_ROW;
}

int execution::finish() {
  while (step()) {
  }
  return sqlite3_changes(connection());
}

std::string_view execution::bytes(int column) const {
  const void* begin = sqlite3_column_blob(prepared_, column);
  const int size = sqlite3_column_bytes(prepared_, column);
  return {static_cast<const char*>(begin), static_cast<std::size_t>(size)};
}

void execution::check(int result) const {
  if (result != SQLITE_OK) {
    fail(connection(), doing_);
  }
}

execution statement::run() {
  if (prepared_ == nullptr &&
      sqlite3_prepare_v3(connection_, text_.sql, -1, SQLITE_PREPARE_PERSISTENT, &prepared_, nullptr) != SQLITE_OK) {
    fail(connection_, text_.doing);
  }
  if (executed_ != nullptr) {
    executed_->fetch_add(1, std::memory_order_relaxed);
  }
  return {prepared_, text_.doing};
}

database::database(const std::string& file, std::chrono::milliseconds busy_timeout, bool read_only)
    : busy_timeout_(busy_timeout) {
  const int flags =
      (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(file.c_str(), &connection_, flags, nullptr);
  if (result != SQLITE_OK) {
    const int code = connection_ == nullptr ? result : sqlite3_extended_errcode(connection_);
    const std::string text = connection_ == nullptr ? sqlite3_errstr(result) : sqlite3_errmsg(connection_);
    sqlite3_close_v2(connection_);
    throw timer_error(std::error_code(code, sqlite_category()), "opening " + file + ": " + text);
  }
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_busy_handler(connection_, wait_for_lock, this);
}

void database::execute(query text) {
  statement once(connection_, text);
  once.run().finish();
}

std::string database::ask(query text) {
  statement once(connection_, text);
  execution asked = once.run();
  return asked.step() ? std::string(asked.bytes(0)) : std::string();
}

unsigned database::data_version() const noexcept {
  unsigned version = 0;
  sqlite3_file_control(connection_, "main", SQLITE_FCNTL_DATA_VERSION, &version);
  return version;
}

void database::check_in_place() const {
  int moved = 0;
  sqlite3_file_control(connection_, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved != 0 || (noted_log_ != 0 && noted_log_ != log_inode())) {
    fail(connection_, "looking for the file", SQLITE_READONLY_DBMOVED,
         "it, or its -wal, was deleted, renamed or replaced while it was open");
  }
}

void database::note_log() { noted_log_ = log_inode(); }

std::uint64_t database::log_inode() const noexcept {
  struct stat found {};
  const char* file = sqlite3_filename_wal(sqlite3_db_filename(connection_, "main"));
  return stat(file, &found) == 0 ? found.st_ino : 0;
}

// SQLite's own handler sleeps up to 100 ms, in which a busy neighbour commits hundreds of times.
int database::wait_for_lock(void* self, int times) noexcept {
  using namespace std::chrono_literals;
  auto& that = *static_cast<database*>(self);
  const auto now = std::chrono::steady_clock::now();
  if (times == 0) {
    that.waiting_until_ =
        timing_wheel::saturating_add(that.waits_since_.value_or(now), saturating_nanoseconds(that.busy_timeout_));
  }
  if (now >= that.waiting_until_) {
    return 0;
  }
  that.has_waited_ = true;
  const std::chrono::microseconds next = std::min(longest_nap, std::chrono::microseconds(50U << std::min(times, 5)));
  std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(next, that.waiting_until_ - now));
  return 1;
}

}  // namespace timing_wheel::durable::sqlite

#include "durable/sqlite/disk_reserve.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <string>
#include <utility>

namespace timing_wheel::durable::sqlite {

namespace {

using namespace std::chrono_literals;

// A file grows by so much at a time.
constexpr int step = 65536;

// Whether the disk says that a file may become so large; so another reason has kept it from growing.
bool has_room(sqlite3* connection, std::int64_t size) noexcept {
  const char* file = sqlite3_db_filename(connection, "main");
  struct stat found {};
  struct statvfs disk {};
  if (stat(file, &found) != 0 || statvfs(file, &disk) != 0) {
    return true;
  }
  const std::int64_t rounded = (size + step - 1) / step * step;
  return disk.f_bavail * disk.f_frsize >= static_cast<std::uint64_t>(std::max(rounded - found.st_size, std::int64_t{}));
}

// Those of the last commit: the word at byte 20 of the header of the shared index of the log, in the machine's order,
// as SQLite's "WAL-mode file format" has it. 0 if that is not known, or if nothing was written since the log was made.
//
// The calling connection holds SQLite's write lock (`reserve`). Every change of that header needs it: a commit, a log
// that begins anew, also by a checkpoint, and a recovery. A checkpoint without it changes what lies behind the header.
// So no other thread or process writes the word meanwhile, and taking the lock has made its last value visible. What
// this transaction has put into the log before its commit does not change the word.
std::int64_t committed_pages(sqlite3_file* file) noexcept {
  constexpr int region = 32768;
  constexpr std::uint32_t version = 3007000;
  void volatile* index = nullptr;
  if (file->pMethods->iVersion < 2 || file->pMethods->xShmMap(file, 0, region, 0, &index) != SQLITE_OK ||
      index == nullptr) {
    return 0;
  }
  const auto* words = static_cast<const volatile std::uint32_t*>(index);
  return words[0] == version ? words[5] : 0;
}

// A checkpoint makes a file as short as its pages are.
constexpr std::int64_t fewest_ahead = 16;
constexpr std::int64_t most_ahead = 2048;

}  // namespace

disk_reserve::disk_reserve(database& writer)
    : writer_(writer),
      page_size_(std::stoll(writer.ask({"opening", "PRAGMA page_size"}))),
      count_pages_(writer.get(), {"committing", "PRAGMA page_count"}) {
  int size = step;
  sqlite3_file_control(writer_.get(), "main", SQLITE_FCNTL_CHUNK_SIZE, &size);
}

// How many pages this commit adds is known only to a statement, which costs as much as one that schedules. So there is
// room for twice what one has added so far; and only if the disk does not have that, the statement asks.
void disk_reserve::reserve() {
  sqlite3_file* file = nullptr;
  sqlite3_file_control(writer_.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (file == nullptr || file->pMethods == nullptr) {
    return;  // in memory
  }
  std::int64_t pages = committed_pages(file);
  if (pages == 0) {
    sqlite3_int64 size = 0;
    file->pMethods->xFileSize(file, &size);
    pages = size / page_size_;
  }
  ahead_ = known_ == 0 ? fewest_ahead : std::clamp(2 * (pages - known_), ahead_, most_ahead);
  known_ = pages;
  if (grow_to(pages + ahead_)) {
    return;
  }
  execution run = count_pages_.run();
  if (run.step() && !grow_to(run.integer(0))) {
    refused_ = true;
    fail(writer_.get(), "committing", SQLITE_FULL, "the disk has no room for the file to grow");
  }
}

// A file system that cannot take room in advance goes on without.
bool disk_reserve::grow_to(std::int64_t pages) noexcept {
  sqlite3_int64 size = pages * page_size_;
  const int result = sqlite3_file_control(writer_.get(), "main", SQLITE_FCNTL_SIZE_HINT, &size);
  return result != SQLITE_FULL && (result != SQLITE_IOERR_WRITE || has_room(writer_.get(), size));
}

bool disk_reserve::was_full() noexcept {
  return std::exchange(refused_, false) || (sqlite3_errcode(writer_.get()) & 0xff) == SQLITE_FULL;
}

// A log that has not the room for 16 000 pages is copied back when it is half as long as it became.
void disk_reserve::clear_log() noexcept {
  const time now = std::chrono::steady_clock::now();
  if (now < next_clearing_) {
    return;
  }
  next_clearing_ = now + 100ms;
  int length = 0;
  int copied = 0;
  sqlite3_wal_checkpoint_v2(writer_.get(), "main", SQLITE_CHECKPOINT_PASSIVE, &length, &copied);
  sqlite3_wal_autocheckpoint(writer_.get(), std::clamp(length / 2, 64, log_pages));
  careful_ = true;
  careful_until_ = now + 1min;
}

void disk_reserve::committed() noexcept {
  if (careful_ && std::chrono::steady_clock::now() > careful_until_) {
    sqlite3_wal_autocheckpoint(writer_.get(), log_pages);
    careful_ = false;
  }
}

}  // namespace timing_wheel::durable::sqlite

#include "durable/support/lossy_vfs.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace timing_wheel::durable::test {

namespace {

using change = lossy_vfs::change;

struct lossy_file {
  lossy_vfs* disk;
  sqlite3_file* real;
};

lossy_file of(sqlite3_file* file) { return {static_cast<lossy_vfs*>(shim_of(file).owner), real_of(file)}; }

bool is_dead(const lossy_file& file) { return file.disk->dead[file.real]; }

void apply(sqlite3_file* real, const change& made) {
  if (made.truncation) {
    real->pMethods->xTruncate(real, made.offset);
  } else if (!made.bytes.empty()) {
    real->pMethods->xWrite(real, made.bytes.data(), static_cast<int>(made.bytes.size()), made.offset);
  }
}

sqlite3_int64 size_of(const lossy_file& file) {
  sqlite3_int64 size = 0;
  file.real->pMethods->xFileSize(file.real, &size);
  for (const change& made : file.disk->unsynced[file.real]) {
    const auto end = made.offset + static_cast<sqlite3_int64>(made.bytes.size());
    size = made.truncation ? made.offset : std::max(size, end);
  }
  return size;
}

int close_file(sqlite3_file* file) {
  const lossy_file lossy = of(file);
  const std::scoped_lock lock(lossy.disk->mutex);
  // What was not synced is lost with the power only; so an orderly end writes it.
  if (!is_dead(lossy)) {
    for (const change& made : lossy.disk->unsynced[lossy.real]) {
      apply(lossy.real, made);
    }
  }
  lossy.disk->unsynced.erase(lossy.real);
  lossy.disk->dead.erase(lossy.real);
  return lossy.real->pMethods->xClose(lossy.real);
}

// What is on the disk, with what lies in the cache above it.
int read_file(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
  const lossy_file lossy = of(file);
  const std::scoped_lock lock(lossy.disk->mutex);
  if (is_dead(lossy)) {
    return SQLITE_IOERR_READ;
  }
  auto* bytes = static_cast<char*>(to);
  const int result = lossy.real->pMethods->xRead(lossy.real, to, size, offset);
  if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) {
    return result;
  }
  for (const change& made : lossy.disk->unsynced[lossy.real]) {
    const auto end = made.offset + static_cast<sqlite3_int64>(made.bytes.size());
    const sqlite3_int64 first = std::max(offset, made.offset);
    const sqlite3_int64 last = std::min(offset + size, made.truncation ? offset + size : end);
    if (first < last && made.truncation) {
      std::memset(bytes + (first - offset), 0, static_cast<std::size_t>(last - first));
    } else if (first < last) {
      std::memcpy(bytes + (first - offset), made.bytes.data() + (first - made.offset),
                  static_cast<std::size_t>(last - first));
    }
  }
  return offset + size > size_of(lossy) ? SQLITE_IOERR_SHORT_READ : SQLITE_OK;
}

int keep(const lossy_file& lossy, change made, int failure) {
  const std::scoped_lock lock(lossy.disk->mutex);
  if (is_dead(lossy)) {
    return failure;
  }
  lossy.disk->unsynced[lossy.real].push_back(std::move(made));
  return lossy.disk->count_call() ? SQLITE_OK : failure;
}

int write_file(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  const auto* bytes = static_cast<const char*>(from);
  return keep(of(file), {offset, std::vector<char>(bytes, bytes + size), false}, SQLITE_IOERR_WRITE);
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  return keep(of(file), {size, {}, true}, SQLITE_IOERR_TRUNCATE);
}

int sync_file(sqlite3_file* file, int flags) {
  const lossy_file lossy = of(file);
  const std::scoped_lock lock(lossy.disk->mutex);
  if (is_dead(lossy) || !lossy.disk->count_call()) {
    return SQLITE_IOERR_FSYNC;
  }
  for (const change& made : std::exchange(lossy.disk->unsynced[lossy.real], {})) {
    apply(lossy.real, made);
  }
  return lossy.real->pMethods->xSync(lossy.real, flags);
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  const lossy_file lossy = of(file);
  const std::scoped_lock lock(lossy.disk->mutex);
  if (is_dead(lossy)) {
    return SQLITE_IOERR_FSTAT;
  }
  *size = size_of(lossy);
  return SQLITE_OK;
}

// The real file would change its size past the cache.
int control_file(sqlite3_file* file, int operation, void* argument) {
  if (operation == SQLITE_FCNTL_SIZE_HINT || operation == SQLITE_FCNTL_CHUNK_SIZE) {
    return SQLITE_NOTFOUND;
  }
  return forwarding_methods.xFileControl(file, operation, argument);
}

constexpr sqlite3_io_methods methods = [] {
  sqlite3_io_methods some = forwarding_methods;
  some.xClose = close_file;
  some.xRead = read_file;
  some.xWrite = write_file;
  some.xTruncate = truncate_file;
  some.xSync = sync_file;
  some.xFileSize = file_size;
  some.xFileControl = control_file;
  return some;
}();

lossy_vfs& disk_of(sqlite3_vfs* shim) { return *static_cast<lossy_vfs*>(shim->pAppData); }

int open_file(sqlite3_vfs* shim, const char* name, sqlite3_file* file, int flags, int* flags_got) {
  file->pMethods = nullptr;
  lossy_vfs& disk = disk_of(shim);
  return disk.has_power() ? disk.shim().open_file(name, file, flags, flags_got, methods) : SQLITE_CANTOPEN;
}

// A file system keeps its own order: what it has deleted is gone.
int delete_file(sqlite3_vfs* shim, const char* name, int sync) {
  lossy_vfs& disk = disk_of(shim);
  sqlite3_vfs* const real = disk.shim().real();
  return disk.has_power() ? real->xDelete(real, name, sync) : SQLITE_IOERR_DELETE;
}

}  // namespace

lossy_vfs::lossy_vfs() : default_("lossy", this, open_file, delete_file) {}

void lossy_vfs::cut_power_after(int calls, std::uint64_t seed) {
  const std::scoped_lock lock(mutex);
  calls_left_ = calls;
  random_.seed(seed);
}

void lossy_vfs::cut_power() {
  const std::scoped_lock lock(mutex);
  if (power_) {
    drop_all();
  }
}

void lossy_vfs::restore_power() {
  const std::scoped_lock lock(mutex);
  power_ = true;
  calls_left_ = -1;
}

bool lossy_vfs::has_power() {
  const std::scoped_lock lock(mutex);
  return power_;
}

bool lossy_vfs::count_call() {
  if (calls_left_ == 0) {
    drop_all();
  }
  if (calls_left_ >= 0) {
    --calls_left_;
  }
  return power_;
}

// Writes reach the disk in any order: each has, or has not, or only up to some byte.
void lossy_vfs::drop_all() {
  power_ = false;
  for (auto& [file, changes] : unsynced) {
    for (change& made : changes) {
      const auto fate = random_() % 4;
      if (fate == 1) {
        made.bytes.resize(made.bytes.empty() ? 0 : random_() % made.bytes.size());
      }
      if (fate <= 1 && !dead[file]) {
        apply(file, made);
      }
    }
    dead[file] = true;
    changes.clear();
  }
}

}  // namespace timing_wheel::durable::test

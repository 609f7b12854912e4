#include "durable/support/small_vfs.hpp"

#include <algorithm>
#include <new>

namespace timing_wheel::durable::test {

namespace {

struct small_file {
  sqlite3_file base;  // first: SQLite sees this
  small_vfs* disk;
  std::string* name;
  sqlite3_file* real;  // in the bytes behind this object
};

small_file& as_small(sqlite3_file* file) { return *reinterpret_cast<small_file*>(file); }
sqlite3_file* real_of(sqlite3_file* file) { return as_small(file).real; }

sqlite3_int64 real_size(sqlite3_file* real) {
  sqlite3_int64 size = 0;
  real->pMethods->xFileSize(real, &size);
  return size;
}

int close_small(sqlite3_file* file) {
  delete as_small(file).name;
  return real_of(file)->pMethods->xClose(real_of(file));
}

int write_small(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  if (!as_small(file).disk->grow(*as_small(file).name, offset + size)) {
    return SQLITE_FULL;
  }
  return real_of(file)->pMethods->xWrite(real_of(file), from, size, offset);
}

int truncate_small(sqlite3_file* file, sqlite3_int64 size) {
  const int result = real_of(file)->pMethods->xTruncate(real_of(file), size);
  as_small(file).disk->set_size(*as_small(file).name, real_size(real_of(file)));
  return result;
}

int control_small(sqlite3_file* file, int operation, void* argument) {
  sqlite3_file* real = real_of(file);
  if (operation == SQLITE_FCNTL_SIZE_HINT &&
      !as_small(file).disk->grow(*as_small(file).name, *static_cast<sqlite3_int64*>(argument))) {
    return SQLITE_FULL;
  }
  const int result = real->pMethods->xFileControl(real, operation, argument);
  if (operation == SQLITE_FCNTL_SIZE_HINT) {
    as_small(file).disk->set_size(*as_small(file).name, real_size(real));
  }
  return result;
}

constexpr sqlite3_io_methods small_methods = {
    2,
    close_small,
    [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
      return real_of(f)->pMethods->xRead(real_of(f), to, size, at);
    },
    write_small,
    truncate_small,
    [](sqlite3_file* f, int flags) { return real_of(f)->pMethods->xSync(real_of(f), flags); },
    [](sqlite3_file* f, sqlite3_int64* size) { return real_of(f)->pMethods->xFileSize(real_of(f), size); },
    [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xLock(real_of(f), level); },
    [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xUnlock(real_of(f), level); },
    [](sqlite3_file* f, int* result) { return real_of(f)->pMethods->xCheckReservedLock(real_of(f), result); },
    control_small,
    [](sqlite3_file*) { return 512; },
    [](sqlite3_file*) { return 0; },
    [](sqlite3_file* f, int page, int size, int extend, void volatile** at) {
      return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, at);
    },
    [](sqlite3_file* f, int offset, int count, int flags) {
      return real_of(f)->pMethods->xShmLock(real_of(f), offset, count, flags);
    },
    [](sqlite3_file* f) { real_of(f)->pMethods->xShmBarrier(real_of(f)); },
    [](sqlite3_file* f, int remove) { return real_of(f)->pMethods->xShmUnmap(real_of(f), remove); },
    nullptr,
    nullptr};

small_vfs& disk_under(sqlite3_vfs* shim) { return *static_cast<small_vfs*>(shim->pAppData); }

int open_small(sqlite3_vfs* shim, const char* name, sqlite3_file* file, int flags, int* flags_got) {
  small_vfs& disk = disk_under(shim);
  auto* real = reinterpret_cast<sqlite3_file*>(&as_small(file) + 1);
  small_file& small = *new (file) small_file{{nullptr}, &disk, nullptr, real};
  const int result = disk.real()->xOpen(disk.real(), name, real, flags, flags_got);
  if (result == SQLITE_OK) {
    small.name = new std::string(name == nullptr ? "" : name);
    small.base.pMethods = &small_methods;
    disk.set_size(*small.name, real_size(real));
  }
  return result;
}

int delete_small(sqlite3_vfs* shim, const char* name, int sync) {
  const int result = disk_under(shim).real()->xDelete(disk_under(shim).real(), name, sync);
  disk_under(shim).set_size(name, 0);
  return result;
}

}  // namespace

small_vfs::small_vfs(std::int64_t capacity)
    : capacity_(capacity), default_("small", sizeof(small_file), this, open_small, delete_small) {}

std::int64_t small_vfs::used() const {
  std::int64_t sum = 0;
  for (const auto& [name, size] : sizes_) {
    sum += size;
  }
  return sum;
}

void small_vfs::take(std::int64_t bytes) {
  const std::scoped_lock lock(mutex_);
  capacity_ -= bytes;
}

void small_vfs::take_all() {
  const std::scoped_lock lock(mutex_);
  capacity_ = used();
}

bool small_vfs::grow(const std::string& name, std::int64_t size) {
  const std::scoped_lock lock(mutex_);
  std::int64_t& known = sizes_[name];
  if (size > known && used() + size - known > capacity_) {
    return false;
  }
  known = std::max(known, size);
  return true;
}

void small_vfs::set_size(const std::string& name, std::int64_t size) {
  const std::scoped_lock lock(mutex_);
  sizes_[name] = size;
}

}  // namespace timing_wheel::durable::test

#include "durable/support/small_vfs.hpp"

#include <algorithm>

namespace timing_wheel::durable::test {

namespace {

small_vfs& disk_under(sqlite3_file* file) { return *static_cast<small_vfs*>(shim_of(file).owner); }
std::string name_of(sqlite3_file* file) { return shim_of(file).name == nullptr ? "" : shim_of(file).name; }

void note_size(sqlite3_file* file) {
  sqlite3_int64 size = 0;
  forwarding_methods.xFileSize(file, &size);
  disk_under(file).set_size(name_of(file), size);
}

int write_small(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  return disk_under(file).grow(name_of(file), offset + size) ? forwarding_methods.xWrite(file, from, size, offset)
                                                             : SQLITE_FULL;
}

int truncate_small(sqlite3_file* file, sqlite3_int64 size) {
  const int result = forwarding_methods.xTruncate(file, size);
  note_size(file);
  return result;
}

int control_small(sqlite3_file* file, int operation, void* argument) {
  const bool sizes = operation == SQLITE_FCNTL_SIZE_HINT;
  if (sizes && !disk_under(file).grow(name_of(file), *static_cast<sqlite3_int64*>(argument))) {
    return SQLITE_FULL;
  }
  const int result = forwarding_methods.xFileControl(file, operation, argument);
  if (sizes) {
    note_size(file);
  }
  return result;
}

constexpr sqlite3_io_methods small_methods = [] {
  sqlite3_io_methods some = forwarding_methods;
  some.xWrite = write_small;
  some.xTruncate = truncate_small;
  some.xFileControl = control_small;
  return some;
}();

int open_small(sqlite3_vfs* shim, const char* name, sqlite3_file* file, int flags, int* flags_got) {
  default_vfs& under = static_cast<small_vfs*>(shim->pAppData)->shim();
  const int result = under.open_file(name, file, flags, flags_got, small_methods);
  if (result == SQLITE_OK) {
    note_size(file);
  }
  return result;
}

int delete_small(sqlite3_vfs* shim, const char* name, int sync) {
  small_vfs& disk = *static_cast<small_vfs*>(shim->pAppData);
  const int result = disk.shim().real()->xDelete(disk.shim().real(), name, sync);
  disk.set_size(name, 0);
  return result;
}

}  // namespace

small_vfs::small_vfs(std::int64_t capacity) : capacity_(capacity), default_("small", this, open_small, delete_small) {}

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

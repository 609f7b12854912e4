#pragma once

#include <sqlite3.h>

#include <new>

namespace timing_wheel::durable::test {

/// A file of such a file system.
struct shim_file {
  sqlite3_file base;   // first: SQLite sees this
  sqlite3_file* real;  // in the bytes behind this object
  void* owner;
  const char* name;  // SQLite keeps it until the file is closed
};

inline shim_file& shim_of(sqlite3_file* file) { return *reinterpret_cast<shim_file*>(file); }
inline sqlite3_file* real_of(sqlite3_file* file) { return shim_of(file).real; }

/// Hand every call on to the real file, but promise nothing of the disk.
inline constexpr sqlite3_io_methods forwarding_methods = {
    2,
    [](sqlite3_file* f) { return real_of(f)->pMethods->xClose(real_of(f)); },
    [](sqlite3_file* f, void* to, int size, sqlite3_int64 at) {
      return real_of(f)->pMethods->xRead(real_of(f), to, size, at);
    },
    [](sqlite3_file* f, const void* from, int size, sqlite3_int64 at) {
      return real_of(f)->pMethods->xWrite(real_of(f), from, size, at);
    },
    [](sqlite3_file* f, sqlite3_int64 size) { return real_of(f)->pMethods->xTruncate(real_of(f), size); },
    [](sqlite3_file* f, int flags) { return real_of(f)->pMethods->xSync(real_of(f), flags); },
    [](sqlite3_file* f, sqlite3_int64* size) { return real_of(f)->pMethods->xFileSize(real_of(f), size); },
    [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xLock(real_of(f), level); },
    [](sqlite3_file* f, int level) { return real_of(f)->pMethods->xUnlock(real_of(f), level); },
    [](sqlite3_file* f, int* result) { return real_of(f)->pMethods->xCheckReservedLock(real_of(f), result); },
    [](sqlite3_file* f, int what, void* argument) {
      return real_of(f)->pMethods->xFileControl(real_of(f), what, argument);
    },
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

/// SQLite's default file system while this lives: the one that was it before, but for how files are opened and deleted.
class default_vfs {
 public:
  /// \param owner `pAppData` in the calls of `open` and `remove`.
  default_vfs(const char* name, void* owner, decltype(sqlite3_vfs::xOpen) open, decltype(sqlite3_vfs::xDelete) remove)
      : real_(sqlite3_vfs_find(nullptr)), shim_(*real_) {
    shim_.szOsFile = static_cast<int>(sizeof(shim_file)) + real_->szOsFile;
    shim_.zName = name;
    shim_.pAppData = owner;
    shim_.xOpen = open;
    shim_.xDelete = remove;
    sqlite3_vfs_register(&shim_, 1);
  }
  default_vfs(const default_vfs&) = delete;
  default_vfs& operator=(const default_vfs&) = delete;
  ~default_vfs() {
    sqlite3_vfs_unregister(&shim_);
    sqlite3_vfs_register(real_, 1);
  }

  [[nodiscard]] sqlite3_vfs* real() const { return real_; }
  /// For `open`: the real file is opened, and these are the methods of what SQLite sees.
  int open_file(const char* name, sqlite3_file* file, int flags, int* flags_got, const sqlite3_io_methods& methods) {
    auto* const real = reinterpret_cast<sqlite3_file*>(&shim_of(file) + 1);
    shim_file& shim = *new (file) shim_file{{nullptr}, real, shim_.pAppData, name};
    const int result = real_->xOpen(real_, name, real, flags, flags_got);
    shim.base.pMethods = result == SQLITE_OK ? &methods : nullptr;
    return result;
  }

 private:
  sqlite3_vfs* real_;
  sqlite3_vfs shim_;
};

}  // namespace timing_wheel::durable::test

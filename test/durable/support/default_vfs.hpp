#pragma once

#include <sqlite3.h>

#include <cstddef>

namespace timing_wheel::durable::test {

/// SQLite's default file system while this lives: the one that was it before, but for how files are opened and deleted.
class default_vfs {
 public:
  /// \param file_size Of what `open` makes, without the real file, which it puts behind that.
  /// \param owner `pAppData` in the calls of `open` and `remove`.
  default_vfs(const char* name, std::size_t file_size, void* owner, decltype(sqlite3_vfs::xOpen) open,
              decltype(sqlite3_vfs::xDelete) remove)
      : real_(sqlite3_vfs_find(nullptr)), shim_(*real_) {
    shim_.szOsFile = static_cast<int>(file_size) + real_->szOsFile;
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

 private:
  sqlite3_vfs* real_;
  sqlite3_vfs shim_;
};

}  // namespace timing_wheel::durable::test

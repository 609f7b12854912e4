#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace timing_wheel::durable::test {

/// A file system for SQLite with so many bytes for all of its files. What needs more of them is refused with
/// SQLITE_FULL, and nothing of it is written.
///
/// It is SQLite's default while it lives. Thread safety: any thread.
class small_vfs {
 public:
  explicit small_vfs(std::int64_t capacity);
  small_vfs(const small_vfs&) = delete;
  small_vfs& operator=(const small_vfs&) = delete;
  ~small_vfs();

  /// What is left less `bytes` is for the files: as if another program had written them.
  void take(std::int64_t bytes);
  /// Takes all that is left. \returns how much that was.
  std::int64_t take_all();
  [[nodiscard]] std::int64_t left();

  /// \cond
  [[nodiscard]] sqlite3_vfs* real() const { return real_; }
  /// \returns whether the file may be so large; if so, it is.
  bool grow(const std::string& name, std::int64_t size);
  void set_size(const std::string& name, std::int64_t size);
  /// \endcond

 private:
  [[nodiscard]] std::int64_t used() const;

  sqlite3_vfs* real_;
  sqlite3_vfs shim_;
  std::mutex mutex_;
  std::int64_t capacity_;
  std::map<std::string, std::int64_t> sizes_;  // by name
};

}  // namespace timing_wheel::durable::test

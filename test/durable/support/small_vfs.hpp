#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "durable/support/default_vfs.hpp"

namespace timing_wheel::durable::test {

/// A file system for SQLite with so many bytes for all of its files. What needs more of them is refused with
/// SQLITE_FULL, and nothing of it is written.
///
/// It is SQLite's default while it lives. Thread safety: any thread.
class small_vfs {
 public:
  explicit small_vfs(std::int64_t capacity);

  /// As if another program had written so many bytes to the disk; less than 0: had deleted them.
  void take(std::int64_t bytes);
  /// The same, with all that is left.
  void take_all();

  /// \cond
  default_vfs& shim() { return default_; }
  /// \returns whether the file may be so large; if so, it is.
  bool grow(const std::string& name, std::int64_t size);
  void set_size(const std::string& name, std::int64_t size);
  /// \endcond

 private:
  [[nodiscard]] std::int64_t used() const;

  std::mutex mutex_;
  std::int64_t capacity_;
  std::map<std::string, std::int64_t> sizes_;  // by name
  default_vfs default_;                        // the last: from here on SQLite calls
};

}  // namespace timing_wheel::durable::test

#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "durable/support/default_vfs.hpp"

namespace timing_wheel::durable::test {

/// A file system for SQLite whose disk has a cache that a power failure loses.
///
/// Writes lie in memory until the file is synced. `cut_power` drops what lies there: each write has, by chance, reached
/// the disk, or only its first bytes, or nothing of it has; from then on every read and write of a file that is open
/// fails. `restore_power` lets new ones be opened. Locks and shared memory are those of the real file system.
///
/// It is SQLite's default while it lives. Thread safety: SQLite's calls come from any thread; power is for one.
class lossy_vfs {
 public:
  lossy_vfs();

  /// The power fails in the `calls`-th write, sync or truncation from now on.
  void cut_power_after(int calls, std::uint64_t seed);
  /// At once, if it has not.
  void cut_power();
  void restore_power();
  [[nodiscard]] bool has_power();

  /// \cond
  struct change {
    sqlite3_int64 offset;
    std::vector<char> bytes;  // none: a truncation to `offset`
    bool truncation;
  };

  default_vfs& shim() { return default_; }
  std::mutex mutex;                                       // guards what follows, and every file
  std::map<sqlite3_file*, std::vector<change>> unsynced;  // by the real file
  std::map<sqlite3_file*, bool> dead;
  /// \returns whether the power is on after this call.
  bool count_call();
  void drop_all();
  /// \endcond

 private:
  int calls_left_ = -1;
  bool power_ = true;
  std::mt19937_64 random_{1};
  default_vfs default_;  // the last: from here on SQLite calls
};

}  // namespace timing_wheel::durable::test

#pragma once

#include <chrono>
#include <cstdint>

#include "durable/sqlite/database.hpp"

namespace timing_wheel::durable::sqlite {

/// Lets a store live on a disk that is full, and go on when there is room again.
///
/// The log begins anew only when all of it has been copied into the file, and that needs as much room as the file grows
/// by. If the log had taken the last of the disk, it could never be copied: room that is freed would go to the log too.
/// So the room in the file is taken **before** a commit goes into the log. Then the log can always be copied, and its
/// own room is used again. Thread safety: for the thread that holds the lock for writing.
class disk_reserve {
 public:
  explicit disk_reserve(database& writer);

  /// In the transaction that is open, right before its commit. Throws SQLITE_FULL if the file cannot grow so far.
  /// \pre The transaction is one that writes (`writing_transaction::check_open`): it holds SQLite's write lock.
  void reserve();
  /// Whether the last call of the connection failed because the disk is full.
  [[nodiscard]] bool was_full() noexcept;
  /// Outside a transaction, after one that failed for that: copies the log back, so that the next one begins it anew.
  /// Waits for nobody. Does nothing within 100 ms of the last time.
  void clear_log() noexcept;
  /// After a commit.
  void committed() noexcept;

 private:
  using time = std::chrono::steady_clock::time_point;

  [[nodiscard]] bool grow_to(std::int64_t pages) noexcept;

  database& writer_;
  std::int64_t page_size_;
  statement count_pages_;
  std::int64_t known_ = 0;  // pages before the last commit
  std::int64_t ahead_ = 0;  // pages to have room for, beyond them
  time next_clearing_{};
  time careful_until_{};
  bool careful_ = false;
  bool refused_ = false;
};

/// The log is copied back at so many pages; with the usual 1 000, keys in random order write each page of the index
/// again and again.
inline constexpr int log_pages = 16000;

}  // namespace timing_wheel::durable::sqlite

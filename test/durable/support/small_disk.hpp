#pragma once

#include <sys/mount.h>
#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "durable/support/scratch_folder.hpp"

namespace timing_wheel::durable::test {

/// A small file system of its own, where that is allowed.
class small_disk {
 public:
  explicit small_disk(const char* options) {
    if (mount("none", folder_.path().c_str(), "tmpfs", MS_NOSUID | MS_NODEV, options) == 0) {
      mounted_ = true;
      chmod(folder_.path().c_str(), 01777);
    }
  }
  small_disk(const small_disk&) = delete;
  small_disk& operator=(const small_disk&) = delete;
  ~small_disk() {
    if (mounted_) {
      umount2(folder_.path().c_str(), MNT_DETACH);
    }
  }
  [[nodiscard]] bool is_there() const { return mounted_; }
  [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

 private:
  timing_wheel::test::scratch_folder folder_;
  bool mounted_ = false;
};

/// Fills the file system of a folder except for so many bytes; its destructor frees them again.
class filler {
 public:
  filler(const std::filesystem::path& folder, std::uintmax_t but_for) : file_(folder / "filler") {
    std::ofstream out(file_, std::ios::binary);
    const std::string page(4096, 'x');
    while (out.write(page.data(), static_cast<std::streamsize>(page.size())) && out.flush()) {
    }
    out.close();
    std::filesystem::resize_file(file_, std::filesystem::file_size(file_) - but_for);
  }
  filler(const filler&) = delete;
  filler& operator=(const filler&) = delete;
  ~filler() {
    std::error_code ignored;
    std::filesystem::remove(file_, ignored);
  }

 private:
  std::filesystem::path file_;
};

}  // namespace timing_wheel::durable::test

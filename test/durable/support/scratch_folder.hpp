#pragma once

#include <filesystem>
#include <random>
#include <string>
#include <system_error>

namespace timing_wheel::test {

/// A folder of its own that is gone with the test.
class scratch_folder {
 public:
  scratch_folder() {
    std::random_device random;
    do {
      path_ = parent() / ("timing_wheel." + std::to_string(random()));
    } while (!std::filesystem::create_directory(path_));
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name = "checks.db") const { return (path_ / name).string(); }

 private:
  // In memory where that is possible: a sync is free there, and what it is for is tested with lossy_vfs.hpp.
  [[nodiscard]] static std::filesystem::path parent() {
    const std::filesystem::path memory = "/dev/shm";
    return std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  }

  std::filesystem::path path_;
};

}  // namespace timing_wheel::test

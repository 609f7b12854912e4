// Lets an allocation of durable checks fail, each in a process of its own, and judges how the checks ended.
//
//     durable_faults [--stride N] [--from N] [STORE...]

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "durable/faults/scenario.hpp"

namespace timing_wheel::durable::test {
namespace {

constexpr unsigned patience = 30;  // seconds
constexpr std::array names{"good", "completion lost", "refused, but ran", "wrong", "stuck", "lost", "hung", "crashed"};
constexpr auto no_fault = std::uint64_t{1} << 62U;

// What a child tells, in memory that both have.
struct told {
  verdict how;
  std::uint64_t allocations;
  std::array<char, 200> about;
};

class child {
 public:
  child(const ground_choice& where, std::uint64_t first, std::uint64_t many)
      : first_(first),
        many_(many),
        told_(static_cast<told*>(
            mmap(nullptr, sizeof(told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (told_ == MAP_FAILED) {
      throw std::runtime_error("mmap");
    }
    std::cout.flush();
    process_ = fork();
    if (process_ == 0) {
      alarm(patience);
      live(where);
      _exit(0);
    }
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() { munmap(told_, sizeof(told)); }

  [[nodiscard]] pid_t process() const { return process_; }
  [[nodiscard]] std::uint64_t first() const { return first_; }
  [[nodiscard]] std::uint64_t many() const { return many_; }

  [[nodiscard]] report end_with(int status) const {
    if (WIFSIGNALED(status)) {
      const int by = WTERMSIG(status);
      return {by == SIGALRM ? verdict::hung : verdict::crashed, "signal " + std::to_string(by), 0};
    }
    if (WEXITSTATUS(status) != 0) {
      return {verdict::crashed, "exit " + std::to_string(WEXITSTATUS(status)), 0};
    }
    return {told_->how, told_->about.data(), told_->allocations};
  }

 private:
  void live(const ground_choice& where) {
    report said;
    try {
      const std::unique_ptr<ground> on = where.make();
      said = run_scenario(*on, first_, many_);
    } catch (const std::exception& failed) {
      said = {verdict::wrong, failed.what(), 0};
    }
    told_->how = said.how;
    told_->allocations = said.allocations;
    std::strncpy(told_->about.data(), said.about.c_str(), told_->about.size() - 1);
  }

  const std::uint64_t first_;
  const std::uint64_t many_;
  told* const told_;
  pid_t process_ = -1;
};

class sweep {
 public:
  explicit sweep(const ground_choice& where) : where_(where) {
    static_cast<void>(where.make());  // what all its runs have in common
    room_ = std::max(1U, std::thread::hardware_concurrency()) * (where.takes_time ? 4 : 1);
  }

  // \returns whether none went wrong.
  bool run(std::uint64_t stride, std::uint64_t from) {
    begin(no_fault, 0);
    end_one();
    const std::uint64_t most = wrong_.empty() ? allocations_ : 0;
    for (std::uint64_t first = from; first <= most; first += stride) {
      begin(first, 1);
    }
    for (std::uint64_t first = from; first <= most; first += 10 * stride) {
      begin(first, 30);
    }
    while (!running_.empty()) {
      end_one();
    }
    std::cout << where_.name << ": " << wrong_.size() << " of " << runs_ << " runs went wrong; " << most
              << " allocations, each " << stride << ". once, each " << 10 * stride << ". and 29 after it\n";
    for (const auto& [how, count] : counts_) {
      std::cout << "  " << names.at(static_cast<std::size_t>(how)) << ": " << count << '\n';
    }
    for (const std::string& one : wrong_) {
      std::cout << "  " << one << '\n';
    }
    return wrong_.empty();
  }

 private:
  void begin(std::uint64_t first, std::uint64_t many) {
    if (running_.size() >= room_) {
      end_one();
    }
    auto next = std::make_unique<child>(where_, first, many);
    const pid_t process = next->process();
    running_.emplace(process, std::move(next));
  }

  void end_one() {
    int status = 0;
    auto ended = running_.end();
    while (ended == running_.end()) {  // a server's shell may end first
      const pid_t process = wait(&status);
      if (process < 0) {
        throw std::runtime_error("no child to wait for");
      }
      ended = running_.find(process);
    }
    const report said = ended->second->end_with(status);
    ++runs_;
    allocations_ = std::max(allocations_, said.allocations);
    if (said.how != verdict::good) {
      ++counts_[said.how];
      const std::string fault = ended->second->many() == 0 ? "no fault"
                                                           : "n = " + std::to_string(ended->second->first()) + ", " +
                                                                 std::to_string(ended->second->many());
      wrong_.push_back(fault + ": " + names.at(static_cast<std::size_t>(said.how)) + ", " + said.about);
    }
    running_.erase(ended);
  }

  const ground_choice& where_;
  std::size_t room_ = 1;
  std::map<pid_t, std::unique_ptr<child>> running_;
  std::uint64_t allocations_ = 0;
  std::size_t runs_ = 0;
  std::map<verdict, std::size_t> counts_;
  std::vector<std::string> wrong_;
};

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) {
    throw std::runtime_error(text + " is not a count");
  }
  return number;
}

// \returns whether none went wrong.
bool run(const std::vector<std::string>& arguments) {
  std::uint64_t stride = 0;  // none was given
  std::uint64_t from = 1;
  std::vector<std::string> stores;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_option = arguments[i] == "--stride" || arguments[i] == "--from";
    if (is_option && i + 1 == arguments.size()) {
      throw std::runtime_error(arguments[i] + " needs a number");
    }
    if (is_option) {
      (arguments[i] == "--stride" ? stride : from) = number_of(arguments[i + 1]);
      ++i;
    } else {
      stores.push_back(arguments[i]);
    }
  }
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("faults-" + std::to_string(getpid()));
  const std::vector<ground_choice> all = all_grounds(folder);
  for (const std::string& name : stores) {
    if (std::none_of(all.begin(), all.end(), [&](const ground_choice& each) { return each.name == name; })) {
      throw std::runtime_error("there is no store " + name);
    }
  }
  bool good = true;
  for (const ground_choice& each : all) {
    if (stores.empty() || std::find(stores.begin(), stores.end(), each.name) != stores.end()) {
      good = sweep(each).run(stride != 0 ? stride : each.by_strides ? 7 : 1, from) && good;
    }
  }
  std::filesystem::remove_all(folder);
  return good;
}

}  // namespace
}  // namespace timing_wheel::durable::test

int main(int argc, char** argv) {
  try {
    return timing_wheel::durable::test::run({argv + 1, argv + argc}) ? 0 : 1;
  } catch (const std::exception& failed) {
    std::cerr << "durable_faults: " << failed.what() << "\nusage: durable_faults [--stride N] [--from N] [STORE...]\n";
    return 2;
  }
}

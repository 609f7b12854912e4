#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "timing_wheel/durable/scheduler.hpp"

// What a scenario runs on: a store, a clock, and a scheduler or a node alone.

namespace timing_wheel::durable::test {

struct kind_to_run {
  std::string name;
  handler_options options;
  leased_handler leased;  // or
  transactional_handler transactional;
  batch_handler batch;
};

/// One life of a node, from its constructor to its end. What it throws are the library's exceptions.
class life {
 public:
  virtual ~life() = default;

  virtual void start() = 0;
  virtual scheduled schedule(const request& asked) = 0;
  virtual std::vector<scheduled> schedule(std::span<const request> asked) = 0;
  virtual void schedule(request asked, scheduler::completion then) = 0;
  virtual cancel_result cancel(std::string_view kind, std::string_view key) = 0;
  virtual reschedule_result reschedule(std::string_view kind, std::string_view key, due_time due) = 0;
  virtual void stop() = 0;
};

class ground {
 public:
  virtual ~ground() = default;

  /// Opens the store, as a new process does.
  virtual void open() = 0;
  [[nodiscard]] virtual store& where() = 0;
  /// The scheduler with its handlers, not yet started.
  [[nodiscard]] virtual std::unique_ptr<life> begin(const std::vector<kind_to_run>& kinds) = 0;
  /// Lets so much time pass.
  virtual void pass(std::chrono::milliseconds time) = 0;
  /// Schedules in a transaction of the user's own.
  virtual void write_as_user(const request& asked) = 0;
};

struct ground_choice {
  std::string name;
  bool takes_time = false;  ///< Its runs sleep, for the most part.
  bool by_strides = false;  ///< Each run is long: not every allocation is tried, unless that is asked for.
  std::function<std::unique_ptr<ground>()> make;
};

/// All that this program was built with. Each is made in a process of its own.
[[nodiscard]] std::vector<ground_choice> all_grounds(const std::string& folder);

}  // namespace timing_wheel::durable::test

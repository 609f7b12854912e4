#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "service/shard.hpp"
#include "service/shard_choice.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::detail {

/// What can be refused before anything is made; the engines check the rest.
/// \throws timer_error (`invalid_option`) naming the value and the range.
void check(const timer_options& options);

/// The shards of a service, and which of them a thread schedules on. Immutable after construction.
class shards {
 public:
  /// \throws timer_error (`invalid_option`) naming the value and the range; std::bad_alloc. \pre `check` lets the
  /// options pass.
  shards(const timer_options& options, const std::shared_ptr<service_context>& context);

  /// That of the calling thread.
  [[nodiscard]] shard& home() noexcept { return only_ != nullptr ? *only_ : *all_[choice_.index(all_.size())]; }

  [[nodiscard]] std::size_t size() const noexcept { return all_.size(); }
  [[nodiscard]] shard& operator[](std::size_t index) const noexcept { return *all_[index]; }
  [[nodiscard]] auto begin() const noexcept { return all_.begin(); }
  [[nodiscard]] auto end() const noexcept { return all_.end(); }

  /// When there is something to do next: 0 if at once, `never` if nothing is pending.
  [[nodiscard]] tick next_event() const noexcept {
    tick next = never;
    for (const auto& s : all_) {
      next = std::min(next, s->next_event());
    }
    return next;
  }
  [[nodiscard]] std::size_t pending() const noexcept;
  void enter(phase next) const noexcept;

 private:
  struct release {
    void operator()(shard* s) const noexcept { s->drop_references(1); }
  };

  std::vector<std::unique_ptr<shard, release>> all_;
  shard* only_ = nullptr;  // of a service with one
  shard_choice choice_;
};

}  // namespace timing_wheel::detail

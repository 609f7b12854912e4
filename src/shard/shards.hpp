#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shard/shard.hpp"
#include "shard/shard_choice.hpp"
#include "timing_wheel/timer_options.hpp"

namespace timing_wheel::detail {

/// What can be refused before anything is made, whoever drives the service; the engines check the rest.
/// \throws timer_error (`invalid_option`) naming the value and the range.
void check(const timer_options& options);

/// Some shards: those of a lane, or all of a service. Immutable.
class shard_group {
 public:
  shard_group() noexcept = default;
  explicit shard_group(std::vector<shard*> members) noexcept : members_(std::move(members)) {}

  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] shard& operator[](std::size_t index) const noexcept { return *members_[index]; }
  [[nodiscard]] auto begin() const noexcept { return members_.begin(); }
  [[nodiscard]] auto end() const noexcept { return members_.end(); }

  /// When there is something to do next: 0 if at once, `never` if nothing is pending.
  [[nodiscard]] tick next_event() const noexcept {
    tick next = never;
    for (const shard* s : members_) {
      next = std::min(next, s->next_event());
    }
    return next;
  }
  [[nodiscard]] std::size_t pending() const noexcept;

 private:
  std::vector<shard*> members_;
};

/// The shards of a service, and which of them a thread schedules on. Immutable after construction.
class shards {
 public:
  /// \throws timer_error (`invalid_option`) naming the value and the range; std::bad_alloc. \pre `check` lets the
  /// options pass, and the context has the lanes.
  shards(const timer_options& options, const std::shared_ptr<service_context>& context);

  /// That of the calling thread.
  [[nodiscard]] shard& home() noexcept { return only_ != nullptr ? *only_ : all_[choice_.index(all_.size())]; }
  /// Makes a shard that of the calling thread.
  void make_home(std::size_t index) noexcept { choice_.assign(index); }

  [[nodiscard]] const shard_group& all() const noexcept { return all_; }
  /// Those of one of `lanes` lanes, to which they are dealt in turn.
  [[nodiscard]] shard_group of_lane(std::uint32_t lane, std::uint32_t lanes) const;

 private:
  struct release {
    void operator()(shard* s) const noexcept { s->drop_references(1); }
  };

  std::vector<std::unique_ptr<shard, release>> made_;
  shard_group all_;
  shard* only_ = nullptr;  // of a service with one
  shard_choice choice_;
};

}  // namespace timing_wheel::detail

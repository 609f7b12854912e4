#include "shard/shards.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "shard/key_code.hpp"
#include "timing_wheel/error.hpp"

namespace timing_wheel::detail {

namespace {

constexpr unsigned most_shards = 1U << shard_bits;

unsigned count_of(const timer_options& options, bool by_hand) {
  if (options.shards != 0 || by_hand) {
    return std::max(options.shards, 1U);
  }
  return std::clamp(std::thread::hardware_concurrency(), options.pollers, most_shards);
}

auto maker_of(engine_kind engine) {
  switch (engine) {
    case engine_kind::hierarchical:
      return &make_shard_on_hierarchical_wheel;
    case engine_kind::hashed:
      return &make_shard_on_hashed_wheel;
    case engine_kind::heap:
      return &make_shard_on_heap_queue;
  }
  throw timer_error(timer_errc::invalid_option, "engine " + std::to_string(static_cast<unsigned>(engine)) +
                                                    " is none of hierarchical, hashed and heap");
}

}  // namespace

void validate(const timer_options& options) {
  if (options.tick < std::chrono::nanoseconds(1)) {
    throw timer_error(timer_errc::invalid_option,
                      "tick " + std::to_string(options.tick.count()) + " ns is not at least 1 ns");
  }
  if (options.shards > most_shards) {
    throw timer_error(timer_errc::invalid_option, "shards " + std::to_string(options.shards) + " is not in [0, " +
                                                      std::to_string(most_shards) + "]");
  }
  const unsigned most_pollers = options.shards == 0 ? most_shards : options.shards;
  if (options.pollers < 1 || options.pollers > most_pollers) {
    throw timer_error(timer_errc::invalid_option, "pollers " + std::to_string(options.pollers) + " is not in [1, " +
                                                      std::to_string(most_pollers) + "], one for each shard at most");
  }
}

shards::shards(const timer_options& options, const std::shared_ptr<service_context>& context) {
  const auto make = maker_of(options.engine);
  const unsigned count = count_of(options, context->clock.by_hand());
  made_.reserve(count);
  try {
    for (std::uint32_t i = 0; i < count; ++i) {
      made_.emplace_back(make({.wheel_size = options.wheel_size,
                               .wheel_sizes = options.wheel_sizes,
                               .huge_pages = options.huge_pages,
                               .start = 0},
                              i, context));
    }
  } catch (const std::invalid_argument& e) {
    throw timer_error(timer_errc::invalid_option, e.what());
  }
  all_ = of_lane(0, 1);
  only_ = count == 1 ? made_.front().get() : nullptr;
}

shard_group shards::of_lane(std::uint32_t lane, std::uint32_t lanes) const {
  std::vector<shard*> members;
  for (std::size_t i = lane; i < made_.size(); i += lanes) {
    members.push_back(made_[i].get());
  }
  return shard_group(std::move(members));
}

std::size_t shard_group::pending() const noexcept {
  std::size_t sum = 0;
  for (const shard* s : members_) {
    sum += s->pending();
  }
  return sum;
}

}  // namespace timing_wheel::detail

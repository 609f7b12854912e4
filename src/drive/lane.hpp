#pragma once

#include <cstdint>

#include "drive/driver.hpp"
#include "drive/poller.hpp"
#include "shard/context.hpp"
#include "shard/shards.hpp"

namespace timing_wheel::detail {

/// Some shards of a service, and what drives them. A service has one lane; with several pollers it has one for each.
///
/// Lanes know nothing of each other: a shard belongs to one of them for ever, and what wakes a driver is in its own
/// shards. Who waits for several lanes waits for one after the other.
class lane {
 public:
  /// \throws std::bad_alloc.
  lane(const shards& all, std::uint32_t index, service_context& context)
      : mine(all.of_lane(index, static_cast<std::uint32_t>(context.sleepers.size()))),
        drive(mine, context),
        thread(drive, mine, context, context.sleepers[index]) {}
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  // Immutable, or thread-safe by themselves.
  const shard_group mine;
  driver drive;
  poller thread;
};

}  // namespace timing_wheel::detail

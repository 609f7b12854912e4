#include "shard/shard_on.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"

namespace timing_wheel::detail {

shard* make_shard_on_hierarchical_wheel(const engine_options& options, std::uint32_t index,
                                        std::shared_ptr<service_context> context) {
  return new shard_on<hierarchical_wheel>(options, index, std::move(context));
}

}  // namespace timing_wheel::detail

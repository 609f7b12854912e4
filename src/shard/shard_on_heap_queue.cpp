#include "shard/shard_on.hpp"
#include "timing_wheel/engine/heap_queue.hpp"

namespace timing_wheel::detail {

shard* make_shard_on_heap_queue(const engine_options& options, std::uint32_t index,
                                std::shared_ptr<service_context> context) {
  return new shard_on<heap_queue>(options, index, std::move(context));
}

}  // namespace timing_wheel::detail

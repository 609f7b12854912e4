#pragma once

#include <vector>

#include "support/allocation.hpp"
#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::test {

/// Advances with memory for `left` allocations. \returns whether there was enough; what is due goes to the end of
/// `due`.
template <timer_engine Engine>
bool advances_with(std::uint64_t left, Engine& engine, tick now, std::vector<timer_number>& due) {
  bool more = true;
  due.reserve(due.size() + engine.size());
  succeeds_with(left, [&] {
    const advance_result result = engine.advance(now);
    due.insert(due.end(), result.due.begin(), result.due.end());
    more = result.more;
  });
  return !more;
}

}  // namespace timing_wheel::test

#include "support/engine_session.hpp"
#include "timing_wheel/engine/heap_queue.hpp"
#include "timing_wheel/engine/hierarchical_wheel.hpp"

// Called by the fuzzer, which knows it by this name; so there is a declaration, and no naming rule.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const timing_wheel::fuzz::input bytes({data, size});
  timing_wheel::test::engine_session<timing_wheel::hierarchical_wheel>(bytes).run();
  timing_wheel::test::engine_session<timing_wheel::hashed_wheel>(bytes).run();
  timing_wheel::test::engine_session<timing_wheel::heap_queue>(bytes).run();
  return 0;
}
// NOLINTEND(readability-identifier-naming)

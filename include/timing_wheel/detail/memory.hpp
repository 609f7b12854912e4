#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <memory>

namespace timing_wheel::detail {

/// Calls `work(context)`. It lies in the library, which catches what headers cannot in a program without exceptions.
/// \returns false if `work` threw `std::bad_alloc`. Other exceptions get out.
[[nodiscard]] bool within_memory(void (*work)(void* context), void* context);

/// The same with any callable. A frame without exceptions destroys nothing when one passes through it.
template <class F>
[[nodiscard]] bool within_memory(F work) {
  return within_memory([](void* context) { (*static_cast<F*>(context))(); }, std::addressof(work));
}

}  // namespace timing_wheel::detail

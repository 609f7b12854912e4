#pragma once

namespace timing_wheel::test {

/// A callback.
inline void nothing() {}

}  // namespace timing_wheel::test

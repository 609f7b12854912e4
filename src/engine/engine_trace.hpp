#pragma once

/// \file
/// What happens inside an engine, event by event, for pictures and tests of it. With TIMING_WHEEL_TRACE_ENGINE an
/// engine calls `trace_engine`, which whoever compiles it so defines. Without it there is nothing: the arguments are
/// not evaluated, and the compiler sees an empty statement.

#if defined(TIMING_WHEEL_TRACE_ENGINE)

#include <cstdint>

#include "timing_wheel/engine/engine.hpp"

namespace timing_wheel::detail {

/// A bucket is told by `bucket::number()`: in a hierarchical wheel the level is in the upper 8 bits.
enum class engine_event : std::uint32_t {
  level_made,  ///< `where`: the level; `which`: its slots; `when`: the length of its tick.
  filled,      ///< Timer `which`, due at `when`, came into bucket `where`.
  pushed,      ///< Bucket `where`, which expires at `when`, entered the delay queue; in a heap, timer `which`.
  popped,      ///< It left the delay queue.
  flushed,     ///< The flush, or in a hashed wheel the visit, of bucket `where` began; it expires at `when`.
  moved,       ///< Timer `which`, due at `when`, left bucket `where` for a lower level; `filled` follows.
  looked,      ///< Timer `which` in bucket `where`, due at `when`, stays there for another round.
  due,         ///< Timer `which` was due, and came out of bucket `where`; `when` is the clock.
  erased,      ///< Timer `which` was cancelled; in a wheel, `when` is 0.
  placed,      ///< Member `which` of a heap, with the key `when`, was put at index `where`.
};

void trace_engine(engine_event what, std::uint32_t where, std::uint32_t which, tick when) noexcept;

}  // namespace timing_wheel::detail

#define TIMING_WHEEL_ENGINE_EVENT(what, where, which, when)                                                           \
  ::timing_wheel::detail::trace_engine(::timing_wheel::detail::engine_event::what, static_cast<std::uint32_t>(where), \
                                       static_cast<std::uint32_t>(which), when)
#define TIMING_WHEEL_IF_TRACED(...) __VA_ARGS__

#else

#define TIMING_WHEEL_ENGINE_EVENT(what, where, which, when) static_cast<void>(0)
#define TIMING_WHEEL_IF_TRACED(...)

#endif

#pragma once

/// \file
/// Trace points of the provider `timing_wheel` (USDT), for bpftrace, perf, SystemTap and gdb. With the CMake option
/// TIMING_WHEEL_TRACE_POINTS each is a `nop`, and a note in the file that says where its arguments are. Without it
/// there is nothing: the arguments are not evaluated, and the compiler sees an empty statement.
///
/// Arguments are what the place has at hand. A shard or a wheel is told by its address, which no other one of the
/// process has at that time; an id by number and generation; a deadline in nanoseconds of the clock of its service.
/// docs/tracing.md is for those who read them.

#if defined(TIMING_WHEEL_TRACE_POINTS)

#include <sys/sdt.h>

/// A timer was accepted. Under the lock of its shard.
#define TIMING_WHEEL_TRACE_SCHEDULE(shard, id, tag, deadline)                                                 \
  DTRACE_PROBE5(timing_wheel, schedule, static_cast<const void*>(shard), (id).number, (id).generation, (tag), \
                (deadline).time_since_epoch().count())

/// A `cancel` was answered. Under the lock of its shard.
#define TIMING_WHEEL_TRACE_CANCEL(shard, id, result)                                                 \
  DTRACE_PROBE4(timing_wheel, cancel, static_cast<const void*>(shard), (id).number, (id).generation, \
                static_cast<int>(result))

/// Timers of a bucket were moved to lower wheels. Under the lock of its shard, if there is one.
#define TIMING_WHEEL_TRACE_CASCADE(wheel, level, now, timers) \
  DTRACE_PROBE4(timing_wheel, cascade, static_cast<const void*>(wheel), (level), (now), (timers))

/// A callback begins. Outside all locks.
#define TIMING_WHEEL_TRACE_FIRE_BEGIN(shard, id, tag, deadline)                                                 \
  DTRACE_PROBE5(timing_wheel, fire_begin, static_cast<const void*>(shard), (id).number, (id).generation, (tag), \
                (deadline).time_since_epoch().count())

/// It has ended, or thrown.
#define TIMING_WHEEL_TRACE_FIRE_END(shard, id, tag) \
  DTRACE_PROBE4(timing_wheel, fire_end, static_cast<const void*>(shard), (id).number, (id).generation, (tag))

#else

#define TIMING_WHEEL_TRACE_SCHEDULE(shard, id, tag, deadline) static_cast<void>(0)
#define TIMING_WHEEL_TRACE_CANCEL(shard, id, result) static_cast<void>(0)
#define TIMING_WHEEL_TRACE_CASCADE(wheel, level, now, timers) static_cast<void>(0)
#define TIMING_WHEEL_TRACE_FIRE_BEGIN(shard, id, tag, deadline) static_cast<void>(0)
#define TIMING_WHEEL_TRACE_FIRE_END(shard, id, tag) static_cast<void>(0)

#endif

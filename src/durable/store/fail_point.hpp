#pragma once

// Named places at which a test kills the process, stops it or lets a call fail. Compiled in where
// TIMING_WHEEL_FAIL_POINTS is set, as the presets for tests do; else nothing is left of them.
//
// TIMING_WHEEL_FAIL_POINT=NAME:ACTION:N in the environment acts when NAME is passed for the N-th time: `kill`
// (SIGKILL), `stop` (SIGSTOP) or `throw` (a timer_error of EIO). TIMING_WHEEL_FAIL_POINT=list writes each name to
// standard error when it is first passed.

#ifdef TIMING_WHEEL_FAIL_POINTS

namespace timing_wheel::durable {
void pass_fail_point(const char* name);
}  // namespace timing_wheel::durable

#define TIMING_WHEEL_FAIL_POINT(name) ::timing_wheel::durable::pass_fail_point(name)
#else
#define TIMING_WHEEL_FAIL_POINT(name) static_cast<void>(0)
#endif

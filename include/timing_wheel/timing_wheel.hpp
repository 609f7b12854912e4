#pragma once

/// \file
/// The front door: what a program needs that schedules timers. The engines alone, for simulations and event loops that
/// want no service around them, are in `timing_wheel/engine/`, and not included here.
///
/// 1. What most people need: `timer`, its options and its counts.
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_options.hpp"
#include "timing_wheel/timer_stats.hpp"
/// 2. The same service in virtual time, for tests; and in a loop of your own.
#include "timing_wheel/loop_timer.hpp"
#include "timing_wheel/manual_timer.hpp"
/// 3. What a handle answers, and why the service may refuse.
#include "timing_wheel/error.hpp"
#include "timing_wheel/timer_handle.hpp"
/// 4. The callable that a timer holds, where it runs, and the histogram of lateness.
#include "timing_wheel/executor.hpp"
#include "timing_wheel/histogram.hpp"
#include "timing_wheel/task.hpp"

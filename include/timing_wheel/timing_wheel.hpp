#pragma once

/// \file
/// All of the library, in the order in which a reader meets it.
///
/// 1. What most people need: `timer`, its options and its counts.
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_options.hpp"
#include "timing_wheel/timer_stats.hpp"
/// 2. What a handle answers, when periodic timers run, and why the service may refuse.
#include "timing_wheel/error.hpp"
#include "timing_wheel/periodic.hpp"
#include "timing_wheel/timer_handle.hpp"
/// 3. The same service without a thread, for tests and simulations.
#include "timing_wheel/manual_clock.hpp"
/// 4. The callable that a timer holds, where it runs, and the histogram of lateness.
#include "timing_wheel/executor.hpp"
#include "timing_wheel/histogram.hpp"
#include "timing_wheel/task.hpp"
/// 5. The engine alone, for event loops: the concept, Kafka's wheel, and two to compare it with.
#include "timing_wheel/engine.hpp"
#include "timing_wheel/hashed_wheel.hpp"
#include "timing_wheel/heap_queue.hpp"
#include "timing_wheel/hierarchical_wheel.hpp"
/// 6. What the engines are made of, from the outside in.
#include "timing_wheel/bucket.hpp"
#include "timing_wheel/delay_queue.hpp"
#include "timing_wheel/tick.hpp"

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/engine/tick.hpp"
#include "timing_wheel/executor.hpp"

namespace timing_wheel {

/// What keeps the timers of a service in order.
enum class engine_kind : std::uint8_t {
  hierarchical,  ///< Kafka's wheel: far timers lie on overflow wheels, and cascade down (`hierarchical_wheel`).
  hashed,        ///< One wheel that counts rounds, as Netty's and Dubbo's (`hashed_wheel`). It wakes at every tick.
  heap,          ///< A heap by deadline, as in most event loops (`heap_queue`): O(log n), where others are O(1).
};

/// How a service is made. Every field has a default that suits most.
struct timer_options {
  /// The grain of time: a timer fires less than one tick, plus the scheduling latency of the machine, after its
  /// deadline. At least 1 ns. Wake-ups and cascades become fewer with a longer tick. On Linux the poller's timer slack
  /// is at most a sixteenth of it, and so is that of the threads that callbacks start on it.
  std::chrono::nanoseconds tick = std::chrono::milliseconds(1);
  /// Slots of each wheel, in [2, 2^24]. None: 1024 of the lowest and 2048 of each above, so that with a tick of 1 ms
  /// the next half hour lies on two wheels; a hashed one has 512.
  std::optional<std::uint32_t> wheel_size = {};
  /// Slots level by level, lowest first, for instance {60, 60, 24}; levels beyond take the last. Empty: `wheel_size`
  /// for all.
  std::vector<std::uint32_t> wheel_sizes = {};
  /// Each shard takes memory from `operator new` at first, and maps what it needs beyond some 16 MiB, asking for huge
  /// pages: timers far apart are then reached faster. False, and on systems without: `operator new` gives all of it.
  bool huge_pages = true;
  /// Which engine. Every promise holds for each; what they cost differs (see docs/tuning.md).
  engine_kind engine = engine_kind::hierarchical;
  /// Parts with a lock, a wheel and memory of their own; a thread keeps to one as a habit. At most 1024. 0: as many as
  /// the machine has cores, and for a `timer` not fewer than pollers; one for a `manual_timer`.
  unsigned shards = 0;
  /// Threads of a `timer` that sleep and run what is due, at most one for each shard; the shards are dealt to them in
  /// turn. With more than one, callbacks of different shards run at the same time, and so do rules, the executor,
  /// `on_thread_start` and `on_error`; a timer never runs beside itself. More is for programs whose callbacks keep one
  /// core busy (see docs/many_cores.md). Others drive a `manual_timer` and a `loop_timer`, which ignore it, whatever it
  /// is.
  unsigned pollers = 1;
  /// `schedule` refuses when as many timers are pending. A periodic timer keeps its place while its callback runs.
  std::size_t max_pending = no_limit;
  /// Where callbacks run. Empty: on the thread that drives the service, or on each poller, one after the other. Called
  /// by one thread at a time, or with several pollers by each of them, several at a time.
  timing_wheel::executor executor = {};
  /// Called on each poller thread before it does anything else: to place it on a core, to give it a name or a priority,
  /// to prepare what is local to a thread. It may run before the constructor of the service returns, and on several
  /// pollers at a time. What it throws goes to `on_error`, and the thread goes on.
  std::function<void()> on_thread_start = {};
  /// Gets every exception of a callback, of a rule for the next deadline, of the executor, of `on_thread_start` and of
  /// `on_earlier`, with the tag of the timer (else 0); on the thread where it happened, outside every lock. With
  /// several pollers, or threads of an executor, it is called by several at a time. Empty, or if it throws itself: each
  /// kind (what it says) is written to standard error, at most once a second of the service's clock. Those of callbacks
  /// and rules are counted, either way.
  std::function<void(std::exception_ptr failure, std::uint64_t tag)> on_error = {};
};

/// What may be said of a timer when it is scheduled: the last argument of every `schedule` function, before the
/// `std::error_code`.
struct schedule_options {
  /// A number of the caller's, which the handle, `stop`, `for_each_pending` and `on_error` give back.
  std::uint64_t tag = 0;
  /// Cancels the timer when a stop is requested; at once if it was before. One that can be stopped costs an allocation.
  std::stop_token stop = {};
};

}  // namespace timing_wheel

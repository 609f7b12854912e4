#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <vector>

#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/executor.hpp"
#include "timing_wheel/time.hpp"

namespace timing_wheel {

/// The structure that keeps the timers of a service in order.
enum class engine_kind : std::uint8_t {
  hierarchical,  ///< Kafka's wheel: overflow wheels hold far timers, which cascade down (`hierarchical_wheel`).
  hashed,        ///< One wheel that counts rounds, as in Netty and Dubbo (`hashed_wheel`). It wakes at each tick.
  heap,          ///< A heap by deadline, as in most event loops (`heap_queue`): O(log n) where the others are O(1).
};

/// The options of a service. Each has a default that suits most programs.
///
///     timing_wheel::timer service{{.tick = 10ms, .max_pending = 1'000'000, .on_error = log_it}};
struct timer_options {
  /// The clock resolution of the service, at least 1 ns. A timer fires less than one tick after its deadline, plus the
  /// scheduling latency of the machine. A longer tick means fewer wake-ups and cascades (moves of timers to a lower
  /// wheel). On Linux, the timer slack of a poller, and of threads that its callbacks start, is at most a sixteenth of
  /// a tick.
  std::chrono::nanoseconds tick = std::chrono::milliseconds(1);
  /// Slots (buckets) of each wheel, from 2 to 2^24. By default the lowest wheel has 1024, and each wheel above it has
  /// 2048. With a tick of 1 ms, two such wheels hold the next half hour. By default a hashed wheel has 512.
  std::optional<std::uint32_t> wheel_size = {};
  /// Slots of each level, lowest first, for instance {60, 60, 24}. Higher levels have as many as the last one given.
  /// Empty: every level has `wheel_size` slots.
  std::vector<std::uint32_t> wheel_sizes = {};
  /// If true, each shard takes some 16 MiB from `operator new`, and maps further memory as huge pages. That makes
  /// access faster if timers lie far apart in memory. If false, or if the system has no huge pages, all memory is from
  /// `operator new`.
  bool huge_pages = true;
  /// The engine. Each engine keeps all promises of the service; docs/tuning.md compares their costs.
  engine_kind engine = engine_kind::hierarchical;
  /// The number of shards, at most 1024. Each shard has a lock, a wheel and memory of its own, and a thread usually
  /// schedules on one shard. 0: one for each core of the machine, and not fewer than pollers; for a `manual_timer`,
  /// one.
  unsigned shards = 0;
  /// The number of poller threads of a `timer`, at most one for each shard. Each poller gets a part of the shards. With
  /// several pollers, callbacks of different shards run at the same time, and so do rules, the executor,
  /// `on_thread_start` and `on_error`. Runs of one timer still never overlap. Ask for more pollers if callbacks keep
  /// one core busy (docs/many_cores.md). A `manual_timer` and a `loop_timer` ignore this option.
  unsigned pollers = 1;
  /// The service refuses a timer when this many are pending. A periodic timer keeps its place while its callback runs.
  std::size_t max_pending = no_limit;
  /// Where callbacks run. If empty, they run on the poller of their shard or on the thread that drives the service; on
  /// each thread, one after the other. With one poller, one thread at a time calls the executor; with several pollers,
  /// several threads may call it at a time.
  timing_wheel::executor executor = {};
  /// Each poller calls this function first. The function may choose the core, name or priority of the thread, or
  /// prepare what is local to the thread. It may run before the constructor of the service returns. If it throws,
  /// `on_error` gets the exception, and the poller goes on.
  std::function<void()> on_thread_start = {};
  /// Gets the exceptions of callbacks, rules, the executor, `on_thread_start` and `on_earlier`, with the tag of the
  /// timer or 0. The service calls it on the thread that threw, outside every lock. If several threads throw, they may
  /// call it at a time.
  ///
  /// If `on_error` is empty, or throws itself, the service writes the exception to standard error. It writes each text
  /// at most once in a second of its clock. If there are more than 16 texts at a time, it may write some more often.
  /// `timer_counts::failed` counts failures of callbacks and rules in any case.
  std::function<void(std::exception_ptr failure, std::uint64_t tag)> on_error = {};
};

/// Options of a timer that runs once, or by a rule. They are the argument after the callback.
///
///     timer.schedule_after(30min, check, {.tag = 7, .stop = token});
///
/// The order of the members is part of the interface, since braces name them in that order.
struct schedule_options {
  /// A number of the caller's choice. The handle, `stop`, `for_each_pending` and `on_error` give it back.
  std::uint64_t tag = 0;
  /// A stop request cancels the timer. If the request was made before the call, it cancels the timer at once. A token
  /// costs one allocation.
  std::stop_token stop = {};
  /// How much later than its deadline the timer may fire, beside the tick and the latency of the machine; 0 or
  /// negative: not at all. A timer with a window is never early either. It costs less: most windows spare the timer its
  /// moves to lower wheels, and most timers whose windows overlap share a wake-up. docs/tuning.md has the counts.
  ///
  /// A `window` is rounded down to whole ticks. If the deadline has passed, or is less than a tick away, the timer has
  /// no window. So you can always reschedule a timer to run at the next tick. If deadline and window together are
  /// beyond `time_point::max()`, the timer may never fire. A timer that is rescheduled, or armed again after a run,
  /// keeps at least 4/5 of its window. `timer_handle::deadline()` and `timer_stats::lateness` use the deadline without
  /// the window. `stop_drain(until)` takes out a timer whose window makes it due at `until` or later. A hashed wheel
  /// stops at each tick, and ignores the window.
  ///
  ///     timer.schedule_after(30min, check, {.window = 2s});  // between 30 min and 30 min 2 s from now
  std::chrono::nanoseconds window = {};
};

/// When a periodic timer runs next. Runs of one timer never overlap.
///
/// Example: the period is 10 ms, and the first run begins at 10 ms and ends at 35 ms. The next runs begin at:
///
/// | Policy | Next runs | After the process was stopped for an hour, a timer of 1 s |
/// |---|---|---|
/// | `fixed_delay` | 45 ms | runs once |
/// | `fixed_rate_catch_up` | 35 ms (due at 20), as soon as possible (due at 30), 40 ms | runs 3600 times in a row |
/// | `fixed_rate_skip` | 40 ms | runs once |
///
/// If a deadline is past the end of time, the timer stays pending until it is cancelled.
enum class period_policy : std::uint8_t {
  fixed_delay,          ///< One period after the end of the run (Dubbo's rule). Slow runs never pile up.
  fixed_rate_catch_up,  ///< One period after the deadline before. Missed runs follow as fast as possible.
  fixed_rate_skip,      ///< At the first regular deadline that is later than now. Missed runs are left out.
};
using enum period_policy;

/// Options of a periodic timer. They are the argument of `schedule_every` after the callback.
///
///     timer.schedule_every(5s, send_heartbeat, {.policy = timing_wheel::fixed_rate_skip, .tag = 7});
///
/// The order of the members is part of the interface, since braces name them in that order.
struct periodic_options {
  /// When the next run is due.
  period_policy policy = fixed_delay;
  /// As `schedule_options::tag`.
  std::uint64_t tag = 0;
  /// As `schedule_options::stop`.
  std::stop_token stop = {};
  /// As `schedule_options::window`, for each run. With the two policies of a fixed rate the deadlines do not move, so
  /// the windows never add up. With `fixed_delay` the next period begins when the run has ended, so each window may
  /// lengthen the time between two runs.
  std::chrono::nanoseconds window = {};
};

/// Refers to a stop token, which must live until it is copied.
class stop_token_ref {
 public:
  /// Refers to none.
  stop_token_ref() noexcept = default;
  /// Refers to `token`.
  stop_token_ref(const std::stop_token& token) noexcept : token_(&token) {}  // NOLINT(google-explicit-constructor)
  /// Deleted, because a temporary may end before its token is copied.
  stop_token_ref(const std::stop_token&& temporary) = delete;

  /// A copy of the token. If this refers to no token, a token that cannot be stopped.
  [[nodiscard]] std::stop_token token() const noexcept { return token_ != nullptr ? *token_ : std::stop_token(); }

 private:
  const std::stop_token* token_ = nullptr;
};

/// Refers to a stop token in the braces of a call. The call copies the token, so a temporary lives long enough.
struct stop_token_argument : stop_token_ref {
  /// Refers to none.
  stop_token_argument() noexcept = default;
  /// Refers to `token`.
  stop_token_argument(const std::stop_token& token) noexcept  // NOLINT(google-explicit-constructor)
      : stop_token_ref(token) {}
  /// Refers to the token of the argument.
  stop_token_argument(stop_token_ref token) noexcept : stop_token_ref(token) {}  // NOLINT(google-explicit-constructor)
};

/// The argument type of a sleep; `sleep_options` convert to it. Write it in braces, and give it no name, because a
/// named object would outlive a temporary token. It has no destructor, because GCC 12 destroys such braces twice in a
/// `co_await`.
struct sleep_arguments {
  std::uint64_t tag = 0;                 ///< As `sleep_options::tag`.
  stop_token_argument stop = {};         ///< As `sleep_options::stop`. Here it may be a temporary.
  executor_ref on = {};                  ///< As `sleep_options::on`.
  std::chrono::nanoseconds window = {};  ///< As `sleep_options::window`.
};

/// Options of a sleep. They are the argument after the time.
///
///     co_await timer.sleep_for(1s, {.stop = source.get_token()});  // braces: the token may be a temporary
///     const sleep_options named{.stop = token};                    // a name: the token must live until the call
///     co_await timer.sleep_for(1s, named);
struct sleep_options {
  /// A number of the caller's choice. `stop`, `for_each_pending` and `on_error` give it back.
  std::uint64_t tag = 0;
  /// A stop request ends the sleep. If the request was made before the call, the sleep does not begin. A token costs no
  /// allocation.
  stop_token_ref stop = {};
  /// Where the coroutine goes on. The executor must live until then, so a temporary does not compile. Empty: it goes on
  /// where the service runs its callbacks.
  executor_ref on = {};
  /// As `schedule_options::window`.
  std::chrono::nanoseconds window = {};

  /// What the calls take.
  operator sleep_arguments() const noexcept { return {tag, stop, on, window}; }  // NOLINT(google-explicit-constructor)
};

/// The argument type of `with_timeout`; `timeout_options` convert to it. Write it in braces, as
/// `sleep_arguments`, and give it no name.
struct timeout_arguments {
  std::uint64_t tag = 0;                 ///< As `timeout_options::tag`.
  stop_token_argument stop = {};         ///< As `timeout_options::stop`. Here it may be a temporary.
  std::chrono::nanoseconds window = {};  ///< As `timeout_options::window`.
};

/// Options of a time limit. They are the argument of `with_timeout` after the callable that it limits. The
/// examples at `sleep_options` show how to write them, in braces or with a name.
struct timeout_options {
  /// As `sleep_options::tag`.
  std::uint64_t tag = 0;
  /// `with_timeout` passes a stop request on to the awaitable that it limits.
  stop_token_ref stop = {};
  /// As `schedule_options::window`: how much later the limit may end.
  std::chrono::nanoseconds window = {};

  /// What the calls take.
  operator timeout_arguments() const noexcept { return {tag, stop, window}; }  // NOLINT(google-explicit-constructor)
};

static_assert(std::is_trivially_destructible_v<sleep_arguments> && std::is_trivially_destructible_v<timeout_arguments>);

}  // namespace timing_wheel

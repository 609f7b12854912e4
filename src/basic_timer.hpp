#pragma once

/// \file
/// The members of `basic_timer`. Each engine is compiled on its own, in `timer_on_<engine>.cpp`: compilers inline less the more
/// they see.

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "shard.hpp"
#include "timer_slack.hpp"
#include "timing_wheel/timer.hpp"

namespace timing_wheel {

namespace detail {

using wall_time_point = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

inline constexpr unsigned most_shards = 1024;

/// How long the poller waits for memory when a cascade found none.
inline constexpr std::chrono::milliseconds memory_retry{1};

inline wall_time_point wall_clock_of(const std::chrono::steady_clock& /*clock*/) {
  return std::chrono::system_clock::now();
}
inline wall_time_point wall_clock_of(const manual_clock& clock) {
  return wall_time_point(clock.now().time_since_epoch());
}

inline void move_clock(std::chrono::steady_clock& /*clock*/, time_point /*when*/) {}
inline void move_clock(manual_clock& clock, time_point when) { clock.advance_to(when); }

inline void check(const timer_options& options) {
  if (options.tick < std::chrono::nanoseconds(1)) {
    throw timer_error(timer_errc::invalid_option,
                      "tick " + std::to_string(options.tick.count()) + " ns is not at least 1 ns");
  }
  if (options.shards > most_shards) {
    throw timer_error(timer_errc::invalid_option, "shards " + std::to_string(options.shards) + " is not in [0, " +
                                                      std::to_string(most_shards) + "]");
  }
}

template <class Clock>
unsigned shards_of(const timer_options& options) {
  if (options.shards != 0 || manually_driven<Clock>) {
    return std::max(options.shards, 1U);
  }
  return std::clamp(std::thread::hardware_concurrency(), 1U, most_shards);
}

}  // namespace detail

template <timer_engine Engine, class Clock>
struct basic_timer<Engine, Clock>::state {
  using shard = detail::shard<Engine, Clock>;
  using turn = typename shard::turn;

  class advance;
  struct drop {
    void operator()(shard* s) const noexcept {
      s->retire();
      s->drop_references(1);
    }
  };

  state(const timer_options& options, const Clock& clock)
      : context(std::make_shared<detail::service_context<Clock>>(options, clock)) {
    const engine_options wheels{.wheel_size = options.wheel_size, .wheel_sizes = options.wheel_sizes, .start = 0};
    const unsigned count = detail::shards_of<Clock>(options);
    shards.reserve(count);
    for (unsigned i = 0; i < count; ++i) {
      shards.emplace_back(new shard(wheels, context));
    }
  }

  // The threads of a service are dealt to its shards in turn, and each remembers its place, in a few services at a time. That is
  // only a habit: a thread that has forgotten its place gets another one.
  shard& home() noexcept {
    struct place {
      const state* service = nullptr;
      std::chrono::steady_clock::time_point born;  // tells it from a service at the same address before
      std::size_t index = 0;                       // of its shard
    };
    thread_local std::array<place, 8> places;
    const auto address = reinterpret_cast<std::uintptr_t>(this);
    place& mine = places[(address / 64 ^ address / 4096) % places.size()];
    if (mine.service != this || mine.born != born || mine.index >= shards.size()) {
      mine = {this, born, next_thread.fetch_add(1, std::memory_order_relaxed) % shards.size()};
    }
    return *shards[mine.index];
  }

  [[nodiscard]] tick current_tick() const noexcept { return context->scale.floor(context->clock.now()); }

  [[nodiscard]] tick next_event() const noexcept {
    tick next = never;
    for (const auto& s : shards) {
      next = std::min(next, s->next_event());
    }
    return next;
  }

  // Turn by turn over the shards, until nothing is due. The clock is read anew each time round. One that is short of memory keeps
  // no other from its turn.
  turn run_all_due(time_point until) {
    turn sum;
    do {
      sum.more = false;
      bool short_of_memory = false;
      const tick now = current_tick();
      for (const auto& s : shards) {
        try {
          const turn one = s->run_due(now, until);
          sum.handled += one.handled;
          sum.ran += one.ran;
          sum.more = sum.more || one.more;
        } catch (const std::bad_alloc&) {
          short_of_memory = true;
        }
      }
      if (short_of_memory) {
        throw std::bad_alloc();
      }
    } while (sum.more && !stopped.load(std::memory_order_acquire) && !detail::has_come(until, context->clock.now()));
    return sum;
  }

  // The loop that sleeps: until `is_over`, or `until`. Whoever makes it over wakes the sleeper afterwards, so that it is seen
  // either here or as that wake.
  template <class Over>
  void drive(time_point until, Over is_over) noexcept {
    detail::sleeper& sleeper = context->poller;
    bool slept_to_the_end = false;
    while (!is_over()) {
      if (run_without_memory_failure(until) == 0 && slept_to_the_end) {
        sleeper.count_empty();
      }
      if (detail::has_come(until, context->clock.now())) {
        return;
      }
      const tick next = next_event();
      slept_to_the_end = false;
      if (next <= current_tick() || is_over()) {
        continue;
      }
      sleeper.announce(next);
      if (next_event() < next) {
        sleeper.retract();
        continue;
      }
      slept_to_the_end = sleeper.sleep(std::min(context->scale.begin_of(next), until));
    }
  }

  void poll() noexcept {
    drive(time_point::max(), [this] { return stopped.load(std::memory_order_acquire); });
  }

  std::size_t run_without_memory_failure(time_point until) noexcept {
    try {
      return run_all_due(until).handled;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(detail::memory_retry);
      return 1;
    }
  }

  // The loop for a clock that is moved: from expiration to expiration, and not beyond `when`. \returns how many callbacks ran.
  std::size_t run_until(time_point when) {
    std::size_t ran = run_all_due(time_point::max()).ran;
    for (tick next = next_event(); next <= context->scale.floor(when); next = next_event()) {
      detail::move_clock(context->clock, context->scale.begin_of(next));
      ran += run_all_due(time_point::max()).ran;
    }
    return ran;
  }

  [[nodiscard]] bool on_driver() const noexcept {
    return driver.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // Whether this thread is in code of the user's that the service waits for.
  [[nodiscard]] bool is_caller() const noexcept { return detail::run_frame::is_called_by(context.get()); }

  void enter(detail::phase next) noexcept {
    for (const auto& s : shards) {
      s->enter(next);
    }
  }

  // Goes on, refusing timers, until nothing is pending, or until a time. \pre draining.
  void run_down(time_point until) {
    if constexpr (manually_driven<Clock>) {
      std::optional<advance> turn_of_mine;
      if (!on_driver()) {
        turn_of_mine.emplace(*this, std::unique_lock(join_mutex));
      }
      run_until(until);
      if (pending() != 0) {
        detail::move_clock(context->clock, until);
      }
    } else if (on_driver()) {
      drive(until, [this] { return stopped.load(std::memory_order_acquire) || pending() == 0; });
    } else {
      for (const auto& s : shards) {
        s->wait_for_all(until);
      }
    }
  }

  // Takes the rest. \pre closed.
  std::vector<pending_task> take() {
    std::vector<pending_task> left;
    left.reserve(pending());  // none can come any more, so that taking them out allocates nothing
    for (const auto& s : shards) {
      s->take(left);
    }
    return left;
  }

  // Ends the driver. \pre closed.
  void end() noexcept {
    stopped.store(true, std::memory_order_release);
    context->poller.wake();
    if (!is_caller()) {
      join();
    }
  }

  // Waits until no callback runs. \pre closed; not from a callback.
  void join() noexcept {
    std::unique_lock lock(join_mutex);
    advance_ended.wait(lock, [this] { return !advancing.load(std::memory_order_relaxed); });
    if (poller.joinable()) {
      poller.join();
    }
    lock.unlock();
    for (const auto& s : shards) {
      s->wait_for_runs();
    }
  }

  [[nodiscard]] std::size_t pending() const noexcept {
    std::size_t sum = 0;
    for (const auto& s : shards) {
      sum += s->pending();
    }
    return sum;
  }

  // Makes its thread the driver of a manual clock, for the length of one advance_to.
  class advance {
   public:
    explicit advance(state& s) : state_(s) {
      if (s.advancing.exchange(true, std::memory_order_acquire)) {
        throw timer_error(timer_errc::nested_advance);
      }
      s.driver.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    // Waits for its turn. \pre `lock` holds the join_mutex.
    advance(state& s, std::unique_lock<std::mutex> lock) : state_(s) {
      s.advance_ended.wait(lock, [&s] { return !s.advancing.exchange(true, std::memory_order_acquire); });
      s.driver.store(std::this_thread::get_id(), std::memory_order_relaxed);
    }
    ~advance() {
      state_.driver.store(std::thread::id(), std::memory_order_relaxed);
      const std::lock_guard lock(state_.join_mutex);  // so that who waits for the end finds us done with the state
      state_.advancing.store(false, std::memory_order_release);
      state_.advance_ended.notify_all();
    }
    advance(const advance&) = delete;
    advance& operator=(const advance&) = delete;

   private:
    state& state_;
  };

  // Immutable after construction.
  const std::chrono::steady_clock::time_point born = std::chrono::steady_clock::now();
  const std::shared_ptr<detail::service_context<Clock>> context;
  std::vector<std::unique_ptr<shard, drop>> shards;

  std::atomic<unsigned> next_thread{0};  // relaxed: it only hands out numbers
  std::atomic<bool> stopped{false};      // released by stop after the shards are closed, acquired by the driver
  // Who drives: the poller, or who is in advance_to. Relaxed: a thread only asks whether it is itself.
  std::atomic<std::thread::id> driver{std::thread::id()};
  std::atomic<bool> advancing{false};     // set during advance_to; acquired and released as a lock
  std::mutex join_mutex;                  // guards poller, and the end of advancing
  std::condition_variable advance_ended;  // with join_mutex
  std::thread poller;
};

template <timer_engine Engine, class Clock>
basic_timer<Engine, Clock>::basic_timer(const timer_options& options, const Clock& clock) {
  detail::check(options);
  try {
    state_ = std::make_unique<state>(options, clock);
  } catch (const std::invalid_argument& e) {
    throw timer_error(timer_errc::invalid_option, e.what());
  }
  if constexpr (!manually_driven<Clock>) {
    state_->poller = std::thread([s = state_.get()] {
      s->driver.store(std::this_thread::get_id(), std::memory_order_relaxed);
      detail::limit_timer_slack(s->context->scale.tick_length());
      s->poll();
      // The system may give this thread's number to another one.
      s->driver.store(std::thread::id(), std::memory_order_relaxed);
    });
  }
}

template <timer_engine Engine, class Clock>
basic_timer<Engine, Clock>::~basic_timer() {
  if (state_->is_caller()) {
    std::fputs("timing_wheel: a timer service was destroyed by one of its own callbacks\n", stderr);
    std::abort();
  }
  state_->enter(detail::phase::closed);
  for (const auto& s : state_->shards) {
    s->discard();
  }
  state_->end();
  state_->context->retire();
}

template <timer_engine Engine, class Clock>
typename basic_timer<Engine, Clock>::started basic_timer<Engine, Clock>::start(time_point now, time_point deadline,
                                                                               task&& callback, std::uint64_t tag,
                                                                               bool recurring) {
  if (!callback) {
    return {{}, timer_errc::empty_callback};
  }
  auto& shard = state_->home();
  const detail::admitted result = shard.schedule(now, deadline, callback, tag, recurring);
  switch (result.answer) {
    case detail::verdict::stopped:
      return {{}, timer_errc::stopped};
    case detail::verdict::too_many:
      return {{}, timer_errc::too_many_pending};
    case detail::verdict::accepted:
      break;
  }
  return {timer_handle(&shard, result.key)};
}

template <timer_engine Engine, class Clock>
typename basic_timer<Engine, Clock>::started basic_timer<Engine, Clock>::start_after(std::chrono::nanoseconds delay,
                                                                                     task&& callback,
                                                                                     std::uint64_t tag) {
  const time_point present = now();
  return start(present, saturating_add(present, delay), std::move(callback), tag);
}

template <timer_engine Engine, class Clock>
typename basic_timer<Engine, Clock>::started basic_timer<Engine, Clock>::start_at(time_point deadline, task&& callback,
                                                                                  std::uint64_t tag) {
  return start(now(), deadline, std::move(callback), tag);
}

template <timer_engine Engine, class Clock>
typename basic_timer<Engine, Clock>::started basic_timer<Engine, Clock>::start_at(wall_time deadline, task&& callback,
                                                                                  std::uint64_t tag) {
  // The wall clock first: what delays this thread before the other is read makes the deadline later, never earlier.
  const time_point wall(detail::wall_clock_of(state_->context->clock).time_since_epoch());
  const time_point present = now();
  const bool ever = deadline < wall_time::max();
  const time_point converted =
      saturating_add(time_point(deadline.time_since_epoch()), saturating_difference(present, wall));
  return start(present, ever ? converted : time_point::max(), std::move(callback), tag);
}

template <timer_engine Engine, class Clock>
typename basic_timer<Engine, Clock>::started basic_timer<Engine, Clock>::start_recurring(task&& callback,
                                                                                         std::uint64_t tag) {
  if (!callback) {
    return {{}, timer_errc::empty_callback};
  }
  const time_point present = now();
  const std::optional<time_point> first = callback.next(present, present);
  return first ? start(present, *first, std::move(callback), tag, true) : started{};
}

template <timer_engine Engine, class Clock>
void basic_timer<Engine, Clock>::refuse(const started& result) const {
  if (result.refusal == timer_errc::too_many_pending) {
    // At the moment of the refusal, as many were pending as may be.
    const std::string limit = std::to_string(state_->context->door.limit());
    throw timer_error(result.refusal, limit + " pending, max_pending " + limit);
  }
  if (result.refusal == timer_errc::invalid_period) {
    throw timer_error(result.refusal, std::to_string(result.period.count()) + " ns is not at least 1 ns");
  }
  throw timer_error(result.refusal);
}

template <timer_engine Engine, class Clock>
std::vector<pending_task> basic_timer<Engine, Clock>::stop() {
  state_->enter(detail::phase::closed);
  std::vector<pending_task> left = state_->take();
  state_->end();
  return left;
}

template <timer_engine Engine, class Clock>
std::size_t basic_timer<Engine, Clock>::stop(run_now_t /*how*/) {
  if (detail::run_frame::is_in(state_->context.get(), detail::doing::run_now)) {
    return 0;
  }
  const detail::run_frame frame(state_->context.get(), detail::doing::run_now);
  state_->enter(detail::phase::draining);
  std::size_t ran = 0;
  for (const auto& s : state_->shards) {
    ran += s->run_all();
  }
  // Another `stop`, if there is one, takes what could not run any more.
  state_->enter(detail::phase::closed);
  state_->end();
  return ran;
}

template <timer_engine Engine, class Clock>
std::vector<pending_task> basic_timer<Engine, Clock>::stop(drain_t /*how*/, time_point until) {
  const void* const service = state_->context.get();
  if (detail::run_frame::is_in(service, detail::doing::drain) ||
      detail::run_frame::is_in(service, detail::doing::run_now)) {
    return {};
  }
  state_->enter(detail::phase::draining);
  {
    const detail::run_frame frame(service, detail::doing::drain);
    state_->run_down(until);
  }
  return stop();
}

template <timer_engine Engine, class Clock>
bool basic_timer<Engine, Clock>::list_pending(position& from, std::vector<pending_timer>& found) const {
  found.clear();
  found.reserve(max_timers_per_lock);
  const auto& shards = state_->shards;
  while (found.empty() && from.shard < shards.size()) {
    if (!shards[from.shard]->list(from.next, found)) {
      from = {from.shard + 1, 0};
    }
  }
  return !found.empty();
}

template <timer_engine Engine, class Clock>
bool basic_timer<Engine, Clock>::stopped() const noexcept {
  return state_->stopped.load(std::memory_order_acquire);
}

template <timer_engine Engine, class Clock>
std::size_t basic_timer<Engine, Clock>::pending() const noexcept {
  return state_->pending();
}

template <timer_engine Engine, class Clock>
timer_stats basic_timer<Engine, Clock>::stats() const {
  timer_stats sum;
  for (const auto& s : state_->shards) {
    s->add_to(sum);
  }
  sum.wakeups = state_->context->poller.wakeups();
  sum.empty_wakeups = state_->context->poller.empty_wakeups();
  return sum;
}

template <timer_engine Engine, class Clock>
time_point basic_timer<Engine, Clock>::now() const noexcept {
  return state_->context->clock.now();
}

template <timer_engine Engine, class Clock>
std::size_t basic_timer<Engine, Clock>::advance_to(time_point when) requires manually_driven<Clock> {
  const typename state::advance turn_of_mine(*state_);
  const std::size_t ran = state_->run_until(when);
  detail::move_clock(state_->context->clock, when);
  return ran;
}

}  // namespace timing_wheel

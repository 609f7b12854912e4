#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/core/no_exceptions_support.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/detail/asio/waits.hpp"
#include "timing_wheel/detail/same_build.hpp"
#include "timing_wheel/detail/schedule.hpp"
#include "timing_wheel/detail/waiting.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

/// \cond
namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {
namespace detail {

// A mutex of four bytes, for sections of a few instructions: one atomic operation to lock it, and one to unlock it. Who
// finds it taken tries again for a while before it sleeps.
//
// Who locks acquires what the one that unlocked has released. A sleeper has marked the lock as contended; whoever takes
// the mark away wakes one, which marks it again, for it does not know of others.
//
// Unlocking is seq_cst: `notify_one` of libstdc++ first looks whether anybody waits, and a release would let it look
// before the lock is open. Then it could miss a sleeper that has just counted itself in and found the mark.
class state_mutex {
 public:
  void lock() noexcept {
    if (!try_lock()) {
      lock_slowly();
    }
  }
  bool try_lock() noexcept {
    std::uint32_t expected = open;
    return state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept {
    if (state_.exchange(open, std::memory_order_seq_cst) == contended) {
      timing_wheel::detail::notify_one(state_);
    }
  }

 private:
  void lock_slowly() noexcept {
    for (int i = 0; i < tries; ++i) {
      if (state_.load(std::memory_order_relaxed) == open && try_lock()) {
        return;
      }
      std::this_thread::yield();
    }
    while (state_.exchange(contended, std::memory_order_acquire) != open) {
      timing_wheel::detail::wait_while(state_, contended, std::memory_order_relaxed);
    }
  }

  static constexpr int tries = 16;
  static constexpr std::uint32_t open = 0;
  static constexpr std::uint32_t taken = 1;
  static constexpr std::uint32_t contended = 2;  // and somebody may be asleep

  std::atomic<std::uint32_t> state_{open};
};

class registry;
class state_reference;

// What a timer shares with the wheel: the waits, and the timer of the wheel that they wait for. That one is periodic,
// so that it keeps its place in the wheel when it is moved on.
//
// 1. While somebody waits, a timer of the wheel is armed for no later than their expiry, or is being armed or refused.
//    It ends the waits, or moves on to their expiry if that is later.
// 2. While nobody waits, one is armed only if it is kept: from a new expiry that has ended waits, to the next wait, or
//    until the handlers of those were called, whichever is first.
// 3. A wait leaves the list once, under the lock; who takes it out ends it.
// 4. Handlers are moved, posted and destroyed under no lock.
class timer_state {  // NOLINT(*-member-init): of a union, one member
 public:
  timer_state() noexcept = default;  // NOLINT(*-member-init): the same
  timer_state(const timer_state&) = delete;
  timer_state& operator=(const timer_state&) = delete;
  ~timer_state() = default;

  // A number for a wait that is to be cancelled alone.
  [[nodiscard]] std::uint64_t new_number() noexcept;

  // Takes `added` over. Completes it in the window after `expiry`, or with the others in the list, and not before this
  // returns or another thread runs. \pre that is the expiry of the others.
  void add(wait& added, time_point expiry, std::chrono::nanoseconds window);

  // End waits with `operation_aborted`, and tell how many.
  std::size_t cancel() {
    return abort([](wait_list& from, wait_list& to) { to.append(std::move(from)); });
  }
  std::size_t cancel_one() {
    return abort([](wait_list& from, wait_list& to) { move_one(from.pop(), to); });
  }
#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
  std::size_t cancel_number(std::uint64_t number) {
    return abort([number](wait_list& from, wait_list& to) { move_one(from.remove(number), to); });
  }
#endif

  // Ends all waits too, and keeps the timer of the wheel, for a new wait is likely to follow.
  std::size_t let_go();

  // The end of keeping it, if nobody has waited since.
  void end_keeping() noexcept;

  // The end of its timer.
  void leave() noexcept;

  // Takes everything out; a callback of the wheel that comes later does nothing.
  void close(wait_list& left) noexcept;

 private:
  friend class registry;
  friend class state_reference;
  class expiry_rule;

  // What the wheel calls has nothing to do: the rule that it asks next has.
  struct nothing {
    void operator()() const noexcept {}
  };

  static void move_one(wait* taken, wait_list& to) noexcept {
    if (taken != nullptr) {
      to.push(*taken);
    }
  }

  template <class Pick>
  std::size_t abort(Pick pick);
  // Under the lock. The timer of the wheel is given up: the caller cancels it, outside the lock.
  [[nodiscard]] timer_handle disarm() noexcept {
    ++generation_;
    armed_ = false;
    kept_.store(false, std::memory_order_relaxed);
    return std::exchange(handle_, {});
  }
  void give_up(const timer_handle& unused) noexcept;
  void arm(std::uint32_t generation, timing_wheel::detail::short_window window);
  [[nodiscard]] std::optional<time_point> begin(std::uint32_t generation);
  [[nodiscard]] std::optional<time_point> come_round(std::uint32_t generation);
  void finish(std::uint32_t generation, ending how);
  void finish(std::unique_lock<state_mutex>& lock, ending how);

  // Those that lie beside each other in memory, and whose they are.
  struct page;
  [[nodiscard]] inline registry& home() noexcept;

  // relaxed to add, by who has one; the last one acquires what the others have released
  std::atomic<std::uint32_t> references_ = 0;

  state_mutex mutex_;  // guards what follows; nothing else is locked, and nobody else's code runs, while it is held
  wait_list waiting_;
  timer_handle handle_;  // of the timer of the wheel; empty while that is being armed
  // NOLINTBEGIN(readability-identifier-naming): private, though clang-tidy does not see it in a union
  union {
    time_point expiry_{};     // of those in the list
    timer_state* next_free_;  // while the state is not in use; guarded by the registry's mutex
  };
  // NOLINTEND(readability-identifier-naming)
  time_point armed_for_;            // what the timer of the wheel is armed for, if it is
  std::uint32_t generation_ = 0;    // how often there was a new timer of the wheel, or an end of it; others do nothing
  bool armed_ = false;              // there is a timer of the wheel, or one is being armed
  std::atomic<bool> kept_ = false;  // it is kept for nobody; relaxed: a first look, before the lock
  std::uint8_t place_ = 0;          // in its page; never changed again
  timing_wheel::detail::short_window armed_window_;  // in ns: how much later than that the timer of the wheel may be
};

// One pointer for all of them, where each would have its own.
struct timer_state::page {
  static constexpr std::size_t size = 72;  // about 4 KiB

  explicit page(registry& of) noexcept : home(&of) {
    for (std::size_t i = 0; i < size; ++i) {
      states[i].place_ = static_cast<std::uint8_t>(i);
    }
  }

  std::array<timer_state, size> states;  // the first member, so that its address is that of the page
  registry* home;
};

inline registry& timer_state::home() noexcept {
  static_assert(std::is_standard_layout_v<page>);
  return *reinterpret_cast<page*>(this - place_)->home;  // NOLINT(*-pointer-arithmetic,*-reinterpret-cast)
}

// Owns a reference to a state, or none.
class state_reference {
 public:
  state_reference() noexcept = default;
  explicit state_reference(timer_state* adopted) noexcept : state_(adopted) {}
  state_reference(state_reference&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  state_reference& operator=(state_reference&& other) noexcept {
    state_reference taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }
  inline ~state_reference();

  [[nodiscard]] static state_reference to(timer_state& state) noexcept {
    state.references_.fetch_add(1, std::memory_order_relaxed);
    return state_reference(&state);
  }
  [[nodiscard]] timer_state* get() const noexcept { return state_; }
  [[nodiscard]] timer_state* release() noexcept { return std::exchange(state_, nullptr); }
  timer_state* operator->() const noexcept { return state_; }
  explicit operator bool() const noexcept { return state_ != nullptr; }

 private:
  timer_state* state_ = nullptr;
};

// What the periodic timer of the wheel asks for its next deadline: at first when it is made, and then after each time
// that it was due. There it ends the waits, or moves on. If it is destroyed without having ended, because the wheel was
// stopped or destroyed, the waits end all the same.
class timer_state::expiry_rule {
 public:
  expiry_rule(state_reference of, std::uint32_t generation) noexcept : state_(std::move(of)), generation_(generation) {}
  expiry_rule(expiry_rule&&) noexcept = default;
  expiry_rule& operator=(expiry_rule&&) = delete;
  ~expiry_rule() {
    if (state_) {
      BOOST_TRY { state_->finish(generation_, ending_of(timer_errc::stopped)); }
      BOOST_CATCH(...) {}  // there is nobody to tell
      BOOST_CATCH_END
    }
  }

  std::optional<time_point> operator()(time_point /*previous*/) {
    return std::exchange(begun_, true) ? state_->come_round(generation_) : state_->begin(generation_);
  }

 private:
  state_reference state_;
  std::uint32_t generation_;
  bool begun_ = false;
};

// Who runs a wheel on an io_context wants to know when nobody waits any more.
class wheel_driver {
 public:
  wheel_driver(const wheel_driver&) = delete;
  wheel_driver& operator=(const wheel_driver&) = delete;

  // A timer of the wheel was cancelled.
  virtual void cancelled() noexcept = 0;
  // The context goes.
  virtual void close() noexcept = 0;

 protected:
  wheel_driver() noexcept = default;
  ~wheel_driver() = default;
};

// The timers of a context, and their wheel. It outlives the context, as long as a timer does. The states of timers lie
// here, in pages, and the place of one that is gone is used again.
class registry {
 public:
  struct leaver {
    void operator()(registry* left) const noexcept { left->drop(); }
  };
  using owner = std::unique_ptr<registry, leaver>;

  static owner make(timing_wheel::timer& wheel, std::shared_ptr<wheel_driver> driver) {
    return owner(new registry(wheel, std::move(driver)));
  }
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;

  [[nodiscard]] timing_wheel::timer& wheel() const noexcept { return wheel_; }
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(std::memory_order_relaxed); }

  [[nodiscard]] std::uint64_t new_number() noexcept { return last_number_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Throws std::bad_alloc.
  state_reference make_state() {
    const std::lock_guard lock(mutex_);
    if (free_ == nullptr) {
      add_page();
    }
    timer_state& made = *free_;
    free_ = made.next_free_;
    std::construct_at(&made.expiry_);
    made.references_.store(1, std::memory_order_relaxed);
    owners_.fetch_add(1, std::memory_order_relaxed);
    return state_reference(&made);
  }

  void cancelled() noexcept {
    if (driver_ != nullptr) {
      driver_->cancelled();
    }
  }

  // While such an object lives, waits are given to executors. It is made under the lock of a state.
  class delivery {
   public:
    explicit delivery(registry& of) noexcept : of_(of) { of_.delivering_.fetch_add(1, std::memory_order_relaxed); }
    delivery(const delivery&) = delete;
    delivery& operator=(const delivery&) = delete;
    ~delivery() {
      if (of_.delivering_.fetch_sub(1, std::memory_order_seq_cst) == 1) {  // before `notify_all` asks who waits
        timing_wheel::detail::notify_all(of_.delivering_);
      }
    }

   private:
    registry& of_;
  };

  // Destroys all waits, and waits for those that are being delivered: the context goes. From then on a timer that is
  // armed loses its waits, for the wheel may be gone: the destructors of handlers that the context leaves may wait.
  void close() noexcept {
    closed_.store(true, std::memory_order_relaxed);
    wait_list left;
    for (std::size_t i = 0; const std::optional<state_reference> one = look_at(i); ++i) {
      if (*one) {
        (*one)->close(left);
      }
    }
    // Whose delivery was not counted when `close` had the lock of its state finds nothing to deliver.
    for (std::size_t some = delivering_.load(std::memory_order_acquire); some != 0;
         some = delivering_.load(std::memory_order_acquire)) {
      timing_wheel::detail::wait_while(delivering_, some, std::memory_order_acquire);
    }
  }

 private:
  friend class state_reference;

  using page = timer_state::page;

  registry(timing_wheel::timer& wheel, std::shared_ptr<wheel_driver> driver) noexcept
      : wheel_(wheel), driver_(std::move(driver)) {}
  ~registry() = default;

  void add_page() {
    pages_.push_back(std::make_unique<page>(*this));
    for (std::size_t i = page::size; i-- > 0;) {
      recycle(pages_.back()->states[i]);
    }
  }

  void recycle(timer_state& unused) noexcept { unused.next_free_ = std::exchange(free_, &unused); }

  // The last reference has gone.
  void end(timer_state& ended) noexcept {
    {
      const std::lock_guard lock(mutex_);
      recycle(ended);
    }
    drop();
  }

  void drop() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete this;
    }
  }

  // A reference to the state at that place, or an empty one if it is not in use; nothing if there is no such place.
  std::optional<state_reference> look_at(std::size_t place) noexcept {
    const std::lock_guard lock(mutex_);
    if (place / page::size >= pages_.size()) {
      return std::nullopt;
    }
    timer_state& found = pages_[place / page::size]->states[place % page::size];
    // One whose last reference has just gone is not to be found again: its place may be free.
    std::uint32_t references = found.references_.load(std::memory_order_relaxed);
    while (references != 0) {
      if (found.references_.compare_exchange_weak(references, references + 1, std::memory_order_relaxed)) {
        return state_reference(&found);
      }
    }
    return state_reference();
  }

  timing_wheel::timer& wheel_;
  const std::shared_ptr<wheel_driver> driver_;  // or none

  std::atomic<std::size_t> owners_ = 1;         // the service of the context, and each state; the last one acquires
  std::atomic<std::uint64_t> last_number_ = 0;  // relaxed: only that no two are the same matters
  std::atomic<std::size_t> delivering_ = 0;     // release, and acquire by who waits: what was delivered is seen
  std::atomic<bool> closed_ = false;            // relaxed: whoever destroys a context is alone with it

  std::mutex mutex_;  // guards what follows; taken alone
  std::vector<std::unique_ptr<page>> pages_;
  timer_state* free_ = nullptr;
};

inline state_reference::~state_reference() {
  if (state_ != nullptr && state_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    state_->home().end(*state_);
  }
}

inline keeping::~keeping() {
  if (of_ != nullptr) {
    const state_reference last(of_);
    of_->end_keeping();
  }
}

inline std::uint64_t timer_state::new_number() noexcept { return home().new_number(); }

inline void timer_state::add(wait& added, time_point expiry, std::chrono::nanoseconds window) {
  const timing_wheel::detail::short_window wanted(
      static_cast<std::uint64_t>(std::max(window.count(), std::int64_t{0})));
  timer_handle too_late;
  std::uint32_t mine = 0;
  state_reference self;
  {
    const std::lock_guard lock(mutex_);
    const bool first = waiting_.empty();
    waiting_.push(added);
    if (!first) {
      return;
    }
    kept_.store(false, std::memory_order_relaxed);
    expiry_ = expiry;
    if (armed_ && armed_for_ <= expiry && armed_window_ <= wanted) {
      return;
    }
    too_late = disarm();
    armed_ = true;
    armed_for_ = expiry;
    armed_window_ = wanted;
    mine = generation_;
    self = state_reference::to(*this);  // the handler may run, and destroy the timer, before this returns
  }
  too_late.cancel();
  arm(mine, wanted);
}

inline void timer_state::arm(std::uint32_t generation, timing_wheel::detail::short_window window) {
  if (home().is_closed()) {
    wait_list left;
    close(left);
    return;
  }
  std::error_code refused;
  expiry_rule rule(state_reference::to(*this), generation);
  const schedule_options options{.window = std::chrono::nanoseconds(static_cast<std::int64_t>(window.length()))};
  timer_handle made = home().wheel().schedule_with(std::move(rule), nothing(), options, refused);
  if (refused) {
    finish(generation, ending_of(refused));
    home().cancelled();  // another one may have been, before this
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    if (armed_ && generation_ == generation) {
      std::swap(handle_, made);
    }
  }
  give_up(made);  // for a wait that was cancelled meanwhile; one that has fired is finished anyway
}

template <class Pick>
std::size_t timer_state::abort(Pick pick) {
  wait_list taken;
  timer_handle unused;
  {
    const std::lock_guard lock(mutex_);
    pick(waiting_, taken);
    if (waiting_.empty() && armed_) {
      unused = disarm();
    }
  }
  give_up(unused);
  return complete_all(taken, ending::aborted);
}

inline std::size_t timer_state::let_go() {
  wait_list taken;
  state_reference self;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      return 0;
    }
    taken.append(std::move(waiting_));
    kept_.store(armed_, std::memory_order_relaxed);
    self = state_reference::to(*this);
  }
  return complete_all(taken, ending::aborted, self.release());
}

inline void timer_state::end_keeping() noexcept {
  if (!kept_.load(std::memory_order_relaxed)) {
    return;
  }
  timer_handle unused;
  {
    const std::lock_guard lock(mutex_);
    if (kept_.load(std::memory_order_relaxed)) {
      unused = disarm();
    }
  }
  give_up(unused);
}

inline void timer_state::give_up(const timer_handle& unused) noexcept {
  if (unused) {
    unused.cancel();
    home().cancelled();
  }
}

// What the timer of the wheel is to be armed for; nothing if it is not wanted any more.
inline std::optional<time_point> timer_state::begin(std::uint32_t generation) {
  const std::lock_guard lock(mutex_);
  return generation_ == generation ? std::optional(armed_for_) : std::nullopt;
}

// The timer of the wheel is due.
inline std::optional<time_point> timer_state::come_round(std::uint32_t generation) {
  std::unique_lock lock(mutex_);
  if (generation_ != generation) {
    return std::nullopt;
  }
  if (!waiting_.empty() && expiry_ > armed_for_) {
    armed_for_ = expiry_;
    return armed_for_;
  }
  finish(lock, ending::expired);
  return std::nullopt;
}

inline void timer_state::finish(std::uint32_t generation, ending how) {
  std::unique_lock lock(mutex_);
  if (generation_ == generation) {
    finish(lock, how);
  }
}

inline void timer_state::finish(std::unique_lock<state_mutex>& lock, ending how) {
  const timer_handle over = disarm();
  const registry::delivery counted(home());
  wait_list due(std::move(waiting_));
  lock.unlock();
  complete_all(due, how);
}

inline void timer_state::leave() noexcept {
  BOOST_TRY { cancel(); }
  BOOST_CATCH(...) {}  // there is nobody to tell
  BOOST_CATCH_END
}

inline void timer_state::close(wait_list& left) noexcept {
  timer_handle unused;
  {
    const std::lock_guard lock(mutex_);
    left.append(std::move(waiting_));
    unused = disarm();
  }
  unused.cancel();
}

#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
// A signal of `slot` ends that wait. One that comes after its end finds nothing.
template <class Slot>
void connect(Slot slot, timer_state& state, std::uint64_t number) {
  slot.assign([state = state_reference::to(state), number](net::cancellation_type_t asked) {
    constexpr auto any =
        net::cancellation_type::terminal | net::cancellation_type::partial | net::cancellation_type::total;
    if ((asked & any) != net::cancellation_type::none) {
      state->cancel_number(number);
    }
  });
}
#endif

}  // namespace detail
}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
/// \endcond

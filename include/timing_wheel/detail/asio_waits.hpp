#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <boost/core/no_exceptions_support.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/asio_flavour.hpp"
#include "timing_wheel/error.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer.hpp"
#include "timing_wheel/timer_handle.hpp"

/// \cond
namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {
namespace detail {

// One wait of a timer: a handler, and the work that keeps its contexts running. Ends by exactly one of the two calls,
// which free it.
class wait {
 public:
  wait(const wait&) = delete;
  wait& operator=(const wait&) = delete;

  // Posts the handler to its executor, to be called with `error`. Throws what that throws; then the handler is gone.
  void complete(const error_code& error) {
    error_ = error;
    do_(*this, act::post);
  }
  // Destroys the handler without calling it.
  void destroy() noexcept { do_(*this, act::destroy); }

 protected:
  enum class act { post, call, destroy };
  using way = void (*)(wait&, act);

  explicit wait(way how) noexcept : do_(how) {}
  ~wait() = default;

  // What is posted, and lies in memory of Asio's. The wait stays where it is until this runs: only there is the handler
  // moved, and its allocator used. So neither sees the thread of a wheel.
  class turn {
   public:
    explicit turn(wait& of) noexcept : wait_(&of) {}
    turn(turn&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
    turn& operator=(turn&&) = delete;
    ~turn() {
      if (wait_ != nullptr) {
        wait_->destroy();
      }
    }
    void operator()() {
      wait& called = *std::exchange(wait_, nullptr);
      called.do_(called, act::call);
    }

   private:
    wait* wait_;
  };

  [[nodiscard]] const error_code& error() const noexcept { return error_; }

 private:
  friend class wait_list;

  way do_;
  wait* next_ = nullptr;
  std::uint64_t number_ = 0;
  error_code error_;
};

// Waits, oldest first. Destroys what is left in it.
class wait_list {
 public:
  wait_list() noexcept = default;
  wait_list(wait_list&& other) noexcept { append(std::move(other)); }
  wait_list& operator=(wait_list&&) = delete;
  ~wait_list() {
    while (wait* const one = pop()) {
      one->destroy();
    }
  }

  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  void push(wait& added, std::uint64_t number = 0) noexcept {
    added.number_ = number;
    added.next_ = nullptr;
    *last_ = &added;
    last_ = &added.next_;
    ++size_;
  }

  wait* pop() noexcept { return empty() ? nullptr : unlink(&first_); }

  // The one with that number, or none. O(size).
  wait* take(std::uint64_t number) noexcept {
    for (wait** place = &first_; *place != nullptr; place = &(*place)->next_) {
      if ((*place)->number_ == number) {
        return unlink(place);
      }
    }
    return nullptr;
  }

  void append(wait_list&& other) noexcept {
    if (!other.empty()) {
      *last_ = std::exchange(other.first_, nullptr);
      last_ = std::exchange(other.last_, &other.first_);
      size_ += std::exchange(other.size_, 0);
    }
  }

 private:
  wait* unlink(wait** place) noexcept {
    wait* const taken = *place;
    *place = taken->next_;
    if (last_ == &taken->next_) {
      last_ = place;
    }
    --size_;
    return taken;
  }

  wait* first_ = nullptr;
  wait** last_ = &first_;
  std::size_t size_ = 0;
};

// Completes all of them, also if one throws.
inline void complete_all(wait_list& waits, const error_code& error) {
  while (wait* const one = waits.pop()) {
    BOOST_TRY { one->complete(error); }
    BOOST_CATCH(...) {
      complete_all(waits, error);
      BOOST_RETHROW
    }
    BOOST_CATCH_END
  }
}

// A wait for a handler. Lies in memory of the handler's allocator, which has it back before the handler is called.
template <class Handler, class Executor>
class wait_of final : public wait {
 public:
  static wait_of* make(Handler&& handler, const Executor& executor) {
    allocator memory(net::get_associated_allocator(handler));
    storage room{memory, traits::allocate(memory, 1)};
    auto* const made = ::new (static_cast<void*>(std::to_address(room.place))) wait_of(std::move(handler), executor);
    room.place = nullptr;
    return made;
  }

 private:
  using handler_executor = net::associated_executor_t<Handler, Executor>;
  using allocator =
      typename std::allocator_traits<net::associated_allocator_t<Handler>>::template rebind_alloc<wait_of>;
  using traits = std::allocator_traits<allocator>;

  // Memory for one of these; gives it back.
  struct storage {
    storage(const allocator& from, typename traits::pointer where) : memory(from), place(where) {}
    storage(const storage&) = delete;
    storage& operator=(const storage&) = delete;
    ~storage() {
      if (place != nullptr) {
        traits::deallocate(memory, place, 1);
      }
    }
    allocator memory;
    typename traits::pointer place;
  };

  // What leaves the memory before that is freed.
  struct content {
    content(Handler&& called, const Executor& executor)
        : io_work(executor), work(net::get_associated_executor(called, executor)), handler(std::move(called)) {}

    net::executor_work_guard<Executor> io_work;       // for the context of the timer
    net::executor_work_guard<handler_executor> work;  // and for that of the handler
    Handler handler;                                  // goes first: it may own what the others refer to
  };

  wait_of(Handler&& handler, const Executor& executor) : wait(&perform), content_(std::move(handler), executor) {}
  ~wait_of() = default;

  static void perform(wait& waiting, act what) {
    auto& self = static_cast<wait_of&>(waiting);
    if (what == act::post) {
      // Another thread may have freed this before `post` returns. The context of the timer need not wait for that.
      const handler_executor executor = self.content_.work.get_executor();
      const net::executor_work_guard<Executor> ended(std::move(self.content_.io_work));
      net::post(executor, turn(self));
      return;
    }
    const error_code error = self.error();
    content left = leave(self);
    if (what == act::call) {
      std::move(left.handler)(error);
    }
  }

  // Moves the content out, and frees the rest.
  static content leave(wait_of& self) {
    struct remains {
      ~remains() { self.~wait_of(); }
      wait_of& self;
    };
    const storage room{allocator(net::get_associated_allocator(self.content_.handler)),
                       std::pointer_traits<typename traits::pointer>::pointer_to(self)};
    const remains destroyed{self};
    return std::move(self.content_);
  }

  content content_;
};

struct wait_destroyer {
  void operator()(wait* unwanted) const noexcept { unwanted->destroy(); }
};

template <class Handler, class Executor>
std::unique_ptr<wait, wait_destroyer> make_wait(Handler handler, const Executor& executor) {
  return std::unique_ptr<wait, wait_destroyer>(wait_of<Handler, Executor>::make(std::move(handler), executor));
}

class registry;

// What a timer shares with the callbacks of the wheel: the waits, and the timer of the wheel that they wait for.
//
// 1. There is a timer of the wheel, or one is being made or refused, if and only if somebody waits.
// 2. A wait leaves the list once, under the lock; who takes it out ends it.
// 3. Handlers are moved, posted and destroyed under no lock.
class timer_state : public std::enable_shared_from_this<timer_state> {
 public:
  explicit timer_state(std::shared_ptr<registry> of) noexcept : registry_(std::move(of)) {}
  static std::shared_ptr<timer_state> make(const std::shared_ptr<registry>& of);
  timer_state(const timer_state&) = delete;
  timer_state& operator=(const timer_state&) = delete;
  ~timer_state() = default;

  // A number for a wait that is to be cancelled alone.
  [[nodiscard]] std::uint64_t new_number() noexcept { return last_number_.fetch_add(1, std::memory_order_relaxed) + 1; }

  // Takes `added` over. Completes it at `deadline`, and not before this returns or another thread runs.
  void add(wait& added, std::uint64_t number, time_point deadline);

  // End waits with `operation_aborted`, and tell how many.
  std::size_t cancel() {
    return abort([](wait_list& from, wait_list& to) { to.append(std::move(from)); });
  }
  std::size_t cancel_one() {
    return abort([](wait_list& from, wait_list& to) { move_one(from.pop(), to); });
  }
  std::size_t cancel_number(std::uint64_t number) {
    return abort([number](wait_list& from, wait_list& to) { move_one(from.take(number), to); });
  }

  // The end of its timer.
  void leave() noexcept;

  // Takes everything out; a callback of the wheel that comes later does nothing.
  void close(wait_list& left) noexcept;

 private:
  friend class registry;

  // The callback of the wheel: in 24 bytes, which need no allocation. If it is destroyed without having been called,
  // because the wheel was stopped or destroyed, the waits end all the same.
  class expiry {
   public:
    expiry(std::shared_ptr<timer_state> of, std::uint64_t generation) noexcept
        : state_(std::move(of)), generation_(generation) {}
    expiry(expiry&&) noexcept = default;
    expiry& operator=(expiry&&) = delete;
    ~expiry() {
      if (state_ != nullptr) {
        state_->abandon(generation_);
      }
    }
    void operator()() { std::exchange(state_, nullptr)->finish(generation_, {}); }

   private:
    std::shared_ptr<timer_state> state_;
    std::uint64_t generation_;
  };
  static_assert(sizeof(expiry) <= task::inline_size);

  static void move_one(wait* taken, wait_list& to) noexcept {
    if (taken != nullptr) {
      to.push(*taken);
    }
  }

  template <class Take>
  std::size_t abort(Take take);
  void finish(std::uint64_t generation, const error_code& error);
  void abandon(std::uint64_t generation) noexcept;

  const std::shared_ptr<registry> registry_;
  std::atomic<std::uint64_t> last_number_ = 0;  // relaxed: only that no two are the same matters

  std::mutex mutex_;  // guards what follows; nothing else is locked, and nobody else's code runs, while it is held
  wait_list waiting_;
  timer_handle timer_;
  std::uint64_t generation_ = 0;  // how often the waits have ended; a callback of an earlier generation does nothing

  // Guarded by the registry's lock.
  timer_state* earlier_ = nullptr;
  timer_state* later_ = nullptr;
};

// Who runs a wheel on an io_context wants to know when nobody waits any more.
class wheel_driver {
 public:
  wheel_driver(const wheel_driver&) = delete;
  wheel_driver& operator=(const wheel_driver&) = delete;

  // A wait was cancelled.
  virtual void cancelled() noexcept = 0;
  // The context goes.
  virtual void close() noexcept = 0;

 protected:
  wheel_driver() noexcept = default;
  ~wheel_driver() = default;
};

// The timers of a context, and their wheel. It outlives the context, as long as a timer does.
class registry {
 public:
  registry(timing_wheel::timer& wheel, std::shared_ptr<wheel_driver> driver) noexcept
      : wheel_(wheel), driver_(std::move(driver)) {}
  registry(const registry&) = delete;
  registry& operator=(const registry&) = delete;
  ~registry() = default;

  [[nodiscard]] timing_wheel::timer& wheel() const noexcept { return wheel_; }

  void enter(timer_state& added) noexcept {
    const std::lock_guard lock(mutex_);
    added.later_ = std::exchange(first_, &added);
    if (added.later_ != nullptr) {
      added.later_->earlier_ = &added;
    }
  }

  // May be called again, and of a state that was never there.
  void leave(timer_state& gone) noexcept {
    const std::lock_guard lock(mutex_);
    unlink(gone);
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
      if (of_.delivering_.fetch_sub(1, std::memory_order_release) == 1) {
        of_.delivering_.notify_all();
      }
    }

   private:
    registry& of_;
  };

  // Destroys all waits, and waits for those that are being delivered: the context goes.
  void close() noexcept {
    wait_list left;
    while (const std::shared_ptr<timer_state> one = take_first()) {
      one->close(left);
    }
    // Whose delivery was not counted when `close` had the lock of its state finds nothing to deliver.
    for (std::size_t some = delivering_.load(std::memory_order_acquire); some != 0;
         some = delivering_.load(std::memory_order_acquire)) {
      delivering_.wait(some, std::memory_order_acquire);
    }
  }

 private:
  std::shared_ptr<timer_state> take_first() noexcept {
    const std::lock_guard lock(mutex_);
    if (first_ == nullptr) {
      return nullptr;
    }
    // Who is in the list has an owner: that takes it out before it lets go.
    std::shared_ptr<timer_state> taken = first_->shared_from_this();
    unlink(*taken);
    return taken;
  }

  void unlink(timer_state& gone) noexcept {
    if (gone.earlier_ != nullptr) {
      gone.earlier_->later_ = gone.later_;
    } else if (first_ == &gone) {
      first_ = gone.later_;
    }
    if (gone.later_ != nullptr) {
      gone.later_->earlier_ = gone.earlier_;
    }
    gone.earlier_ = nullptr;
    gone.later_ = nullptr;
  }

  timing_wheel::timer& wheel_;
  const std::shared_ptr<wheel_driver> driver_;  // or none

  std::atomic<std::size_t> delivering_ = 0;  // release, and acquire by who waits: what was delivered is seen

  std::mutex mutex_;  // guards the list; taken alone
  timer_state* first_ = nullptr;
};

inline std::shared_ptr<timer_state> timer_state::make(const std::shared_ptr<registry>& of) {
  auto made = std::make_shared<timer_state>(of);
  of->enter(*made);
  return made;
}

inline void timer_state::add(wait& added, std::uint64_t number, time_point deadline) {
  std::uint64_t mine = 0;
  {
    const std::lock_guard lock(mutex_);
    const bool first = waiting_.empty();
    waiting_.push(added, number);
    if (!first) {
      return;
    }
    mine = generation_;
  }
  std::error_code refused;
  expiry callback(shared_from_this(), mine);
  timer_handle made = registry_->wheel().schedule_at(deadline, std::move(callback), refused);
  if (refused) {
    finish(mine, error_of(refused));
    return;
  }
  bool ended = false;
  {
    const std::lock_guard lock(mutex_);
    ended = generation_ != mine;
    if (!ended) {
      std::swap(timer_, made);
    }
  }
  if (ended) {
    made.cancel();  // for a wait that was cancelled meanwhile; one that has fired is finished anyway
  }
}

template <class Take>
std::size_t timer_state::abort(Take take) {
  wait_list taken;
  timer_handle unused;
  {
    const std::lock_guard lock(mutex_);
    take(waiting_, taken);
    if (taken.empty()) {
      return 0;
    }
    if (waiting_.empty()) {
      ++generation_;
      std::swap(unused, timer_);
    }
  }
  if (unused) {
    unused.cancel();
    registry_->cancelled();
  }
  const std::size_t count = taken.size();
  complete_all(taken, net::error::operation_aborted);
  return count;
}

inline void timer_state::finish(std::uint64_t generation, const error_code& error) {
  std::unique_lock lock(mutex_);
  if (generation_ != generation) {
    return;
  }
  ++generation_;
  const registry::delivery counted(*registry_);
  wait_list due(std::move(waiting_));
  lock.unlock();
  complete_all(due, error);
}

inline void timer_state::abandon(std::uint64_t generation) noexcept {
  BOOST_TRY { finish(generation, error_of(timer_errc::stopped)); }
  BOOST_CATCH(...) {}  // there is nobody to tell
  BOOST_CATCH_END
}

inline void timer_state::leave() noexcept {
  BOOST_TRY { cancel(); }
  BOOST_CATCH(...) {}  // as above
  BOOST_CATCH_END
  registry_->leave(*this);
}

inline void timer_state::close(wait_list& left) noexcept {
  timer_handle unused;
  {
    const std::lock_guard lock(mutex_);
    ++generation_;
    left.append(std::move(waiting_));
    std::swap(unused, timer_);
  }
  unused.cancel();
}

#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
// A signal of `slot` ends that wait. One that comes after its end finds nothing.
template <class Slot>
void connect(Slot slot, const std::shared_ptr<timer_state>& state, std::uint64_t number) {
  slot.assign([state, number](net::cancellation_type_t asked) {
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

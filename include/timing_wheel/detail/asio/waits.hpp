#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <atomic>
#include <boost/core/no_exceptions_support.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/error.hpp"

/// \cond
namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {
namespace detail {

class timer_state;

// How a wait ends. Other values are those of `timer_errc`: why the wheel has refused it. `due` is on its way to
// `expired`, see `wait_of::run`.
enum class ending : std::int32_t { due = -3, no_memory = -2, aborted = -1, expired = 0 };

[[nodiscard]] inline ending ending_of(timer_errc why) noexcept { return static_cast<ending>(why); }

// What the wheel refuses with: a `timer_errc`, or a lack of memory.
[[nodiscard]] inline ending ending_of(const std::error_code& why) noexcept {
  return why.category() == timer_category() ? ending_of(static_cast<timer_errc>(why.value())) : ending::no_memory;
}

[[nodiscard]] inline error_code error_of(ending how) noexcept {
  switch (how) {
    case ending::due:
    case ending::expired:
      return {};
    case ending::aborted:
      return net::error::operation_aborted;
    case ending::no_memory:
      return net::error::no_memory;
  }
  return error_of(static_cast<timer_errc>(how));
}

// One wait of a timer: a handler, and the work that keeps its contexts running. Ends by exactly one of the two calls,
// which free it.
class wait {
 public:
  wait(const wait&) = delete;
  wait& operator=(const wait&) = delete;

  // Posts the handler to its executor, to be called with `how`. Throws what that throws; then the handler is gone.
  // `keeper`, if there is one, is a reference to its timer: that keeps the one of the wheel until the handler was
  // called, or is gone.
  void complete(ending how, timer_state* keeper = nullptr) {
    const way end = end_;
    keeper_ = keeper;
    how_ = how == ending::expired ? ending::due : how;
    end(*this, act::post);
  }
  // Destroys the handler without calling it.
  void destroy() noexcept {
    keeper_ = nullptr;
    end_(*this, act::destroy);
  }
#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
  // For `remove`. Before it is in a list.
  void set_number(std::uint64_t number) noexcept { number_ = number; }
#endif

 protected:
  enum class act { post, destroy };
  using way = void (*)(wait&, act);

  // NOLINTNEXTLINE(*-member-init): of a union, one member
  explicit wait(way end) noexcept : end_(end), next_(nullptr) {}
  ~wait() = default;

  // Of a wait that has ended.
  [[nodiscard]] ending how() const noexcept { return how_; }
  [[nodiscard]] timer_state* keeper() const noexcept { return how_ == ending::due ? nullptr : keeper_; }
  // Of one that is due: where it is posted for the second time. One that is due has no keeper.
  void comes_again_in(net::io_context& context) noexcept { context_ = &context; }
  [[nodiscard]] net::io_context* context() const noexcept { return context_; }
  void has_expired() noexcept {
    how_ = ending::expired;
    keeper_ = nullptr;
  }

 private:
  friend class wait_list;

  // NOLINTBEGIN(readability-identifier-naming): private, though clang-tidy does not see it in a union
  union {
    way end_;
    ending how_;  // once it is completed
  };
  union {
    wait* next_;                // in a list
    timer_state* keeper_;       // from its end on
    net::io_context* context_;  // from its end on, while it is due
  };
  // NOLINTEND(readability-identifier-naming)
#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
  std::uint64_t number_ = 0;
#endif
};

// Waits, oldest first. Destroys what is left in it.
class wait_list {
 public:
  wait_list() noexcept = default;
  wait_list(wait_list&& other) noexcept : last_(std::exchange(other.last_, nullptr)) {}
  wait_list& operator=(wait_list&&) = delete;
  ~wait_list() {
    while (wait* const one = pop()) {
      one->destroy();
    }
  }

  [[nodiscard]] bool empty() const noexcept { return last_ == nullptr; }

  void push(wait& added) noexcept {
    if (last_ == nullptr) {
      added.next_ = &added;
    } else {
      added.next_ = std::exchange(last_->next_, &added);
    }
    last_ = &added;
  }

  wait* pop() noexcept { return empty() ? nullptr : remove_after(*last_); }

#ifdef TIMING_WHEEL_ASIO_HAS_CANCELLATION
  // The one with that number, or none. O(size).
  wait* remove(std::uint64_t number) noexcept {
    if (empty()) {
      return nullptr;
    }
    wait* before = last_;
    do {
      if (before->next_->number_ == number) {
        return remove_after(*before);
      }
      before = before->next_;
    } while (before != last_);
    return nullptr;
  }
#endif

  void append(wait_list&& other) noexcept {
    if (!empty() && !other.empty()) {
      std::swap(last_->next_, other.last_->next_);
    }
    if (!other.empty()) {
      last_ = std::exchange(other.last_, nullptr);
    }
  }

 private:
  wait* remove_after(wait& before) noexcept {
    wait* const removed = before.next_;
    before.next_ = removed->next_;
    if (last_ == removed) {
      last_ = &before == removed ? nullptr : &before;
    }
    return removed;
  }

  wait* last_ = nullptr;  // and its next one is the first
};

// Completes all of them, also if one throws. `keeper`, if there is one, goes with the last of them, and there is one.
// Returns how many.
inline std::size_t complete_all(wait_list& waits, ending how, timer_state* keeper = nullptr) {
  std::size_t count = 0;
  while (wait* const one = waits.pop()) {
    ++count;
    BOOST_TRY { one->complete(how, waits.empty() ? keeper : nullptr); }
    BOOST_CATCH(...) {
      complete_all(waits, how, keeper);
      BOOST_RETHROW
    }
    BOOST_CATCH_END
  }
  return count;
}

// For a reference to a timer, or null: when this goes, it ends its keeping, and is let go.
class keeping {
 public:
  explicit keeping(timer_state* of) noexcept : of_(of) {}
  keeping(const keeping&) = delete;
  keeping& operator=(const keeping&) = delete;
  inline ~keeping();

 private:
  timer_state* of_;
};

// The executors of an `io_context`, without and with work: what most handlers run on. A wait is posted to it without
// an allocation, for what it makes of that lies in the wait.
using context_executor = net::io_context::executor_type;
using context_work = std::decay_t<decltype(net::require(std::declval<const context_executor&>(),
                                                        net::execution::outstanding_work.tracked))>;

// Memory for a posted wait in the queue of an `io_context`: its links, a pointer to the wait, and an allocator.
struct inline_buffer {
  static constexpr std::size_t size = 5 * sizeof(void*);
  alignas(void*) std::byte bytes[size];  // NOLINT(*-avoid-c-arrays)
};

// Gives that memory, once. What does not fit, in another version of Asio, is allocated.
template <class T>
class inline_allocator {
 public:
  using value_type = T;

  explicit inline_allocator(inline_buffer& buffer) noexcept : buffer_(&buffer) {}
  template <class Other>
  inline_allocator(const inline_allocator<Other>& other) noexcept : buffer_(other.buffer_) {}  // NOLINT(*-explicit-*)

  [[nodiscard]] T* allocate(std::size_t count) {
    if constexpr (fits()) {
      return reinterpret_cast<T*>(buffer_->bytes);  // NOLINT(*-reinterpret-cast): an object is made there
    } else {
      return std::allocator<T>().allocate(count);
    }
  }
  void deallocate(T* place, std::size_t count) noexcept {
    if constexpr (!fits()) {
      std::allocator<T>().deallocate(place, count);
    }
  }
  [[maybe_unused]] friend bool operator==(const inline_allocator&, const inline_allocator&) noexcept = default;

 private:
  template <class>
  friend class inline_allocator;

  static constexpr bool fits() noexcept {
    return sizeof(T) <= inline_buffer::size && alignof(T) <= alignof(inline_buffer);
  }

  inline_buffer* buffer_;
};

// What is posted. The wait stays where it is until this runs: only there is the handler moved, and its allocator used.
// So neither sees the thread of a wheel.
template <class Wait>
class posted_wait {
 public:
  explicit posted_wait(Wait& of) noexcept : wait_(&of) {}
  posted_wait(posted_wait&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
  posted_wait& operator=(posted_wait&&) = delete;
  ~posted_wait() {
    if (wait_ != nullptr) {
      wait_->drop();
    }
  }
  void operator()() { take().run(); }

  [[nodiscard]] Wait& of() const noexcept { return *wait_; }

 protected:
  [[nodiscard]] Wait& take() noexcept { return *std::exchange(wait_, nullptr); }

 private:
  Wait* wait_;
};

// The same, at the place where its handler is to be called.
template <class Wait>
class arrived_wait : public posted_wait<Wait> {
 public:
  using posted_wait<Wait>::posted_wait;
  void operator()() { this->take().call(); }
};

// The same, for an `io_context`, whose queue has it in the buffer of the wait.
template <class Wait>
class posted_wait_in_buffer : public posted_wait<Wait> {
 public:
  using allocator_type = inline_allocator<void>;

  explicit posted_wait_in_buffer(posted_wait<Wait>&& posted) noexcept : posted_wait<Wait>(std::move(posted)) {}
  [[nodiscard]] allocator_type get_allocator() const noexcept { return allocator_type(this->of().buffer()); }
};

// Whether executors of that type may be those of an `io_context`; and which one this is, or null.
template <class Executor>
inline constexpr bool may_be_of_context = std::is_same_v<Executor, context_executor>;
#if defined(__cpp_rtti) && !defined(BOOST_ASIO_NO_TYPEID) && !defined(ASIO_NO_TYPEID)
#define TIMING_WHEEL_ASIO_KNOWS_TYPES 1
template <>
inline constexpr bool may_be_of_context<net::any_io_executor> = true;
[[nodiscard]] inline const context_executor* context_executor_in(const net::any_io_executor& executor) noexcept {
  return executor.target_type() == typeid(context_executor) ? executor.target<context_executor>() : nullptr;
}
#endif
[[nodiscard]] inline const context_executor* context_executor_in(const context_executor& executor) noexcept {
  return &executor;
}

// Whether executors of that type may run on an `io_context`, behind a strand perhaps; and on which one, or null.
template <class Executor>
inline constexpr bool may_have_loop = may_be_of_context<Executor>;
template <class Executor>
inline constexpr bool may_have_loop<net::strand<Executor>> = may_have_loop<Executor>;
[[nodiscard]] inline net::io_context* loop_of(const context_executor& executor) noexcept {
  return &net::query(executor, net::execution::context);
}
#ifdef TIMING_WHEEL_ASIO_KNOWS_TYPES
[[nodiscard]] net::io_context* loop_of(const net::any_io_executor& executor) noexcept;
#endif
template <class Executor>
[[nodiscard]] net::io_context* loop_of(const net::strand<Executor>& executor) noexcept {
  return loop_of(executor.get_inner_executor());
}
#ifdef TIMING_WHEEL_ASIO_KNOWS_TYPES
inline net::io_context* loop_of(const net::any_io_executor& executor) noexcept {
  using strand = net::strand<context_executor>;
  using any_strand = net::strand<net::any_io_executor>;
  if (executor.target_type() == typeid(context_executor)) {
    return loop_of(*executor.target<context_executor>());
  }
  if (executor.target_type() == typeid(strand)) {
    return loop_of(*executor.target<strand>());
  }
  return executor.target_type() == typeid(any_strand) ? loop_of(*executor.target<any_strand>()) : nullptr;
}
#endif
// Whether it is that of the context itself.
template <class Executor>
[[nodiscard]] bool is_of_context(const Executor& executor) noexcept {
  if constexpr (may_be_of_context<Executor>) {
    return context_executor_in(executor) != nullptr;
  } else {
    return false;
  }
}

// The executor that a timer keeps. An `any_io_executor` takes 48 bytes or more, and nearly all of them are those of an
// `io_context`: then a pointer to that is kept. Another one lies in a box, which timers share that were moved from each
// other. Copying throws only what copying the executor does, which for an `any_io_executor` is nothing.
template <class Executor>
class kept_executor {
 public:
  explicit kept_executor(Executor executor) noexcept(std::is_nothrow_move_constructible_v<Executor>)
      : executor_(std::move(executor)) {}

  [[nodiscard]] const Executor& get() const noexcept { return executor_; }
  // That of an `io_context`, if it is one.
  [[nodiscard]] std::optional<context_executor> of_context() const noexcept {
    if constexpr (may_be_of_context<Executor>) {
      return executor_;
    } else {
      return std::nullopt;
    }
  }
  [[nodiscard]] net::execution_context& context() const { return context_of(executor_); }

 private:
  Executor executor_;
};

// NOLINTBEGIN(*-owning-memory,*-pointer-arithmetic,*-reinterpret-cast): one word for two kinds of pointers
#ifdef TIMING_WHEEL_ASIO_KNOWS_TYPES
template <>
class kept_executor<net::any_io_executor> {
 public:
  explicit kept_executor(net::any_io_executor executor) {
    const context_executor* const plain = context_executor_in(executor);
    // One of other properties, such as `blocking.never`, is of the same type.
    if (plain != nullptr && *plain == net::query(*plain, net::execution::context).get_executor()) {
      target_ = reinterpret_cast<std::byte*>(&net::query(*plain, net::execution::context));
    } else {
      target_ = reinterpret_cast<std::byte*>(new box{std::move(executor)}) + 1;
    }
  }
  kept_executor(const kept_executor& other) noexcept : target_(other.target_) {
    if (boxed()) {
      in_box().owners.fetch_add(1, std::memory_order_relaxed);
    }
  }
  kept_executor& operator=(const kept_executor& other) noexcept {
    kept_executor copy(other);
    std::swap(target_, copy.target_);
    return *this;
  }
  ~kept_executor() {
    if (boxed() && in_box().owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete &in_box();
    }
  }

  [[nodiscard]] net::any_io_executor get() const noexcept {
    return boxed() ? in_box().executor : net::any_io_executor(in_context().get_executor());
  }
  [[nodiscard]] std::optional<context_executor> of_context() const noexcept {
    return boxed() ? std::nullopt : std::optional(in_context().get_executor());
  }
  [[nodiscard]] net::execution_context& context() const {
    return boxed() ? context_of(in_box().executor) : in_context();
  }

 private:
  struct box {
    net::any_io_executor executor;
    std::atomic<std::size_t> owners = 1;  // relaxed to add, by who is one; the last one acquires
  };
  static_assert(alignof(net::io_context) > 1 && alignof(box) > 1);

  [[nodiscard]] bool boxed() const noexcept { return reinterpret_cast<std::uintptr_t>(target_) % 2 != 0; }
  [[nodiscard]] box& in_box() const noexcept { return *reinterpret_cast<box*>(target_ - 1); }
  [[nodiscard]] net::io_context& in_context() const noexcept { return *reinterpret_cast<net::io_context*>(target_); }

  std::byte* target_;  // an `io_context`, or the second byte of a box
};
#endif
// NOLINTEND(*-owning-memory,*-pointer-arithmetic,*-reinterpret-cast)

// Whether a handler says where it is to run. An executor that nobody else knows of is only what it falls back to.
struct unknown_executor {
  template <class Work>
  void execute(Work&& work) const;
  [[maybe_unused]] friend bool operator==(const unknown_executor&, const unknown_executor&) noexcept = default;
};
template <class Handler>
inline constexpr bool has_own_executor =
    !std::is_same_v<net::associated_executor_t<Handler, unknown_executor>, unknown_executor>;

// Whether something can be posted to executors of that type. Type-erased ones of handlers cannot promise not to block:
// then Asio's own operations come from the executor of the I/O object, and ask the other one there.
template <class Executor>
inline constexpr bool can_post = (net::execution::is_executor<Executor>::value &&
                                  net::can_require<Executor, net::execution::blocking_t::never_t>::value) ||
                                 net::is_executor<Executor>::value;

// Whether the wheel posts a wait to the handler's executor at once. It may if that is one of a loop, which runs nothing
// beside the rest of the loop, or of the strand. Otherwise the wheel posts the wait to the executor of the timer, which
// dispatches it to the other one, as Asio's operations do: for the executor of `use_future` runs at once what comes
// from the timer's context, and what comes from elsewhere on a thread of its own, beside the user's.
template <class HandlerExecutor, bool own>
inline constexpr bool goes_straight = can_post<HandlerExecutor> && (!own || may_have_loop<HandlerExecutor>);

// The work of a wait whose handler runs on an `io_context`. Being posted is work too.
class context_works {
 public:
  template <class Handler>
  // NOLINTNEXTLINE(*-member-init): of a union, one member
  context_works(const Handler& /*called*/, const context_executor& executor) noexcept
      : work_(net::require(executor, net::execution::outstanding_work.tracked)) {}
  context_works(const context_works&) = delete;
  context_works& operator=(const context_works&) = delete;
  ~context_works() {}  // NOLINT(modernize-use-equals-default): the work has gone before

  // Of a wait that is not posted.
  void release() noexcept { work_.~context_work(); }

  template <class Wait>
  void post(posted_wait<Wait> posted) {
    const context_work ended(std::move(work_));
    work_.~context_work();
    ::new (&buffer_) inline_buffer;
    net::io_context& context = net::query(ended, net::execution::context);
    if (posted.of().is_due() && context.get_executor().running_in_this_thread()) {
      posted.of().has_expired();  // this loop has looked at its sockets just now
    } else if (posted.of().is_due()) {
      posted.of().comes_again_in(context);
    }
    net::post(context.get_executor(), posted_wait_in_buffer<Wait>(std::move(posted)));
  }
  template <class Wait>
  static void post_again(net::io_context* context, posted_wait<Wait> posted) {
    net::post(context->get_executor(), posted_wait_in_buffer<Wait>(std::move(posted)));
  }
  template <class Wait>
  static void arrive(Wait& there) {
    there.call();
  }
  [[nodiscard]] inline_buffer& buffer() noexcept { return buffer_; }

  // What has to last until the handler was called.
  struct rest {
    explicit rest(context_works&& /*of*/) noexcept {}  // NOLINT(*-param-not-moved)
  };

 private:
  // NOLINTBEGIN(readability-identifier-naming): private, though clang-tidy does not see it in a union
  union {
    context_work work_;     // until it is posted
    inline_buffer buffer_;  // from then on
  };
  // NOLINTEND(readability-identifier-naming)
};

// And of one with any executors: that of the timer, and that of the handler, if it has one of its own.
template <class Executor, class HandlerExecutor, bool own>
class works {
 public:
  template <class Handler>
  works(const Handler& called, const Executor& executor)
      : io_work_(executor), work_(net::get_associated_executor(called, executor)) {}

  void release() noexcept {}

  // Another thread may have freed this before `post` returns. The context of the timer need not wait for that.
  template <class Wait>
  void post(posted_wait<Wait> posted) {
    const auto executor = way();
    [[maybe_unused]] const io_work ended(leave_timer());
    if constexpr (may_have_loop<way_executor>) {
      net::io_context* const loop = loop_of(executor);
      if (loop != nullptr && posted.of().is_due()) {
        if (loop->get_executor().running_in_this_thread()) {
          posted.of().has_expired();
        } else {
          posted.of().comes_again_in(*loop);
        }
        post_in_buffer(*loop, std::move(posted));
        return;
      }
      if (loop != nullptr && is_of_context(executor)) {
        post_in_buffer(*loop, std::move(posted));
        return;
      }
    }
    net::post(executor, std::move(posted));
  }
  template <class Wait>
  void post_again(net::io_context* loop, posted_wait<Wait> posted) {
    if constexpr (may_have_loop<way_executor>) {
      if (loop != nullptr) {
        post_in_buffer(*loop, std::move(posted));
        return;
      }
    }
    const auto executor = way();
    net::post(executor, std::move(posted));
  }
  template <class Wait>
  void arrive(Wait& there) {
    const HandlerExecutor executor = work_.get_executor();
    if constexpr (!can_post<HandlerExecutor>) {
      net::prefer(executor, net::execution::blocking.possibly).execute(arrived_wait<Wait>(there));
    } else if constexpr (!straight) {
      net::dispatch(executor, arrived_wait<Wait>(there));
    } else {
      if constexpr (may_have_loop<HandlerExecutor>) {
        if (loop_of(executor) != nullptr && !is_of_context(executor)) {
          net::dispatch(executor, arrived_wait<Wait>(there));
          return;
        }
      }
      there.call();
    }
  }
  [[nodiscard]] inline_buffer& buffer() noexcept { return buffer_; }

  struct rest {
    explicit rest(works&& of) noexcept : work(std::move(of.work_)) {}
    net::executor_work_guard<HandlerExecutor> work;
  };

 private:
  struct nothing {
    explicit nothing(const Executor& /*executor*/) noexcept {}
  };
  struct no_buffer {};
  static constexpr bool straight = goes_straight<HandlerExecutor, own>;
  using io_work = std::conditional_t<own, net::executor_work_guard<Executor>, nothing>;
  using way_executor = std::conditional_t<straight, HandlerExecutor, Executor>;

  // By which executor it goes to its handler.
  [[nodiscard]] way_executor way() const noexcept {
    if constexpr (straight) {
      return work_.get_executor();
    } else {
      return io_work_.get_executor();
    }
  }
  // If it goes by the timer's, that is to wait until it has arrived.
  [[nodiscard]] io_work leave_timer() {
    if constexpr (straight) {
      return std::move(io_work_);
    } else {
      return io_work_;
    }
  }
  template <class Wait>
  static void post_in_buffer(net::io_context& loop, posted_wait<Wait> posted) {
    net::post(loop.get_executor(), posted_wait_in_buffer<Wait>(std::move(posted)));
  }

  [[no_unique_address]] io_work io_work_;           // for the context of the timer
  net::executor_work_guard<HandlerExecutor> work_;  // and for that of the handler
  [[no_unique_address]] std::conditional_t<may_have_loop<way_executor>, inline_buffer, no_buffer> buffer_;
};

struct wait_destroyer {
  void operator()(wait* unwanted) const noexcept { unwanted->destroy(); }
};
using wait_owner = std::unique_ptr<wait, wait_destroyer>;

// A wait for a handler. Lies in memory of the handler's allocator, which has it back before the handler is called.
template <class Handler, class Works>
class wait_of final : public wait {
 public:
  template <class Executor>
  static wait_owner make(Handler&& handler, const Executor& executor) {
    allocator memory(net::get_associated_allocator(handler));
    storage room{memory, traits::allocate(memory, 1)};
    auto* const made = ::new (static_cast<void*>(std::to_address(room.place))) wait_of(std::move(handler), executor);
    room.place = nullptr;
    return wait_owner(made);
  }

 private:
  using allocator =
      typename std::allocator_traits<net::associated_allocator_t<Handler>>::template rebind_alloc<wait_of>;
  using traits = std::allocator_traits<allocator>;

  // Memory for one of these; gives it back.
  struct storage {
    storage(const allocator& from, typename traits::pointer room) : memory(from), place(room) {}
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
    typename Works::rest work;
    Handler handler;  // goes first: it may own what the other refers to
  };

  template <class Executor>
  wait_of(Handler&& handler, const Executor& executor)
      : wait(&end), handler_(std::move(handler)), works_(handler_, executor) {}
  ~wait_of() = default;

  static void end(wait& waiting, act what) {
    auto& self = static_cast<wait_of&>(waiting);
    if (what == act::post) {
      self.works_.post(posted_wait<wait_of>(self));
    } else {
      self.works_.release();
      self.drop();
    }
  }

  friend class posted_wait<wait_of>;
  friend class posted_wait_in_buffer<wait_of>;
  friend class arrived_wait<wait_of>;
  friend Works;

  [[nodiscard]] inline_buffer& buffer() noexcept { return works_.buffer(); }
  [[nodiscard]] bool is_due() const noexcept { return how() == ending::due; }

  // A loop that was busy finds what its wheel has posted meanwhile before it looks at its sockets, and a message that
  // came in time would lose to a time-out that came late. So what is due is posted once more, from the loop: what the
  // loop has found on its sockets by then is before it in the queue. Both posts are to the loop itself, not to a strand
  // on it, which would have the time-out first. The second takes the buffer of the first.
  void run() {
    if (!is_due()) {
      works_.arrive(*this);
      return;
    }
    net::io_context* const context = this->context();
    has_expired();
    works_.post_again(context, posted_wait<wait_of>(*this));
  }

  void call() {
    const error_code error = error_of(how());
    const keeping ends_afterwards(keeper());
    content left = leave(*this);
    std::move(left.handler)(error);
  }
  void drop() noexcept {
    const keeping ends_afterwards(keeper());
    static_cast<void>(leave(*this));
  }

  // Moves the content out, and frees the rest.
  static content leave(wait_of& self) {
    struct remains {
      ~remains() { self.~wait_of(); }
      wait_of& self;
    };
    const storage room{allocator(net::get_associated_allocator(self.handler_)),
                       std::pointer_traits<typename traits::pointer>::pointer_to(self)};
    const remains destroyed{self};
    return {typename Works::rest(std::move(self.works_)), std::move(self.handler_)};
  }

  Handler handler_;
  Works works_;
};

template <class Handler, class Executor>
wait_owner make_wait(Handler handler, const kept_executor<Executor>& executor) {
  if constexpr (!has_own_executor<Handler> && may_be_of_context<Executor>) {
    if (const std::optional<context_executor> plain = executor.of_context()) {
      return wait_of<Handler, context_works>::make(std::move(handler), *plain);
    }
  }
  using handler_executor = net::associated_executor_t<Handler, Executor>;
  return wait_of<Handler, works<Executor, handler_executor, has_own_executor<Handler>>>::make(std::move(handler),
                                                                                              executor.get());
}

}  // namespace detail
}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
/// \endcond

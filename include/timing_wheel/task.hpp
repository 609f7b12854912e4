#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"

namespace timing_wheel {

namespace detail {
template <class Callable, class Make>
class source_of;
}

/// What can be scheduled: anything that can be moved, and called without arguments or with the handle of its timer
/// (`const timer_handle&`; with it, if both are possible). What it returns is ignored.
// clang-format off
template <class F>
concept timer_callback = (detail::callable_alone<std::decay_t<F>> || detail::callable_with_handle<std::decay_t<F>>) &&
                         std::constructible_from<std::decay_t<F>, F> && std::move_constructible<std::decay_t<F>>;
// clang-format on

/// A callable that can be moved and not copied, in 32 bytes.
///
/// Up to 24 bytes of captures lie inside, if they can be moved without throwing; larger ones are boxed, in one
/// allocation. A task made from a null pointer or an empty `std::function` is empty. A service moves tasks under a
/// lock, so the move constructor of a callable, and the destructor of one moved from, must not use it. Thread safety:
/// as a plain object.
class task {
 public:
  /// Bytes of captures that need no allocation.
  static constexpr std::size_t inline_size = 24;

  /// An empty task.
  task() noexcept = default;

  /// Holds `callable`, moved or copied here. Throws what that throws, and `std::bad_alloc` if it has to be boxed.
  // clang-format off
  template <class F>
    requires(!std::same_as<std::decay_t<F>, task>) && timer_callback<F>
  explicit task(F&& callable) {  // NOLINT(bugprone-forwarding-reference-overload): constrained above
    // clang-format on
    using callable_type = std::decay_t<F>;
    if (detail::is_null<std::remove_cvref_t<F>>(callable)) {
      return;
    }
    const auto make = [&callable](void* place) { ::new (place) callable_type(std::forward<F>(callable)); };
    if constexpr (fits<callable_type>) {
      void* none = nullptr;
      construct<callable_type>(make, none);
    } else {
      struct free {
        void operator()(void* unused) const noexcept { detail::free_box<callable_type>(unused); }
      };
      std::unique_ptr<void, free> box(detail::allocate_box<callable_type>());
      if (box == nullptr) {
        detail::throw_bad_alloc();
      }
      void* place = box.get();
      construct<callable_type>(make, place);
      static_cast<void>(box.release());
    }
  }

  /// Takes the callable over; `other` is empty then. Moves the callable if it lies inside, else only its box. Never
  /// allocates.
  task(task&& other) noexcept { take(other); }
  /// Destroys the callable that it had, and takes over that of `other`, which is empty then.
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~task() { reset(); }

  /// Whether there is a callable.
  [[nodiscard]] explicit operator bool() const noexcept { return operations_ != nullptr; }

  /// Calls it; a callable that takes a handle gets `self`. \pre not empty.
  void operator()(const timer_handle& self = {}) { operations_->call(storage_.data(), self); }

  /// When it is to be called again, if `previous` was its last deadline; none if no more. Throws what the user's rule
  /// throws.
  /// \pre it recurs.
  std::optional<time_point> next(time_point previous, time_point now) {
    return operations_->next(storage_.data(), previous, now);
  }

  /// Destroys the callable and what it captured.
  void reset() noexcept {
    if (const operations* old = std::exchange(operations_, nullptr); old != nullptr && old->destroy != nullptr) {
      old->destroy(storage_.data());
    }
  }

 private:
  struct operations {
    void (*call)(std::byte* self, const timer_handle& timer);
    std::optional<time_point> (*next)(std::byte* self, time_point previous, time_point now);  // null: it does not recur
    void (*relocate)(std::byte* from, std::byte* to) noexcept;                                // null: copy the bytes
    void (*destroy)(std::byte* self) noexcept;                                                // null: nothing to do
  };

  template <class Callable, class Make>
  friend class detail::source_of;

  template <class F>
  static constexpr bool fits = sizeof(F) <= inline_size &&
                               alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  template <class T>
  static T& as(std::byte* self) noexcept {
    return *std::launder(reinterpret_cast<T*>(self));
  }

  // Where the callable lies: here, or in its box.
  template <class F>
  struct inside {
    static F& get(std::byte* self) noexcept { return as<F>(self); }
    static void relocate(std::byte* from, std::byte* to) noexcept {
      ::new (static_cast<void*>(to)) F(std::move(get(from)));
      get(from).~F();
    }
    static void destroy(std::byte* self) noexcept { get(self).~F(); }

    static constexpr auto relocation = std::is_trivially_copyable_v<F> ? nullptr : &relocate;
    static constexpr auto destruction = std::is_trivially_destructible_v<F> ? nullptr : &destroy;
  };
  template <class F>
  struct boxed {
    static F& get(std::byte* self) noexcept { return *as<F*>(self); }
    static void destroy(std::byte* self) noexcept {
      F* const callable = as<F*>(self);
      callable->~F();
      detail::free_box<F>(callable);
    }

    static constexpr std::nullptr_t relocation = nullptr;
    static constexpr auto destruction = &destroy;
  };

  template <class Place>
  static void call(std::byte* self, const timer_handle& timer) {
    detail::call(Place::get(self), timer);
  }
  template <class Place>
  static std::optional<time_point> next_of(std::byte* self, time_point previous, time_point now) {
    return Place::get(self).next(previous, now);
  }
  template <class F, class Place>
  static constexpr auto recurrence() noexcept {
    if constexpr (detail::is_recurring<F>) {
      return &next_of<Place>;
    } else {
      return nullptr;
    }
  }

  template <class F, class Place = std::conditional_t<fits<F>, inside<F>, boxed<F>>>
  static constexpr operations operations_of{&call<Place>, recurrence<F, Place>(), Place::relocation,
                                            Place::destruction};

  // Makes it hold the `Callable` that `make` constructs: here, or in `box`, which it then owns. \pre empty.
  template <class Callable, class Make>
  void construct(Make& make, void*& box) {
    if constexpr (fits<Callable>) {
      make(static_cast<void*>(storage_.data()));
    } else {
      make(box);
      ::new (static_cast<void*>(storage_.data())) Callable*(static_cast<Callable*>(std::exchange(box, nullptr)));
    }
    operations_ = &operations_of<Callable>;
  }

  void take(task& other) noexcept {
    operations_ = std::exchange(other.operations_, nullptr);
    if (operations_ != nullptr && operations_->relocate != nullptr) {
      operations_->relocate(other.storage_.data(), storage_.data());
    } else {
      storage_ = other.storage_;
    }
  }

  const operations* operations_ = nullptr;
  alignas(void*) std::array<std::byte, inline_size> storage_{};
};

static_assert(sizeof(task) == 32);

/// \cond
template <>
inline constexpr bool detail::is_task<task> = true;
/// \endcond

}  // namespace timing_wheel

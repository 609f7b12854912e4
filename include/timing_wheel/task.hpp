#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace timing_wheel {

/// What can be scheduled: anything that can be moved and called without arguments. What it returns is ignored.
// clang-format off
template <class F>
concept timer_callback = std::invocable<std::decay_t<F>&> && std::constructible_from<std::decay_t<F>, F> &&
                         std::move_constructible<std::decay_t<F>>;
// clang-format on

/// A callable that can be moved and not copied, in 32 bytes.
///
/// Up to 24 bytes of captures lie inside, if they can be moved without throwing; larger ones are boxed, in one allocation.
/// A task made from a null pointer or an empty `std::function` is empty.
/// A service moves tasks under a lock, so the move constructor of a callable, and the destructor of one moved from, must not use it.
/// Thread safety: as a plain object.
class task {
 public:
  static constexpr std::size_t inline_size = 24;

  task() noexcept = default;

  /// Throws what the move of `callable` throws, and `std::bad_alloc` if it has to be boxed.
  // clang-format off
  template <class F>
    requires(!std::same_as<std::decay_t<F>, task>) && timer_callback<F>
  explicit task(F&& callable) {  // NOLINT(bugprone-forwarding-reference-overload): constrained above
    // clang-format on
    using callable_type = std::decay_t<F>;
    if constexpr (may_be_empty<F>) {
      if (callable == nullptr) {
        return;
      }
    }
    if constexpr (fits<callable_type>) {
      ::new (static_cast<void*>(storage_.data())) callable_type(std::forward<F>(callable));
      operations_ = &inline_operations<callable_type>;
    } else {
      auto box = std::make_unique<callable_type>(std::forward<F>(callable));
      ::new (static_cast<void*>(storage_.data())) callable_type*(box.release());
      operations_ = &boxed_operations<callable_type>;
    }
  }

  task(task&& other) noexcept { take(other); }
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~task() { reset(); }

  [[nodiscard]] explicit operator bool() const noexcept { return operations_ != nullptr; }

  /// Calls it. \pre not empty.
  void operator()() { operations_->call(storage_.data()); }

  /// Destroys the callable and what it captured.
  void reset() noexcept {
    if (const operations* old = std::exchange(operations_, nullptr); old != nullptr && old->destroy != nullptr) {
      old->destroy(storage_.data());
    }
  }

 private:
  struct operations {
    void (*call)(std::byte* self);
    void (*relocate)(std::byte* from, std::byte* to) noexcept;  // null: copy the bytes
    void (*destroy)(std::byte* self) noexcept;                  // null: nothing to do
  };

  template <class F>
  static constexpr bool fits = sizeof(F) <= inline_size &&
                               alignof(F) <= alignof(void*) && std::is_nothrow_move_constructible_v<F>;

  // Pointers, and what behaves as one: made from nullptr, compared with it, and tested as a condition.
  template <class F, class D = std::remove_cvref_t<F>>
  static constexpr bool may_be_empty = std::is_pointer_v<D> || (std::is_constructible_v<D, std::nullptr_t> &&
                                                                std::is_constructible_v<bool, D&> &&
                                                                requires(D & callable) { callable == nullptr; });

  template <class T>
  static T& as(std::byte* self) noexcept {
    return *std::launder(reinterpret_cast<T*>(self));
  }

  template <class F>
  static void call_inline(std::byte* self) {
    static_cast<void>(as<F>(self)());
  }
  template <class F>
  static void relocate_inline(std::byte* from, std::byte* to) noexcept {
    ::new (static_cast<void*>(to)) F(std::move(as<F>(from)));
    as<F>(from).~F();
  }
  template <class F>
  static void destroy_inline(std::byte* self) noexcept {
    as<F>(self).~F();
  }
  template <class F>
  static void call_boxed(std::byte* self) {
    static_cast<void>((*as<F*>(self))());
  }
  template <class F>
  static void destroy_boxed(std::byte* self) noexcept {
    delete as<F*>(self);
  }

  template <class F>
  static constexpr operations inline_operations{&call_inline<F>,
                                                std::is_trivially_copyable_v<F> ? nullptr : &relocate_inline<F>,
                                                std::is_trivially_destructible_v<F> ? nullptr : &destroy_inline<F>};
  template <class F>
  static constexpr operations boxed_operations{&call_boxed<F>, nullptr, &destroy_boxed<F>};

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

}  // namespace timing_wheel

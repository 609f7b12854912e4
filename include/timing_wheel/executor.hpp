#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <concepts>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/task.hpp"

namespace timing_wheel {

// clang-format off
/// What takes a task: by `e(std::move(task))`, or by `e.execute(std::move(task))` as the executors of Boost.Asio.
template <class E>
concept task_executor = requires(E& e, task&& work) { e(std::move(work)); } ||
                        requires(E& e, task&& work) { e.execute(std::move(work)); };
// clang-format on

namespace detail {
template <task_executor E>
void give(E& to, task&& work) {
  if constexpr (requires { to(std::move(work)); }) {
    static_cast<void>(to(std::move(work)));
  } else {
    static_cast<void>(to.execute(std::move(work)));
  }
}
}  // namespace detail

/// Where a service runs its callbacks. An executor can be made of anything that takes a task. If an executor is empty,
/// the callbacks run on the thread that drives the service.
///
///     boost::asio::thread_pool pool(4);
///     timer timer{{.executor = [&pool](task&& work) { boost::asio::post(pool, std::move(work)); }}};
///
/// The service gives the executor one task for each timer that is due. Until the executor calls the task, the timer can
/// be cancelled.
///
/// | The executor | What happens |
/// |---|---|
/// | calls the task, on any thread, now or later | the callback runs; call a task once |
/// | refuses: throws, or destroys the task without a call | the timer is pending again; the service gives it anew |
/// | keeps the task longer than the service lives | the task does nothing |
///
/// After a refusal, the service gives the timer anew at the first tick after a millisecond, until the executor accepts
/// the timer, or you cancel the timer or stop the service. So an executor cannot lose a timer. `on_error` gets what the
/// executor throws.
///
/// Thread safety: the thread that drives the service calls the executor, one call at a time, outside every lock. With
/// several `timer_options::pollers`, each poller calls the executor for its own shards, so several pollers may call it
/// at the same time. A queue in the executor then needs a lock. While the executor blocks, the thread that called it
/// gives it no other task.
///
/// Copies of an executor share the target. The service releases its copy in its destructor. There is one exception: if
/// the destructor is called by `on_earlier`, or by a task that neither `run_due` nor `advance_to` is running, the
/// service keeps the executor, `on_error`, `on_thread_start` and `on_earlier` until the last handle and the last task
/// are gone. So in this case the executor and these three functions must not own a handle or a task, which would keep
/// them alive.
class executor {
 public:
  /// Empty: callbacks run on the thread that drives the service.
  executor() noexcept = default;

  /// Keeps `target`, which copies share. A null pointer or an empty `std::function` makes an empty executor.
  /// \throws std::bad_alloc, and what moving `target` throws.
  // clang-format off
  template <class E>
    requires(!std::same_as<std::decay_t<E>, executor>) && task_executor<std::decay_t<E>>
  executor(E&& target) {  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
    // clang-format on
    if (detail::is_null<std::remove_cvref_t<E>>(target)) {
      return;
    }
    give_ = [shared = std::make_shared<std::decay_t<E>>(std::forward<E>(target))](task&& work) {
      detail::give(*shared, std::move(work));
    };
  }

  /// Whether this executor has a target.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(give_); }

  /// Gives `work` to the target. \throws what the target throws. Thread safety: that of the target. \pre not empty.
  void operator()(task&& work) const { give_(std::move(work)); }

 private:
  std::function<void(task&&)> give_;
};

/// Refers to an `executor`, or to any other `task_executor`. It does not own its target. So it costs no allocation, and
/// the target must outlive it.
class executor_ref {
 public:
  /// Refers to nothing.
  executor_ref() noexcept = default;

  /// Refers to `target`, or to nothing if that is an empty `executor` or `std::function`.
  // clang-format off
  template <class E>
    requires(!std::same_as<std::remove_cv_t<E>, executor_ref>) && std::is_object_v<E> && task_executor<E>
  executor_ref(E& target) noexcept {  // NOLINT(google-explicit-constructor)
    // clang-format on
    if constexpr (std::same_as<std::remove_cv_t<E>, executor>) {
      if (!target) {
        return;
      }
    } else if (detail::is_null<std::remove_cv_t<E>>(target)) {
      return;
    }
    target_ = const_cast<void*>(static_cast<const volatile void*>(std::addressof(target)));
    give_ = [](void* to, task&& work) { detail::give(*static_cast<E*>(to), std::move(work)); };
  }

  /// Deleted, because a temporary would be destroyed before a sleeping coroutine goes on in it (`sleep_options::on`).
  // clang-format off
  template <class E>
    requires(!std::same_as<E, executor_ref>) && task_executor<E>
  executor_ref(const E&& temporary) = delete;
  // clang-format on

  /// Whether it refers to a target.
  [[nodiscard]] explicit operator bool() const noexcept { return give_ != nullptr; }

  /// Gives `work` to the target. \throws what the target throws. \pre it has one.
  void operator()(task&& work) const { give_(target_, std::move(work)); }

 private:
  void* target_ = nullptr;
  void (*give_)(void* target, task&& work) = nullptr;
};

}  // namespace timing_wheel

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

/// What can be given a task: `e(std::move(task))`, or `e.execute(std::move(task))` as with the executors of Boost.Asio.
template <class E>
concept task_executor = std::invocable<E&, task&&> || requires(E& e, task&& work) {
  e.execute(std::move(work));
};

/// Where a service runs its callbacks: anything that can be given a task. Empty: on the thread that drives the service.
///
///     boost::asio::thread_pool pool(4);
///     timer timer{{.executor = [&pool](task&& work) { boost::asio::post(pool, std::move(work)); }}};
///
/// The service gives it one task for each timer that is due; until that task is called, the timer can still be
/// cancelled. It may call the task on any thread, now or later, and should do so once. **Refusing** is to throw, or to
/// destroy the task without having called it: then the timer is pending again, and is given anew at the first tick
/// after a millisecond, until it is accepted, cancelled or returned by `stop`. So an executor cannot lose a timer. What
/// it throws goes to `on_error`.
///
/// Thread safety: it is called outside every lock, by who drives the service: one thread at a time. With several
/// `timer_options::pollers` each poller calls it, for the timers of its own shards, and several of them do so at the
/// same time: a queue that it keeps needs a lock then. While it blocks, that thread hands nothing else over.
///
/// What it is made from is shared by the copies; the service lets go of it in its destructor. Tasks may outlive the
/// service; then they do nothing.
class executor {
 public:
  /// Empty: callbacks run on the thread that drives the service.
  executor() noexcept = default;

  /// Keeps `target`, which copies of this executor share; a null pointer or an empty `std::function` makes an empty
  /// one.
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
      if constexpr (std::invocable<std::decay_t<E>&, task&&>) {
        static_cast<void>((*shared)(std::move(work)));
      } else {
        static_cast<void>(shared->execute(std::move(work)));
      }
    };
  }

  /// Whether it has something to give tasks to.
  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(give_); }

  /// Gives it `work`. Throws what it throws. Thread safety: that of what it was made from. \pre not empty.
  void operator()(task&& work) const { give_(std::move(work)); }

 private:
  std::function<void(task&&)> give_;
};

}  // namespace timing_wheel

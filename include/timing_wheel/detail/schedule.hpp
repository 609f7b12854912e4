#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "timing_wheel/detail/callable.hpp"
#include "timing_wheel/task.hpp"
#include "timing_wheel/time.hpp"
#include "timing_wheel/timer_handle.hpp"
#include "timing_wheel/timer_options.hpp"

/// \file
/// How a callable of the caller's becomes the task of a timer: only when the service has accepted it. Until then it
/// stays where it is, so that a refusal leaves it with the caller.

namespace timing_wheel::detail {

/// Why nothing was scheduled.
enum class refusal : std::uint8_t {
  none,
  stopped,
  too_many_pending,
  empty_callback,
  invalid_period,
  forked,
  no_memory
};

/// When a timer is to run, as the caller asks for it.
struct arming {
  time_point now;
  time_point deadline;
  std::chrono::nanoseconds window = {};
  bool recurring = false;
};

/// A window in one byte, rounded down to three significant bits: at least 4/5 of it is kept.
class short_window {
 public:
  constexpr short_window() noexcept = default;
  explicit constexpr short_window(std::uint64_t length) noexcept : code_(static_cast<std::uint8_t>(length)) {
    if (length >= exact) {
      const int below = static_cast<int>(std::bit_width(length)) - significant;  // the bits that are not kept
      const auto step = static_cast<std::uint64_t>(below - 1) * leading + (length >> below) - leading;
      code_ = static_cast<std::uint8_t>(exact + step);
    }
  }

  [[nodiscard]] constexpr std::uint64_t length() const noexcept {
    if (code_ < exact) {
      return code_;
    }
    const std::uint64_t step = code_ - exact;
    return (leading + step % leading) << (step / leading + 1);
  }

  friend constexpr bool operator<=(short_window a, short_window b) noexcept { return a.code_ <= b.code_; }

 private:
  static constexpr int significant = 3;
  static constexpr std::uint64_t exact = 1U << significant;
  static constexpr std::uint64_t leading = exact / 2;  // of the kept bits, the first alone

  std::uint8_t code_ = 0;
};

/// The deadline after `previous`, under a policy. \pre the period is positive.
struct periodic_rule {
  std::chrono::nanoseconds period;
  period_policy policy;

  time_point operator()(time_point previous, time_point now) const noexcept {
    switch (policy) {
      case fixed_delay:
        return saturating_add(now, period);
      case fixed_rate_catch_up:
        return saturating_add(previous, period);
      case fixed_rate_skip:
        break;
    }
    const time_point from = std::max(previous, now);
    const std::uint64_t past = distance(previous, from) % static_cast<std::uint64_t>(period.count());
    return saturating_add(from - std::chrono::nanoseconds(past), period);
  }
};

/// A callable that waits for the service to accept it.
class task_source {
 public:
  task_source(const task_source&) = delete;
  task_source& operator=(const task_source&) = delete;

  /// Where the callable goes, in a task. `itself`: it is a task.
  enum class kept : std::uint8_t { inside, boxed, itself, nowhere };
  /// `nowhere`: there is nothing to call.
  [[nodiscard]] kept where() const noexcept { return kept_; }
  [[nodiscard]] const callable_kind& kind() const noexcept { return *kind_; }

  /// The memory of one that goes into a box; allocated here, and not under a lock. `move_into` takes it.
  class box {
   public:
    explicit box(task_source& source) noexcept : source_(source) {
      source.box_ = allocate_box(source.kind().size, source.kind().alignment);
    }
    box(const box&) = delete;
    box& operator=(const box&) = delete;
    ~box() {
      if (source_.box_ != nullptr) {
        free_box(source_.box_, source_.kind().alignment);
      }
    }
    [[nodiscard]] bool is_there() const noexcept { return source_.box_ != nullptr; }

   private:
    task_source& source_;
  };

  /// Constructs the callable at `place`. Throws what its move throws; then nothing has happened.
  void make_at(void* place) { make_(*this, place); }

  /// Makes the task `made`, which is empty before. Throws as `make_at`. \pre there is a `box`, if it needs one.
  void move_into(task& made) {
    if (kept_ == kept::inside) [[likely]] {
      make_at(made.storage_.data());
    } else if (kept_ == kept::boxed) {
      make_at(box_);
      made.keep(std::exchange(box_, nullptr));
    } else {
      make_at(&made);
      return;
    }
    made.kind_ = kind_;
  }

 protected:
  using maker = void (*)(task_source& self, void* place);
  task_source(const callable_kind& kind, kept where, maker make) noexcept : kind_(&kind), make_(make), kept_(where) {}
  ~task_source() = default;

  /// Where one of a type goes.
  template <class Callable>
  static constexpr kept kept_of = is_task<Callable>                  ? kept::itself
                                  : callable_kind_of<Callable>.boxed ? kept::boxed
                                                                     : kept::inside;

 private:
  const callable_kind* kind_;
  maker make_;
  void* box_ = nullptr;
  kept kept_;
};

/// What the caller has given: itself, if it may be moved from, else a copy.
template <class T>
class forwarded {
 public:
  explicit forwarded(T&& given) noexcept : given_(given) {}
  [[nodiscard]] T& get() noexcept { return given_; }

 private:
  T& given_;
};
// clang-format off
template <class T>
  requires(std::is_lvalue_reference_v<T> || std::is_const_v<std::remove_reference_t<T>>)
class forwarded<T> {
  // clang-format on
 public:
  // NOLINTNEXTLINE(modernize-pass-by-value): a callable may be of a kind that is copied and not moved
  explicit forwarded(const std::remove_reference_t<T>& given) : copy_(given) {}
  [[nodiscard]] std::decay_t<T>& get() noexcept { return copy_; }

 private:
  std::decay_t<T> copy_;
};
template <class T>
forwarded(T&&) -> forwarded<T>;

/// A callable as the caller has given it.
template <class F>
class given final : public task_source {
 public:
  using callable = std::decay_t<F>;

  explicit given(F&& callback)
      : task_source(callable_kind_of<callable>, is_null(callback) ? kept::nowhere : kept_of<callable>, &make),
        forwarded_(std::forward<F>(callback)) {}

 private:
  static void make(task_source& self, void* place) {
    ::new (place) callable(std::move(static_cast<given&>(self).forwarded_.get()));
  }

  forwarded<F> forwarded_;
};
template <class F>
given(F&&) -> given<F>;

/// A callable that recurs, as the caller has given it. A `Kept` is made of the rule.
template <class Kept, class Rule, class F>
class given_with_rule final : public task_source {
 public:
  using callable = recurring<std::decay_t<F>, Kept>;

  given_with_rule(Rule& rule, F&& callback)
      : task_source(callable_kind_of<callable>, is_null(callback) ? kept::nowhere : kept_of<callable>, &make),
        rule_(rule),
        forwarded_(std::forward<F>(callback)) {}

 private:
  static void make(task_source& self, void* place) {
    auto& me = static_cast<given_with_rule&>(self);
    ::new (place) callable{std::move(me.forwarded_.get()), Kept{std::move(me.rule_)}};
  }

  Rule& rule_;
  forwarded<F> forwarded_;
};

}  // namespace timing_wheel::detail

#pragma once

#include "timing_wheel/detail/requirements.hpp"

// One implementation for Boost.Asio and for the standalone Asio. What differs is here: where their names are, what an
// error is, and what a version has.

#ifdef TIMING_WHEEL_STANDALONE_ASIO
#include <asio/any_io_executor.hpp>
#include <asio/associated_allocator.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/dispatch.hpp>
#include <asio/error.hpp>
#include <asio/execution.hpp>
#include <asio/execution_context.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/is_executor.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/query.hpp>
#include <asio/require.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/version.hpp>
#define TIMING_WHEEL_ASIO_FLAVOUR standalone_asio
#define TIMING_WHEEL_ASIO_VERSION ASIO_VERSION
#else
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/is_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/version.hpp>
#define TIMING_WHEEL_ASIO_FLAVOUR boost_asio
#define TIMING_WHEEL_ASIO_VERSION BOOST_ASIO_VERSION
#endif

// Asio 1.19, and Boost 1.77.
#if TIMING_WHEEL_ASIO_VERSION >= 101900
#define TIMING_WHEEL_ASIO_HAS_CANCELLATION 1
#ifdef TIMING_WHEEL_STANDALONE_ASIO
#include <asio/associated_cancellation_slot.hpp>
#include <asio/cancellation_type.hpp>
#else
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>
#endif
#endif

// Asio 1.22, and Boost 1.79: several signatures of an operation.
#if TIMING_WHEEL_ASIO_VERSION >= 102200
#define TIMING_WHEEL_ASIO_HAS_LIMITS 1
#ifdef TIMING_WHEEL_STANDALONE_ASIO
#include <asio/associator.hpp>
#include <asio/cancellation_signal.hpp>
#else
#include <boost/asio/associator.hpp>
#include <boost/asio/cancellation_signal.hpp>
#endif
#endif

#include <string>
#include <system_error>
#include <utility>

#include "timing_wheel/detail/export.hpp"
#include "timing_wheel/error.hpp"

/// \cond
// The inline namespace keeps the types of the two apart, so that one program may use both.
namespace timing_wheel::asio {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {
namespace detail {

#ifdef TIMING_WHEEL_STANDALONE_ASIO
namespace net = ::asio;
using error_code = ::asio::error_code;
#else
namespace net = ::boost::asio;
using error_code = ::boost::system::error_code;

// `timer_category` for the errors of Boost, which in 1.74 take no std::error_category. As with theirs, nobody destroys
// it by its base.
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-virtual-dtor"
#endif
class boost_timer_category final : public ::boost::system::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return timer_category().name(); }
  [[nodiscard]] std::string message(int code) const override { return timer_category().message(code); }
};
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#endif

[[nodiscard]] TIMING_WHEEL_EXPORT inline error_code error_of(timer_errc why) noexcept {
#ifdef TIMING_WHEEL_STANDALONE_ASIO
  return timing_wheel::make_error_code(why);
#else
  static const boost_timer_category category;
  return {static_cast<int>(why), category};
#endif
}

// The context of an executor, of either of Asio's kinds.
template <class Executor>
[[nodiscard]] net::execution_context& context_of(const Executor& executor) {
  if constexpr (net::execution::is_executor<Executor>::value) {
    return net::query(executor, net::execution::context);
  } else {
    return executor.context();
  }
}

}  // namespace detail
}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel::asio
/// \endcond

#pragma once

#include "timing_wheel/detail/requirements.hpp"

#include <utility>

#include "timing_wheel/detail/asio/flavour.hpp"
#include "timing_wheel/executor.hpp"

namespace timing_wheel {
inline namespace TIMING_WHEEL_ASIO_FLAVOUR {

/// Runs callbacks on an execution context of Asio: a `boost::asio::thread_pool`, an `io_context`, or an executor such
/// as a strand.
///
///     boost::asio::thread_pool pool(4);
///     timer timer{{.executor = asio_executor(pool)}};
///
/// The context must outlive the service. A context that was stopped keeps its tasks until it is destroyed; the timers
/// of these tasks stay pending, and `timer::stop` returns them. This header is not part of the core: link the target
/// `timing_wheel::asio`, or `timing_wheel::standalone_asio` for the standalone Asio.
template <class Context>
[[nodiscard]] executor asio_executor(Context& context) {
  return [&context](task&& work) { asio::detail::net::post(context, std::move(work)); };
}

}  // namespace TIMING_WHEEL_ASIO_FLAVOUR
}  // namespace timing_wheel

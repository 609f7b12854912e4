#pragma once

#include <atomic>
#include <string>

namespace common {

/// From now on the first SIGINT or SIGTERM asks the program to end its work and to report it.
/// The second ends it at once.
///
/// Thread safety: the signal may come on any thread.
void stop_on_signals();

/// Whether one has come.
[[nodiscard]] const std::atomic<bool>& stop_asked() noexcept;

/// The first that came; 0: none.
[[nodiscard]] int stop_signal() noexcept;

/// "SIGINT" or "SIGTERM". Precondition: one has come.
[[nodiscard]] std::string stop_signal_name();

/// As of a program that the signal killed. Precondition: one has come.
[[nodiscard]] inline int exit_stopped() noexcept { return 128 + stop_signal(); }

}  // namespace common

#pragma once

/// \returns true once a timer has run in the shared library.
bool plugin_runs_a_timer();

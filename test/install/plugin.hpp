#pragma once

/// \returns true once a timer has run in the shared library, which exports nothing else.
[[gnu::visibility("default")]] bool plugin_runs_a_timer();

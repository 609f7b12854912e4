#pragma once

// A deadline of a row, in SQL: no time from 2001 to 2286 that is counted in seconds, milliseconds or nanoseconds.
// The end of time is one that nobody counts.
#define TIMING_WHEEL_PLAUSIBLE                                                                     \
  "due NOT BETWEEN 1000000000 AND 9999999999 AND due NOT BETWEEN 1000000000000 AND 9999999999999 " \
  "AND (due<1000000000000000000 OR due=9223372036854775807)"

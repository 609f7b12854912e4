#pragma once

/// \file
/// What the library asks of the system beyond standard C++. This is the only place that asks which system it is, but
/// for public headers, which ask for Windows: the sources ask for one of these, and each has a way without it.
///
/// On Linux the CMake option TIMING_WHEEL_PORTABLE takes Linux's own calls away. What remains is what macOS and the
/// BSDs get, and a stage of `.ci/run` tests it. The way without `membarrier` is also taken at run time, by a process
/// that a filter of system calls or an old kernel refuses it.

#if defined(__linux__) && !defined(TIMING_WHEEL_PORTABLE)
/// `mmap`, `mremap` and `madvise`, for huge pages and for a page that a child of `fork` finds empty. Without it, memory
/// is of `operator new`, and a service does not notice a `fork`.
#define TIMING_WHEEL_HAS_MAPPINGS
/// A barrier for all threads of the process. Without it, who waits for a `short_lock` sleeps in steps.
#if __has_include(<linux/membarrier.h>)
#define TIMING_WHEEL_HAS_MEMBARRIER
#endif
/// How late a thread is woken can be limited by `prctl`. Without it, that is the system's affair.
#define TIMING_WHEEL_HAS_TIMER_SLACK
/// `pthread_setname_np` of two arguments. Without it, threads have no names.
#define TIMING_WHEEL_HAS_THREAD_NAMES
#endif

#if defined(_WIN32)
/// What `system/windows.hpp` has: memory, a barrier, a precise sleep, and names of threads.
#define TIMING_WHEEL_HAS_WINDOWS
#endif

#if defined(__unix__) || defined(__APPLE__)
/// `pthread_sigmask`. Without it, there are no signals to block.
#define TIMING_WHEEL_HAS_SIGNAL_MASKS
#endif

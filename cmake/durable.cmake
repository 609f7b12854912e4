# Not part of the core: checks that survive the process. The wrap for Meson reads the lists of sources, too.
add_library(timing_wheel_durable
  src/durable/scheduler.cpp
  src/durable/on_timer.cpp
  src/durable/options.cpp
  src/durable/own_thread.cpp
  src/durable/run_gate.cpp
  src/durable/scheduler_core.cpp
  src/durable/node/group_commit.cpp
  src/durable/node/node.cpp
  src/durable/node/node_figures.cpp
  src/durable/node/run_reports.cpp
  src/durable/node/transactional_runs.cpp
  src/durable/node/capacity.cpp
  src/durable/node/run_queue.cpp
  src/durable/node/held_leases.cpp
  src/durable/node/machine.cpp
  src/durable/node/claims.cpp
  src/durable/node/due_rows.cpp
  src/durable/node/known_rows.cpp
  src/durable/node/reader.cpp
  src/durable/node/ready_rows.cpp
  src/durable/node/run_rules.cpp
  src/durable/metrics.cpp
  src/durable/store/memory_store.cpp
  src/durable/store/store.cpp
  src/durable/store/overview.cpp
  src/durable/request.cpp
  src/durable/node/failures.cpp
  src/durable/node/untold_failures.cpp
  src/durable/node/late_watch.cpp
  src/durable/error.cpp
  src/durable/store/text.cpp
  src/durable/store/fail_point.cpp)
add_library(timing_wheel::durable ALIAS timing_wheel_durable)
target_sources(timing_wheel_durable PUBLIC
  FILE_SET HEADERS
  BASE_DIRS include
  FILES
    include/timing_wheel/durable/error.hpp
    include/timing_wheel/durable/forwarding_store.hpp
    include/timing_wheel/durable/job.hpp
    include/timing_wheel/durable/memory_store.hpp
    include/timing_wheel/durable/metrics.hpp
    include/timing_wheel/durable/overview.hpp
    include/timing_wheel/durable/request.hpp
    include/timing_wheel/durable/scheduler.hpp
    include/timing_wheel/durable/store.hpp)
# Places where tests kill the process; see src/durable/store/fail_point.hpp.
if(TIMING_WHEEL_BUILD_TESTS AND NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_definitions(timing_wheel_durable PRIVATE TIMING_WHEEL_FAIL_POINTS)
endif()
# Its fences stand beside locks, and the thread sanitizer knows none.
target_compile_definitions(timing_wheel_durable PRIVATE BOOST_ASIO_DISABLE_FENCED_BLOCK)
target_include_directories(timing_wheel_durable PRIVATE src)
set_target_properties(timing_wheel_durable PROPERTIES EXPORT_NAME durable POSITION_INDEPENDENT_CODE ON)
target_link_libraries(timing_wheel_durable
  PUBLIC timing_wheel
  PRIVATE $<BUILD_INTERFACE:timing_wheel_warnings>)

if(TIMING_WHEEL_SQLITE)
  find_package(SQLite3 3.35 REQUIRED)
  target_sources(timing_wheel_durable
    PRIVATE
      src/durable/sqlite/category.cpp
      src/durable/sqlite/claim.cpp
      src/durable/sqlite/clock.cpp
      src/durable/sqlite/database.cpp
      src/durable/sqlite/opening.cpp
      src/durable/sqlite/overview.cpp
      src/durable/sqlite/disk_reserve.cpp
      src/durable/sqlite/schema.cpp
      src/durable/sqlite/sqlite_store.cpp
      src/durable/sqlite/transaction.cpp
      src/durable/sqlite/users_transaction.cpp
      src/durable/sqlite/range_reader.cpp
    PUBLIC FILE_SET HEADERS FILES include/timing_wheel/durable/sqlite_store.hpp)
  target_link_libraries(timing_wheel_durable PRIVATE SQLite::SQLite3)
endif()

if(TIMING_WHEEL_POSTGRES)
  find_package(PostgreSQL 13 REQUIRED)
  target_sources(timing_wheel_durable
    PRIVATE
      src/durable/postgres/category.cpp
      src/durable/postgres/claim.cpp
      src/durable/postgres/connection.cpp
      src/durable/postgres/opening.cpp
      src/durable/postgres/overview.cpp
      src/durable/postgres/pool.cpp
      src/durable/postgres/postgres_store.cpp
      src/durable/postgres/schema.cpp
      src/durable/postgres/transaction.cpp
      src/durable/postgres/users_call.cpp
      src/durable/postgres/users_session.cpp
      src/durable/postgres/vacuum.cpp
      src/durable/postgres/values.cpp
    PUBLIC FILE_SET HEADERS FILES include/timing_wheel/durable/postgres_store.hpp)
  target_link_libraries(timing_wheel_durable PRIVATE PostgreSQL::PostgreSQL)
endif()

if(BUILD_SHARED_LIBS)
  # The core's library hides its own.
  target_sources(timing_wheel_durable PRIVATE src/shared/exposition.cpp src/shared/fork_watch.cpp)
  timing_wheel_is_shared(timing_wheel_durable)
endif()

# On files of SQLite.
timing_wheel_one_thread_tests(timing_wheel_durable_tests unit
  sqlite/sqlite_clock
  sqlite/sqlite_in_memory
  sqlite/sqlite_error
  sqlite/sqlite_scheduler
  sqlite/sqlite_schema)
timing_wheel_durable_tests(unit
  sqlite/sqlite_store
  sqlite/sqlite_users_transaction)

timing_wheel_durable_tests(unit sqlite/sqlite_full_disk)
target_sources(${executables} PRIVATE support/small_vfs.cpp)

function(timing_wheel_durable_page_test source definition page)
  timing_wheel_durable_tests(unit ${source})
  target_compile_definitions(${executables} PRIVATE ${definition}="${PROJECT_SOURCE_DIR}/docs/${page}")
endfunction()
timing_wheel_durable_page_test(sqlite/sqlite_page TIMING_WHEEL_DURABLE_PAGE durable.md)
timing_wheel_durable_page_test(sqlite/sqlite_errors_page TIMING_WHEEL_ERRORS_PAGE errors.md)
timing_wheel_durable_tests(stress sqlite/sqlite_leases sqlite/sqlite_scheduler_threads)
timing_wheel_durable_tests(stress sqlite/sqlite_power_loss)
target_sources(${executables} PRIVATE support/lossy_vfs.cpp)

# A process of its own on a file, to be killed.
add_executable(durable_sqlite_worker support/sqlite_worker.cpp)
target_link_libraries(durable_sqlite_worker PRIVATE timing_wheel::durable SQLite::SQLite3 timing_wheel_warnings)
timing_wheel_durable_tests(stress sqlite/sqlite_nodes)
target_link_libraries(${executables} PRIVATE timing_wheel_rig)
target_compile_definitions(${executables} PRIVATE
  TIMING_WHEEL_SQLITE_WORKER="$<TARGET_FILE:durable_sqlite_worker>")
add_dependencies(${executables} durable_sqlite_worker)
# Tests say so if it is not there.
find_library(TIMING_WHEEL_LIBFAKETIME NAMES libfaketime.so.1 PATH_SUFFIXES faketime)
mark_as_advanced(TIMING_WHEEL_LIBFAKETIME)
target_compile_definitions(${executables} PRIVATE TIMING_WHEEL_LIBFAKETIME="${TIMING_WHEEL_LIBFAKETIME}")

# On files of SQLite.
timing_wheel_durable_tests(unit
  sqlite_clock
  sqlite_error
  sqlite_scheduler
  sqlite_schema
  sqlite_statements
  sqlite_store
  sqlite_users_transaction)

timing_wheel_durable_test(sqlite_page unit)
target_compile_definitions(sqlite_page_test PRIVATE TIMING_WHEEL_DURABLE_PAGE="${PROJECT_SOURCE_DIR}/docs/durable.md")
timing_wheel_durable_test(sqlite_errors_page unit)
target_compile_definitions(sqlite_errors_page_test PRIVATE
  TIMING_WHEEL_ERRORS_PAGE="${PROJECT_SOURCE_DIR}/docs/errors.md")
timing_wheel_durable_test(sqlite_power_loss stress)
target_sources(sqlite_power_loss_test PRIVATE support/lossy_vfs.cpp)

# A process of its own on a file, to be killed.
add_executable(durable_sqlite_worker support/sqlite_worker.cpp)
target_link_libraries(durable_sqlite_worker PRIVATE timing_wheel::durable SQLite::SQLite3 timing_wheel_warnings)
set_target_properties(durable_sqlite_worker PROPERTIES CXX_EXTENSIONS OFF)
foreach(name IN ITEMS process nodes)
  timing_wheel_durable_test(sqlite_${name} stress)
  target_compile_definitions(sqlite_${name}_test PRIVATE
    TIMING_WHEEL_SQLITE_WORKER="$<TARGET_FILE:durable_sqlite_worker>")
  add_dependencies(sqlite_${name}_test durable_sqlite_worker)
endforeach()
# Tests say so if it is not there.
find_library(TIMING_WHEEL_LIBFAKETIME NAMES libfaketime.so.1 PATH_SUFFIXES faketime)
mark_as_advanced(TIMING_WHEEL_LIBFAKETIME)
target_compile_definitions(sqlite_nodes_test PRIVATE TIMING_WHEEL_LIBFAKETIME="${TIMING_WHEEL_LIBFAKETIME}")

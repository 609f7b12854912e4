# On real PostgreSQL servers, each a private one.
find_package(PostgreSQL REQUIRED)
timing_wheel_durable_tests(stress postgres/private_postgres)
foreach(executable IN LISTS executables)
  target_link_libraries(${executable} PRIVATE timing_wheel_rig)
endforeach()

# One program, one server, one of ctest's tests: a server for each case would take longer than they do. Where tests are
# compiled together, all are in `durable_postgres_test`, and each of ctest's tests runs those of its source.
function(timing_wheel_postgres_test source label)
  get_filename_component(name ${source} NAME)
  set(executable ${name}_test)
  set(filter *)
  if(CMAKE_UNITY_BUILD)
    set(executable durable_postgres_test)
    timing_wheel_filter_of(filter ${source}_test.cpp)
  endif()
  if(TARGET ${executable})
    target_sources(${executable} PRIVATE ${source}_test.cpp)
  else()
    add_executable(${executable} ${source}_test.cpp)
    target_include_directories(${executable} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/test)
    target_link_libraries(${executable} PRIVATE
      timing_wheel::durable timing_wheel_rig timing_wheel_warnings GTest::gmock_main GTest::gtest_main)
    if(CMAKE_UNITY_BUILD)
      target_link_libraries(${executable} PRIVATE timing_wheel_unity_warnings)
    endif()
    set_target_properties(${executable} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/test)
  endif()
  if(ARGN STREQUAL "HALVES")
    timing_wheel_tests_together(${name} ${executable} "${label}" "${filter}")
    set(tests ${name}.0 ${name}.1)
  else()
    add_test(NAME ${name} COMMAND ${executable} --gtest_filter=${filter})
    set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 300)
    set(tests ${name})
  endif()
  set(executable ${executable} PARENT_SCOPE)
  set(tests ${tests} PARENT_SCOPE)
endfunction()

function(timing_wheel_postgres_tests label)
  foreach(name IN LISTS ARGN)
    timing_wheel_postgres_test(${name} ${label})
    if(name STREQUAL "postgres/postgres_page")
      target_compile_definitions(${executable} PRIVATE
        TIMING_WHEEL_POSTGRES_PAGE="${PROJECT_SOURCE_DIR}/docs/postgres.md")
    endif()
  endforeach()
endfunction()
timing_wheel_postgres_tests(unit
  postgres/postgres_error
  postgres/postgres_pooler
  postgres/postgres_schema
  postgres/postgres_shares
  postgres/postgres_store
  postgres/postgres_users_transaction
  postgres/postgres_vacuum)
timing_wheel_one_thread_tests(timing_wheel_postgres_tests unit postgres/postgres_page postgres/postgres_statements)

timing_wheel_durable_tests(unit postgres/postgres_clock)
set(tests_with_leases)
foreach(name IN ITEMS postgres/postgres_leases postgres/postgres_server_faults)
  timing_wheel_postgres_test(${name} "stress;kills" HALVES)
  list(APPEND tests_with_leases ${tests})
endforeach()

# For scripts.
add_executable(postgres_server support/postgres_server.cpp)
target_link_libraries(postgres_server PRIVATE timing_wheel_rig timing_wheel_warnings)

# What nodes, servers and networks do.
add_executable(durable_postgres_node support/postgres_node.cpp)
target_link_libraries(durable_postgres_node PRIVATE
  timing_wheel::durable timing_wheel_rig timing_wheel_warnings GTest::gtest)
timing_wheel_postgres_test(postgres/postgres_faults "stress;kills")
# They let leases of one second, or two, end, which many tests beside them would do, too: two of them run at once,
# before all others.
set_tests_properties(${tests_with_leases} ${tests} PROPERTIES PROCESSORS 2 COST 200)
target_compile_definitions(${executable} PRIVATE
  TIMING_WHEEL_POSTGRES_NODE="$<TARGET_FILE:durable_postgres_node>"
  TIMING_WHEEL_SANITIZER="$<BOOL:${under_sanitizer}>")
add_dependencies(${executable} durable_postgres_node)

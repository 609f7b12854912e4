# For the preset `tidy`: clang-tidy parses the sources itself, and says what the compiler would warn of, too. So
# nothing needs to be compiled or linked. What clang-tidy takes for the compilation is a command that does nothing;
# after it the preprocessor finds out what the source depends on.
set(arguments "<DEFINES> <INCLUDES> <FLAGS> -o <OBJECT>")
set(CMAKE_CXX_COMPILE_OBJECT "true ${arguments} -c <SOURCE> && <CMAKE_CXX_COMPILER> ${arguments} -E <SOURCE>")
foreach(rule IN ITEMS ARCHIVE_CREATE LINK_EXECUTABLE CREATE_SHARED_MODULE)
  set(CMAKE_CXX_${rule} "${CMAKE_COMMAND} -E touch <TARGET>")
endforeach()
set(CMAKE_CXX_ARCHIVE_FINISH "")

# What a folder finds is needed at the end, too.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# timing_wheel_all_targets(VARIABLE DIRECTORY): those of a directory and of all below it.
function(timing_wheel_all_targets variable directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  get_property(subdirectories DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    timing_wheel_all_targets(more ${subdirectory})
    list(APPEND targets ${more})
  endforeach()
  set(${variable} ${targets} PARENT_SCOPE)
endfunction()

# timing_wheel_lint_together(NAME RULES PATTERN...): the sources of all targets whose "folder/target" matches a pattern
# are one source, under the rules of a file. All but a tenth of the time goes into headers, and into these once for each
# source. What has a name at namespace scope that another has, too, belongs into another group.
function(timing_wheel_lint_together name rules)
  list(JOIN ARGN "|" pattern)
  add_library(${name} OBJECT)
  target_compile_features(${name} PRIVATE cxx_std_20)
  set_target_properties(${name} PROPERTIES
    CXX_CLANG_TIDY "${CMAKE_CXX_CLANG_TIDY};--config-file=${PROJECT_SOURCE_DIR}/${rules}"
    UNITY_BUILD ON
    UNITY_BUILD_UNIQUE_ID main) # else there would be several functions of that name
  set(together)
  foreach(target IN LISTS targets)
    get_target_property(folder ${target} SOURCE_DIR)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE place)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "[.]cpp$")
    if(sources AND "${place}/${target}" MATCHES "^(${pattern})$")
      foreach(source IN LISTS sources)
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE)
        list(APPEND together ${source})
      endforeach()
      foreach(property IN ITEMS INCLUDE_DIRECTORIES COMPILE_DEFINITIONS LINK_LIBRARIES)
        get_target_property(values ${target} ${property})
        if(values)
          set_property(TARGET ${name} APPEND PROPERTY ${property} ${values})
        endif()
      endforeach()
      get_target_property(type ${target} TYPE)
      if(type STREQUAL "STATIC_LIBRARY")
        target_link_libraries(${name} PRIVATE ${target})
      endif()
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON CXX_CLANG_TIDY "")
    endif()
  endforeach()
  target_link_libraries(${name} PRIVATE timing_wheel_unity_warnings)
  list(REMOVE_DUPLICATES together)
  target_sources(${name} PRIVATE ${together})
endfunction()

# All targets are known at the end. A larger source includes sources; what is wrong anywhere else is right there.
function(timing_wheel_lint)
  timing_wheel_all_targets(targets ${PROJECT_SOURCE_DIR})
  timing_wheel_lint_together(lint_core .clang-tidy "\\./timing_wheel")
  timing_wheel_lint_together(lint_examples .clang-tidy "examples/.*" "tools/common/.*" "tools/compare/.*")
  timing_wheel_lint_together(lint_benchmarks .clang-tidy
    benchmarks/slow_sync benchmarks/instructions benchmarks/durable_sqlite_bench)
  timing_wheel_lint_together(lint_engine_benchmarks .clang-tidy
    benchmarks/engine_bench benchmarks/durable_nodes_bench)
  timing_wheel_lint_together(lint_service_benchmarks .clang-tidy
    benchmarks/service_bench benchmarks/durable_postgres_bench)
  timing_wheel_lint_together(lint_engine_tests test/.clang-tidy test/engine/.* test/core/.*
    test/timing_wheel_allocation test/fuzz/engine_fuzz)
  timing_wheel_lint_together(lint_asio_tests test/.clang-tidy test/asio/boost_asio_test test/asio/both_asios_test)
  timing_wheel_lint_together(lint_tests test/.clang-tidy test/front/errors_test test/front/without_exceptions_test
    test/fuzz/service_fuzz test/system/.* test/coroutine/.* test/execution/.*
    test/examples/common_test
    test/examples/order_compensation_test test/examples/compare_test)
  timing_wheel_lint_together(lint_durable_tests test/.clang-tidy
    test/durable/durable_unit_test test/durable/durable_stress_test)
  timing_wheel_lint_together(lint_postgres_tests test/.clang-tidy test/examples/order_compensation_durable_test
    test/durable/durable_postgres_test test/durable/durable_postgres_node test/durable/support/timing_wheel_rig
    test/durable/durable_sqlite_worker test/durable/durable_torture test/durable/durable_costs)
  timing_wheel_lint_together(lint_durable_faults test/.clang-tidy test/durable/durable_faults)
  timing_wheel_all_targets(targets ${PROJECT_SOURCE_DIR})
  set(before "// NOLINTNEXTLINE(bugprone-suspicious-include)")
  foreach(target IN LISTS targets)
    set_target_properties(${target} PROPERTIES UNITY_BUILD_CODE_BEFORE_INCLUDE "${before}")
  endforeach()
  # The `main` of a recipe does not say what it returns; by another name it would have to.
  set_target_properties(lint_examples PROPERTIES UNITY_BUILD_CODE_BEFORE_INCLUDE
    "#pragma clang diagnostic ignored \"-Wreturn-type\"\n${before}")
endfunction()
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL timing_wheel_lint)

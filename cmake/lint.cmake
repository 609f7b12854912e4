# For the preset `tidy`: clang-tidy parses the sources itself, and says what the compiler would warn of, too. So
# nothing needs to be compiled or linked. What clang-tidy takes for the compilation is a command that does nothing;
# after it the preprocessor finds out what the source depends on.
set(arguments "<DEFINES> <INCLUDES> <FLAGS> -o <OBJECT>")
set(CMAKE_CXX_COMPILE_OBJECT "true ${arguments} -c <SOURCE> && <CMAKE_CXX_COMPILER> ${arguments} -E <SOURCE>")
foreach(rule IN ITEMS ARCHIVE_CREATE LINK_EXECUTABLE CREATE_SHARED_MODULE)
  set(CMAKE_CXX_${rule} "${CMAKE_COMMAND} -E touch <TARGET>")
endforeach()
set(CMAKE_CXX_ARCHIVE_FINISH "")

# A larger source includes sources; what is wrong anywhere else is right there. All targets are known at the end.
function(timing_wheel_lint_larger_sources directory)
  get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    set_target_properties(${target} PROPERTIES
      UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
  endforeach()
  get_property(subdirectories DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    timing_wheel_lint_larger_sources(${subdirectory})
  endforeach()
endfunction()
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL timing_wheel_lint_larger_sources ${PROJECT_SOURCE_DIR})

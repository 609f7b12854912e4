# For builds that need the library and do not test how it is compiled: its core as one source, in less than half of the
# time. It is given as -DCMAKE_PROJECT_timing_wheel_INCLUDE=..., and is no option of users. Other builds warn.
function(timing_wheel_as_one_source)
  set_target_properties(timing_wheel PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 0)
  target_compile_options(timing_wheel PRIVATE -w)
endfunction()
cmake_language(DEFER CALL timing_wheel_as_one_source)

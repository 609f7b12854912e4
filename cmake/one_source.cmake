# For builds that need the library and do not test how it is compiled: all of it as one source, which takes half of the
# time. Given by -DCMAKE_PROJECT_timing_wheel_INCLUDE=..., so that users have no such option. Other builds warn.
function(timing_wheel_as_one_source)
  foreach(target IN ITEMS timing_wheel timing_wheel_durable)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE 0)
      target_compile_options(${target} PRIVATE -w)
    endif()
  endforeach()
endfunction()
cmake_language(DEFER CALL timing_wheel_as_one_source)

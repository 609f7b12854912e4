# Without it each source of the library is compiled by itself, also where the rest is compiled together.
if(NOT TIMING_WHEEL_UNITY)
  set_target_properties(timing_wheel PROPERTIES UNITY_BUILD OFF)
  if(TARGET timing_wheel_durable)
    set_target_properties(timing_wheel_durable PROPERTIES UNITY_BUILD OFF)
  endif()
  return()
endif()

# Most of the time of a compilation goes into headers, so sources that are not in the way of a timer are compiled
# together. The others stay alone: GCC inlines less where it sees more, and that costs up to 9 % of the instructions of
# a schedule.
set_target_properties(timing_wheel PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
set_source_files_properties(
  src/shard/shard_on_hashed_wheel.cpp
  src/shard/shard_on_heap_queue.cpp
  src/engine/hashed_wheel.cpp
  src/engine/heap_queue.cpp
  PROPERTIES UNITY_GROUP other_engines)
set_source_files_properties(
  src/front/manual_timer.cpp
  src/front/loop_timer.cpp
  src/front/timer_handle.cpp
  src/front/coroutine.cpp
  src/drive/service.cpp
  src/shard/shards.cpp
  src/report/histogram.cpp
  src/report/timer_stats.cpp
  src/report/metrics.cpp
  src/shared/exposition.cpp
  src/drive/driver.cpp
  src/drive/stopping.cpp
  src/report/error_sink.cpp
  src/report/error.cpp
  src/shared/fork_watch.cpp
  src/system/same_build.cpp
  PROPERTIES UNITY_GROUP shell)

# None of the durable checks is in the way of a timer. One group for each folder.
if(TARGET timing_wheel_durable)
  set_target_properties(timing_wheel_durable PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_link_libraries(timing_wheel_durable PRIVATE $<BUILD_INTERFACE:timing_wheel_unity_warnings>)
  get_target_property(sources timing_wheel_durable SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "src/durable/((node|store|sqlite|postgres)/)?[a-z_]+[.]cpp$")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP durable_${CMAKE_MATCH_2})
    endif()
  endforeach()
endif()

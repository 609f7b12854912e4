# Those who edit have each source of the library compiled by itself, also where the rest is compiled together; presets
# say so.
if(TIMING_WHEEL_EACH_SOURCE)
  foreach(target IN ITEMS timing_wheel timing_wheel_durable)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    endif()
  endforeach()
  return()
endif()

# Most of the time of a compilation goes into headers, so sources that are not in the way of a timer are compiled
# together: the other engines, and all but the engine's way. Those stay alone: GCC inlines less where it sees more, and
# that costs up to 9 % of the instructions of a schedule. None of the durable checks is in the way of a timer: one group
# for each folder.
foreach(target IN ITEMS timing_wheel timing_wheel_durable)
  if(TARGET ${target})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      if(source MATCHES "(hashed_wheel|heap_queue)[.]cpp$")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP other_engines)
      elseif(source MATCHES "src/durable/((node|store|sqlite|postgres)/)?[a-z_]+[.]cpp$")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP durable_${CMAKE_MATCH_2})
      elseif(source MATCHES "[.]cpp$" AND NOT source MATCHES "src/(engine/|front/timer[.]|shard/shard_on_|system/windows)")
        set_source_files_properties(${source} PROPERTIES UNITY_GROUP shell)
      endif()
    endforeach()
  endif()
endforeach()
if(TARGET timing_wheel_durable)
  target_link_libraries(timing_wheel_durable PRIVATE $<BUILD_INTERFACE:timing_wheel_unity_warnings>)
endif()

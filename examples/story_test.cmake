# A program ends with success, prints what is written down beside it, to the letter, and nothing on standard error.
# With MAY_SKIP, a program that cannot run here ends with 77, and says why on standard error.
execute_process(COMMAND ${PROGRAM} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE errors)
if(MAY_SKIP AND result STREQUAL "77")
  message(STATUS "skipped: ${errors}")
  return()
endif()
file(READ ${EXPECTED} expected)
if(NOT result STREQUAL "0" OR NOT errors STREQUAL "" OR NOT output STREQUAL expected)
  message(FATAL_ERROR
    "${PROGRAM} ended with ${result}\n${errors}\n--- it printed\n${output}--- ${EXPECTED} says\n${expected}---")
endif()

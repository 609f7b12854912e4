# The example in README.md is examples/quick_start.cpp, which is compiled and run, to the letter.
file(READ ${SOURCE_DIR}/README.md readme)
file(READ ${SOURCE_DIR}/examples/quick_start.cpp example)
string(FIND "${readme}" "```cpp\n${example}```" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md does not show examples/quick_start.cpp as it is")
endif()
